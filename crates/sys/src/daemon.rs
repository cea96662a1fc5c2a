//! Going to the background, and reporting the outcome to the terminal.
//!
//! The caller's process stays in the foreground until the one in the background reports that it serves, or why it
//! cannot; so a start script learns the outcome from the exit code.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use crate::error::context;
use crate::fork::is_single_threaded;

/// The connection from the background process to the one that waits at the terminal.
#[derive(Debug)]
pub struct Starter(Option<io::PipeWriter>);

impl Starter {
    /// Reports success: the waiting process exits successfully.
    pub fn succeed(&mut self) {
        if let Some(mut pipe) = self.0.take() {
            let _ = pipe.write_all(&[0]);
        }
    }

    /// Reports a failure: the waiting process prints it and exits with an error.
    pub fn fail(&mut self, message: &str) {
        if let Some(mut pipe) = self.0.take() {
            let _ = pipe.write_all(&[1]);
            let _ = pipe.write_all(message.as_bytes());
        }
    }
}

/// The two sides of going to the background.
#[derive(Debug)]
pub enum DaemonSide {
    /// This is the process in the background.
    Background(Starter),
    /// This is the one at the terminal, and the start has succeeded or failed with this message.
    Terminal(Result<(), String>),
}

/// Forks. The background process leads a new session, works in `/` and has no terminal; its descriptors 0 and 1
/// are `/dev/null`, 2 stays as it is until [`redirect_stderr`]; others that it was started with are closed: a lock or a pipe would
/// stay taken for as long as the server runs.
pub fn go() -> io::Result<DaemonSide> {
    if !is_single_threaded()? {
        return Err(io::Error::other(
            "only a single-threaded process can go to the background",
        ));
    }
    let (mut read, write) = io::pipe().map_err(|e| context("creating a pipe", e))?;
    // SAFETY: single-threaded (checked above), so the child's memory is consistent and it may go on as usual.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(context("forking", io::Error::last_os_error()));
    }
    if pid > 0 {
        drop(write);
        return Ok(DaemonSide::Terminal(wait_for_news(&mut read)));
    }
    drop(read);
    let write = io::PipeWriter::from(only(OwnedFd::from(write))?);
    crate::process::new_session()?;
    std::env::set_current_dir("/").map_err(|e| context("changing to `/`", e))?;
    let null = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .map_err(|e| context("`/dev/null`", e))?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(DaemonSide::Background(Starter(Some(write))))
}

/// Closes every descriptor above 2 but this one, which gets the number 3.
fn only(mut kept: OwnedFd) -> io::Result<OwnedFd> {
    if kept.as_raw_fd() != 3 {
        // SAFETY: nothing here owns 3: this process has opened the pipe alone. What has that number was open before the start, and is
        // to be closed.
        let moved = unsafe { libc::dup3(kept.as_raw_fd(), 3, libc::O_CLOEXEC) };
        if moved < 0 {
            return Err(context("moving the pipe", io::Error::last_os_error()));
        }
        // SAFETY: just made, and owned by nothing else.
        kept = unsafe { OwnedFd::from_raw_fd(moved) };
    }
    // SAFETY: as above: all of them were open before the start. Linux before 5.9 cannot; they stay open there.
    unsafe { libc::syscall(libc::SYS_close_range, 4, libc::c_uint::MAX, 0) };
    Ok(kept)
}

/// Returns a starter without a waiting process, for a process that stays in the foreground.
pub fn foreground() -> Starter {
    Starter(None)
}

/// Makes descriptor 2 the same file as `to`.
pub fn redirect_stderr(to: impl AsFd) -> io::Result<()> {
    Ok(rustix::stdio::dup2_stderr(to)?)
}

/// Closes the terminal, or the pipe of the program that started this process: that program would wait for its end.
pub fn forget_stderr() -> io::Result<()> {
    let null = File::options().write(true).open("/dev/null");
    redirect_stderr(null.map_err(|e| context("`/dev/null`", e))?)
}

fn wait_for_news(pipe: &mut io::PipeReader) -> Result<(), String> {
    let mut news = Vec::new();
    let _ = pipe.read_to_end(&mut news);
    match news.split_first() {
        Some((0, _)) => Ok(()),
        Some((_, text)) => Err(String::from_utf8_lossy(text).into_owned()),
        None => Err("the background process ended without a message; see the log".to_owned()),
    }
}
