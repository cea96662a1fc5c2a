//! One process of a mule: started, watched, started again when it ends, stopped when it is told.
//!
//! A task of its own for each, which alone acts on its runner. Orders come through a channel that holds the latest.

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

/// How often it is looked whether a former process has ended.
pub(crate) const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// A runner kills what does not end in its time. If that takes so much longer, it does not run itself.
pub(crate) const TO_KILL: Duration = Duration::from_secs(5);

/// How often memory is looked at where it has limits.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// Lines of the output that a report has.
pub(crate) const LINES: usize = 5;

/// A mule is to run until it is told to stop.
const ENDS_BY_ITSELF: &str =
    "a mule runs until it is told to end; a command that ends by itself is for `schedules`";

/// The likely reason where nobody here has killed it.
pub(crate) const KILLED: &str =
    "SIGKILL from outside, mostly by the kernel for want of memory: its log (`dmesg`) says so";

/// How far a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessState {
    /// It is being started, or waits until a former one has ended.
    Starting,
    /// It runs.
    Running,
    /// It has been told to end, or what it left behind is being ended.
    Stopping,
    /// It has ended, and is started again after a pause.
    Waiting,
}

/// How the last process ended that was not told to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastEnd {
    /// When.
    pub at: SystemTime,
    /// How, or why it could not be started.
    pub how: String,
    /// The last lines of its output.
    pub output: String,
}

/// A process of a mule as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStatus {
    /// How far it is.
    pub state: ProcessState,
    /// Its number, while there is one.
    pub pid: Option<i32>,
    /// Since when it is in this state.
    pub since: Instant,
    /// How often it was started again because it had ended.
    pub restarts: u64,
    /// The last end that nobody had asked for.
    pub last: Option<LastEnd>,
}

/// The orders of a process: the latest counts.
#[derive(Clone, Debug)]
struct Order {
    spec: Arc<CommandSpec>,
    /// Another number asks for another process.
    restart: u64,
    is_stopped: bool,
}

impl Order {
    /// True if a process that was started by `before` cannot go on by this one.
    fn replaces(&self, before: &Order) -> bool {
        self.is_stopped
            || self.restart != before.restart
            || !self.spec.has_same_processes(&before.spec)
    }
}

/// The handle of a process. Dropped, the process is told to end.
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

    /// Goes on by another specification, with the process there is.
    pub(crate) fn adapt(&self, spec: &Arc<CommandSpec>) {
        self.orders
            .send_modify(|order| order.spec = Arc::clone(spec));
    }

    /// Ends the process and starts another.
    pub(crate) fn restart(&self) {
        self.orders.send_modify(|order| order.restart += 1);
    }

    /// Ends the process for good.
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
    // Every change leaves it whole.
    status.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why a process has ended.
enum End {
    /// It was told to.
    Told,
    /// By itself; with the last lines of its output.
    Itself {
        status: Option<ExitStatus>,
        output: String,
    },
    /// It used more memory than it may; the text of it.
    Memory(String),
    /// It did not even begin.
    NotStarted(RunnerError),
}

struct Keeper {
    around: Arc<dyn Around>,
    number: u32,
    orders: watch::Receiver<Order>,
    /// While there is one, waiting for an order never fails.
    _orderer: watch::Sender<Order>,
    status: Arc<Mutex<ProcessStatus>>,
    pace: Pace,
}

/// A process while it is watched.
struct Watched {
    runner: Runner,
    order: Order,
    /// Its number, once it runs.
    pid: Option<i32>,
    ended: Option<(ExitStatus, bool)>,
    failure: Option<RunnerError>,
    /// It was told to end, and until when it should have.
    told: Option<Instant>,
    /// Why it was, if it was not ordered.
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
            // It may have been adapted meanwhile: the pauses are those of now.
            let spec = Arc::clone(&self.orders.borrow().spec);
            if let Some(pause) = self.note(&spec, end, begun.elapsed()) {
                self.set(ProcessState::Waiting, None);
                self.pause(pause).await;
            }
        }
    }

    /// Waits so long, or until there is an order.
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

    /// Watches a runner until it is gone.
    async fn watch(&mut self, runner: Runner, order: Order) -> End {
        let mut watched = Watched {
            runner,
            order,
            pid: None,
            ended: None,
            failure: None,
            told: None,
            memory: None,
        };
        let mut measure = tokio::time::interval(MEASURE_INTERVAL);
        loop {
            let overdue = watched.told;
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
                    watched.told = Some(Instant::now() + TO_KILL);
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
                // Those it has left behind have their time from now on.
                watched.told = Some(Instant::now() + spec.stop_timeout + TO_KILL);
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

    /// Looks at the latest order.
    fn obey(&mut self, watched: &mut Watched) {
        let order = self.orders.borrow_and_update().clone();
        if order.replaces(&watched.order) {
            watched.is_told(order);
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
        // One that has just ended has no memory.
        let used = proc::rss_of_family(pid).unwrap_or(0);
        let (limit, how, order) = if hard.is_some_and(|hard| used > hard) {
            ("limits.memory_max", "is killed", ToRunner::Kill)
        } else if soft.is_some_and(|soft| used > soft) && watched.told.is_none() {
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
            watched.tell_to_end(order);
            self.set(ProcessState::Stopping, watched.pid);
        }
    }

    /// Notes an end and tells of it; the pause before the next start, if there is to be one.
    fn note(&mut self, spec: &CommandSpec, end: End, ran: Duration) -> Option<Duration> {
        let (level, how, output, hint) = match end {
            End::Told => {
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
            true => "; it is started again".to_owned(),
            false => format!(
                "; it is started again in {:.1} seconds",
                pause.as_secs_f64()
            ),
        });
        // One that ends after a long time is meant to (`--max-time` and the like).
        if let Some(hint) = hint.filter(|hint| !pause.is_zero() || *hint == KILLED) {
            line.push_str(&format!("; hint: {hint}"));
        }
        log(&self.around, level, &line);
        let mut status = lock(&self.status);
        status.restarts += 1;
        status.last = Some(LastEnd {
            at: SystemTime::now(),
            how,
            output,
        });
        Some(pause)
    }
}

/// Says how a process has ended.
pub(crate) fn how_it_ended(status: Option<ExitStatus>) -> String {
    match status {
        Some(ExitStatus::Code(code)) => format!("exited with code {code}"),
        Some(ExitStatus::Signal(number)) => format!("was ended by {}", signal::name(number)),
        None => "ended with its runner, which was killed".to_owned(),
    }
}

impl Watched {
    /// It is to end because there is this order.
    fn is_told(&mut self, order: Order) {
        self.memory = None;
        self.order = Order {
            // Its own time counts, not that of the next.
            spec: Arc::clone(&self.order.spec),
            is_stopped: true,
            ..order
        };
        self.tell_to_end(ToRunner::Stop);
    }

    fn tell_to_end(&mut self, order: ToRunner) {
        self.runner.tell(order);
        let time = match order {
            ToRunner::Stop => self.order.spec.stop_timeout,
            ToRunner::Kill => Duration::ZERO,
        };
        self.told = Some(Instant::now() + time + TO_KILL);
    }

    fn end(self) -> End {
        if self.order.is_stopped {
            return End::Told;
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
