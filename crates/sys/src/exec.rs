//! Becoming another program: how a worker of a host whose applications are programs starts.
//!
//! Unlike [`crate::spawn`] there is no parent that waits: the caller is the process that is to be the program.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::error::context;
use crate::spawn::reset_signals;

/// Replaces the calling process's program; its environment stays. Each of `placed` gets the number beside it; everything else
/// that is close-on-exec is closed, and signals have their default effect again. Returns only when it fails; the descriptors
/// may have been moved by then, so the process can do no more than say so and end.
pub fn execute(
    path: &Path,
    arguments: &[impl AsRef<OsStr>],
    placed: &[(BorrowedFd<'_>, RawFd)],
) -> io::Error {
    let text = |bytes: &[u8]| CString::new(bytes).map_err(io::Error::other);
    let prepared = || -> io::Result<(CString, Vec<CString>)> {
        let program = text(path.as_os_str().as_bytes())?;
        let mut all = vec![program.clone()];
        for argument in arguments {
            all.push(text(argument.as_ref().as_bytes())?);
        }
        Ok((program, all))
    };
    let (program, all) = match prepared() {
        Ok(prepared) => prepared,
        Err(error) => return error,
    };
    if let Err(error) = place(placed) {
        return context("handing descriptors on", error);
    }
    reset_signals();
    let mut pointers: Vec<_> = all.iter().map(|argument| argument.as_ptr()).collect();
    pointers.push(std::ptr::null());
    // SAFETY: program and arguments are NUL-terminated strings that live in `all`, and the array ends with a null.
    unsafe { libc::execv(program.as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Every source is moved above every target first, so that placing one never overwrites another.
fn place(placed: &[(BorrowedFd<'_>, RawFd)]) -> io::Result<()> {
    let floor = placed.iter().map(|(_, to)| to + 1).max().unwrap_or(0);
    let lifted = placed
        .iter()
        .map(|(from, to)| Ok((rustix::io::fcntl_dupfd_cloexec(from, floor)?, *to)))
        .collect::<io::Result<Vec<_>>>()?;
    for (from, to) in &lifted {
        // SAFETY: integer arguments only. Whatever had this number belongs to a program that is about to be replaced.
        if unsafe { libc::dup2(from.as_raw_fd(), *to) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_that_no_program_can_get_is_refused() {
        // The system's refusals are tested with the host of external programs: they take a process of their own.
        let error = execute(Path::new("/bin/true"), &["a\0b"], &[]);
        assert!(error.to_string().contains("nul byte"), "{error}");
    }
}
