//! A runner as the router sees it: the process that minds one process of a command.

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

/// Everything a runner needs from outside.
#[derive(Debug)]
pub struct StartRequest {
    /// The command.
    pub spec: Arc<CommandSpec>,
    /// Which of its processes; `None`: only look whether it can be run.
    pub process: Option<u32>,
    /// The runner's end of the line.
    pub control: OwnedFd,
    /// Where the output goes.
    pub output: OwnedFd,
}

/// Future of [`Around::start`].
pub type StartFuture = Pin<Box<dyn Future<Output = Result<Option<i32>, RunnerError>> + Send>>;

/// Provides what commands need from outside.
pub trait Around: LogSink {
    /// Starts a runner; its process number. `None`: a former one of this process has not ended yet.
    fn start(&self, request: StartRequest) -> StartFuture;

    /// Kills a runner, and what is in its process group.
    fn kill(&self, pid: i32);
}

/// Why a command cannot be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{title} cannot be run ({step}): {message}")]
pub struct RunnerError {
    /// As people know it.
    pub title: String,
    /// The option at fault, a JSON pointer.
    pub place: String,
    /// The step that failed.
    pub step: String,
    /// The problem.
    pub message: String,
    /// The cure.
    pub hint: Option<String>,
}

impl RunnerError {
    /// A failure at the place of the command.
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

    /// Adds the option that is at fault and the cure.
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

    /// As a line of the log.
    pub(crate) fn line(&self) -> String {
        match &self.hint {
            Some(hint) => format!("{self}; hint: {hint}"),
            None => self.to_string(),
        }
    }
}

/// See the module. Dropped, its line ends, and it ends the command.
pub(crate) struct Runner {
    /// Its process number, which is that of the group.
    pub(crate) pid: i32,
    socket: AsyncFd<OwnedFd>,
    output: Arc<OutputPipe>,
    around: Arc<dyn Around>,
    name: Arc<str>,
    forwarding: tokio::task::JoinHandle<()>,
}

impl Runner {
    /// Has one started. `Ok(None)`: a former one of this process has not ended yet.
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

    /// The next news; `None`: it has ended, or breaks the protocol.
    pub(crate) async fn next(&self) -> Option<FromRunner> {
        let mut buffer = vec![0; MAX_MESSAGE];
        loop {
            let mut guard = self.socket.readable().await.ok()?;
            match seqpacket::receive(self.socket.get_ref().as_fd(), &mut buffer) {
                Ok(Some(received)) => {
                    let bytes = buffer.get(..received.len).unwrap_or_default();
                    let news = decode(bytes).ok()?;
                    return Some(self.translated(news, received.descriptors.first()));
                }
                Ok(None) => return None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                Err(_) => return None,
            }
        }
    }

    /// The number of a pid namespace means nothing here; a pidfd comes with it.
    fn translated(&self, news: FromRunner, pidfd: Option<&OwnedFd>) -> FromRunner {
        match (news, pidfd.map(number_of)) {
            (FromRunner::Started { .. }, Some(number)) => {
                let pid = number.unwrap_or(self.pid);
                FromRunner::Started { pid }
            }
            (news, _) => news,
        }
    }

    /// The command has this number: lines of the log are its.
    pub(crate) fn is_running(&self, pid: i32) {
        self.output.is_of(pid);
    }

    pub(crate) fn tell(&self, order: ToRunner) {
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(self.socket.get_ref().as_fd(), &encode(&order), flags);
    }

    /// Kills the runner itself: it does not do what it is told.
    pub(crate) fn kill(&self) {
        self.around.kill(self.pid);
    }

    /// The end of what was written, at most so many lines.
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

/// The outcome of a failed start, as the runner tells it.
pub(crate) fn failure_of(
    spec: &CommandSpec,
    (step, message): (String, String),
    hint: Option<String>,
    member: Option<&str>,
) -> RunnerError {
    RunnerError::new(spec, step, message).because(spec, member, hint)
}

/// Looks whether a command can be run as it is.
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
            let mut text = "the process that was to look at it ended without a word".to_owned();
            let words = runner.last_lines(3);
            if !words.is_empty() {
                text = format!("{text}; its last output: {words}");
            }
            Err(RunnerError::new(spec, "looking at the command", text))
        }
    }
}

/// A line of the log about a command.
pub(crate) fn log(around: &Arc<dyn Around>, level: Level, line: &str) {
    around.log(level, line);
}
