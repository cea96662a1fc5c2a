//! The supervisor of one application: keeps the right number of workers running, and cleans up when they end.
//!
//! One task per application on the control thread; only it changes the set of processes. Everything reaches it as an [`Event`]; after each
//! it *reconciles*: compares the actual state with the wanted one and takes the next step. It wakes up at short intervals only while there
//! are requests.
//!
//! Must never happen: a request is left in the queue of a segment that no worker will ever serve; two workers have the same number; a
//! process outlives its application.

mod class;
mod control_socket;
mod deaths;
mod event;
mod exits;
mod limits;
mod mode;
mod prototype;
mod reconcile;
mod roll;
mod scale;
mod stalled;
mod start;
mod stopped;
mod surplus;
mod table;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tutti_log::LineLimit;
use tutti_wire::control::{FromPrototype, ToPrototype};

pub use self::control_socket::number_of;
use self::event::Restarted;
pub(crate) use self::event::{Event, Handle, Started};
use self::exits::{Exits, MissingWorkers};
use self::mode::Mode;
use self::scale::Backoff;
pub(crate) use self::start::OnFailure;
use self::start::{FirstStart, NextRoll, Roll};
use self::stopped::Stopped;
use self::table::ProcessTable;
use self::worker::{SIGKILL, Worker};
use crate::application::ApplicationPool;
use crate::context::Context;
use crate::error::ExchangeError;
use crate::failure::StartFailure;
use crate::generation::Generation;
use crate::launcher::{AppProcess, Level};
use crate::runtime;
use crate::shared::{Admit, Shared};

/// The interval while a pool may have to grow.
const FAST_TICK: Duration = Duration::from_millis(10);

/// The interval while there are requests but the pool is at its largest: the resolution of `limits.timeout`.
const TICK: Duration = Duration::from_millis(50);

/// The interval after the last request, before it sleeps.
const QUIET_TICK: Duration = Duration::from_millis(200);

/// Minimum interval between log lines about memory that does not permit more workers.
const WARNING_INTERVAL: Duration = Duration::from_secs(60);

/// Most worker numbers in a segment, [`tutti_wire::layout::MAX_WORKERS`]; half of them are reserved for workers that are
/// draining, after a takeover or at their limits.
pub(crate) const MAX_PROCESSES: u32 = tutti_wire::layout::MAX_WORKERS / 2;

// The configuration caps `processes` at it.
const _: () = assert!(MAX_PROCESSES == tutti_options::processes::MOST_WORKERS);

/// When the supervisor last did its periodic work.
#[derive(Debug, Default)]
struct Times {
    /// Checked the progress of the workers.
    looked: Option<Instant>,
    /// Measured their memory.
    measured: Option<Instant>,
    /// Chose their scheduling class.
    class_chosen: Option<Instant>,
    /// Since when there has been no request.
    quiet_since: Option<Instant>,
}

/// See the module.
pub(crate) struct Supervisor {
    app: Arc<ApplicationPool>,
    shared: Arc<Shared>,
    context: Arc<Context>,
    events: UnboundedReceiver<Event>,
    sender: UnboundedSender<Event>,
    mode: Mode,
    first_start: FirstStart,
    table: ProcessTable,
    /// The takeover in progress.
    roll: Option<Roll>,
    next_roll: NextRoll,
    /// Callers that wait for the right number of processes.
    waiting_settled: Vec<oneshot::Sender<()>>,
    backoff: Backoff,
    /// Abandoned segments, until their workers have ended.
    abandoned: Vec<Arc<Generation>>,
    exits: Exits,
    missing: MissingWorkers,
    stopped: Stopped,
    times: Times,
    /// Rate limit of the warning about memory.
    memory_warnings: LineLimit,
    random: scale::Random,
}

