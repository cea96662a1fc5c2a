//! The supervisor of one application: keeps the right number of workers up, and puts things in order when they end.
//!
//! One task per application on the control thread; it alone changes the set of processes. Everything that happens reaches
//! it as an [`Event`]; after each it *reconciles*: compares what there is with what there should be and takes the next
//! step. It looks by itself at short intervals only while requests are about.
//!
//! What must never happen: a request left in the queue of a segment that no worker will ever serve; two workers with the
//! same number; a process that outlives its application.

mod deaths;
mod limits;
mod line;
mod prototype;
mod reconcile;
mod roll;
mod scale;
mod surplus;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tutti_wire::WorkerSnapshot;
use tutti_wire::control::{FromPrototype, ToPrototype};

use self::prototype::{Prototype, Stage};
use self::roll::{Roll, SIGKILL};
use self::scale::Backoff;
use crate::application::Application;
use crate::exchange::ExchangeError;
use crate::failure::StartFailure;
use crate::generation::Generation;
use crate::launcher::{ExitStatus, Launched, Launcher, Level, LogSink};
use crate::shared::{Admit, Shared};
use crate::threads::Threads;

/// How often the supervisor looks while a pool may have to grow.
const FAST_TICK: Duration = Duration::from_millis(10);

/// How often it looks while requests run but the pool is as large as it gets: the resolution of `limits.timeout`.
const TICK: Duration = Duration::from_millis(50);

/// How often it looks after the last request, before it goes to sleep.
const QUIET_TICK: Duration = Duration::from_millis(200);

/// How long processes that have been told to quit, with nothing left to do, may take before they are killed.
const QUIT_TIMEOUT: Duration = Duration::from_secs(5);

/// Most worker numbers in a segment, [`tutti_wire::layout::MAX_WORKERS`]; half of them for those that are leaving.
pub(crate) const MAX_PROCESSES: u32 = tutti_wire::layout::MAX_WORKERS / 2;

/// How a first start went: the application is up, or, where it has no processes before its first request, it will be tried
/// again then and this is in its way now.
pub(crate) type Started = Result<Option<StartFailure>, StartFailure>;

/// What supervisors share.
pub(crate) struct Context {
    pub(crate) launcher: Arc<dyn Launcher>,
    pub(crate) log: Arc<dyn LogSink>,
    pub(crate) threads: Arc<Threads>,
    pub(crate) cores: u32,
}

/// What reaches a supervisor.
#[derive(Debug)]
pub(crate) enum Event {
    /// A prototype was `exec`ed, or could not be.
    Launched {
        prototype: u64,
        result: Result<Launched, StartFailure>,
    },
    /// A prototype or one of its workers says something.
    Message {
        prototype: u64,
        message: FromPrototype,
    },
    /// A prototype and all of its workers are gone, or it broke the protocol.
    Closed { prototype: u64 },
    /// Main reaped a process, perhaps one of ours.
    Exited { pid: i32, status: ExitStatus },
    /// Start anew with the same configuration, rolling.
    Restart(oneshot::Sender<Result<(), StartFailure>>),
    /// End when the last request is done, or at the deadline.
    Retire { deadline: Option<Instant> },
    /// Open the output files again.
    Reopen,
    /// Numbers and limits have changed.
    Adapt,
    /// To be told when there are as many processes as there should be, or no more can be had now.
    Settle(oneshot::Sender<()>),
}

/// What a supervisor is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Until the initial workers are up for the first time.
    Starting,
    /// Serving.
    Running,
    /// Serving what is left.
    Retiring {
        /// When it ends at the latest, if that was asked for.
        deadline: Option<Instant>,
        /// Since when.
        since: Instant,
    },
    /// Ending all processes; those left at this moment are killed.
    Stopping { kill_at: Instant },
}

