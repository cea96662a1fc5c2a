//! Mules and runs with runners that the tests simulate: which orders a runner gets, and how its messages are handled.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::net::SendFlags;
use tokio::sync::{mpsc, watch};
use tutti_log::Level;
use tutti_pool::LogSink;
use tutti_sys::seqpacket;
use tutti_wire::command::{FromRunner, ToRunner};
use tutti_wire::control::{ExitStatus, MAX_MESSAGE, decode, encode};

use crate::process::{Process, ProcessState};
use crate::run::{Ending, run};
use crate::runner::{Around, StartFuture, StartRequest};
use crate::spec::{CommandSpec, tests::specs};

/// Longer than anything takes here: reaching it is a failure.
const PATIENCE: Duration = Duration::from_secs(30);

/// Starts simulated runners.
struct Stage {
    runners: mpsc::UnboundedSender<Played>,
    next: AtomicI32,
    /// Number of starts that still find a former runner.
    busy: AtomicI32,
    lines: Mutex<Vec<String>>,
    killed: watch::Sender<Vec<i32>>,
}

/// A simulated runner; dropping it ends it.
struct Played {
    pid: i32,
    control: OwnedFd,
    output: OwnedFd,
}

impl LogSink for Stage {
    fn log(&self, _level: Level, message: &str) {
        self.lines.lock().unwrap().push(message.to_owned());
    }

    fn output(&self, _application: &str, _process: i32, _line: &[u8]) {}
}

impl Around for Stage {
    fn start(&self, request: StartRequest) -> StartFuture {
        if self.busy.fetch_sub(1, Ordering::Relaxed) > 0 {
            return Box::pin(async { Ok(None) });
        }
        let pid = self.next.fetch_add(1, Ordering::Relaxed);
        seqpacket::set_nonblocking(request.control.as_fd()).unwrap();
        let played = Played {
            pid,
            control: request.control,
            output: request.output,
        };
        self.runners.send(played).unwrap();
        Box::pin(async move { Ok(Some(pid)) })
    }

    fn kill(&self, pid: i32) {
        self.killed.send_modify(|killed| killed.push(pid));
    }
}

impl Played {
    fn say(&self, news: &FromRunner) {
        self.say_bytes(&encode(news));
    }

    fn say_bytes(&self, message: &[u8]) {
        rustix::net::send(&self.control, message, SendFlags::NOSIGNAL).unwrap();
    }

    fn runs(&self) {
        self.say(&FromRunner::Started { pid: self.pid });
    }

    /// Reports this exit status of the command, and ends the runner.
    fn ends(self, status: ExitStatus) {
        let is_killed = false;
        self.say(&FromRunner::Ended { status, is_killed });
    }

    fn writes(&self, text: &str) {
        rustix::io::write(&self.output, text.as_bytes()).unwrap();
    }

