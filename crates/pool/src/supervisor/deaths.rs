//! Handles the ends of processes, expected or not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::Supervisor;
use super::exits::Look;
use super::mode::Mode;
use super::prototype::{Prototype, Stage};
use super::worker::{Ended, Report, SIGKILL};
use crate::counters::End;
use crate::error::ExchangeError;
use crate::generation::{Generation, Interrupted};
use crate::launcher::{AppProcess, Level, ProcessExit};
use crate::runtime::now;

/// A worker that dies this soon after it became ready, without having taken a request, counts as a failed start: replacing it without a
/// pause would only burn time.
const INFANCY: Duration = Duration::from_secs(1);

/// Why a worker ended; `doom` as in [`Worker`](super::worker::Worker).
fn end_of(doom: Option<End>, ended: &Ended, status: ProcessExit) -> End {
    match (doom, ended) {
        // It was about to end by itself, and may still have failed.
        (Some(End::Left), Ended::Leaving) | (None, Ended::WhileReady { .. }) => match status {
            ProcessExit::Code(0) => End::Left,
            ProcessExit::Code(_) => End::Exit,
            ProcessExit::Signal(SIGKILL) => End::Killed,
            ProcessExit::Signal(_) => End::Signal,
            ProcessExit::Unknown => End::Unknown,
        },
        (Some(doom), _) => doom,
        (None, Ended::BeforeReady(_)) => End::Start,
        (None, Ended::Leaving | Ended::Killed) => End::Retired,
    }
}

impl Supervisor {
    /// Called when main has reaped a process.
    pub(super) fn process_exited(&mut self, pid: i32, status: ProcessExit) {
        let workers = &self.table.workers;
        let worker = workers.iter().find(|worker| worker.pid == Some(pid));
        if let Some((prototype, number)) = worker.map(|worker| (worker.prototype, worker.number)) {
            self.worker_exited(prototype, number, status);
            return;
        }
        let prototypes = &self.table.prototypes;
        let prototype = prototypes
            .iter()
            .find(|prototype| prototype.pid == Some(pid));
        match prototype.map(|prototype| prototype.serial) {
            Some(serial) => self.prototype_gone(serial, Some(status)),
            None => self.exits.keep_unknown(pid, status),
        }
    }

    /// Called when the start of this process becomes known: its end may have been reported already. That is handled after its last
    /// messages.
    pub(super) fn check_unknown_exit(&mut self, pid: i32) {
        if let Some(status) = self.exits.take_unknown(pid) {
            self.exits.report(pid, status);
        }
    }

    /// Called when a worker has ended.
    pub(super) fn worker_exited(&mut self, prototype: u64, number: u32, status: ProcessExit) {
        let Some(worker) = self.table.take_worker(prototype, number) else {
            return;
        };
        let requests = worker.requests();
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
        let since = worker.since;
        let doom = worker.doom;
        let ended = worker.ended();
        let end = end_of(doom, &ended, status);
        self.shared.tally.note_end(end);
        if end == End::Left
            && let Some(roll) = &mut self.roll
            && roll.prototype == prototype
        {
            roll.left = roll.left.saturating_add(1);
        }
        match ended {
            Ended::BeforeReady(report) => {
                self.worker_not_started(prototype, since, report, status, "before it was ready");
            }
            Ended::Killed => {}
            Ended::Leaving => {
                // The server has logged why it kills one that exceeds a limit.
                let is_ours = matches!(doom, Some(End::Timeout | End::Memory))
                    && status == ProcessExit::Signal(SIGKILL);
                if doom == Some(End::Left) && end != End::Left {
                    self.shared.note_restart();
                }
                if status == ProcessExit::Code(0) && doom == Some(End::Left) {
                    self.log_own_end(pid, requests);
                } else if status != ProcessExit::Code(0) && !is_ours && interrupted.is_empty() {
                    self.log(
                        Level::Error,
                        &format!(
                            "\"{name}\" application process {pid} {status} while it was draining"
                        ),
                    );
                }
            }
            Ended::WhileReady { .. } if status == ProcessExit::Code(0) => {
                self.log_own_end(pid, requests);
            }
            Ended::WhileReady { report, since } => {
                if interrupted.is_empty() {
                    self.log(
                        Level::Error,
                        &format!("\"{name}\" application process {pid} {status}"),
                    );
                }
                self.shared.note_restart();
                let is_young = requests == 0 && now().saturating_duration_since(since) < INFANCY;
                if is_young && !self.died_with_prototype(prototype, status) {
                    let moment = "before its first request";
                    self.worker_not_started(prototype, since, report, status, moment);
                }
            }
        }
    }

