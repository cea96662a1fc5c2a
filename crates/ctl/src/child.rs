//! A server in the foreground, as the child of a command: `tutti run` and `tutti import --try`.
//!
//! Owns the process. Its state, its control socket and its pid file are in a folder of the caller's, so that no other server is touched.
//! Must never: leave the server behind when the command ends, by whatever way.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use tutti_sys::process::Ended;
use tutti_sys::signal::Signals;
use tutti_sys::spawn::Spawn;

use super::client::ControlClient;
use super::report::CommandError;

/// The control socket appears within milliseconds; this is for overloaded machines.
const START_WITHIN: Duration = Duration::from_secs(30);

/// A server that has not ended this long after it was asked to is killed.
const END_WITHIN: Duration = Duration::from_secs(10);

/// The flags of the server.
#[derive(Debug)]
pub struct ChildOptions<'a> {
    /// The program.
    pub program: &'a Path,
    /// A folder for all that the server writes; removed by the caller.
    pub state: &'a Path,
    /// The file for its log.
    pub log: &'a Path,
    /// The folder of the language modules, if it is not beside the program.
    pub modules: Option<&'a Path>,
    /// The user of the processes without privileges; for root only.
    pub user: Option<&'a str>,
}

/// A server, as a child process.
#[derive(Debug)]
pub struct ChildServer {
    pid: i32,
    ended: Option<Ended>,
    socket: PathBuf,
}

impl ChildServer {
    /// Starts the server; it ends with the thread that calls this.
    pub fn start(options: &ChildOptions<'_>) -> Result<Self, CommandError> {
        let name = options.program.display();
        let failed = |error: &dyn std::fmt::Display| {
            CommandError::new(format!("cannot start `{name}`: {error}"))
        };
        let socket = options.state.join("control.sock");
        let control = format!("unix:{}", socket.display());
        let pid_file = options.state.join("tutti.pid");
        let mut words: Vec<&OsStr> = ["--no-daemon", "--log"].map(OsStr::new).to_vec();
        words.extend([options.log.as_os_str(), OsStr::new("--control")]);
        words.push(OsStr::new(&control));
        // People read this log beside the command's own lines: faults and the application's output, not the steps of a start.
        words.extend(["--log-level", "notice"].map(OsStr::new));
        for flag in ["--statedir", "--tmpdir"] {
            words.extend([OsStr::new(flag), options.state.as_os_str()]);
        }
        words.extend([OsStr::new("--pid"), pid_file.as_os_str()]);
        if let Some(folder) = options.modules {
            words.extend([OsStr::new("--modulesdir"), folder.as_os_str()]);
        }
        if let Some(user) = options.user {
            words.extend([OsStr::new("--user"), OsStr::new(user)]);
        }
        let prepare = || -> io::Result<Spawn> {
            let mut spawn = Spawn::new(options.program)?.death_signal(libc::SIGTERM);
            for word in words {
                spawn = spawn.argument(word)?;
            }
            for (variable, value) in std::env::vars_os() {
                spawn = spawn.variable(variable, value)?;
            }
            Ok(spawn)
        };
        let spawn = prepare().map_err(|error| failed(&error))?;
        let pid = spawn.start().map_err(|error| failed(&error))?;
        Ok(Self {
            pid,
            ended: None,
            socket,
        })
    }

    /// Waits until the control socket accepts connections.
    pub fn wait_until_up(&mut self) -> Result<(), CommandError> {
        let end = Instant::now() + START_WITHIN;
        while std::os::unix::net::UnixStream::connect(&self.socket).is_err() {
            if let Some(ended) = self.has_ended() {
                return Err(CommandError::new(format!(
                    "the server did not start: it {ended}"
                )));
            }
            if Instant::now() > end {
                return Err(CommandError::new(format!(
                    "the server did not respond within {} s",
                    START_WITHIN.as_secs()
                )));
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
        Ok(())
    }

    /// Returns the address of its control socket, as `--control` takes it.
    pub fn control(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    /// Returns its end, if it has ended.
    pub fn has_ended(&mut self) -> Option<Ended> {
        if self.ended.is_none() {
            self.ended = tutti_sys::process::reap_one(self.pid);
        }
        self.ended
    }

    fn signal(&self, signal: i32) {
        // It may just have ended by itself.
        let _ = tutti_sys::signal::send(self.pid, signal);
    }

    /// Forwards signals to the server from now on, by a thread: the command may be waiting for an application to start.
    /// Returns a flag that is set before the first one is forwarded.
    pub(crate) fn forward(&self, signals: Signals) -> Arc<AtomicBool> {
        let (pid, is_signalled) = (self.pid, Arc::<AtomicBool>::default());
        let flag = Arc::clone(&is_signalled);
        std::thread::spawn(move || {
            loop {
                // An interrupted wait is followed by a check, like any other.
                let _ = rustix::event::poll(&mut [PollFd::new(&signals, PollFlags::IN)], None);
                while let Some(signal) = signals.next() {
                    flag.store(true, Ordering::Release);
                    let signal = match signal {
                        libc::SIGHUP => libc::SIGTERM,
                        other => other,
                    };
                    // It may just have ended by itself.
                    let _ = tutti_sys::signal::send(pid, signal);
                }
            }
        });
        is_signalled
    }

    /// Waits until the server ends.
    pub(crate) fn wait(&mut self) -> Result<ExitCode, CommandError> {
        let pidfd = tutti_sys::process::pidfd(self.pid)
            .map_err(|error| CommandError::new(format!("cannot watch the server: {error}")))?;
        loop {
            if let Some(ended) = self.has_ended() {
                return match ended {
                    Ended::Code(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
                    Ended::Signal(..) => Err(CommandError::new(format!("the server {ended}"))),
                };
            }
            // An interrupted wait is followed by a check, like any other.
            let _ = rustix::event::poll(&mut [PollFd::new(&pidfd, PollFlags::IN)], None);
        }
    }
}

/// Gives the server at `control` a configuration; returns when its applications have started.
pub fn configure(control: &str, configuration: &str) -> Result<(), CommandError> {
    let client = ControlClient::at(control);
    let answer = client.call("PUT", "/config", Some(configuration.as_bytes()), None)?;
    answer.succeeded(None)
}

impl Drop for ChildServer {
    fn drop(&mut self) {
        if self.has_ended().is_some() {
            return;
        }
        self.signal(libc::SIGTERM);
        let end = Instant::now() + END_WITHIN;
        let mut is_killed = false;
        while self.has_ended().is_none() {
            if !is_killed && Instant::now() > end {
                // Its own processes end with it.
                self.signal(libc::SIGKILL);
                is_killed = true;
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}
