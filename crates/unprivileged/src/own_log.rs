//! The log of a process of a role: main hands over the file, at the start and when it has been rotated.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use tutti_log::{Level, Log};
use tutti_sys::daemon;

/// The log that came with main's greeting, as `make` wraps it; standard error, where a crash is told of, goes there, too.
///
/// # Errors
/// It did not come, or standard error cannot be redirected.
pub fn begin(descriptors: Vec<OwnedFd>, make: impl FnOnce(OwnedFd) -> Log) -> io::Result<Log> {
    let missing = || {
        let what = "main's greeting came without the log";
        io::Error::new(io::ErrorKind::InvalidData, what)
    };
    let file = descriptors.into_iter().next().ok_or_else(missing)?;
    daemon::redirect_stderr(file.as_fd())?;
    Ok(make(file))
}

/// Goes on in the file that main has opened again.
pub fn reopen(log: &Log, descriptors: Vec<OwnedFd>) {
    let Some(file) = descriptors.into_iter().next() else {
        return;
    };
    if let Err(error) = daemon::redirect_stderr(file.as_fd()) {
        let text = format!("cannot redirect standard error: {error}");
        log.line(Level::Warn, &text);
    }
    log.replace(file);
}
