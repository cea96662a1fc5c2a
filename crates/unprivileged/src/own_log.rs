//! The log of a process: main sends the file, at the start and after a rotation.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tutti_log::{Level, Log};
use tutti_sys::daemon;

/// Returns the log from main's greeting, created by `make`; standard error, where crashes are reported, is redirected
/// to it, too.
///
/// # Errors
/// It was not sent, or standard error cannot be redirected.
pub fn begin(descriptors: Vec<OwnedFd>, make: impl FnOnce(OwnedFd) -> Log) -> io::Result<Log> {
    let missing = || {
        let what = "main's greeting came without the log";
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let file = descriptors.into_iter().next().ok_or_else(missing)?;
    daemon::redirect_stderr(file.as_fd())?;
    Ok(make(file))
}

/// The message when the descriptor of the new file could not be received.
pub const NOT_REOPENED: &str = "the log continues in the old file: this process has too many open files to reopen it; raise the limit of open files (LimitNOFILE, ulimit -n), and reopen the logs again";

/// Continues in the file that main has reopened.
pub fn reopen(log: &Log, descriptors: Vec<OwnedFd>) {
    let Some(file) = descriptors.into_iter().next() else {
        return log.line(Level::Alert, NOT_REOPENED);
    };
    if let Err(error) = daemon::redirect_stderr(file.as_fd()) {
        let text = format!("cannot redirect standard error: {error}");
        log.line(Level::Warn, &text);
    }
    log.replace(file);
}
