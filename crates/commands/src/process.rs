//! One process of a mule: started, supervised, restarted when it ends, stopped on request.
//!
//! Each has its own task, which alone controls its runner. Orders come through a channel that holds the latest one.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::watch;
use tutti_log::Level;
use tutti_sys::{proc, signal};
use tutti_wire::command::{FromRunner, ToRunner};
use tutti_wire::control::ExitStatus;

use crate::pace::Pace;
use crate::runner::{Around, Runner, RunnerError, failure_of, log};
use crate::spec::CommandSpec;

/// Interval between checks for the end of a former process.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A runner kills a process that does not end in time. A runner that takes this much longer is stuck itself.
pub(crate) const TO_KILL: Duration = Duration::from_secs(5);

/// Interval between measurements of memory, if it is limited.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// Lines of output in a report.
pub(crate) const LINES: usize = 5;

/// Explains that a mule must run until it is stopped.
const ENDS_BY_ITSELF: &str =
    "a mule must run until it is stopped; for a command that ends by itself, use `schedules`";

/// The likely reason for a SIGKILL that the server did not send.
pub(crate) const KILLED: &str =
    "SIGKILL from outside, usually by the kernel when memory runs out: check its log (`dmesg`)";

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It is being started, or waits until a former one has ended.
    Starting,
    /// It runs.
    Running,
    /// It has been stopped, or its remaining child processes are being ended.
    Stopping,
    /// It has ended, and is restarted after a pause.
    Waiting,
}

/// The last end of a process that was not requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEnd {
    /// When.
    pub at: SystemTime,
    /// The manner of its end, or why it could not be started.
    pub how: String,
    /// The last lines of its output.
    pub output: String,
}

/// The status of one process of a mule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// Its state.
    pub state: ProcessState,
    /// Its process id, while it exists.
    pub pid: Option<i32>,
    /// Since when it is in this state.
    pub since: Instant,
    /// The number of restarts because it had ended.
    pub restarts: u64,
    /// The last end that was not requested.
    pub last: Option<LastEnd>,
}

/// The orders for a process; the latest one counts.
#[derive(Clone, Debug)]
struct Order {
    spec: Arc<CommandSpec>,
    /// A different number requests a new process.
    restart: u64,
    is_stopped: bool,
}

impl Order {
    /// True if a process started by `before` cannot be kept for this order.
    fn replaces(&self, before: &Order) -> bool {
        self.is_stopped
            || self.restart != before.restart
            || !self.spec.has_same_processes(&before.spec)
    }
}

/// The handle of a process. Dropping it stops the process.
pub(crate) struct Process {
    orders: watch::Sender<Order>,
    status: Arc<Mutex<ProcessStatus>>,
    task: tokio::task::JoinHandle<()>,
}

impl Process {
    pub(crate) fn start(around: &Arc<dyn Around>, spec: &Arc<CommandSpec>, number: u32) -> Process {
        let order = Order {
            spec: Arc::clone(spec),
            restart: 0,
            is_stopped: false,
        };
        let (orders, ordered) = watch::channel(order);
        let status = Arc::new(Mutex::new(ProcessStatus {
            state: ProcessState::Starting,
            pid: None,
            since: Instant::now(),
            restarts: 0,
            last: None,
        }));
        let keeper = Keeper {
            around: Arc::clone(around),
            number,
            orders: ordered,
            _orderer: orders.clone(),
            status: Arc::clone(&status),
            pace: Pace::default(),
        };
        Process {
            orders,
            status,
            task: tokio::spawn(keeper.keep()),
        }
    }

    /// Applies another specification and keeps the current process.
    pub(crate) fn adapt(&self, spec: &Arc<CommandSpec>) {
        self.orders
            .send_modify(|order| order.spec = Arc::clone(spec));
    }

    /// Stops the process and starts another.
    pub(crate) fn restart(&self) {
        self.orders.send_modify(|order| order.restart += 1);
    }

    /// Stops the process for good.
    pub(crate) fn stop(&self) {
        self.orders.send_modify(|order| order.is_stopped = true);
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.task.is_finished()
    }

    pub(crate) fn status(&self) -> ProcessStatus {
        lock(&self.status).clone()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.stop();
    }
}

fn lock(status: &Mutex<ProcessStatus>) -> MutexGuard<'_, ProcessStatus> {
    // Every change leaves the status consistent.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a process has ended.
enum End {
    /// It was stopped by an order.
    Ordered,
    /// It ended by itself; with the last lines of its output.
    Itself {
        status: Option<ExitStatus>,
        output: String,
    },
    /// It used more memory than it may; with the message.
    Memory(String),
    /// It could not be started.
    NotStarted(RunnerError),
}

