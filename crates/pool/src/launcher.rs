//! The pool's demands on the process that may `exec`: start a prototype, send a signal, take log lines.
//!
//! The router itself never forks. The binary implements [`Launcher`] over its socket to main; tests
//! implement it by starting the host themselves.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use tutti_wire::control::{Start, encode};

pub use tutti_log::Level;

use crate::failure::StartFailure;
use crate::spec::AppSpec;

/// Everything a language host needs at `exec`. The descriptors become the fixed numbers 3, 4, 5 and 8 onwards; 6, the start
/// document, and 7, the lifeline, are added by main, which knows what the application may be and holds the lifeline's other end.
#[derive(Debug)]
pub struct LaunchRequest {
    /// The application: user, group, working directory and the like are in its options.
    pub spec: Arc<AppSpec>,
    /// 3: control socket (SOCK_SEQPACKET), the other end is the pool's.
    pub control: OwnedFd,
    /// 4: the segment.
    pub segment: OwnedFd,
    /// 5: the spool, opened for reading only.
    pub spool: OwnedFd,
    /// Router threads, for the start document.
    pub threads: u32,
    /// Worker numbers of the segment, for the same.
    pub workers: u32,
    /// 8..: one eventfd per router thread.
    pub eventfds: Vec<OwnedFd>,
    /// stdout and stderr: the write end of a pipe that the pool reads.
    pub output: OwnedFd,
}

impl LaunchRequest {
    /// The start document: descriptor 6.
    pub fn start_document(&self) -> io::Result<OwnedFd> {
        let start = Start {
            threads: Some(self.threads),
            workers: Some(self.workers),
            ..self.spec.start()
        };
        tutti_sys::memfd::document("tutti-start", &encode(&start))
    }
}

/// A prototype that has been `exec`ed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its process number as the router's pid namespace sees it.
    pub pid: i32,
}

/// Future of [`Launcher::start_prototype`].
pub type LaunchFuture = Pin<Box<dyn Future<Output = Result<Launched, StartFailure>> + Send>>;

/// Future of [`Launcher::settle`].
pub type SettleFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// By itself, with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Gone; nobody was there to see how.
    Unknown,
}

impl From<tutti_wire::control::ExitStatus> for ProcessExit {
    fn from(status: tutti_wire::control::ExitStatus) -> Self {
        match status {
            tutti_wire::control::ExitStatus::Code(code) => ProcessExit::Code(code),
            tutti_wire::control::ExitStatus::Signal(signal) => ProcessExit::Signal(signal),
        }
    }
}

impl std::fmt::Display for ProcessExit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProcessExit::Code(code) => write!(f, "exited with code {code}"),
            ProcessExit::Signal(signal) => write!(f, "was killed by signal {signal}"),
            ProcessExit::Unknown => f.write_str("ended"),
        }
    }
}

/// Starts and ends processes for the pool. All calls come from the control thread.
pub trait Launcher: Send + Sync + 'static {
    /// `exec` the host for this application. A failure here (no such module, `user` unknown, …) leaves
    /// no process behind.
    fn start_prototype(&self, request: LaunchRequest) -> LaunchFuture;

    /// The prototype is ready: it need not give way to those that serve any more, if it did. To be awaited before it is
    /// made to fork. By default there is nothing to do.
    fn settle(&self, _pid: i32) -> SettleFuture {
        Box::pin(std::future::ready(()))
    }

    /// Sends a signal to a process that belongs to an application. Must refuse any other process
    /// number; failure is not reported (the process may have ended).
    fn kill(&self, pid: i32, signal: i32);
}

/// Where the pool's log lines and the applications' output go.
pub trait LogSink: Send + Sync + 'static {
    /// A line of the server about an application.
    fn log(&self, level: Level, message: &str);

    /// A line about the request with this id.
    fn log_of_request(&self, level: Level, message: &str, id: &str) {
        self.log(level, &format!("{message}, id {id}"));
    }

    /// A line an application wrote to stdout or stderr, without its newline, as it was. `process` is its prototype, which leads
    /// the process group of all that can have written it; 0 when that is not known yet.
    fn output(&self, application: &str, process: i32, line: &[u8]);
}