    async fn hear(&self) -> ToRunner {
        let mut buffer = vec![0; MAX_MESSAGE];
        let heard = async {
            loop {
                if let Ok(Some(received)) = seqpacket::receive(self.control.as_fd(), &mut buffer) {
                    return decode(&buffer[..received.len]).unwrap();
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within("an order", heard).await
    }
}

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    let outcome = tokio::time::timeout(PATIENCE, future).await;
    outcome.unwrap_or_else(|_| panic!("not in time: {what}"))
}

struct Play {
    stage: Arc<Stage>,
    around: Arc<dyn Around>,
    runners: mpsc::UnboundedReceiver<Played>,
}

impl Play {
    fn new() -> Self {
        let (sender, runners) = mpsc::unbounded_channel();
        let stage = Arc::new(Stage {
            runners: sender,
            next: AtomicI32::new(1_000_000),
            busy: AtomicI32::new(0),
            lines: Mutex::default(),
            killed: watch::Sender::new(Vec::new()),
        });
        let around: Arc<dyn Around> = Arc::clone(&stage) as Arc<dyn Around>;
        Self {
            stage,
            around,
            runners,
        }
    }

    async fn runner(&mut self) -> Played {
        within("a runner", self.runners.recv()).await.unwrap()
    }

    /// Returns the next runner, once the process counts as running.
    async fn running(&mut self, process: &Process) -> Played {
        let runner = self.runner().await;
        runner.runs();
        is_in(process, ProcessState::Running).await;
        runner
    }

    fn has_logged(&self, text: &str) -> bool {
        let lines = self.stage.lines.lock().unwrap();
        lines.iter().any(|line| line.contains(text))
    }
}

/// Creates a mule with these pauses before a restart.
fn mule(first: Duration, longest: Duration) -> Arc<CommandSpec> {
    let mut spec = specs("", "").remove(0);
    spec.pauses = (first, longest);
    Arc::new(spec)
}

fn quick() -> Arc<CommandSpec> {
    mule(Duration::from_millis(1), Duration::from_millis(2))
}

/// Creates a mule that is not restarted by itself during a test.
fn slow() -> Arc<CommandSpec> {
    mule(Duration::from_secs(3600), Duration::from_secs(3600))
}

async fn is_in(process: &Process, state: ProcessState) {
    let reached = async {
        while process.status().state != state {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    within(&format!("{state:?}"), reached).await;
}

fn play<F: Future<Output = ()>>(body: impl FnOnce(Play) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    runtime.unwrap().block_on(async { body(Play::new()).await });
}

#[test]
fn a_mule_that_ends_is_started_again_and_its_end_is_remembered() {
    play(|mut play| async move {
        let process = Process::start(&play.around, &quick(), 0);
        for restarts in 1..=3 {
            let runner = play.running(&process).await;
            runner.writes("no database\n");
            runner.ends(ExitStatus::Code(3));
            let ended = async {
                while process.status().restarts < restarts {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            };
            within("its end is counted", ended).await;
            let last = process.status().last.unwrap();
            assert_eq!(last.how, "exited with code 3");
            assert_eq!(last.output, "no database");
        }
        assert!(play.has_logged("exited with code 3"));
    });
}

#[test]
fn a_mule_waits_its_pause_and_an_order_ends_that() {
    play(|mut play| async move {
        let process = Process::start(&play.around, &slow(), 0);
        play.runner().await.ends(ExitStatus::Code(1));
        is_in(&process, ProcessState::Waiting).await;
        assert!(play.runners.try_recv().is_err(), "it waits");
        process.restart();
        let _runner = play.running(&process).await;
    });
}

#[test]
fn a_restart_stops_the_process_and_is_no_end_of_its_own() {
    play(|mut play| async move {
        let process = Process::start(&play.around, &slow(), 0);
        let first = play.running(&process).await;
        process.restart();
        assert_eq!(first.hear().await, ToRunner::Stop);
        is_in(&process, ProcessState::Stopping).await;
        assert!(
            play.runners.try_recv().is_err(),
            "none beside one that is to be gone"
        );
        first.ends(ExitStatus::Signal(libc::SIGTERM));
        let _runner = play.running(&process).await;
        let status = process.status();
        assert_eq!((status.restarts, status.last), (0, None));
    });
}

#[test]
fn a_message_that_only_another_version_knows_is_ignored() {
    play(|mut play| async move {
        let process = Process::start(&play.around, &slow(), 0);
        let runner = play.runner().await;
        runner.say_bytes(br#"{"is":"singing"}"#);
        runner.runs();
        is_in(&process, ProcessState::Running).await;
    });
}

#[test]
fn a_process_that_is_stopped_ends_and_no_other_comes() {
    play(|mut play| async move {
        let process = Process::start(&play.around, &quick(), 0);
        let runner = play.running(&process).await;
        process.stop();
        assert_eq!(runner.hear().await, ToRunner::Stop);
        runner.ends(ExitStatus::Code(0));
        let ended = async {
            while !process.has_ended() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        within("its end", ended).await;
        assert!(play.runners.try_recv().is_err());
    });
}

#[test]
fn numbers_and_pauses_change_without_another_process() {
    play(|mut play| async move {
        let process = Process::start(&play.around, &slow(), 0);
        let runner = play.running(&process).await;
        process.adapt(&quick());
        // The new pause applies, and the runner got no order.
        runner.ends(ExitStatus::Code(1));
        play.runner().await;
        assert_eq!(process.status().restarts, 1);
    });
}

#[test]
fn a_former_runner_is_waited_for() {
    play(|mut play| async move {
        play.stage.busy.store(2, Ordering::Relaxed);
        let process = Process::start(&play.around, &slow(), 0);
        let _runner = play.running(&process).await;
        assert_eq!(process.status().restarts, 0);
    });
}

#[test]
fn a_command_that_cannot_be_run_is_tried_again_and_reported_with_its_cure() {
    play(|mut play| async move {
        let process = Process::start(&play.around, &quick(), 0);
        let runner = play.runner().await;
        runner.say(&FromRunner::Failed {
            step: "exec".to_owned(),
            message: "No such file".to_owned(),
            hint: Some("install it".to_owned()),
            member: Some("command".to_owned()),
        });
        drop(runner);
        play.runner().await;
        let how = process.status().last.unwrap().how;
        assert!(
            how.contains("cannot be run (exec): No such file; hint: install it"),
            "{how}"
        );
    });
}

/// Starts a run of a schedule's command.
fn schedule(timeout: Duration, play: &Play) -> (watch::Sender<Ending>, Run) {
    let spec = Arc::new(specs("", "").remove(1));
    let (ending, ends) = watch::channel(Ending::No);
    let around = Arc::clone(&play.around);
    let task = tokio::spawn(async move { run(&around, &spec, timeout, ends).await });
    (ending, task)
}

type Run = tokio::task::JoinHandle<Result<crate::RunResult, crate::RunFailure>>;

#[test]
fn a_run_succeeds_by_exit_0_and_fails_by_any_other_end() {
    play(|mut play| async move {
        let (_ending, task) = schedule(PATIENCE, &play);
        let runner = play.runner().await;
        runner.writes("tidied\n");
        runner.ends(ExitStatus::Code(0));
        let outcome = within("its end", task).await.unwrap().unwrap();
        assert_eq!(outcome.output, "tidied");
        let (_ending, task) = schedule(PATIENCE, &play);
        play.runner().await.ends(ExitStatus::Code(4));
        let failure = within("its end", task).await.unwrap().unwrap_err();
        assert!(
            failure.why.contains("exited with code 4") && !failure.is_ours,
            "{failure:?}"
        );
    });
}

#[test]
fn a_run_beyond_its_time_is_stopped_and_has_failed_even_if_it_exits_with_0() {
    play(|mut play| async move {
        let (_ending, task) = schedule(Duration::from_millis(20), &play);
        let runner = play.runner().await;
        assert_eq!(runner.hear().await, ToRunner::Stop);
        runner.ends(ExitStatus::Code(0));
        let failure = within("its end", task).await.unwrap().unwrap_err();
        assert!(!failure.is_ours, "{failure:?}");
    });
}

#[test]
fn the_end_of_the_server_stops_a_run_and_says_nothing_about_the_command() {
    play(|mut play| async move {
        let (ending, task) = schedule(PATIENCE, &play);
        let runner = play.runner().await;
        runner.runs();
        ending.send_replace(Ending::Now);
        assert_eq!(runner.hear().await, ToRunner::Stop);
        runner.ends(ExitStatus::Signal(libc::SIGTERM));
        let failure = within("its end", task).await.unwrap().unwrap_err();
        assert!(failure.is_ours, "{failure:?}");
    });
}

/// The runner kills a command that does not end; a runner that fails to do so is killed itself.
#[test]
fn a_runner_that_does_not_obey_is_killed() {
    play(|mut play| async move {
        let mut spec = specs("", "").remove(0);
        spec.stop_timeout = Duration::ZERO;
        let process = Process::start(&play.around, &Arc::new(spec), 0);
        let runner = play.running(&process).await;
        process.stop();
        let mut killed = play.stage.killed.subscribe();
        let pid = runner.pid;
        let is_killed = killed.wait_for(|killed| killed.contains(&pid));
        assert!(within("its death", is_killed).await.is_ok());
    });
}