/// A worker process.
#[derive(Debug)]
struct Worker {
    /// The first of its numbers.
    number: u32,
    /// How many it has: one for each thread.
    threads: u32,
    prototype: u64,
    generation: Arc<Generation>,
    pid: Option<i32>,
    stage: WorkerStage,
    since: Instant,
    /// Where in the output its story begins.
    mark: u64,
    /// What it said went wrong.
    failure: Option<StartFailure>,
    /// It was not there at the last look, and nobody has said how it ended.
    is_missing: bool,
    /// How far its threads had come at the last look, to see whether it moves.
    seen: u64,
    is_taken: bool,
    /// When it was asked where it is, because its time to leave was over.
    told_at: Option<Instant>,
    /// It has been complained of for its size.
    is_large: bool,
    /// It has been killed, or will be as soon as its process is known.
    is_doomed: bool,
}

impl Worker {
    /// Its numbers in the segment.
    fn numbers(&self) -> std::ops::Range<u32> {
        self.number..self.number + self.threads
    }

    /// What its threads say of themselves.
    fn snapshots(&self) -> impl Iterator<Item = WorkerSnapshot> {
        self.numbers()
            .map(|number| self.generation.segment.worker_snapshot(number))
    }

    /// Tells the segment which process it is.
    fn started(&self, pid: i32) {
        for number in self.numbers() {
            self.generation
                .segment
                .worker_started(number, pid.unsigned_abs());
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WorkerStage {
    Starting,
    Ready,
    /// Told to leave.
    Leaving,
}

/// See the module.
pub(crate) struct Supervisor {
    app: Arc<Application>,
    shared: Arc<Shared>,
    context: Arc<Context>,
    events: UnboundedReceiver<Event>,
    sender: UnboundedSender<Event>,
    mode: Mode,
    started: Option<oneshot::Sender<Started>>,
    /// Why the first start failed; told when everything has ended.
    never_started: Option<StartFailure>,
    prototypes: Vec<Prototype>,
    workers: Vec<Worker>,
    /// Where new workers come from.
    current: Option<u64>,
    /// The prototype that is to take over.
    roll: Option<Roll>,
    /// Restarts asked for while one was under way.
    waiting_restarts: Vec<oneshot::Sender<Result<(), StartFailure>>>,
    /// Who waits for the number of processes to be right.
    waiting_settled: Vec<oneshot::Sender<()>>,
    backoff: Backoff,
    next_serial: u64,
    /// Segments given up, until their workers have ended.
    abandoned: Vec<Arc<Generation>>,
    /// Ends of processes that main reported, not yet handled.
    exits: Vec<(i32, ExitStatus)>,
    /// Processes that main reported and nobody here knew: the news of their start may be on its way.
    unknown_exits: VecDeque<(i32, ExitStatus, Instant)>,
    last_look: Option<Instant>,
    last_roll_call: Option<Instant>,
    last_measure: Option<Instant>,
    quiet_since: Option<Instant>,
    /// A watched file changed while a roll was under way.
    has_changed: bool,
    /// A start that fails does not end the application: it is tried again.
    is_lenient: bool,
    /// When it was last said that memory is short.
    short_of_memory: Option<Instant>,
    random: scale::Random,
}

/// A supervisor's address.
#[derive(Clone, Debug)]
pub(crate) struct Handle {
    events: UnboundedSender<Event>,
}

impl Handle {
    pub(crate) fn send(&self, event: Event) {
        // One that has ended needs no events.
        let _ = self.events.send(event);
    }

    /// Whether the supervisor has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.events.is_closed()
    }

    /// Resolves when the supervisor has ended and all its processes with it.
    pub(crate) async fn ended(&self) {
        self.events.closed().await;
    }
}

impl Supervisor {
    /// Starts supervising. The receiver hears once whether the application is up. One that is not ends, unless `is_lenient`.
    pub(crate) fn spawn(
        app: Arc<Application>,
        context: Arc<Context>,
        is_lenient: bool,
    ) -> (Handle, oneshot::Receiver<Started>) {
        let (sender, events) = unbounded_channel();
        let (started, is_started) = oneshot::channel();
        let supervisor = Supervisor {
            shared: Arc::clone(&app.shared),
            app,
            context,
            events,
            sender: sender.clone(),
            mode: Mode::Starting,
            started: Some(started),
            never_started: None,
            prototypes: Vec::new(),
            workers: Vec::new(),
            current: None,
            roll: None,
            waiting_restarts: Vec::new(),
            waiting_settled: Vec::new(),
            backoff: Backoff::default(),
            next_serial: 1,
            abandoned: Vec::new(),
            exits: Vec::new(),
            unknown_exits: VecDeque::new(),
            last_look: None,
            last_roll_call: None,
            last_measure: None,
            quiet_since: None,
            has_changed: false,
            is_lenient,
            short_of_memory: None,
            random: scale::Random::new(),
        };
        tokio::spawn(supervisor.run());
        (Handle { events: sender }, is_started)
    }

    async fn run(mut self) {
        loop {
            let wake = self.reconcile(Instant::now());
            if self.is_over() {
                break;
            }
            let shared = Arc::clone(&self.shared);
            let sleep = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                event = self.events.recv() => {
                    if let Some(event) = event {
                        self.handle(event);
                    }
                }
                () = shared.signal.raised() => {}
                () = sleep => {}
            }
            // What else has come is handled before looking again.
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
            self.handle_exits();
        }
        self.finish();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Launched { prototype, result } => self.launched(prototype, result),
            Event::Message { prototype, message } => self.message(prototype, message),
            Event::Closed { prototype } => self.prototype_gone(prototype, None),
            Event::Exited { pid, status } => self.exits.push((pid, status)),
            Event::Restart(reply) => self.restart(reply),
            Event::Retire { deadline } => {
                let since = match self.mode {
                    Mode::Retiring { since, .. } => since,
                    _ => Instant::now(),
                };
                if !matches!(self.mode, Mode::Stopping { .. }) {
                    self.mode = Mode::Retiring { deadline, since };
                }
            }
            Event::Adapt => self.adapt(),
            Event::Settle(reply) => self.waiting_settled.push(reply),
            Event::Reopen => {
                for prototype in self
                    .prototypes
                    .iter()
                    .filter(|prototype| prototype.is_alive())
                {
                    prototype.send(&ToPrototype::Reopen);
                }
            }
        }
    }

