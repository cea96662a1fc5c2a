//! Takeover: a new prototype and its first workers start beside the old ones, which are retired only then.
//!
//! The first start, a restart, and the replacement of a dead prototype are all takeovers. New and old workers serve the same segment, so no
//! request is moved and none is lost; if the new ones fail, nothing has changed.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::event::Restarted;
use super::mode::Mode;
use super::prototype::{Prototype, Stage};
use super::start::Roll;
use super::worker::{SIGKILL, Worker};
use super::{Supervisor, scale};
use crate::counters::End;
use crate::error::ExchangeError;
use crate::failure::StartFailure;
use crate::launcher::{AppProcess, Launched, Level};
use crate::runtime::now;
use crate::shared::Admit;

/// If an application has been running before, requests wait for its next process through pauses shorter than this: an external cause may
/// have killed a process before it was ready. After some consecutive failures (0.1, 0.2, 0.4 s) they are refused.
const BEARABLE: Duration = Duration::from_millis(500);

impl Supervisor {
    /// Launches a prototype that is to take over.
    pub(super) fn begin_roll(&mut self, replies: Vec<oneshot::Sender<Restarted>>) {
        let serial = self.table.next_serial();
        let processes = self.app.spec().common.processes;
        let present = self.table.count(Worker::is_ready);
        let target = present.max(processes.initial()).min(processes.max());
        let generation = self.app.generation.load_full();
        let launched =
            Prototype::launch(serial, &self.app, &generation, &self.context, &self.sender);
        // A start of the server launches many applications at once, and no caller waits for a warning.
        let is_trial = self.mode == Mode::Starting && !self.first_start.is_lenient && target == 0;
        self.roll = Some(match is_trial {
            true => Roll::trial(serial),
            false => Roll::new(serial, target, replies),
        });
        match launched {
            Ok(prototype) => self.table.prototypes.push(prototype),
            Err(failure) => self.start_failed(Some(serial), now(), failure),
        }
    }

    pub(super) fn launched(&mut self, serial: u64, result: Result<Launched, StartFailure>) {
        match result {
            Ok(launched) => {
                let is_late = match self.table.prototype_mut(serial) {
                    Some(prototype) => {
                        prototype.pid = Some(launched.pid);
                        prototype.stage == Stage::Ending
                    }
                    None => true,
                };
                if is_late {
                    let prototype = AppProcess::prototype(launched.pid);
                    self.context.launcher.kill(prototype, SIGKILL);
                }
                self.check_unknown_exit(launched.pid);
            }
            Err(failure) => {
                let begun = self.begun(serial);
                self.table
                    .prototypes
                    .retain(|prototype| prototype.serial != serial);
                self.start_failed(Some(serial), begun, failure);
            }
        }
    }

    pub(super) fn prototype_ready(&mut self, serial: u64) {
        if let Some(prototype) = self.table.prototype_mut(serial)
            && prototype.stage == Stage::Starting
        {
            prototype.stage = Stage::Ready;
        }
    }

    /// Completes the takeover when enough new workers are ready.
    pub(super) fn check_roll(&mut self) {
        let Some(roll) = &self.roll else { return };
        let serial = roll.prototype;
        let is_ready = self
            .table
            .prototype(serial)
            .is_some_and(|prototype| prototype.stage == Stage::Ready);
        // A worker that has ended, or is drained, at its request limit counts: under load there may never be as many at once.
        let up = self.table.count(|worker| {
            worker.prototype == serial && (worker.is_ready() || worker.doom == Some(End::Left))
        });
        if !is_ready || up.saturating_add(roll.left) < roll.target {
            return;
        }
        let Some(roll) = self.roll.take() else { return };
        self.table.current = Some(serial);
        self.backoff.succeeded();
        self.shared.set_failure(None);
        if self.shared.admission() == Admit::Failing {
            self.shared.set_admission(Admit::Open);
        }
        self.table
            .drain_workers(|worker| worker.prototype != serial);
        self.table
            .drain_prototypes(|prototype| prototype.serial != serial);
        self.mode = self.mode.started();
        self.first_start.reply_up(None);
        if roll.is_trial {
            self.table
                .drain_workers(|worker| worker.prototype == serial);
        }
        if !self.is_wanted() {
            // The start was only a trial.
            self.release_prototype(serial);
        }
        roll.end(&Ok(()));
        if let Some(replies) = self.next_roll.take() {
            self.begin_roll(replies);
        }
    }

    /// True if a request needs a process, or the configuration asks for some.
    pub(super) fn is_wanted(&self) -> bool {
        self.app.spec().common.processes.initial() > 0
            || self.shared.waiting.len() > 0
            || self.app.generation.load().segment.has_queued()
            || self.table.count(|worker| !worker.is_leaving()) > 0
    }

    /// Ends the current prototype, which has no workers. The next request starts another one.
    fn release_prototype(&mut self, serial: u64) {
        self.table.current = None;
        self.table
            .drain_prototypes(|prototype| prototype.serial == serial);
    }

    /// True if what a prototype lacks at the first start may be supplied later: the configuration asks for no initial process.
    pub(super) fn may_come_later(&self, prototype: u64) -> bool {
        let is_roll = self
            .roll
            .as_ref()
            .is_some_and(|roll| roll.prototype == prototype);
        self.mode == Mode::Starting && is_roll && self.app.spec().common.processes.initial() == 0
    }

