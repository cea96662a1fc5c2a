//! Comparing what there is with what there should be, and taking the next step.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tutti_wire::control::ToPrototype;

use super::deaths::UNBORN_TIMEOUT;
use super::roll::SIGKILL;
use super::scale::{self, Situation};
use super::{
    FAST_TICK, Mode, QUIET_TICK, QUIT_TIMEOUT, Stage, Supervisor, TICK, Worker, WorkerStage,
};
use crate::generation::Gauge;
use crate::shared::Admit;
use crate::spec::Processes;

/// Free slots whose memory is kept for the next burst when an application falls quiet.
const WARM_SLOTS: usize = 16;

impl Supervisor {
    pub(super) fn count(&self, is_counted: impl Fn(&Worker) -> bool) -> u32 {
        u32::try_from(
            self.workers
                .iter()
                .filter(|worker| is_counted(worker))
                .count(),
        )
        .unwrap_or(u32::MAX)
    }

    /// One look. Returns when to look again at the latest.
    pub(super) fn reconcile(&mut self, now: Instant) -> Option<Instant> {
        self.check_violation();
        self.close_abandoned();
        // Whatever a dying or damaged worker may have left asleep: a queue that does not move is woken.
        let generation = self.app.generation.load();
        if generation.segment.oldest_queued().is_some() {
            generation.segment.wake_stalled();
            if generation.segment.is_damaged() {
                generation.condemn();
            }
        }
        drop(generation);
        self.sweep(now);
        self.check_removed(now);
        self.measure(now);
        self.check_starts(now);
        self.check_roll();
        self.quit_drained();
        self.forget_unborn(now);
        self.forget_gone();
        let mut wake = Wake(None);
        self.check_leaving(now, &mut wake);
        if self.bury_missing(now) {
            wake.at(now + QUIET_TICK);
        }
        if self
            .workers
            .iter()
            .any(|worker| worker.pid.is_none() && worker.stage == WorkerStage::Leaving)
        {
            wake.at(now + UNBORN_TIMEOUT);
        }
        match self.mode {
            Mode::Starting => {
                if self.roll.is_none() && self.prototypes.is_empty() {
                    self.begin_roll(Vec::new());
                }
                self.fork_for_roll();
            }
            Mode::Running | Mode::Retiring { .. } => {
                self.recover(now, &mut wake);
                self.fork_for_roll();
                self.scale(now, &mut wake);
                self.check_retired(now, &mut wake);
            }
            Mode::Stopping { kill_at } => self.check_stopped(now, kill_at, &mut wake),
        }
        self.publish();
        self.tell_settled(now);
        self.plan_tick(now, &mut wake);
        wake.0
    }

    /// Replaces a prototype that has died.
    fn recover(&mut self, now: Instant, wake: &mut Wake) {
        if self.current.is_some() || self.roll.is_some() {
            return;
        }
        if let Some(until) = self.backoff.pause_until(now) {
            wake.at(until);
        } else if self.is_wanted() {
            self.begin_roll(Vec::new());
        } else if self.shared.admission() == Admit::Failing {
            // The pause is over: the next request is what it is tried for again.
            self.shared.set_admission(Admit::Open);
        }
    }

    /// Tells those who wait for it that there are as many processes as there should be, or that no more can be had now.
    fn tell_settled(&mut self, now: Instant) {
        if self.waiting_settled.is_empty() {
            return;
        }
        let processes = self.app.spec().processes;
        let ready = self.count(|worker| worker.stage == WorkerStage::Ready);
        let is_right = (processes.initial()..=processes.max()).contains(&ready);
        let is_coming = matches!(self.mode, Mode::Starting | Mode::Running)
            && self.backoff.pause_until(now).is_none();
        if is_right || !is_coming {
            for reply in self.waiting_settled.drain(..) {
                // Who does not wait any more needs no answer.
                let _ = reply.send(());
            }
        }
    }

    /// Workers that may be in the making at once: starting one takes a core, and the running ones need theirs too.
    fn start_capacity(&self) -> u32 {
        (self.context.cores * 2).max(2)
    }

    fn fork_for_roll(&mut self) {
        let Some(roll) = &self.roll else { return };
        let serial = roll.prototype;
        let have =
            self.count(|worker| worker.prototype == serial && worker.stage != WorkerStage::Leaving);
        let starting = self.count(|worker| worker.stage == WorkerStage::Starting);
        let wanted = roll.target.saturating_sub(have);
        self.fork(
            serial,
            wanted.min(self.start_capacity().saturating_sub(starting)),
        );
        // Nothing to wait for when no worker is wanted.
        self.check_roll();
    }

