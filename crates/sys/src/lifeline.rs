//! The lifeline: what ends workers when main dies, however it dies.
//!
//! Main holds one end of a socket pair, a process group holds the other. When main is gone the kernel hangs the
//! pair up and, because of `O_ASYNC`, sends a signal to the whole group: SIGKILL (`F_SETSIG` of fcntl(2)), which ends every process of
//! the group, also one stuck in user code, or stopped. Not SIGIO, which it would be by itself: Go's runtime takes that and goes on.
//! `PR_SET_PDEATHSIG` alone would not do: it is lost when a worker's parent (the prototype) dies first.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType};

use crate::error::context;

/// fcntl(2); the `libc` crate has no name for it on this platform.
const F_SETSIG: libc::c_int = 10;

/// The two ends: the first is main's to keep, the second goes to the group.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::net::socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|e| context("creating a lifeline", e))
}

/// Ties the process group `group` (positive number) to the far end of `fd`: `signal` to all of it on hang-up.
/// The setting belongs to the open file, so children that inherit the descriptor need not repeat it.
pub fn tie_group(fd: BorrowedFd<'_>, group: i32, signal: i32) -> io::Result<()> {
    if group <= 0 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "process group number must be positive",
        ));
    }
    let raw = std::os::fd::AsRawFd::as_raw_fd(&fd);
    // SAFETY: F_SETOWN takes an integer argument; `raw` is a valid descriptor for the life of the borrow.
    if unsafe { libc::fcntl(raw, libc::F_SETOWN, -group) } < 0 {
        return Err(context(
            "setting the owner of the lifeline",
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: F_SETSIG takes an integer argument; `raw` is a valid descriptor for the life of the borrow.
    if unsafe { libc::fcntl(raw, F_SETSIG, signal) } < 0 {
        return Err(context(
            "setting the signal of the lifeline",
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: F_GETFL takes no argument; `raw` is a valid descriptor for the life of the borrow.
    let flags = unsafe { libc::fcntl(raw, libc::F_GETFL) };
    if flags < 0 {
        return Err(context(
            "reading the lifeline's flags",
            io::Error::last_os_error(),
        ));
    }
    // SAFETY: F_SETFL takes an integer argument; `raw` is a valid descriptor for the life of the borrow.
    if unsafe { libc::fcntl(raw, libc::F_SETFL, flags | libc::O_ASYNC) } < 0 {
        return Err(context("arming the lifeline", io::Error::last_os_error()));
    }
    // The far end may have gone before the line was armed; then no signal would ever come.
    if is_cut(fd) {
        return Err(io::Error::new(
            io::ErrorKind::BrokenPipe,
            "main process has ended",
        ));
    }
    Ok(())
}

/// Ties the calling process's own group, whose processes are killed on hang-up.
pub fn tie_own_group(fd: BorrowedFd<'_>) -> io::Result<()> {
    tie_group(fd, own_group(), libc::SIGKILL)
}

/// Ties the calling process's own group to a lifeline that sends SIGIO: for a process that has to end others before
/// itself.
pub fn tie_own_group_for_sigio(fd: BorrowedFd<'_>) -> io::Result<()> {
    tie_group(fd, own_group(), libc::SIGIO)
}

fn own_group() -> i32 {
    rustix::process::getpgrp().as_raw_nonzero().get()
}

/// True if the far end is gone.
pub fn is_cut(fd: impl AsFd) -> bool {
    let mut polls = [rustix::event::PollFd::new(
        &fd,
        rustix::event::PollFlags::RDHUP,
    )];
    let now = rustix::event::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(rustix::event::poll(&mut polls, Some(&now)), Ok(n) if n > 0)
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Stdio};

    use tutti_testkit::wait_until;

    use super::*;

    #[test]
    fn group_dies_when_the_far_end_closes() {
        let (keep, give) = pair().unwrap();
        // It leaves SIGIO without effect, as Go's runtime does.
        let mut child = Command::new("sh")
            .args(["-c", "trap '' IO; echo ready; exec sleep 1000"])
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut ready = [0; 6];
        let mut output = child.stdout.take().unwrap();
        output.read_exact(&mut ready).unwrap();
        tie_group(give.as_fd(), child.id() as i32, libc::SIGKILL).unwrap();
        drop(keep);
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGKILL));
    }

    #[test]
    fn cut_line_is_refused() {
        let (keep, give) = pair().unwrap();
        assert!(!is_cut(&give));
        drop(keep);
        // A child that another test has just forked holds the far end until it executes its program.
        wait_until("the line is cut", || is_cut(&give));
        assert!(tie_own_group_would_fail(&give));
    }

    fn tie_own_group_would_fail(fd: &OwnedFd) -> bool {
        // A group of its own, never ours: the signal must not end the test.
        let mut child = Command::new("sleep")
            .arg("1000")
            .process_group(0)
            .spawn()
            .unwrap();
        let failed = tie_group(fd.as_fd(), child.id() as i32, libc::SIGKILL).is_err();
        let _ = child.kill();
        let _ = child.wait();
        failed
    }
}
