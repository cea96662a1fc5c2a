//! Taking over: a new prototype and its first workers come up beside the old ones, which leave only then.
//!
//! The first start, a restart, and the replacement of a dead prototype are all this. New and old workers serve the same
//! segment, so no request is moved and none is lost; if the new ones fail, nothing has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use tutti_wire::control::ToPrototype;

use super::{Mode, Prototype, Stage, Supervisor, Worker, WorkerStage, scale};
use crate::exchange::ExchangeError;
use crate::failure::StartFailure;
use crate::launcher::{Launched, Level};
use crate::shared::Admit;

/// Where an application has been up, requests wait for its next process through pauses shorter than this: something from outside may
/// have killed a process before it was ready. After some failures in a row (0.1, 0.2, 0.4 s) they are refused.
const BEARABLE: Duration = Duration::from_millis(500);

/// A takeover under way.
#[derive(Debug)]
pub(super) struct Roll {
    /// The new prototype.
    pub(super) prototype: u64,
    /// How many of its workers must be up.
    pub(super) target: u32,
    /// Who asked for it.
    replies: Vec<oneshot::Sender<Result<(), StartFailure>>>,
}

impl Supervisor {
    /// Launches a prototype that is to take over.
    pub(super) fn begin_roll(&mut self, replies: Vec<oneshot::Sender<Result<(), StartFailure>>>) {
        let serial = self.next_serial;
        self.next_serial += 1;
        let processes = self.app.spec().processes;
        let present = self.count(|worker| worker.stage == WorkerStage::Ready);
        let target = present.max(processes.initial()).min(processes.max());
        let generation = self.app.generation.load_full();
        let launched =
            Prototype::launch(serial, &self.app, &generation, &self.context, &self.sender);
        self.roll = Some(Roll {
            prototype: serial,
            target,
            replies,
        });
        match launched {
            Ok(prototype) => self.prototypes.push(prototype),
            Err(failure) => self.start_failed(Some(serial), failure),
        }
    }

    pub(super) fn launched(&mut self, serial: u64, result: Result<Launched, StartFailure>) {
        match result {
            Ok(launched) => {
                let is_late = match self.prototype_mut(serial) {
                    Some(prototype) => {
                        prototype.pid = Some(launched.pid);
                        prototype.stage == Stage::Ending
                    }
                    None => true,
                };
                if is_late {
                    self.context.launcher.kill(launched.pid, SIGKILL);
                }
                self.check_unknown_exit(launched.pid);
            }
            Err(failure) => {
                self.prototypes
                    .retain(|prototype| prototype.serial != serial);
                self.start_failed(Some(serial), failure);
            }
        }
    }

    pub(super) fn prototype_ready(&mut self, serial: u64) {
        if let Some(prototype) = self.prototype_mut(serial)
            && prototype.stage == Stage::Starting
        {
            prototype.stage = Stage::Ready;
        }
    }

    /// Completes the takeover when enough new workers are up.
    pub(super) fn check_roll(&mut self) {
        let Some(roll) = &self.roll else { return };
        let serial = roll.prototype;
        let is_ready = self
            .prototype(serial)
            .is_some_and(|prototype| prototype.stage == Stage::Ready);
        let up =
            self.count(|worker| worker.prototype == serial && worker.stage == WorkerStage::Ready);
        if !is_ready || up < roll.target {
            return;
        }
        let Some(roll) = self.roll.take() else { return };
        self.current = Some(serial);
        self.backoff.succeeded();
        self.shared.set_failure(None);
        if self.shared.admission() == Admit::Failing {
            self.shared.set_admission(Admit::Open);
        }
        for index in 0..self.workers.len() {
            if self
                .workers
                .get(index)
                .is_some_and(|worker| worker.prototype != serial)
            {
                self.tell_to_leave(index);
            }
        }
        for prototype in &mut self.prototypes {
            if prototype.serial != serial
                && matches!(prototype.stage, Stage::Starting | Stage::Ready)
            {
                prototype.stage = Stage::Draining;
            }
        }
        if self.mode == Mode::Starting {
            self.mode = Mode::Running;
        }
        if let Some(started) = self.started.take() {
            let _ = started.send(Ok(None));
        }
        if !self.is_wanted() {
            // It was only to be seen that it can be started.
            self.release_prototype(serial);
        }
        for reply in roll.replies {
            let _ = reply.send(Ok(()));
        }
        let waiting = std::mem::take(&mut self.waiting_restarts);
        if !waiting.is_empty() || std::mem::take(&mut self.has_changed) {
            self.begin_roll(waiting);
        }
    }

