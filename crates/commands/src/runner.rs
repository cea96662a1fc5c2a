//! A runner as the router sees it: the process that supervises one process of a command.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;

use rustix::net::SendFlags;
use tokio::io::unix::AsyncFd;
use tutti_log::Level;
use tutti_pool::{LogSink, OutputPipe, number_of, readable};
use tutti_sys::seqpacket;
use tutti_wire::command::{FromRunner, ToRunner};
use tutti_wire::control::{MAX_MESSAGE, decode, encode};

use crate::spec::CommandSpec;

/// Everything needed to start a runner.
#[derive(Debug)]
pub struct StartRequest {
    /// The command.
    pub spec: Arc<CommandSpec>,
    /// The number of the process; `None`: only check that the command can be run.
    pub process: Option<u32>,
    /// The runner's end of the control socket.
    pub control: OwnedFd,
    /// The descriptor for the output.
    pub output: OwnedFd,
}

/// Future of [`Around::start`].
pub type StartFuture = Pin<Box<dyn Future<Output = Result<Option<i32>, RunnerError>> + Send>>;

/// Provides the operations of the server that commands need.
pub trait Around: LogSink {
    /// Starts a runner and returns its process id; `None` if a former runner of this process has not ended yet.
    fn start(&self, request: StartRequest) -> StartFuture;

    /// Kills a runner and its process group.
    fn kill(&self, pid: i32);
}

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{title} cannot be run ({step}): {message}")]
pub struct RunnerError {
    /// The name of the command, as messages show it.
    pub title: String,
    /// JSON pointer of the faulty option.
    pub place: String,
    /// The step that failed.
    pub step: String,
    /// The problem.
    pub message: String,
    /// The remedy.
    pub hint: Option<String>,
}

impl RunnerError {
    /// Creates a failure at the place of the command.
    pub fn new(
        spec: &CommandSpec,
        step: impl Into<String>,
        message: impl Into<String>,
    ) -> RunnerError {
        RunnerError {
            title: spec.title.clone(),
            place: spec.place.clone(),
            step: step.into(),
            message: message.into(),
            hint: None,
        }
    }

    /// Adds the faulty option and the remedy.
    #[must_use]
    pub fn because(
        mut self,
        spec: &CommandSpec,
        option: Option<&str>,
        hint: Option<String>,
    ) -> RunnerError {
        self.place = spec.place_of(option);
        self.hint = hint;
        self
    }

    /// Formats the failure as a log line.
    pub(crate) fn line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self}; hint: {hint}"),
            None => self.to_string(),
        }
    }
}

/// A running runner (see the module). Dropping it closes its control socket, on which it ends the command.
pub(crate) struct Runner {
    /// Its process id, which is also the id of the process group.
    pub(crate) pid: i32,
    socket: AsyncFd<OwnedFd>,
    output: Arc<OutputPipe>,
    around: Arc<dyn Around>,
    name: Arc<str>,
    forwarding: tokio::task::JoinHandle<()>,
}

impl Runner {
    /// Starts a runner. `Ok(None)`: a former one of this process has not ended yet.
    pub(crate) async fn start(
        around: &Arc<dyn Around>,
        spec: &Arc<CommandSpec>,
        process: Option<u32>,
    ) -> Result<Option<Runner>, RunnerError> {
        let failed = |error: io::Error| RunnerError::new(spec, "preparing", error.to_string());
        let (ours, theirs) = seqpacket::pair().map_err(failed)?;
        let (reader, writer) = io::pipe().map_err(failed)?;
        seqpacket::set_nonblocking(ours.as_fd()).map_err(failed)?;
        seqpacket::set_nonblocking(reader.as_fd()).map_err(failed)?;
        let output = Arc::new(OutputPipe::of_command(reader.into()).map_err(failed)?);
        let socket = readable(ours).map_err(failed)?;
        let request = StartRequest {
            spec: Arc::clone(spec),
            process,
            control: theirs,
            output: writer.into(),
        };
        let Some(pid) = around.start(request).await? else {
            return Ok(None);
        };
        output.is_of(pid);
        let name = Arc::clone(&spec.application);
        let sink: Arc<dyn LogSink> = Arc::clone(around) as Arc<dyn LogSink>;
        let forwarding = tokio::spawn(Arc::clone(&output).forward(Arc::clone(&name), sink));
        Ok(Some(Runner {
            pid,
            socket,
            output,
            around: Arc::clone(around),
            name,
            forwarding,
        }))
    }

