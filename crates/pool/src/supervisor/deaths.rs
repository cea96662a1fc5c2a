//! Processes that end, expected or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::roll::SIGKILL;
use super::{Mode, Prototype, Stage, Supervisor, Worker, WorkerStage};
use crate::exchange::ExchangeError;
use crate::generation::{Generation, Interrupted};
use crate::launcher::{ExitStatus, Level};

/// A worker that dies this soon after it came up, without having taken a request, has failed to start: replacing it
/// without a pause would only burn time.
const INFANCY: Duration = Duration::from_secs(1);

/// How often workers without a prototype are looked for.
const ROLL_CALL: Duration = Duration::from_millis(150);

/// Main and a prototype speak through different sockets: the end of a process may be known before its start. Not for
/// long, and the number may be another's afterwards.
const NEWS_DELAY: Duration = Duration::from_secs(1);

/// How long after the death of its prototype a worker that was asked for may still announce itself: its message is in
/// the socket already or never will be.
pub(super) const UNBORN_TIMEOUT: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Main reaped a process.
    pub(super) fn process_exited(&mut self, pid: i32, status: ExitStatus) {
        let worker = self.workers.iter().find(|worker| worker.pid == Some(pid));
        if let Some((prototype, number)) = worker.map(|worker| (worker.prototype, worker.number)) {
            self.worker_exited(prototype, number, status);
            return;
        }
        let prototype = self
            .prototypes
            .iter()
            .find(|prototype| prototype.pid == Some(pid));
        if let Some(serial) = prototype.map(|prototype| prototype.serial) {
            self.prototype_gone(serial, Some(status));
            return;
        }
        let now = Instant::now();
        self.unknown_exits
            .retain(|(_, _, at)| now < *at + NEWS_DELAY);
        self.unknown_exits.push_back((pid, status, now));
    }

    /// The start of this process has just become known; perhaps its end has been for a moment.
    pub(super) fn check_unknown_exit(&mut self, pid: i32) {
        let position = self
            .unknown_exits
            .iter()
            .position(|(unknown, ..)| *unknown == pid);
        if let Some((_, status, at)) = position.and_then(|at| self.unknown_exits.remove(at))
            && at.elapsed() < NEWS_DELAY
        {
            self.process_exited(pid, status);
        }
    }

    /// A worker has ended.
    pub(super) fn worker_exited(&mut self, prototype: u64, number: u32, status: ExitStatus) {
        let position = self
            .workers
            .iter()
            .position(|worker| worker.prototype == prototype && worker.number == number);
        let Some(position) = position else { return };
        let worker = self.workers.swap_remove(position);
        let requests: u64 = worker.snapshots().map(|snapshot| snapshot.requests).sum();
        let pid = worker.pid.unwrap_or(0);
        let verdict = ExchangeError::WorkerDied { pid, how: status };
        let interrupted: Vec<Interrupted> = worker
            .numbers()
            .flat_map(|number| worker.generation.worker_died(number, &verdict))
            .collect();
        let name = Arc::clone(self.app.name());
        for request in &interrupted {
            self.log(
                Level::Error,
                &format!("\"{name}\" application process {pid} {status} while serving {request}"),
            );
        }
        match worker.stage {
            WorkerStage::Starting => self.worker_not_started(worker, status),
            WorkerStage::Leaving => {}
            WorkerStage::Ready if status == ExitStatus::Code(0) => {
                self.log(
                    Level::Info,
                    &format!("\"{name}\" application process {pid} left after {requests} requests"),
                );
            }
            WorkerStage::Ready => {
                if interrupted.is_empty() {
                    self.log(
                        Level::Error,
                        &format!("\"{name}\" application process {pid} {status}"),
                    );
                }
                self.shared
                    .counters
                    .restarts
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let is_young = requests == 0 && worker.since.elapsed() < INFANCY;
                if is_young && !self.died_with_prototype(prototype, status) {
                    self.worker_not_started(worker, status);
                }
            }
        }
    }

    /// The kernel kills the workers of a prototype in a pid namespace of its own with it, and nobody sees how they end. That
    /// says nothing about the application: the next prototype will.
    fn died_with_prototype(&self, serial: u64, status: ExitStatus) -> bool {
        let is_alive = self.prototype(serial).is_some_and(Prototype::is_alive);
        !is_alive && matches!(status, ExitStatus::Unknown | ExitStatus::Signal(SIGKILL))
    }

    fn worker_not_started(&mut self, worker: Worker, status: ExitStatus) {
        let prototype = worker.prototype;
        let failure = worker.failure.unwrap_or_else(|| {
            let message = format!("a new process {status} before it was ready");
            self.failure_of(
                prototype,
                worker.mark,
                "start worker".to_owned(),
                message,
                None,
            )
        });
        self.start_failed(Some(prototype), failure);
    }

    /// A prototype has ended (`status` known if main said so), or its control socket has closed.
    pub(super) fn prototype_gone(&mut self, serial: u64, status: Option<ExitStatus>) {
        let Some(prototype) = self.prototype_mut(serial) else {
            return;
        };
        if status.is_some() {
            prototype.has_exited = true;
        }
        let stage = prototype.stage;
        if status.is_none() && !prototype.has_exited {
            // Its exit is about to be reported and has the reason. A host that closed its control socket and lives on
            // is of no use either.
            if let Some(pid) = prototype.pid {
                self.context.launcher.kill(pid, SIGKILL);
            }
            return;
        }
        if stage == Stage::Gone {
            return;
        }
        prototype.stage = Stage::Gone;
        let status = status.unwrap_or(ExitStatus::Unknown);
        let pid = prototype.pid.unwrap_or(0);
        self.drop_unborn(serial);
        let is_roll = self
            .roll
            .as_ref()
            .is_some_and(|roll| roll.prototype == serial);
        if is_roll {
            let message = format!("the prototype process {status} before the application was up");
            let failure = self.failure_of(serial, 0, "start prototype".to_owned(), message, None);
            self.start_failed(Some(serial), failure);
        } else if self.current == Some(serial) {
            self.current = None;
            let name = Arc::clone(self.app.name());
            if !matches!(self.mode, Mode::Stopping { .. }) {
                self.shared
                    .counters
                    .restarts
                    .fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                self.log(
                    Level::Error,
                    &format!(
                        "\"{name}\" prototype process {pid} {status}; its application processes go on until it is replaced"
                    ),
                );
            }
        }
    }

    /// Workers of a dead prototype that are not up: nobody will say that they are. Their numbers are not given out again
    /// while they may live; main tells when they have ended.
    fn drop_unborn(&mut self, serial: u64) {
        self.kill_workers(|worker| {
            let is_up = worker.stage != WorkerStage::Starting && worker.pid.is_some();
            worker.prototype == serial && !is_up
        });
    }

    /// Forgets workers that were asked for and, it seems, never forked before their prototype died.
    pub(super) fn forget_unborn(&mut self, now: Instant) {
        let prototypes = &self.prototypes;
        self.workers.retain(|worker| {
            let has_prototype = prototypes
                .iter()
                .any(|prototype| prototype.serial == worker.prototype && prototype.is_alive());
            has_prototype || worker.pid.is_some() || now < worker.since + UNBORN_TIMEOUT
        });
    }

    /// Finds workers whose end nobody reports: the prototype had taken their exit status and died before it could say so.
    /// True while there are workers that such a thing can happen to.
    pub(super) fn bury_missing(&mut self, now: Instant) -> bool {
        let prototypes = &self.prototypes;
        let mut orphans = self
            .workers
            .iter_mut()
            .filter(|worker| {
                let prototype = prototypes.iter().find(|p| p.serial == worker.prototype);
                prototype.is_none_or(|prototype| !prototype.is_alive())
            })
            .peekable();
        if orphans.peek().is_none() {
            return false;
        }
        if self
            .last_roll_call
            .is_some_and(|last| now < last + ROLL_CALL)
        {
            return true;
        }
        self.last_roll_call = Some(now);
        let mut lost = Vec::new();
        for worker in orphans {
            let is_gone = worker
                .pid
                .is_some_and(|pid| !tutti_sys::signal::exists(pid));
            // Main may have reaped it just now: its news has until the next look, and tells how it ended.
            if is_gone && worker.is_missing {
                lost.push((worker.prototype, worker.number));
            }
            worker.is_missing = is_gone;
        }
        for (prototype, number) in lost {
            self.worker_exited(prototype, number, ExitStatus::Unknown);
        }
        true
    }

    /// Kills workers that wrote what no sound worker writes; replaces the segment if it is damaged.
    pub(super) fn check_violation(&mut self) {
        let generation = self.app.generation.load_full();
        for number in generation.take_offenders() {
            let pid = self.pid_of(&generation, number);
            if pid == 0 {
                // No such worker: what says so is damaged as well.
                generation.condemn();
                continue;
            }
            let name = self.app.name();
            self.log(
                Level::Alert,
                &format!("\"{name}\" application process {pid} sent an impossible response head and is killed"),
            );
            self.context.launcher.kill(pid, SIGKILL);
        }
        if !generation.is_violated() {
            return;
        }
        let name = self.app.name();
        self.log(
            Level::Alert,
            &format!("\"{name}\": an application process damaged the shared memory; all its processes are replaced"),
        );
        let fresh = match Generation::create(&self.shared, &self.context) {
            Ok(fresh) => fresh,
            Err(error) => {
                // Tried again at the next look; the flag is still set.
                self.log(
                    Level::Alert,
                    &format!("\"{name}\": cannot create shared memory: {error}"),
                );
                return;
            }
        };
        self.app.generation.store(fresh);
        generation.fail_all(&ExchangeError::Violation);
        let serials: Vec<u64> = self
            .prototypes
            .iter()
            .map(|prototype| prototype.serial)
            .collect();
        for serial in serials {
            self.end_prototype(serial);
        }
        self.kill_workers(|_| true);
        self.current = None;
        self.abandoned.push(generation);
        if self.mode != Mode::Starting {
            self.roll = None;
        }
        self.shared.waiting.wake_all();
    }

    /// Frees what is left in given-up segments when nobody can touch them any more.
    pub(super) fn close_abandoned(&mut self) {
        let workers = &self.workers;
        self.abandoned.retain(|generation| {
            let is_used = workers
                .iter()
                .any(|worker| Arc::ptr_eq(&worker.generation, generation));
            if !is_used {
                generation.close(&ExchangeError::Violation);
            }
            is_used
        });
    }

    /// Forgets prototypes that are gone and have no workers left.
    pub(super) fn forget_gone(&mut self) {
        let workers = &self.workers;
        self.prototypes.retain(|prototype: &Prototype| {
            prototype.stage != Stage::Gone
                || workers
                    .iter()
                    .any(|worker| worker.prototype == prototype.serial)
        });
    }
}
