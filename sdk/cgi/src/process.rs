//! The process of a script: it is started with two pipes, in a process group of its own, and is always ended with its group.
//!
//! What must never happen: a signal to a group whose leader has been reaped, because the number could be another's by then; a script that
//! is never reaped.

use std::cell::RefCell;
use std::collections::HashSet;
use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::pipe;
use tokio::time::timeout;
use tutti_event_loop::readable;
use tutti_sys::proc;
use tutti_sys::process::{Ended, pidfd, reap_one};
use tutti_sys::signal;
use tutti_sys::spawn::{Spawn, SpawnError};

/// Time for a script to clean up between SIGTERM and SIGKILL. The server ends a worker that is still at a request a second after its time.
const GRACE: Duration = Duration::from_millis(500);

/// The processes of the scripts that run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Running(Rc<RefCell<HashSet<i32>>>);

impl Running {
    /// True if the process is a script's.
    pub(crate) fn has(&self, pid: i32) -> bool {
        self.0.borrow().contains(&pid)
    }
}

/// Time for processes that scripts have left behind to die; one may be in the middle of a system call.
const ORPHANS_TIME: Duration = Duration::from_secs(1);

/// Kills all that scripts which have ended have left behind, in whatever group or session. Each that dies leaves its children to this
/// process, which is next. False if some of them live on.
pub(crate) async fn end_orphans(running: &Running) -> bool {
    let own = std::process::id().cast_signed();
    let ended = async {
        loop {
            let mut orphans = proc::started_by(own);
            orphans.retain(|pid| !running.has(*pid));
            if orphans.is_empty() {
                return;
            }
            let mut ends = Vec::new();
            for pid in orphans {
                // It is our child and has not been waited for, so that its number is still its own.
                let _ = signal::send(pid, libc::SIGKILL);
                ends.extend(pidfd(pid).and_then(readable).map(|end| (pid, end)));
            }
            for (pid, end) in ends {
                let _ = end.readable().await;
                // Unless it has been waited for, and a new script has its number.
                if !running.has(pid) {
                    reap_one(pid);
                }
            }
            // Also if none of them could be watched.
            tokio::task::yield_now().await;
        }
    };
    timeout(ORPHANS_TIME, ended).await.is_ok()
}

/// A script that has been started.
#[derive(Debug)]
pub(crate) struct ScriptProcess {
    pid: i32,
    /// Readable when it has ended.
    pidfd: AsyncFd<OwnedFd>,
    /// `None`: it gets no more.
    stdin: Option<pipe::Sender>,
    stdout: pipe::Receiver,
    output: Output,
    /// Set when it has been reaped, and its group has been killed.
    end: Option<Ended>,
    running: Running,
}

/// The state of a script's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// More may come.
    Open,
    /// The script has ended, and so many bytes are left in the pipe. What processes outside of its group write later is not its answer.
    Left(u64),
    Closed,
}

impl ScriptProcess {
    /// Starts a script: `prepared` has its path, arguments and environment.
    ///
    /// # Errors
    /// It cannot be started.
    pub(crate) fn start(
        prepared: Spawn,
        folder: &Path,
        running: &Running,
    ) -> Result<ScriptProcess, SpawnError> {
        let refused = |source: io::Error| SpawnError {
            step: "preparing it",
            subject: None,
            source,
        };
        let (stdin_read, stdin) = io::pipe().map_err(refused)?;
        let (stdout, stdout_write) = io::pipe().map_err(refused)?;
        let stderr = io::stderr().as_fd().try_clone_to_owned().map_err(refused)?;
        let stdin = pipe::Sender::from_owned_fd(stdin.into()).map_err(refused)?;
        let stdout = pipe::Receiver::from_owned_fd(stdout.into()).map_err(refused)?;
        let pid = prepared
            .folder(folder)
            .map_err(refused)?
            .descriptor(stdin_read.into(), 0)
            .descriptor(stdout_write.into(), 1)
            .descriptor(stderr, 2)
            .new_session()
            .death_signal(libc::SIGKILL)
            .start()?;
        match pidfd(pid).and_then(readable) {
            Ok(pidfd) => {
                running.0.borrow_mut().insert(pid);
                Ok(ScriptProcess {
                    pid,
                    pidfd,
                    stdin: Some(stdin),
                    stdout,
                    output: Output::Open,
                    end: None,
                    running: running.clone(),
                })
            }
            Err(error) => {
                // A script that cannot be watched must not run. As an orphan it is reaped like others.
                let _ = signal::send_group(pid, libc::SIGKILL);
                Err(refused(error))
            }
        }
    }