    /// Whether anybody needs a process, or the configuration asks for some.
    pub(super) fn is_wanted(&self) -> bool {
        self.app.spec().processes.initial() > 0
            || self.shared.waiting.len() > 0
            || self.app.generation.load().segment.has_queued()
            || self
                .count(|worker| matches!(worker.stage, WorkerStage::Starting | WorkerStage::Ready))
                > 0
    }

    /// Lets the current prototype go, which has no workers. The next request starts another one.
    fn release_prototype(&mut self, serial: u64) {
        self.current = None;
        if let Some(prototype) = self.prototype_mut(serial) {
            prototype.stage = Stage::Draining;
        }
    }

    /// Whether what a prototype misses at the first start may come later: the configuration asks for no process before the
    /// first request.
    pub(super) fn may_come_later(&self, prototype: u64) -> bool {
        let is_roll = self
            .roll
            .as_ref()
            .is_some_and(|roll| roll.prototype == prototype);
        self.mode == Mode::Starting && is_roll && self.app.spec().processes.initial() == 0
    }

    /// The first start showed what is missing. The application is there all the same, and its requests are told until it can
    /// be started.
    pub(super) fn accept_unstarted(&mut self, prototype: u64, failure: StartFailure) {
        if let Some(started) = self.started.take() {
            let _ = started.send(Ok(Some(failure.clone())));
        }
        self.is_lenient = true;
        self.start_failed(Some(prototype), failure);
    }

    /// Something could not be started: a prototype, or a worker of the current one.
    pub(super) fn start_failed(&mut self, prototype: Option<u64>, failure: StartFailure) {
        let now = Instant::now();
        self.shared.set_failure(Some(failure.clone()));
        self.shared
            .counters
            .failures
            .fetch_add(1, Ordering::Relaxed);
        let is_roll = self
            .roll
            .as_ref()
            .is_some_and(|roll| Some(roll.prototype) == prototype);
        let pause = self.backoff.failed(now);
        let is_first = self.mode == Mode::Starting;
        self.tell_failure(&failure, is_roll, pause);
        if is_roll && let Some(roll) = self.roll.take() {
            self.withdraw_prototype(roll.prototype);
            for reply in roll.replies {
                let _ = reply.send(Err(failure.clone()));
            }
            for reply in self.waiting_restarts.drain(..) {
                let _ = reply.send(Err(failure.clone()));
            }
        }
        if is_first && !self.is_lenient {
            self.never_started = Some(failure);
            self.begin_stop(now);
            return;
        }
        if is_first {
            self.mode = Mode::Running;
            if let Some(started) = self.started.take() {
                let _ = started.send(Err(failure.clone()));
            }
        }
        let anybody =
            self.count(|worker| matches!(worker.stage, WorkerStage::Ready | WorkerStage::Leaving));
        let has_been_up = self
            .current
            .and_then(|serial| self.prototype(serial))
            .is_some_and(|prototype| prototype.has_had_workers && prototype.is_alive());
        if anybody == 0 && !(has_been_up && pause < BEARABLE) {
            // Nobody is there to serve, and it may take long until somebody is: better an answer than a wait.
            let reason = Arc::<str>::from(failure.to_string());
            self.shared.set_admission(Admit::Failing);
            self.app
                .generation
                .load()
                .refuse_queued(&ExchangeError::StartFailed(reason));
        }
    }

    fn tell_failure(&self, failure: &StartFailure, is_roll: bool, pause: Duration) {
        let is_first = self.mode == Mode::Starting;
        let is_on_demand = self.app.spec().processes.initial() == 0;
        let mut line = failure.to_string();
        if !failure.stderr.is_empty() {
            line.push_str("; its last output is above");
        }
        if is_roll && self.current.is_some() {
            line.push_str("; the old processes go on");
        } else if is_on_demand && (self.is_lenient || !is_first) {
            line.push_str("; requests get 503 until it starts");
        } else if self.is_lenient || !is_first {
            line.push_str(&format!("; trying again in {} ms", pause.as_millis()));
        }
        let is_awaited = is_first && is_on_demand && self.is_lenient;
        let level = if is_awaited {
            Level::Warn
        } else {
            Level::Error
        };
        self.log(level, &line);
    }

