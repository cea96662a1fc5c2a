//! Compares the actual state with the wanted one, and takes the next step.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::mode::{Mode, Retiring, Stopping};
use super::prototype::{QUIT_TIMEOUT, Stage};
use super::scale::{self, Situation};
use super::table::UNBORN_TIMEOUT;
use super::worker::Worker;
use super::{FAST_TICK, QUIET_TICK, Supervisor, TICK};
use crate::generation::Gauge;
use crate::launcher::Level;
use crate::shared::{Admit, Process};
use crate::spec::Processes;

/// Free slots whose memory is kept for the next burst when an application becomes idle.
const WARM_SLOTS: usize = 16;

impl Supervisor {
    /// Runs one round. Returns when the next one is due.
    pub(super) fn reconcile(&mut self, now: Instant) -> Option<Instant> {
        // A dying or damaged worker may have left others asleep: a queue that does not move is woken.
        let generation = self.app.generation.load();
        if generation.segment.oldest_queued().is_some() {
            generation.segment.wake_stalled();
        }
        // Also without requests: no process can be started in a damaged segment.
        if generation.segment.is_damaged() {
            generation.condemn();
        }
        drop(generation);
        self.check_violation();
        self.close_abandoned();
        self.sweep(now);
        self.check_removed(now);
        self.measure(now);
        self.kill_unresponsive(now);
        self.check_starts(now);
        self.check_roll();
        self.table.quit_drained();
        self.table.forget_unborn(now);
        self.table.forget_gone();
        let mut wake = Wake(None);
        if let Some(at) = self.table.next_quit() {
            wake.at(at);
        }
        self.drain_done(now, &mut wake);
        self.bound_done(now, &mut wake);
        if self.check_missing(now) {
            wake.at(now + QUIET_TICK);
        }
        if self
            .table
            .count(|worker| worker.pid.is_none() && worker.is_leaving())
            > 0
        {
            wake.at(now + UNBORN_TIMEOUT);
        }
        match self.mode {
            Mode::Starting => {
                if self.roll.is_none() && self.table.prototypes.is_empty() {
                    self.begin_roll(Vec::new());
                }
                self.fork_for_roll(&mut wake);
            }
            Mode::Running | Mode::Retiring(_) => {
                self.roll_again();
                self.recover(now, &mut wake);
                self.fork_for_roll(&mut wake);
                self.scale(now, &mut wake);
                self.choose_class(now);
                self.check_retired(now, &mut wake);
            }
            Mode::Stopping(Stopping { kill_at }) => self.check_stopped(now, kill_at, &mut wake),
        }
        // Behind the starts, for which workers may have been asked to end.
        self.check_leaving(now, &mut wake);
        self.publish();
        self.report_settled(now);
        self.plan_tick(now, &mut wake);
        wake.0
    }

    /// Starts another roll if a file changed during one that then failed: the change may fix it.
    fn roll_again(&mut self) {
        if self.mode == Mode::Running
            && self.roll.is_none()
            && let Some(replies) = self.next_roll.take()
        {
            self.begin_roll(replies);
        }
    }

    /// Replaces a prototype that has died.
    fn recover(&mut self, now: Instant, wake: &mut Wake) {
        if self.table.current.is_some() || self.roll.is_some() {
            return;
        }
        if let Some(until) = self.backoff.pause_until(now) {
            wake.at(until);
        } else if self.is_wanted() {
            self.begin_roll(Vec::new());
        } else if self.shared.admission() == Admit::Failing {
            // The pause is over: the next request triggers another attempt.
            self.shared.set_admission(Admit::Open);
        }
    }

    /// Replies to waiting callers when there are as many processes as configured, or no more can be started now.
    fn report_settled(&mut self, now: Instant) {
        if self.waiting_settled.is_empty() {
            return;
        }
        let processes = self.app.spec().common.processes;
        let ready = self.table.count(Worker::is_ready);
        let is_right = (processes.initial()..=processes.max()).contains(&ready);
        let is_coming = matches!(self.mode, Mode::Starting | Mode::Running)
            && self.backoff.pause_until(now).is_none();
        if is_right || !is_coming {
            for reply in self.waiting_settled.drain(..) {
                // The caller may have stopped waiting.
                let _ = reply.send(());
            }
        }
    }

    /// Workers that may be starting at once: a start takes a core, which the running workers need, too.
    fn start_capacity(&self) -> u32 {
        (self.context.cores * 2).max(2)
    }

    fn fork_for_roll(&mut self, wake: &mut Wake) {
        let Some(roll) = &self.roll else { return };
        let serial = roll.prototype;
        let have = self
            .table
            .count(|worker| worker.prototype == serial && !worker.is_leaving());
        let starting = self.table.count(Worker::is_starting);
        let wanted = roll.target.saturating_sub(have);
        self.fork(
            serial,
            wanted.min(self.start_capacity().saturating_sub(starting)),
            wake,
        );
        // Completes at once if no worker is wanted.
        self.check_roll();
    }