    /// Handles what main reported, after the last words of the processes: main's news may overtake them.
    fn handle_exits(&mut self) {
        let exits = std::mem::take(&mut self.exits);
        if exits.is_empty() {
            return;
        }
        let mut last_words = Vec::new();
        for prototype in &self.prototypes {
            while let Some(message) = prototype.receive_now() {
                last_words.push((prototype.serial, message));
            }
        }
        for (prototype, message) in last_words {
            self.message(prototype, message);
        }
        for (pid, status) in exits {
            self.process_exited(pid, status);
        }
    }

    fn message(&mut self, prototype: u64, message: FromPrototype) {
        match message {
            FromPrototype::Ready => self.prototype_ready(prototype),
            FromPrototype::Failed {
                step,
                message,
                hint,
                member,
            } => {
                let failure = self
                    .failure_of(prototype, 0, step, message, hint)
                    .at(member.as_deref());
                if self.may_come_later(prototype) {
                    self.accept_unstarted(prototype, failure);
                } else {
                    self.start_failed(Some(prototype), failure);
                }
            }
            FromPrototype::Forked { worker, pid } => {
                self.worker_forked(prototype, worker, pid);
            }
            FromPrototype::ForkFailed { worker, message } => {
                self.workers
                    .retain(|w| !(w.prototype == prototype && w.number == worker));
                let failure = self.failure_of(prototype, 0, "fork".to_owned(), message, None);
                self.start_failed(Some(prototype), failure);
            }
            FromPrototype::WorkerReady { worker, pid } => self.worker_ready(prototype, worker, pid),
            FromPrototype::WorkerFailed {
                worker,
                step,
                message,
                hint,
                member,
                ..
            } => {
                let mark = self
                    .worker_mut(prototype, worker)
                    .map_or(0, |worker| worker.mark);
                let failure = self
                    .failure_of(prototype, mark, step, message, hint)
                    .at(member.as_deref());
                if let Some(worker) = self.worker_mut(prototype, worker) {
                    worker.failure = Some(failure);
                }
            }
            FromPrototype::Exited {
                worker,
                pid,
                status,
            } => {
                let known = self.worker_mut(prototype, worker).is_some_and(|worker| {
                    worker.pid.get_or_insert(pid);
                    worker.pid == Some(pid)
                });
                if known {
                    self.worker_exited(prototype, worker, status.into());
                }
            }
            FromPrototype::Changed { path } => self.watched_file_changed(prototype, &path),
            FromPrototype::Log { level, message } => {
                self.log(level_of(&level), &message);
            }
        }
    }