    /// Returns the next message; `None` if it has ended or violates the protocol.
    pub(crate) async fn next(&self) -> Option<FromRunner> {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            let mut guard = self.socket.readable().await.ok()?;
            match seqpacket::receive(self.socket.get_ref().as_fd(), &mut buffer) {
                Ok(Some(received)) => {
                    let bytes = buffer.get(..received.len).unwrap_or_default();
                    // As the runner itself: a message that only another version knows is ignored.
                    let Ok(news) = decode(bytes) else {
                        continue;
                    };
                    return Some(self.translated(news, received.descriptors.first()));
                }
                Ok(None) => return None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(error) if seqpacket::lacks_descriptors(&error) => {
                    tokio::time::sleep(seqpacket::LACK_PAUSE).await;
                }
                Err(_) => return None,
            }
        }
    }

    /// Translates a process id: inside a pid namespace it means nothing here, so a pidfd comes with it.
    fn translated(&self, news: FromRunner, pidfd: Option<&OwnedFd>) -> FromRunner {
        match (news, pidfd.map(number_of)) {
            (FromRunner::Started { .. }, Some(number)) => {
                let pid = number.unwrap_or(self.pid);
                FromRunner::Started { pid }
            }
            (news, _) => news,
        }
    }

    /// Records the process id of the command, which its log lines then show.
    pub(crate) fn is_running(&self, pid: i32) {
        self.output.is_of(pid);
    }

    pub(crate) fn send(&self, order: ToRunner) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(self.socket.get_ref().as_fd(), &encode(&order), flags);
    }

    /// Kills the runner itself, because it does not react to orders.
    pub(crate) fn kill(&self) {
        self.around.kill(self.pid);
    }

    /// Returns the last lines of the output, at most this many.
    pub(crate) fn last_lines(&self, count: usize) -> String {
        self.output.drain_now(&self.name, &*self.around);
        let tail = self.output.tail();
        let lines: Vec<&str> = tail.lines().collect();
        let from = lines.len().saturating_sub(count);
        lines.get(from..).unwrap_or_default().join("\n")
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.output.drain_now(&self.name, &*self.around);
        self.forwarding.abort();
    }
}

/// Converts the outcome of a failed start that a runner reports.
pub(crate) fn failure_of(
    spec: &CommandSpec,
    (step, message): (String, String),
    hint: Option<String>,
    member: Option<&str>,
) -> RunnerError {
    RunnerError::new(spec, step, message).because(spec, member, hint)
}

/// Checks that a command can be run.
pub(crate) async fn look(
    around: &Arc<dyn Around>,
    spec: &Arc<CommandSpec>,
) -> Result<(), RunnerError> {
    let Some(runner) = Runner::start(around, spec, None).await? else {
        return Ok(());
    };
    match runner.next().await {
        Some(FromRunner::Sound) => Ok(()),
        Some(FromRunner::Failed {
            step,
            message,
            hint,
            member,
        }) => Err(failure_of(spec, (step, message), hint, member.as_deref())),
        _ => {
            let mut text = "the process that was to check it ended without a message".to_owned();
            let words = runner.last_lines(3);
            if !words.is_empty() {
                text = format!("{text}; its last output: {words}");
            }
            Err(RunnerError::new(spec, "checking the command", text))
        }
    }
}

/// Logs a line about a command.
pub(crate) fn log(around: &Arc<dyn Around>, level: Level, line: &str) {
    around.log(level, line);
}