    fn scale(&mut self, now: Instant, wake: &mut Wake) {
        let Some(serial) = self.table.current else {
            return;
        };
        if let Some(until) = self.backoff.pause_until(now) {
            wake.at(until);
            return;
        }
        if self.shared.admission() == Admit::Failing {
            // The pause is over: the next request triggers another attempt.
            self.shared.set_admission(Admit::Open);
        }
        let generation = self.app.generation.load_full();
        let gauge = generation.gauge();
        let waited = self.oldest_wait(&gauge, now);
        self.suspect_stopped(waited, now);
        self.observe_workers(now);
        let is_current = |worker: &Worker| worker.prototype == serial;
        let queued = gauge.queued + self.shared.waiting.len();
        let situation = Situation {
            running: self.table.count(|w| is_current(w) && w.is_ready()),
            starting: self.table.count(|w| is_current(w) && w.is_starting()),
            fresh: self.table.count(|w| is_current(w) && w.is_fresh(now)),
            taken: self.table.count(|w| is_current(w) && w.is_taken()),
            queued,
            waited,
            asleep: generation.segment.idle_count(),
            start_capacity: self.start_capacity(),
        };
        let mut processes = self.app.spec().common.processes;
        if let (Mode::Retiring(_), Processes::Scaled(scaled)) = (self.mode, &mut processes) {
            scaled.spare = 0;
        }
        let wanted = scale::starts(&processes, &situation);
        let living = situation.running + situation.starting;
        let wanted = self.within_memory(wanted, living, &processes);
        self.fork(serial, wanted, wake);
        self.retire_surplus(now, &processes, wake);
    }

    fn oldest_wait(&self, gauge: &Gauge, now: Instant) -> Duration {
        let waiting = if self.shared.waiting.len() > 0 {
            self.shared.waiting.oldest()
        } else {
            None
        };
        let oldest = match (gauge.oldest, waiting) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        oldest.map_or(Duration::ZERO, |oldest| {
            now.saturating_duration_since(oldest)
        })
    }

    /// Marks the workers that can take nothing: every thread is at the same request as in the last round, or every event loop is full or
    /// does not move.
    fn observe_workers(&mut self, now: Instant) {
        let is_early = self.times.looked.is_some_and(|last| now < last + FAST_TICK);
        if is_early {
            return;
        }
        self.times.looked = Some(now);
        self.shared.signal.unpress();
        // Workers without an event loop have no concurrent requests.
        let concurrency = self.app.spec().concurrency().get();
        for worker in &mut self.table.workers {
            worker.observe(concurrency);
        }
    }

    /// Asks a prototype to fork workers.
    fn fork(&mut self, serial: u64, count: u32, wake: &mut Wake) {
        let spec = self.app.spec();
        let threads = spec.special.threads();
        let random = &mut self.random;
        let missing = self.table.fork(serial, count, threads, || {
            scale::thread_limit(&spec, random)
        });
        if missing > 0 {
            self.free_numbers(serial, missing, wake);
        }
    }

    /// Kills prototypes that do not react: they would keep workers from being started, or never end.
    fn kill_unresponsive(&mut self, now: Instant) {
        let limit = self.app.spec().start_limit();
        for (pid, reason) in self.table.kill_unresponsive(now, limit) {
            let name = self.app.name();
            let text = format!("\"{name}\" prototype process {pid} {reason} and is killed");
            self.log(Level::Alert, &text);
        }
    }

    /// Gives up starts that take too long.
    fn check_starts(&mut self, now: Instant) {
        let spec = self.app.spec();
        let limit = spec.start_limit();
        let hint = spec.special.unready_hint().map(str::to_owned);
        let is_late = |since: Instant| now.saturating_duration_since(since) >= limit;
        let prototype = self
            .table
            .prototypes
            .iter()
            .find(|prototype| prototype.stage == Stage::Starting && is_late(prototype.started))
            .map(|prototype| prototype.serial);
        let worker = self
            .table
            .workers
            .iter()
            .find(|worker| worker.is_starting() && is_late(worker.since))
            .map(|worker| (worker.prototype, worker.number, worker.mark(), worker.since));
        let message = format!(
            "not ready after {} s (`limits.start_timeout`)",
            limit.as_secs()
        );
        if let Some(serial) = prototype {
            let step = "start prototype".to_owned();
            let failure = self.failure_of(serial, 0, step, message, hint);
            let begun = self.begun(serial);
            self.table.end_prototype(serial);
            self.start_failed(Some(serial), begun, failure);
        } else if let Some((serial, number, mark, begun)) = worker {
            let step = "start worker".to_owned();
            let failure = self.failure_of(serial, mark, step, message, hint);
            self.table
                .kill_workers(|worker| worker.prototype == serial && worker.number == number);
            self.start_failed(Some(serial), begun, failure);
        }
    }