impl Supervisor {
    /// Starts a supervisor. The receiver gets the result of the first start. After a failure the application ends or is tried again.
    pub(crate) fn spawn(
        app: Arc<ApplicationPool>,
        context: Arc<Context>,
        on_failure: OnFailure,
    ) -> (Handle, oneshot::Receiver<Started>) {
        let (sender, events) = unbounded_channel();
        let (started, is_started) = oneshot::channel();
        let supervisor = Supervisor {
            shared: Arc::clone(&app.shared),
            app,
            table: ProcessTable::new(Arc::clone(&context)),
            context,
            events,
            sender: sender.clone(),
            mode: Mode::Starting,
            first_start: FirstStart::new(started, on_failure),
            roll: None,
            next_roll: NextRoll::default(),
            waiting_settled: Vec::new(),
            backoff: Backoff::default(),
            abandoned: Vec::new(),
            exits: Exits::default(),
            missing: MissingWorkers::default(),
            stopped: Stopped::default(),
            times: Times::default(),
            memory_warnings: LineLimit::new(WARNING_INTERVAL, 1),
            random: scale::Random::new(),
        };
        runtime::spawn(supervisor.run());
        (Handle::new(sender), is_started)
    }

    async fn run(mut self) {
        loop {
            let wake = self.reconcile(runtime::now());
            if self.is_over() {
                break;
            }
            let shared = Arc::clone(&self.shared);
            let sleep = async {
                match wake {
                    Some(at) => runtime::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                // In a fixed order, which a simulation repeats: all events are handled below in any case.
                biased;
                event = self.events.recv() => {
                    if let Some(event) = event {
                        self.handle(event);
                    }
                }
                () = shared.signal.raised() => {}
                () = sleep => {}
            }
            // All events that have arrived are handled before the next round.
            while let Ok(event) = self.events.try_recv() {
                self.handle(event);
            }
            self.handle_exits();
            self.answer_questions();
        }
        self.finish();
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Launched { prototype, result } => self.launched(prototype, result),
            Event::Message { prototype, message } => self.message(prototype, message),
            Event::Closed { prototype } => self.prototype_gone(prototype, None),
            Event::Exited { pid, status } => self.exits.report(pid, status),
            Event::Restart(reply) => self.restart(reply),
            Event::Retire { deadline } => {
                self.mode = self.mode.retired(deadline, runtime::now());
            }
            Event::Watch { limit } => self.watch(limit),
            Event::Adapt => self.adapt(),
            Event::Settle(reply) => self.waiting_settled.push(reply),
            Event::Reopen => {
                for prototype in self
                    .table
                    .prototypes
                    .iter()
                    .filter(|prototype| prototype.is_alive())
                {
                    prototype.send(&ToPrototype::Reopen);
                }
            }
        }
    }

    /// Handles the ends that main reported, after the last messages of the processes: main's report may overtake them.
    fn handle_exits(&mut self) {
        loop {
            let exits = self.exits.take();
            if exits.is_empty() {
                return;
            }
            self.handle_last_messages();
            for (pid, status) in exits {
                self.process_exited(pid, status);
            }
        }
    }