    /// Called when the first start showed what is missing. The application is accepted anyway, and its requests are refused with the reason
    /// until it can be started.
    pub(super) fn accept_unstarted(&mut self, prototype: u64, failure: StartFailure) {
        self.be_lenient(&failure);
        self.start_failed(Some(prototype), self.begun(prototype), failure);
    }

    fn be_lenient(&mut self, failure: &StartFailure) {
        self.first_start.reply_up(Some(failure.clone()));
        self.first_start.is_lenient = true;
    }

    /// True if the failed worker belongs to a trial: its prototype was ready.
    fn is_trial_of_a_worker(&self, prototype: Option<u64>) -> bool {
        let trial = self.roll.as_ref().filter(|roll| roll.is_trial);
        let of_trial = trial.and_then(|roll| self.table.prototype(roll.prototype));
        let ready = of_trial.filter(|of_trial| of_trial.stage == Stage::Ready);
        ready.is_some_and(|of_trial| Some(of_trial.serial) == prototype)
    }

    /// When the start of this prototype was begun.
    pub(super) fn begun(&self, prototype: u64) -> Instant {
        let prototype = self.table.prototype(prototype);
        prototype.map_or_else(now, |prototype| prototype.started)
    }

    /// Called when a start that was begun at that time has failed: of a prototype, or of a worker of the current one.
    pub(super) fn start_failed(
        &mut self,
        prototype: Option<u64>,
        begun: Instant,
        failure: StartFailure,
    ) {
        let now = now();
        if self.is_trial_of_a_worker(prototype) {
            self.be_lenient(&failure);
        }
        self.shared.set_failure(Some(failure.clone()));
        self.shared
            .counters
            .failures
            .fetch_add(1, Ordering::Relaxed);
        self.shared.tally.failures.fetch_add(1, Ordering::Relaxed);
        let is_roll = self
            .roll
            .as_ref()
            .is_some_and(|roll| Some(roll.prototype) == prototype);
        let pause = self.backoff.failed(begun, now);
        let is_first = self.mode == Mode::Starting;
        self.log_failure(&failure, is_roll, pause);
        if is_roll && let Some(roll) = self.roll.take() {
            self.table.withdraw_prototype(roll.prototype);
            roll.end(&Err(failure.clone()));
            self.next_roll.refuse(&failure);
        }
        if is_first && !self.first_start.is_lenient {
            self.first_start.reply_at_end(failure);
            self.begin_stop(now);
            return;
        }
        if is_first {
            self.mode = self.mode.started();
            self.first_start.reply(Err(failure.clone()));
        }
        let ready = self.table.count(Worker::is_ready);
        let has_been_up = self
            .table
            .current
            .and_then(|serial| self.table.prototype(serial))
            .is_some_and(|prototype| prototype.has_had_workers && prototype.is_alive());
        if ready == 0 && !(has_been_up && pause < BEARABLE) {
            // No worker takes requests, and it may take long to start one: an answer is better than a wait.
            let reason = Arc::<str>::from(failure.to_string());
            self.shared.set_admission(Admit::Failing);
            self.app
                .generation
                .load()
                .refuse_queued(&ExchangeError::StartFailed(reason));
        }
    }

    fn log_failure(&self, failure: &StartFailure, is_roll: bool, pause: Duration) {
        let is_first = self.mode == Mode::Starting;
        let is_on_demand = self.app.spec().common.processes.initial() == 0;
        let mut line = failure.to_string();
        if !failure.stderr.is_empty() {
            line.push_str("; its last output is above");
        }
        if is_roll && self.table.current.is_some() {
            line.push_str("; the old processes keep running");
        } else if is_on_demand && (self.first_start.is_lenient || !is_first) {
            line.push_str("; requests get 503 until it starts");
        } else if self.first_start.is_lenient || !is_first {
            line.push_str(&format!("; trying again in {} ms", pause.as_millis()));
        }
        let is_awaited = is_first && is_on_demand && self.first_start.is_lenient;
        let level = if is_awaited {
            Level::Warn
        } else {
            Level::Error
        };
        self.log(level, &line);
    }

    /// Called when one of the watched files has changed.
    pub(super) fn watched_file_changed(&mut self, prototype: u64, path: &str) {
        // A change that the prototype being started sees is also seen by the one that it replaces.
        let is_current = self.table.current == Some(prototype);
        if self.mode != Mode::Running || !is_current {
            return;
        }
        let name = self.app.name();
        self.log(
            Level::Notice,
            &format!("\"{name}\" is restarted: `{path}` has changed"),
        );
        if self.roll.is_some() {
            self.next_roll.file_changed();
        } else {
            self.begin_roll(Vec::new());
        }
    }

    /// Called when numbers and limits have changed; the processes are kept.
    pub(super) fn adapt(&mut self) {
        let spec = self.app.spec();
        for worker in &self.table.workers {
            let limit = scale::thread_limit(&spec, &mut self.random);
            for number in worker.numbers() {
                worker.generation.segment.set_request_limit(number, limit);
            }
        }
        if let Some(roll) = &mut self.roll {
            roll.target = roll.target.min(spec.common.processes.max());
        }
    }
}