struct Keeper {
    around: Arc<dyn Around>,
    number: u32,
    orders: watch::Receiver<Order>,
    /// While this exists, waiting for an order never fails.
    _orderer: watch::Sender<Order>,
    status: Arc<Mutex<ProcessStatus>>,
    pace: Pace,
}

/// A process under supervision.
struct Watched {
    runner: Runner,
    order: Order,
    /// Its process id, once it runs.
    pid: Option<i32>,
    ended: Option<(ExitStatus, bool)>,
    failure: Option<RunnerError>,
    /// Set once it was stopped: the time by which it should have ended.
    kill_at: Option<Instant>,
    /// The reason, if it was stopped because of its memory.
    memory: Option<String>,
}

impl Keeper {
    async fn keep(mut self) {
        loop {
            let order = self.orders.borrow_and_update().clone();
            if order.is_stopped {
                return;
            }
            self.set(ProcessState::Starting, None);
            let begun = Instant::now();
            let end = match Runner::start(&self.around, &order.spec, Some(self.number)).await {
                Ok(None) => {
                    self.pause(LOOK_AGAIN).await;
                    continue;
                }
                Err(failure) => End::NotStarted(failure),
                Ok(Some(runner)) => self.watch(runner, order).await,
            };
            // The specification may have been adapted in the meantime: the current pauses count.
            let spec = Arc::clone(&self.orders.borrow().spec);
            if let Some(pause) = self.note(&spec, end, begun.elapsed()) {
                self.set(ProcessState::Waiting, None);
                self.pause(pause).await;
            }
        }
    }