    fn scale(&mut self, now: Instant, wake: &mut Wake) {
        let Some(serial) = self.current else { return };
        if let Some(until) = self.backoff.pause_until(now) {
            wake.at(until);
            return;
        }
        if self.shared.admission() == Admit::Failing {
            // The pause is over: the next request may try again.
            self.shared.set_admission(Admit::Open);
        }
        let generation = self.app.generation.load_full();
        let gauge = generation.gauge();
        self.observe_workers(now);
        let is_current = |worker: &Worker| worker.prototype == serial;
        let queued = gauge.queued + self.shared.waiting.len();
        let situation = Situation {
            running: self.count(|w| is_current(w) && w.stage == WorkerStage::Ready),
            starting: self.count(|w| is_current(w) && w.stage == WorkerStage::Starting),
            taken: self.count(|w| is_current(w) && w.stage == WorkerStage::Ready && w.is_taken),
            queued,
            waited: self.oldest_wait(&gauge, now),
            asleep: generation.segment.idle_count(),
            start_capacity: self.start_capacity(),
        };
        let mut processes = self.app.spec().processes;
        if let (Mode::Retiring { .. }, Processes::Dynamic { spare, .. }) =
            (self.mode, &mut processes)
        {
            *spare = 0;
        }
        let wanted = scale::starts(&processes, &situation);
        let living = situation.running + situation.starting;
        let wanted = self.within_memory(wanted, living, &processes, now);
        self.fork(serial, wanted);
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

    /// Marks the workers that can take nothing: every thread is at the same request as at the last look, or every event loop
    /// is full or does not move.
    fn observe_workers(&mut self, now: Instant) {
        let is_early = self.last_look.is_some_and(|last| now < last + FAST_TICK);
        if is_early {
            return;
        }
        self.last_look = Some(now);
        self.shared.signal.unpress();
        let host = &self.app.spec().host;
        // Workers without an event loop have nothing open in this sense.
        let concurrency = host.concurrency();
        for worker in &mut self.workers {
            let mut seen = 0u64;
            let mut is_full = true;
            let mut is_moving = false;
            for snapshot in worker.snapshots() {
                seen = seen.wrapping_add(snapshot.requests.wrapping_add(snapshot.looks));
                is_full &= snapshot.open >= concurrency;
                is_moving |= !snapshot.is_busy() || snapshot.asleep;
            }
            worker.is_taken = is_full || (!is_moving && seen == worker.seen);
            worker.seen = seen;
        }
    }

    /// Asks for workers, each with the lowest number that is free.
    fn fork(&mut self, serial: u64, count: u32) {
        let Some(prototype) = self.prototype(serial) else {
            return;
        };
        if prototype.stage != Stage::Ready {
            return;
        }
        let generation = Arc::clone(&prototype.generation);
        let mark = prototype.output.mark();
        let threads = self.app.spec().host.numbers();
        let numbers = generation.segment.layout().workers;
        let mut number = 0;
        for _ in 0..count {
            let is_taken = |number: u32| {
                self.workers.iter().any(|worker| {
                    worker.number == number && Arc::ptr_eq(&worker.generation, &generation)
                })
            };
            // Each process has a block of numbers.
            while number + threads <= numbers && is_taken(number) {
                number += threads;
            }
            let limit = scale::request_limit(self.app.spec().limits.requests, &mut self.random);
            for number in number..number + threads {
                generation
                    .segment
                    .set_request_limit(number, limit.div_ceil(u64::from(threads)));
            }
            let fork = ToPrototype::Fork {
                worker: number,
                threads,
            };
            let sent = number + threads <= numbers
                && self
                    .prototype(serial)
                    .is_some_and(|prototype| prototype.send(&fork));
            if !sent {
                return;
            }
            self.workers.push(Worker {
                number,
                threads,
                prototype: serial,
                generation: Arc::clone(&generation),
                pid: None,
                stage: WorkerStage::Starting,
                since: Instant::now(),
                mark,
                failure: None,
                is_missing: false,
                seen: 0,
                is_taken: false,
                told_at: None,
                is_large: false,
                is_doomed: false,
            });
        }
    }

    /// Gives up on starts that take too long.
    fn check_starts(&mut self, now: Instant) {
        let limit = self.app.spec().limits.start;
        let is_late = |since: Instant| now.saturating_duration_since(since) >= limit;
        let prototype = self
            .prototypes
            .iter()
            .find(|prototype| prototype.stage == Stage::Starting && is_late(prototype.started))
            .map(|prototype| prototype.serial);
        let worker = self
            .workers
            .iter()
            .find(|worker| worker.stage == WorkerStage::Starting && is_late(worker.since))
            .map(|worker| (worker.prototype, worker.number, worker.mark, worker.pid));
        let message = format!(
            "not ready after {} s (`limits.start_timeout`)",
            limit.as_secs()
        );
        if let Some(serial) = prototype {
            let step = "start prototype".to_owned();
            let failure = self.failure_of(serial, 0, step, message, None);
            self.end_prototype(serial);
            self.start_failed(Some(serial), failure);
        } else if let Some((serial, number, mark, pid)) = worker {
            let step = "start worker".to_owned();
            let failure = self.failure_of(serial, mark, step, message, None);
            if let Some(worker) = self.worker_mut(serial, number) {
                worker.stage = WorkerStage::Leaving;
            }
            if let Some(pid) = pid {
                self.context.launcher.kill(pid, SIGKILL);
            }
            self.start_failed(Some(serial), failure);
        }
    }

    fn check_retired(&mut self, now: Instant, wake: &mut Wake) {
        let Mode::Retiring { deadline, .. } = self.mode else {
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
        // The last holder does not tell when it lets go.
        wake.at(now + QUIET_TICK);
    }

    /// Takes no more requests and lets the processes go.
    pub(super) fn begin_stop(&mut self, now: Instant) {
        if matches!(self.mode, Mode::Stopping { .. }) {
            return;
        }
        let is_in_use = self.app.generation.load().is_in_use();
        // With requests still there the deadline has passed: nobody waits for those any more.
        let kill_at = if is_in_use { now } else { now + QUIT_TIMEOUT };
        self.mode = Mode::Stopping { kill_at };
        self.shared.set_admission(Admit::Stopped);
        self.roll = None;
        self.current = None;
        for index in 0..self.workers.len() {
            self.tell_to_leave(index);
        }
        for prototype in &mut self.prototypes {
            if matches!(prototype.stage, Stage::Starting | Stage::Ready) {
                prototype.stage = Stage::Draining;
            }
        }
    }

    fn check_stopped(&mut self, now: Instant, kill_at: Instant, wake: &mut Wake) {
        if now < kill_at {
            wake.at(kill_at);
            return;
        }
        let serials: Vec<u64> = self
            .prototypes
            .iter()
            .map(|prototype| prototype.serial)
            .collect();
        for serial in serials {
            self.end_prototype(serial);
        }
        for worker in &self.workers {
            if let Some(pid) = worker.pid {
                self.context.launcher.kill(pid, SIGKILL);
            }
        }
        // A kill may have been too early for a process that was just being started.
        self.mode = Mode::Stopping {
            kill_at: now + QUIT_TIMEOUT,
        };
        wake.at(now + QUIT_TIMEOUT);
    }

    fn publish(&self) {
        let counters = &self.shared.counters;
        let running = self.count(|worker| worker.stage == WorkerStage::Ready);
        let starting = self.count(|worker| worker.stage == WorkerStage::Starting);
        counters.running.store(running, Ordering::Release);
        counters.starting.store(starting, Ordering::Release);
    }

    fn is_in_use(&self) -> bool {
        self.app.generation.load().is_in_use()
            || self.shared.waiting.len() > 0
            || self
                .abandoned
                .iter()
                .any(|generation| generation.is_in_use())
    }

    /// Decides whether to keep looking at intervals.
    fn plan_tick(&mut self, now: Instant, wake: &mut Wake) {
        if self
            .workers
            .iter()
            .any(|worker| worker.stage == WorkerStage::Starting)
            || self
                .prototypes
                .iter()
                .any(|prototype| prototype.stage == Stage::Starting)
        {
            wake.at(now + self.app.spec().limits.start);
        }
        let was_touched = self.shared.signal.was_touched();
        if self.is_in_use() {
            self.quiet_since = None;
            self.shared.signal.set_awake();
            // A queue has to be watched closely: a worker that others rely on may be stuck.
            let is_queued = self.app.generation.load().segment.has_queued();
            let is_urgent = is_queued || self.may_grow();
            wake.at(now + if is_urgent { FAST_TICK } else { TICK });
            return;
        }
        self.shared.signal.unpress();
        let quiet_since = *self.quiet_since.get_or_insert(now);
        if was_touched {
            self.quiet_since = Some(now);
        } else if now >= quiet_since + QUIET_TICK {
            self.shared.signal.disarm();
            // A request may have come before the signal was disarmed and seen it armed.
            if self.is_in_use() {
                self.shared.signal.set_awake();
            } else {
                self.app.generation.load().segment.trim(WARM_SLOTS);
                return;
            }
        }
        wake.at(now + QUIET_TICK);
    }

    fn may_grow(&self) -> bool {
        let living = self.count(|worker| worker.stage != WorkerStage::Leaving);
        matches!(self.app.spec().processes, Processes::Dynamic { max, .. } if living < max)
            || living == 0
    }
}

/// The earliest of several moments.
pub(super) struct Wake(Option<Instant>);

impl Wake {
    pub(super) fn at(&mut self, at: Instant) {
        self.0 = Some(self.0.map_or(at, |earlier| earlier.min(at)));
    }
}