    fn check_retired(&mut self, now: Instant, wake: &mut Wake) {
        let Mode::Retiring(Retiring { deadline, .. }) = self.mode else {
            return;
        };
        let is_due = deadline.is_some_and(|deadline| deadline <= now);
        // Only this supervisor holds it: no snapshot can submit any more.
        let is_unused = Arc::strong_count(&self.app) == 1;
        let is_idle = self.shared.waiting.len() == 0 && !self.app.generation.load().is_in_use();
        if is_due || (is_unused && is_idle) {
            self.begin_stop(now);
            wake.at(now);
            return;
        }
        if let Some(deadline) = deadline {
            wake.at(deadline);
        }
        // Dropping the last reference does not wake the supervisor.
        wake.at(now + QUIET_TICK);
    }

    /// Refuses new requests and ends the processes.
    pub(super) fn begin_stop(&mut self, now: Instant) {
        if matches!(self.mode, Mode::Stopping(_)) {
            return;
        }
        let is_in_use = self.app.generation.load().is_in_use();
        // If there are still requests, their deadline has passed.
        let kill_at = if is_in_use { now } else { now + QUIT_TIMEOUT };
        self.mode = self.mode.stopping(kill_at);
        self.shared.set_admission(Admit::Stopped);
        self.roll = None;
        self.table.current = None;
        self.table.drain_workers(|_| true);
        self.table.drain_prototypes(|_| true);
    }

    fn check_stopped(&mut self, now: Instant, kill_at: Instant, wake: &mut Wake) {
        if now < kill_at {
            wake.at(kill_at);
            return;
        }
        self.table.end_all();
        self.table.kill_workers(|_| true);
        // The kill may have come too early for a process that was just being started.
        self.mode = self.mode.stopping(now + QUIT_TIMEOUT);
        wake.at(now + QUIT_TIMEOUT);
    }

    fn publish(&self) {
        let counters = &self.shared.counters;
        let is_stopped = |worker: &Worker| worker.pid.is_some_and(|pid| self.stopped.has(pid));
        let running = self
            .table
            .count(|worker| worker.is_ready() && !is_stopped(worker));
        let stopped = self.stopped.count();
        counters.stopped.store(stopped, Ordering::Release);
        let starting = self.table.count(Worker::is_starting);
        counters.running.store(running, Ordering::Release);
        counters.starting.store(starting, Ordering::Release);
        let generation = self.app.generation.load();
        let mut processes = self.shared.processes();
        processes.clear();
        processes.extend(self.table.workers.iter().filter_map(|worker| {
            let numbers = match Arc::ptr_eq(&worker.generation, &generation) {
                true => worker.numbers(),
                false => 0..0,
            };
            let pid = worker.pid?;
            Some(Process { pid, numbers })
        }));
    }

    fn is_in_use(&self) -> bool {
        self.app.generation.load().is_in_use()
            || self.shared.waiting.len() > 0
            || self
                .abandoned
                .iter()
                .any(|generation| generation.is_in_use())
    }

    /// Decides whether to wake up at intervals.
    fn plan_tick(&mut self, now: Instant, wake: &mut Wake) {
        let is_prototype_starting = self
            .table
            .prototypes
            .iter()
            .any(|prototype| prototype.stage == Stage::Starting);
        if is_prototype_starting || self.table.count(Worker::is_starting) > 0 {
            wake.at(now + self.app.spec().start_limit());
        }
        let was_touched = self.shared.signal.was_touched();
        if self.is_in_use() {
            self.times.quiet_since = None;
            self.shared.signal.set_awake();
            // A queue must be watched closely: a worker may be stuck.
            let is_queued = self.app.generation.load().segment.has_queued();
            let is_urgent = is_queued || self.may_grow();
            wake.at(now + if is_urgent { FAST_TICK } else { TICK });
            return;
        }
        self.shared.signal.unpress();
        let quiet_since = *self.times.quiet_since.get_or_insert(now);
        if was_touched {
            self.times.quiet_since = Some(now);
        } else if now >= quiet_since + QUIET_TICK {
            self.shared.signal.disarm();
            // A request may have come before the signal was disarmed, and so not have woken the supervisor.
            if self.is_in_use() {
                self.shared.signal.set_awake();
            } else {
                self.app.generation.load().segment.trim(WARM_SLOTS);
                self.leave_class();
                return;
            }
        }
        wake.at(now + QUIET_TICK);
    }

    fn may_grow(&self) -> bool {
        let living = self.table.count(|worker| !worker.is_leaving());
        matches!(self.app.spec().common.processes, Processes::Scaled(scaled) if living < scaled.max)
            || living == 0
    }
}

/// The earliest of several times.
pub(super) struct Wake(Option<Instant>);

impl Wake {
    pub(super) fn at(&mut self, at: Instant) {
        self.0 = Some(self.0.map_or(at, |earlier| earlier.min(at)));
    }
}