    /// Waits for this time, or until there is an order.
    async fn pause(&mut self, pause: Duration) {
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = self.orders.changed() => self.pace.forget(),
        }
    }

    fn set(&self, state: ProcessState, pid: Option<i32>) {
        let mut status = lock(&self.status);
        if status.state != state || status.pid != pid {
            status.since = Instant::now();
        }
        status.state = state;
        status.pid = pid;
    }

    /// Supervises a runner until it has ended.
    async fn watch(&mut self, runner: Runner, order: Order) -> End {
        let mut watched = Watched {
            runner,
            order,
            pid: None,
            ended: None,
            failure: None,
            kill_at: None,
            memory: None,
        };
        let mut measure = tokio::time::interval(MEASURE_INTERVAL);
        loop {
            let overdue = watched.kill_at;
            let too_long = async {
                match overdue {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                news = watched.runner.next() => match news {
                    Some(news) => self.hear(&mut watched, news),
                    None => break,
                },
                _ = self.orders.changed() => self.obey(&mut watched),
                _ = measure.tick() => self.measure(&mut watched),
                () = too_long => {
                    watched.runner.kill();
                    watched.kill_at = Some(Instant::now() + TO_KILL);
                }
            }
        }
        self.set(ProcessState::Stopping, None);
        watched.end()
    }

    fn hear(&self, watched: &mut Watched, news: FromRunner) {
        let spec = &watched.order.spec;
        match news {
            FromRunner::Started { pid } => {
                watched.pid = Some(pid);
                watched.runner.is_running(pid);
                self.set(ProcessState::Running, Some(pid));
                log(
                    &self.around,
                    Level::Info,
                    &format!("{} started (process {pid})", spec.title),
                );
            }
            FromRunner::Failed {
                step,
                message,
                hint,
                member,
            } => {
                let failure = failure_of(spec, (step, message), hint, member.as_deref());
                watched.failure = Some(failure);
            }
            FromRunner::Ended { status, is_killed } => {
                watched.ended = Some((status, is_killed));
                // The remaining child processes get the stop timeout from now on.
                watched.kill_at = Some(Instant::now() + spec.stop_timeout + TO_KILL);
                self.set(ProcessState::Stopping, None);
                if is_killed && watched.memory.is_none() {
                    let text = format!(
                        "{} did not end within {} seconds (`stop_timeout`) and was killed",
                        spec.title,
                        spec.stop_timeout.as_secs_f64()
                    );
                    log(&self.around, Level::Warn, &text);
                }
            }
            FromRunner::Sound => {}
        }
    }

    /// Applies the latest order.
    fn obey(&mut self, watched: &mut Watched) {
        let order = self.orders.borrow_and_update().clone();
        if order.replaces(&watched.order) {
            watched.stop(order);
            self.set(ProcessState::Stopping, watched.pid);
        } else {
            watched.order.spec = order.spec;
        }
    }

    fn measure(&self, watched: &mut Watched) {
        let (soft, hard) = watched.order.spec.memory;
        let Some(pid) = watched.pid else { return };
        if (soft.is_none() && hard.is_none()) || watched.ended.is_some() {
            return;
        }
        // A process that has just ended has no memory.
        let used = proc::rss_of_family(pid).unwrap_or(0);
        let (limit, how, order) = if hard.is_some_and(|hard| used > hard) {
            ("limits.memory_max", "is killed", ToRunner::Kill)
        } else if soft.is_some_and(|soft| used > soft) && watched.kill_at.is_none() {
            ("limits.memory", "is replaced", ToRunner::Stop)
        } else {
            return;
        };
        if watched.memory.is_none() || order == ToRunner::Kill {
            let text = format!("uses {used} bytes of memory, more than `{limit}`, and {how}");
            let title = &watched.order.spec.title;
            log(
                &self.around,
                Level::Error,
                &format!("{title} process {pid} {text}"),
            );
            watched.memory = Some(text);
            watched.order_to_end(order);
            self.set(ProcessState::Stopping, watched.pid);
        }
    }

    /// Records and logs an end; returns the pause before the next start, if there is to be one.
    fn note(&mut self, spec: &CommandSpec, end: End, ran: Duration) -> Option<Duration> {
        let (level, how, output, hint) = match end {
            End::Ordered => {
                self.pace.forget();
                return None;
            }
            End::Memory(how) => (Level::Debug, how, String::new(), None),
            End::NotStarted(failure) => (Level::Error, failure.line(), String::new(), None),
            End::Itself { status, output } => {
                let how = how_it_ended(status);
                let (level, hint) = match status {
                    Some(ExitStatus::Code(0)) => (Level::Notice, Some(ENDS_BY_ITSELF)),
                    Some(ExitStatus::Signal(libc::SIGKILL)) => (Level::Error, Some(KILLED)),
                    _ => (Level::Error, None),
                };
                (level, how, output, hint)
            }
        };
        let pause = self.pace.ended(ran, spec.pauses);
        let mut line = match how.starts_with(&spec.title) {
            true => how.clone(),
            false => format!(
                "{} {how} after {:.1} seconds",
                spec.title,
                ran.as_secs_f64()
            ),
        };
        if !output.is_empty() {
            line.push_str(&format!(
                ", its last output: {}",
                output.replace('\n', " | ")
            ));
        }
        line.push_str(&match pause.is_zero() {
            true => "; restarting".to_owned(),
            false => format!("; restarting in {:.1} seconds", pause.as_secs_f64()),
        });
        // A process that ends after a long time usually does so on purpose (`--max-time` and the like).
        if let Some(hint) = hint.filter(|hint| !pause.is_zero() || *hint == KILLED) {
            line.push_str(&format!("; hint: {hint}"));
        }
        {
            let mut status = lock(&self.status);
            status.restarts += 1;
            status.last = Some(LastEnd {
                at: SystemTime::now(),
                how,
                output,
            });
        }
        // Last: a reader of the line finds its end in the status.
        log(&self.around, level, &line);
        Some(pause)
    }
}

/// Describes how a process has ended.
pub(crate) fn how_it_ended(status: Option<ExitStatus>) -> String {
    match status {
        Some(ExitStatus::Code(code)) => format!("exited with code {code}"),
        Some(ExitStatus::Signal(number)) => format!("was ended by {}", signal::name(number)),
        None => "ended with its runner, which was killed".to_owned(),
    }
}

impl Watched {
    /// Stops the process because of this order.
    fn stop(&mut self, order: Order) {
        self.memory = None;
        self.order = Order {
            // Its own stop timeout counts, not the new one.
            spec: Arc::clone(&self.order.spec),
            is_stopped: true,
            ..order
        };
        self.order_to_end(ToRunner::Stop);
    }

    fn order_to_end(&mut self, order: ToRunner) {
        self.runner.send(order);
        let time = match order {
            ToRunner::Stop => self.order.spec.stop_timeout,
            ToRunner::Kill => Duration::ZERO,
        };
        self.kill_at = Some(Instant::now() + time + TO_KILL);
    }

    fn end(self) -> End {
        if self.order.is_stopped {
            return End::Ordered;
        }
        if let Some(how) = self.memory {
            return End::Memory(how);
        }
        match self.failure {
            Some(failure) => End::NotStarted(failure),
            None => End::Itself {
                status: self.ended.map(|(status, _)| status),
                output: self.runner.last_lines(LINES),
            },
        }
    }
}