    fn handle_last_messages(&mut self) {
        let mut last_messages = Vec::new();
        // The messages of one that is not known to be launched are handled after that.
        let launched = self.table.prototypes.iter();
        for prototype in launched.filter(|prototype| prototype.pid.is_some()) {
            while let Some(message) = prototype.receive_now() {
                last_messages.push((prototype.serial, message));
            }
        }
        for (prototype, message) in last_messages {
            self.message(prototype, message);
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
                    self.start_failed(Some(prototype), self.begun(prototype), failure);
                }
            }
            FromPrototype::Forked { worker, pid } => {
                self.worker_forked(prototype, worker, pid);
            }
            FromPrototype::ForkFailed { worker, message } => {
                let worker = self.table.take_worker(prototype, worker);
                let begun = worker.map_or_else(runtime::now, |worker| worker.since);
                let failure = self.failure_of(prototype, 0, "fork".to_owned(), message, None);
                self.start_failed(Some(prototype), begun, failure);
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
                    .table
                    .worker_mut(prototype, worker)
                    .map_or(0, |worker| worker.mark());
                let failure = self
                    .failure_of(prototype, mark, step, message, hint)
                    .at(member.as_deref());
                if let Some(worker) = self.table.worker_mut(prototype, worker) {
                    worker.failed(failure);
                }
            }
            FromPrototype::Exited {
                worker,
                pid,
                status,
            } => {
                let known = self
                    .table
                    .worker_mut(prototype, worker)
                    .is_some_and(|worker| {
                        worker.pid.get_or_insert(pid);
                        worker.pid == Some(pid)
                    });
                if known {
                    self.worker_exited(prototype, worker, status.into());
                }
            }
            FromPrototype::Changed { path } => self.watched_file_changed(prototype, &path),
            FromPrototype::StartsPrograms => self.shared.note_programs(),
            FromPrototype::Warning {
                message,
                hint,
                member,
            } => {
                let spec = self.app.spec();
                let warning = StartFailure::new(&spec, "option", message).at(member.as_deref());
                self.first_start.warn(match hint {
                    Some(hint) => warning.with_hint(hint),
                    None => warning,
                });
            }
            FromPrototype::Log { level, message } => {
                self.log(level, &message);
            }
            FromPrototype::Unknown => {}
        }
    }

    fn worker_forked(&mut self, prototype: u64, number: u32, pid: i32) {
        let Some(process) = self.process_of(prototype, pid) else {
            return;
        };
        let launcher = &*self.context.launcher;
        match self.table.worker_mut(prototype, number) {
            Some(worker) => {
                worker.forked(pid, launcher);
                self.check_unknown_exit(pid);
            }
            None => launcher.kill(process, SIGKILL),
        }
    }

    /// The process that a prototype names as one of its workers; `None`, after the prototype is killed: the process is not of this
    /// prototype. Only the application's code says that, so that limits of its own are applied to another application's process.
    fn process_of(&mut self, serial: u64, pid: i32) -> Option<AppProcess> {
        let prototype = self.table.prototype(serial)?.pid?;
        // One that has ended is of no prototype; main refuses to signal another that has got its id.
        if runtime::is_of(pid, prototype).unwrap_or(true) {
            return Some(AppProcess { prototype, pid });
        }
        let name = self.app.name();
        self.log(
            Level::Alert,
            &format!("\"{name}\" prototype process {prototype} names process {pid} as its own, which is not, and is killed"),
        );
        self.prototype_gone(serial, None);
        None
    }

    fn worker_ready(&mut self, prototype: u64, number: u32, pid: i32) {
        let is_forked = |worker: &mut Worker| worker.pid.is_some();
        let is_known = self
            .table
            .worker_mut(prototype, number)
            .is_some_and(is_forked);
        // The process that was forked counts, even if a child of it reports that it is ready.
        if !is_known {
            let Some(process) = self.process_of(prototype, pid) else {
                return;
            };
            if self.table.worker_mut(prototype, number).is_none() {
                self.context.launcher.kill(process, SIGKILL);
            }
        }
        let Some(worker) = self.table.worker_mut(prototype, number) else {
            return;
        };
        if !worker.became_ready(pid, runtime::now()) {
            return;
        }
        if let Some(prototype) = self.table.prototype_mut(prototype) {
            prototype.has_had_workers = true;
        }
        self.backoff.succeeded();
        self.shared.set_failure(None);
        self.shared.counters.started.store(true, Ordering::Relaxed);
        if self.shared.admission() == Admit::Failing {
            self.shared.set_admission(Admit::Open);
        }
        let name = self.app.name();
        self.log(
            Level::Info,
            &format!("\"{name}\" application started (process {pid})"),
        );
    }

    fn restart(&mut self, reply: oneshot::Sender<Restarted>) {
        match self.mode {
            Mode::Running if self.roll.is_none() => self.begin_roll(vec![reply]),
            Mode::Running => self.next_roll.ask(reply),
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
        if let Some(prototype) = self.table.prototype(prototype) {
            prototype.output.drain(self.app.name(), &*self.context.log);
            failure.stderr = prototype.output.tail_since(mark);
        }
        failure
    }

    fn log(&self, level: Level, message: &str) {
        self.context.log.log(level, message);
    }

    fn is_over(&self) -> bool {
        matches!(self.mode, Mode::Stopping(_)) && self.table.is_empty()
    }

    fn finish(mut self) {
        assert!(
            self.table.is_empty(),
            "a process would outlive its application"
        );
        self.first_start.end();
        self.shared.set_admission(Admit::Stopped);
        for generation in &self.abandoned {
            generation.close(&ExchangeError::Stopped);
        }
        self.app.generation.load().close(&ExchangeError::Stopped);
        self.next_roll.refuse(&StartFailure::new(
            &self.app.spec(),
            "restart",
            "the application was stopped",
        ));
    }
}