    /// Its process number.
    pub(crate) fn pid(&self) -> i32 {
        self.pid
    }

    /// Returns how it ended, if it has.
    pub(crate) fn end(&self) -> Option<Ended> {
        self.end
    }

    /// True if it still takes input.
    pub(crate) fn takes_input(&self) -> bool {
        self.stdin.is_some()
    }

    /// Gives it a part of the body, and returns how much it took. At an error it takes no more.
    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, bytes: &[u8]) -> Poll<usize> {
        let Some(stdin) = &mut self.stdin else {
            return Poll::Ready(0);
        };
        match ready!(Pin::new(stdin).poll_write(context, bytes)) {
            Ok(count) if count > 0 => Poll::Ready(count),
            // It has closed its input, or has ended.
            _ => {
                self.close_input();
                Poll::Ready(0)
            }
        }
    }

    /// Ends its input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Reads what it has written; 0 when it has ended and all was read.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if self.output == Output::Open {
            let mut read = ReadBuf::new(buffer);
            match Pin::new(&mut self.stdout).poll_read(context, &mut read) {
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) if read.filled().is_empty() => self.output = Output::Closed,
                Poll::Ready(Ok(())) => return Poll::Ready(Ok(read.filled().len())),
                Poll::Pending => {}
            }
        }
        ready!(self.poll_end(context))?;
        Poll::Ready(self.read_rest(buffer))
    }

    fn read_rest(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Output::Left(left) = self.output else {
            return Ok(0);
        };
        let most = usize::try_from(left).unwrap_or(usize::MAX);
        let most = most.min(buffer.len());
        let room = buffer.get_mut(..most).unwrap_or_default();
        let count = match room.is_empty() {
            true => 0,
            false => match rustix::io::read(&self.stdout, room) {
                Ok(count) => count,
                // A process outside of the group has read it.
                Err(rustix::io::Errno::AGAIN) => 0,
                Err(error) => return Err(error.into()),
            },
        };
        self.output = match count {
            0 => Output::Closed,
            count => Output::Left(left - count as u64),
        };
        Ok(count)
    }

    /// Ready when the script has ended.
    fn poll_end(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.end.is_none() {
            // The readiness is not cleared: it stays.
            drop(ready!(self.pidfd.poll_read_ready(context))?);
            self.reap();
        }
        Poll::Ready(Ok(()))
    }

    /// Ends its group and reaps it. Until it is reaped, its number belongs to no other group.
    fn reap(&mut self) {
        let _ = signal::send_group(self.pid, libc::SIGKILL);
        self.end = reap_one(self.pid);
        debug_assert!(self.end.is_some(), "its descriptor says that it has ended");
        self.running.0.borrow_mut().remove(&self.pid);
        if self.output == Output::Open {
            let left = rustix::io::ioctl_fionread(&self.stdout);
            self.output = left.map_or(Output::Closed, Output::Left);
        }
        self.close_input();
    }

    /// Kills it and its group; [`stop`](Self::stop) waits for the end.
    pub(crate) fn kill(&self) {
        if self.end.is_none() {
            let _ = signal::send_group(self.pid, libc::SIGKILL);
        }
    }

    /// Ends the script, if it has not ended, and all of its group.
    pub(crate) async fn stop(&mut self) {
        if self.end.is_some() {
            return;
        }
        let _ = signal::send_group(self.pid, libc::SIGTERM);
        let end = poll_fn(|context| self.poll_end(context));
        if timeout(GRACE, end).await.is_err() {
            self.kill();
            let _ = poll_fn(|context| self.poll_end(context)).await;
        }
    }
}

impl Drop for ScriptProcess {
    fn drop(&mut self) {
        self.kill();
    }
}
