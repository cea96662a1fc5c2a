//! Forking without exec: how a prototype makes its workers.

use std::io::{self, Write};

use crate::error::context;

/// Which of the two processes this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fork {
    /// The process that called; the child's number.
    Parent(i32),
    /// The new process.
    Child,
}

/// Copies the calling process, which must have one thread only (an error otherwise): a lock held by another thread would
/// stay locked in the child for good.
///
/// The child has the same open descriptors. What it must not share, random state above all, it has to renew.
pub fn fork() -> io::Result<Fork> {
    if !is_single_threaded()? {
        return Err(io::Error::other(
            "a process with several threads cannot be forked safely",
        ));
    }
    // Text still buffered would be written by both.
    let _ = io::stdout().flush();
    // SAFETY: no other thread exists (checked above, and only this one could start any), so the child finds every lock and
    // all memory in a state that this thread left, and may go on running any code.
    match unsafe { libc::fork() } {
        0 => Ok(Fork::Child),
        pid if pid > 0 => Ok(Fork::Parent(pid)),
        _ => Err(context("forking", io::Error::last_os_error())),
    }
}

/// True if the calling process has one thread. Asks the kernel, since `/proc` may be missing in another root.
pub fn is_single_threaded() -> io::Result<bool> {
    // Under qemu each process has a thread of qemu's besides, which runs nothing of the program (packaging/test-aarch64).
    if cfg!(emulated) {
        return count_threads().map(|threads| threads == 2);
    }
    // SAFETY: unshare(2): nothing but a question, "has no effect" where there is one thread and EINVAL where there are more.
    if unsafe { libc::unshare(libc::CLONE_THREAD) } == 0 {
        return Ok(true);
    }
    match io::Error::last_os_error() {
        error if error.raw_os_error() == Some(libc::EINVAL) => Ok(false),
        // Forbidden by a sandbox around us: then there is a `/proc`.
        _ => count_threads().map(|threads| threads == 1),
    }
}

fn count_threads() -> io::Result<usize> {
    Ok(std::fs::read_dir("/proc/self/task")
        .map_err(|e| context("counting threads", e))?
        .take(3)
        .count())
}

/// Sets an environment variable of the calling process, which must have one thread only (an error otherwise).
pub fn set_variable(name: &str, value: &str) -> io::Result<()> {
    if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{name}` is not the name of an environment variable, or its value has a NUL"),
        ));
    }
    if !is_single_threaded()? {
        return Err(io::Error::other(
            "the environment cannot be changed once there are threads",
        ));
    }
    // SAFETY: no other thread exists (checked above) that could be reading the environment; name and value are valid for
    // `setenv` (checked above).
    unsafe { std::env::set_var(name, value) };
    Ok(())
}

/// Removes a variable from the environment, while there is no other thread.
pub fn unset_variable(name: &str) -> io::Result<()> {
    if name.is_empty() || name.contains(['=', '\0']) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("`{name}` is not the name of an environment variable"),
        ));
    }
    if !is_single_threaded()? {
        return Err(io::Error::other(
            "the environment cannot be changed once there are threads",
        ));
    }
    // SAFETY: no other thread exists (checked above) that could be reading the environment; the name is valid for `unsetenv`
    // (checked above).
    unsafe { std::env::remove_var(name) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_with_threads_is_refused() {
        // The test runner has threads: the very case.
        let keep = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| keep.wait());
            let (forked, set) = (fork(), set_variable("A", "b"));
            // First: a failed assertion would leave the other thread waiting.
            keep.wait();
            assert!(forked.is_err());
            assert!(set.is_err());
        });
        assert!(set_variable("A=B", "c").is_err());
        assert!(unset_variable("A=B").is_err());
    }
}
