//! The requirements of the pool to the process that may `exec`: start a prototype, send a signal, write log lines.
//!
//! The router itself never forks. The binary implements [`Launcher`] over its socket to main; tests implement it by starting the host
//! themselves.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

pub use tutti_log::Level;
use tutti_wire::control::{Start, encode};

use crate::failure::StartFailure;
use crate::spec::AppSpec;

/// Everything that a language host needs at `exec`. The descriptors get the fixed numbers 3, 4, 5 and 8 onwards; main adds 6, the start
/// document, and 7, the lifeline: it knows what the application may do, and holds the other end of the lifeline.
#[derive(Debug)]
pub struct LaunchRequest {
    /// The application, whose options include user, group and working directory.
    pub spec: Arc<AppSpec>,
    /// 3: the control socket (SOCK_SEQPACKET); the pool has the other end.
    pub control: OwnedFd,
    /// 4: the segment.
    pub segment: OwnedFd,
    /// 5: the spool, opened read-only.
    pub spool: OwnedFd,
    /// Router threads, for the start document.
    pub threads: u32,
    /// Worker numbers of the segment, for the start document.
    pub workers: u32,
    /// 8..: one eventfd per router thread.
    pub eventfds: Vec<OwnedFd>,
    /// stdout and stderr: the write end of a pipe that the pool reads.
    pub output: OwnedFd,
}

impl LaunchRequest {
    /// Makes the start document: descriptor 6.
    pub fn start_document(&self) -> io::Result<OwnedFd> {
        let start = Start {
            threads: Some(self.threads),
            workers: Some(self.workers),
            ..self.spec.start()
        };
        tutti_sys::memfd::document("tutti-start", &encode(&start))
    }
}

/// A process of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppProcess {
    /// The process id of its prototype.
    pub prototype: i32,
    /// Its own process id, which may be that of the prototype.
    pub pid: i32,
}

impl AppProcess {
    /// The prototype itself.
    pub(crate) fn prototype(pid: i32) -> AppProcess {
        AppProcess {
            prototype: pid,
            pid,
        }
    }
}

/// A prototype that has been `exec`ed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launched {
    /// Its process id in the router's pid namespace.
    pub pid: i32,
}

/// Future of [`Launcher::start_prototype`].
pub type LaunchFuture = Pin<Box<dyn Future<Output = Result<Launched, StartFailure>> + Send>>;

/// Future of [`Launcher::settle`].
pub type SettleFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The exit status of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessExit {
    /// By itself, with this code.
    Code(i32),
    /// Killed by this signal.
    Signal(i32),
    /// Unknown: no process could collect its exit status.
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
    /// `exec`s the host of this application. After a failure (no such module, `user` unknown, …) no process is left.
    fn start_prototype(&self, request: LaunchRequest) -> LaunchFuture;

    /// Notes that the prototype is ready, and need not yield the processor to running processes any more. Await it before the prototype
    /// forks. By default there is nothing to do.
    fn settle(&self, _pid: i32) -> SettleFuture {
        Box::pin(std::future::ready(()))
    }

    /// Sends a signal to a process of an application. Must refuse a process that is not of this prototype; failure is not reported (the
    /// process may have ended).
    fn kill(&self, process: AppProcess, signal: i32);
}

/// Receives the pool's log lines and the applications' output.
pub trait LogSink: Send + Sync + 'static {
    /// Logs a line about an application.
    fn log(&self, level: Level, message: &str);

    /// Logs a line about the request with this id.
    fn log_of_request(&self, level: Level, message: &str, id: &str) {
        self.log(level, &format!("{message}, id {id}"));
    }

    /// Receives a line of an application's stdout or stderr, unchanged, without its newline. `process` is its prototype, the leader of the
    /// process group of all possible writers; 0 if that is not known yet.
    fn output(&self, application: &str, process: i32, line: &[u8]);
}