    /// One of the files that the application watches has changed.
    pub(super) fn watched_file_changed(&mut self, prototype: u64, path: &str) {
        // What the prototype that is about to take over sees, the one it replaces sees too.
        let is_current = self.current == Some(prototype);
        if self.mode != Mode::Running || !is_current {
            return;
        }
        let name = self.app.name();
        self.log(
            Level::Notice,
            &format!("\"{name}\" is restarted: `{path}` has changed"),
        );
        if self.roll.is_some() {
            self.has_changed = true;
        } else {
            self.begin_roll(Vec::new());
        }
    }

    /// Numbers and limits have changed; the processes go on.
    pub(super) fn adapt(&mut self) {
        let spec = self.app.spec();
        for worker in &self.workers {
            let limit = scale::request_limit(spec.limits.requests, &mut self.random);
            worker
                .generation
                .segment
                .set_request_limit(worker.number, limit);
        }
        if let Some(roll) = &mut self.roll {
            roll.target = roll.target.min(spec.processes.max());
        }
    }

    /// Lets a prototype go that is not to take over after all. Those of its workers that are up may be serving already.
    fn withdraw_prototype(&mut self, serial: u64) {
        let serving = |worker: &Worker| {
            worker.prototype == serial
                && matches!(worker.stage, WorkerStage::Ready | WorkerStage::Leaving)
        };
        if !self.workers.iter().any(serving) {
            self.end_prototype(serial);
            return;
        }
        self.kill_workers(|worker| {
            worker.prototype == serial && worker.stage == WorkerStage::Starting
        });
        for index in 0..self.workers.len() {
            let is_its = |worker: &Worker| worker.prototype == serial;
            if self.workers.get(index).is_some_and(is_its) {
                self.tell_to_leave(index);
            }
        }
        if let Some(prototype) = self.prototype_mut(serial)
            && matches!(prototype.stage, Stage::Starting | Stage::Ready)
        {
            prototype.stage = Stage::Draining;
        }
    }

    /// Kills a prototype that is not wanted and its workers.
    pub(super) fn end_prototype(&mut self, serial: u64) {
        self.kill_workers(|worker| worker.prototype == serial);
        let launcher = Arc::clone(&self.context.launcher);
        if let Some(prototype) = self.prototype_mut(serial)
            && prototype.stage != Stage::Gone
        {
            prototype.stage = Stage::Ending;
            if let Some(pid) = prototype.pid {
                launcher.kill(pid, SIGKILL);
            }
        }
    }

    /// Kills those workers of which `is_doomed` says so.
    pub(super) fn kill_workers(&mut self, is_doomed: impl Fn(&Worker) -> bool) {
        for worker in self.workers.iter_mut().filter(|worker| is_doomed(worker)) {
            worker.stage = WorkerStage::Leaving;
            worker.since = Instant::now();
            worker.is_doomed = true;
            if let Some(pid) = worker.pid {
                self.context.launcher.kill(pid, SIGKILL);
            }
        }
    }

    /// Tells a worker to leave after what it is doing.
    pub(super) fn tell_to_leave(&mut self, index: usize) {
        let Some(worker) = self.workers.get_mut(index) else {
            return;
        };
        if worker.stage != WorkerStage::Leaving {
            worker.stage = WorkerStage::Leaving;
            worker.since = Instant::now();
            for number in worker.numbers() {
                worker.generation.segment.tell_worker_to_quit(number);
            }
        }
    }

    /// Quits prototypes whose workers have left.
    pub(super) fn quit_drained(&mut self) {
        for prototype in &mut self.prototypes {
            if prototype.stage == Stage::Draining
                && !self
                    .workers
                    .iter()
                    .any(|worker| worker.prototype == prototype.serial)
                && prototype.send(&ToPrototype::Quit)
            {
                prototype.stage = Stage::Ending;
                prototype.started = Instant::now();
            }
        }
    }
}

/// signal(7)
pub(super) const SIGKILL: i32 = 9;