    fn worker_forked(&mut self, prototype: u64, number: u32, pid: i32) {
        match self.worker_mut(prototype, number) {
            Some(worker) => {
                worker.pid = Some(pid);
                worker.started(pid);
                if worker.is_doomed {
                    self.context.launcher.kill(pid, SIGKILL);
                }
                self.check_unknown_exit(pid);
            }
            // Its number may be another's by now.
            None => self.context.launcher.kill(pid, SIGKILL),
        }
    }

    fn worker_ready(&mut self, prototype: u64, number: u32, pid: i32) {
        let Some(worker) = self.worker_mut(prototype, number) else {
            self.context.launcher.kill(pid, SIGKILL);
            return;
        };
        if worker.stage != WorkerStage::Starting {
            return;
        }
        worker.stage = WorkerStage::Ready;
        worker.since = Instant::now();
        worker.pid.get_or_insert(pid);
        worker.started(pid);
        if let Some(prototype) = self.prototype_mut(prototype) {
            prototype.has_had_workers = true;
        }
        self.backoff.succeeded();
        self.shared.set_failure(None);
        if self.shared.admission() == Admit::Failing {
            self.shared.set_admission(Admit::Open);
        }
        let name = self.app.name();
        self.log(
            Level::Info,
            &format!("\"{name}\" application started (process {pid})"),
        );
    }

    fn restart(&mut self, reply: oneshot::Sender<Result<(), StartFailure>>) {
        match self.mode {
            Mode::Running if self.roll.is_none() => self.begin_roll(vec![reply]),
            Mode::Running => self.waiting_restarts.push(reply),
            _ => {
                let failure = StartFailure::new(
                    &self.app.spec(),
                    "restart",
                    "the application is not running",
                );
                let _ = reply.send(Err(failure));
            }
        }
    }

    fn failure_of(
        &self,
        prototype: u64,
        mark: u64,
        step: String,
        message: String,
        hint: Option<String>,
    ) -> StartFailure {
        let mut failure = StartFailure::new(&self.app.spec(), step, message);
        failure.hint = hint;
        if let Some(prototype) = self.prototypes.iter().find(|p| p.serial == prototype) {
            prototype.output.drain(self.app.name(), &*self.context.log);
            failure.stderr = prototype.output.tail_since(mark);
        }
        failure
    }

    fn prototype(&self, serial: u64) -> Option<&Prototype> {
        self.prototypes
            .iter()
            .find(|prototype| prototype.serial == serial)
    }

    fn prototype_mut(&mut self, serial: u64) -> Option<&mut Prototype> {
        self.prototypes
            .iter_mut()
            .find(|prototype| prototype.serial == serial)
    }

    fn worker_mut(&mut self, prototype: u64, number: u32) -> Option<&mut Worker> {
        self.workers
            .iter_mut()
            .find(|worker| worker.prototype == prototype && worker.number == number)
    }

    fn log(&self, level: Level, message: &str) {
        self.context.log.log(level, message);
    }

    fn is_over(&self) -> bool {
        matches!(self.mode, Mode::Stopping { .. })
            && self.workers.is_empty()
            && self.prototypes.is_empty()
    }

    fn finish(mut self) {
        if let (Some(started), Some(failure)) = (self.started.take(), self.never_started.take()) {
            let _ = started.send(Err(failure));
        }
        self.shared.set_admission(Admit::Stopped);
        for generation in &self.abandoned {
            generation.close(&ExchangeError::Stopped);
        }
        self.app.generation.load().close(&ExchangeError::Stopped);
        for reply in self.waiting_restarts.drain(..) {
            let failure =
                StartFailure::new(&self.app.spec(), "restart", "the application was stopped");
            let _ = reply.send(Err(failure));
        }
    }
}

fn level_of(name: &str) -> Level {
    match name {
        "alert" => Level::Alert,
        "error" => Level::Error,
        "warn" => Level::Warn,
        "info" => Level::Info,
        "debug" => Level::Debug,
        _ => Level::Notice,
    }
}