    fn log_own_end(&self, pid: i32, requests: u64) {
        let name = self.app.name();
        self.log(
            Level::Info,
            &format!("\"{name}\" application process {pid} ended after {requests} requests"),
        );
    }

    /// True if the worker was killed together with its prototype: the kernel kills the workers in a pid namespace with its prototype, and
    /// their exit status is lost. That does not count against the application: the start of the next prototype will show whether it works.
    fn died_with_prototype(&self, serial: u64, status: ProcessExit) -> bool {
        let is_alive = self
            .table
            .prototype(serial)
            .is_some_and(Prototype::is_alive);
        !is_alive && matches!(status, ProcessExit::Unknown | ProcessExit::Signal(SIGKILL))
    }

    fn worker_not_started(
        &mut self,
        prototype: u64,
        begun: Instant,
        report: Report,
        status: ProcessExit,
        moment: &str,
    ) {
        let failure = report.failure.unwrap_or_else(|| {
            let message = format!("a new process {status} {moment}");
            let step = "start worker".to_owned();
            self.failure_of(prototype, report.mark, step, message, None)
        });
        self.start_failed(Some(prototype), begun, failure);
    }

    /// Called when a prototype has ended (`status` is known if main reported it), or its control socket has closed.
    pub(super) fn prototype_gone(&mut self, serial: u64, status: Option<ProcessExit>) {
        let Some(prototype) = self.table.prototype_mut(serial) else {
            return;
        };
        if status.is_some() {
            prototype.has_exited = true;
        }
        let stage = prototype.stage;
        if status.is_none() && !prototype.has_exited {
            // Its exit is about to be reported, with the reason. A host that closed its control socket and keeps running is of no use
            // either.
            if let Some(pid) = prototype.pid {
                let prototype = AppProcess::prototype(pid);
                self.context.launcher.kill(prototype, SIGKILL);
            }
            return;
        }
        if stage == Stage::Gone {
            return;
        }
        prototype.stage = Stage::Gone;
        let status = status.unwrap_or(ProcessExit::Unknown);
        let pid = prototype.pid.unwrap_or(0);
        self.table.kill_unborn(serial);
        let is_roll = self
            .roll
            .as_ref()
            .is_some_and(|roll| roll.prototype == serial);
        if is_roll {
            let message = format!("the prototype process {status} before the application was up");
            let failure = self.failure_of(serial, 0, "start prototype".to_owned(), message, None);
            self.start_failed(Some(serial), self.begun(serial), failure);
        } else if self.table.current == Some(serial) {
            self.table.current = None;
            let name = Arc::clone(self.app.name());
            if !matches!(self.mode, Mode::Stopping(_)) {
                self.shared.note_restart();
                self.log(
                    Level::Error,
                    &format!(
                        "\"{name}\" prototype process {pid} {status}; its application processes keep running until it is replaced"
                    ),
                );
            }
        }
    }

    /// Handles the ends of workers that are not reported. Returns true while there are workers to which that can happen.
    pub(super) fn check_missing(&mut self, now: Instant) -> bool {
        match self.missing.look(&self.table, now) {
            Look::Unneeded => false,
            Look::Lost(lost) => {
                for (prototype, number) in lost {
                    self.worker_exited(prototype, number, ProcessExit::Unknown);
                }
                true
            }
        }
    }

    /// Kills workers that wrote invalid data; replaces the segment if it is damaged.
    pub(super) fn check_violation(&mut self) {
        let generation = self.app.generation.load_full();
        for number in generation.take_offenders() {
            let Some(process) = self.table.process_of(&generation, number) else {
                // There is no such worker, so the report itself is damaged.
                generation.condemn();
                continue;
            };
            let name = self.app.name();
            self.log(
                Level::Alert,
                &format!(
                    "\"{name}\" application process {} sent an impossible response head and is killed",
                    process.pid
                ),
            );
            self.context.launcher.kill(process, SIGKILL);
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
                // Repeated in the next round; the flag is still set.
                self.log(
                    Level::Alert,
                    &format!("\"{name}\": cannot create shared memory: {error}"),
                );
                return;
            }
        };
        self.app.generation.store(fresh);
        generation.fail_all(&ExchangeError::Violation);
        self.table.end_all();
        self.table.kill_workers(|_| true);
        self.abandoned.push(generation);
        if self.mode != Mode::Starting {
            self.roll = None;
        }
        self.shared.waiting.wake_all();
    }

    /// Frees the rest of abandoned segments that no process can use any more.
    pub(super) fn close_abandoned(&mut self) {
        let workers = &self.table.workers;
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
}
