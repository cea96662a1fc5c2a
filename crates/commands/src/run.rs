//! A command that is run once, by a schedule.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tutti_wire::command::{FromRunner, ToRunner};
use tutti_wire::control::ExitStatus;

use crate::process::{KILLED, LINES, LOOK_AGAIN, TO_KILL, how_it_ended};
use crate::runner::{Around, Runner, failure_of};
use crate::spec::CommandSpec;

/// The end of a run that succeeded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunResult {
    /// The last lines of the output.
    pub output: String,
}

/// Why a run did not succeed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunFailure {
    /// The reason, for people.
    pub why: String,
    /// True if the server ended the run because it stops itself, so the command is not at fault.
    pub is_ours: bool,
}

/// The stage of the server's stop, as runs see it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is not stopping.
    #[default]
    No,
    /// Runs in progress are stopped.
    Now,
}

impl RunFailure {
    fn ours() -> RunFailure {
        RunFailure {
            why: "the server has stopped it".to_owned(),
            is_ours: true,
        }
    }
}

/// Waits until the server stops.
async fn ends(ending: &mut watch::Receiver<Ending>) {
    if ending
        .wait_for(|ending| *ending == Ending::Now)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}

/// Runs the command; succeeds if it exits with 0 within `timeout`.
pub(crate) async fn run(
    around: &Arc<dyn Around>,
    spec: &Arc<CommandSpec>,
    timeout: Duration,
    mut ending: watch::Receiver<Ending>,
) -> Result<RunResult, RunFailure> {
    let runner = loop {
        let started = tokio::select! {
            started = Runner::start(around, spec, Some(0)) => started,
            () = ends(&mut ending) => return Err(RunFailure::ours()),
        };
        match started {
            Ok(Some(runner)) => break runner,
            // The run of a former router is still being ended.
            Ok(None) => tokio::time::sleep(LOOK_AGAIN).await,
            Err(failure) => return Err(failed(failure.line())),
        }
    };
    let mut stopped = None;
    let mut deadline = Instant::now() + timeout;
    let mut failure = None;
    let mut ended = None;
    loop {
        tokio::select! {
            news = runner.next() => match news {
                Some(FromRunner::Started { pid }) => runner.is_running(pid),
                Some(FromRunner::Failed { step, message, hint, member }) => {
                    let found = failure_of(spec, (step, message), hint, member.as_deref());
                    failure = Some(found.line());
                }
                Some(FromRunner::Ended { status, is_killed }) => {
                    ended = Some((status, is_killed));
                    deadline = Instant::now() + spec.stop_timeout + TO_KILL;
                    stopped = stopped.or(Some(Stopped::Ended));
                }
                Some(FromRunner::Sound) => {}
                None => break,
            },
            () = tokio::time::sleep_until(deadline.into()) => {
                match stopped {
                    None => {
                        runner.send(ToRunner::Stop);
                        stopped = Some(Stopped::TimeOut);
                        deadline = Instant::now() + spec.stop_timeout + TO_KILL;
                    }
                    Some(_) => {
                        runner.kill();
                        deadline = Instant::now() + TO_KILL;
                    }
                }
            }
            () = ends(&mut ending), if stopped.is_none() => {
                runner.send(ToRunner::Stop);
                stopped = Some(Stopped::Ours);
                deadline = Instant::now() + spec.stop_timeout + TO_KILL;
            }
        }
    }
    let output = runner.last_lines(LINES);
    let why = match (failure, stopped, ended) {
        (Some(failure), _, _) => failure,
        (None, Some(Stopped::Ours), _) => return Err(RunFailure::ours()),
        (None, Some(Stopped::TimeOut), _) => {
            let how = match ended {
                Some((_, false)) => "stopped",
                _ => "killed, because it did not end after its signal",
            };
            format!(
                "it ran for {} seconds (`timeout`) and was {how}",
                timeout.as_secs_f64()
            )
        }
        (None, _, Some((ExitStatus::Code(0), _))) => return Ok(RunResult { output }),
        (None, _, ended) => {
            let status = ended.map(|(status, _)| status);
            let how = format!("it {}", how_it_ended(status));
            match status {
                Some(ExitStatus::Signal(libc::SIGKILL)) => format!("{how}; hint: {KILLED}"),
                _ => how,
            }
        }
    };
    match output.is_empty() {
        true => Err(failed(why)),
        false => Err(failed(format!("{why}; its last output: {output}"))),
    }
}

/// Why waiting for a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stopped {
    /// The run ended by itself.
    Ended,
    TimeOut,
    /// The server stops.
    Ours,
}

fn failed(why: String) -> RunFailure {
    RunFailure {
        why,
        is_ours: false,
    }
}
