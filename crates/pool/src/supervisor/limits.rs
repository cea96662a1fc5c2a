//! Limits on requests and workers: time, drain time, memory.
//!
//! All are measured from outside, so they hold for every language, and for a worker that hangs. A worker that exceeds a time limit is asked
//! where it is ([`WHERE_SIGNAL`]), and killed [`GRACE`] later.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_wire::control::WHERE_SIGNAL;

use super::Supervisor;
use super::mode::{Mode, Retiring};
use super::reconcile::Wake;
use super::worker::{Done, SIGKILL, Worker};
use crate::counters::End;
use crate::error::ExchangeError;
use crate::generation::{GRACE, Generation, Overdue};
use crate::launcher::{AppProcess, Level};
use crate::runtime::now;

/// Interval between measurements of the memory of workers: one costs a few microseconds (`/proc/PID/statm`).
const MEASURE_INTERVAL: Duration = Duration::from_millis(100);

/// Measuring takes at most about one part in so many of the time.
const MEASURE_SHARE: u32 = 200;

/// The cost of measuring one worker: an open, a read and a close.
const MEASURE_COST: Duration = Duration::from_micros(10);

/// Time for a worker that takes no more requests, as at its limit of them, to end. Most need a moment: their places are free for others
/// then. One with a response that has no end, or a WebSocket, would hold its place for ever. No request waits for that time.
const OWN_END: Duration = Duration::from_secs(1);

/// A process id for a message; empty for a worker that has just ended.
fn number(process: Option<AppProcess>) -> String {
    process.map_or_else(String::new, |process| format!(" {}", process.pid))
}

impl Supervisor {
    /// Ends overdue requests, and kills workers that hang.
    pub(super) fn sweep(&mut self, now: Instant) {
        let mut overdue = Vec::new();
        let current = self.app.generation.load_full();
        current.sweep(now, &mut overdue);
        let name = Arc::clone(self.app.name());
        for found in overdue {
            match found {
                Overdue::Cancelled {
                    worker,
                    serves_others,
                    line,
                } => {
                    let process = self.table.process_of(&current, worker);
                    self.log(
                        Level::Warn,
                        &format!("\"{name}\" application process{} exceeds the time limit with `{line}`; answered 504", number(process)),
                    );
                    if let Some(process) = process {
                        self.ask_where(process);
                    }
                    if !serves_others {
                        self.replace_late(&current, worker);
                    }
                }
                Overdue::Stuck { worker, line } => {
                    let process = self.table.process_of(&current, worker);
                    self.log(
                        Level::Error,
                        &format!("\"{name}\" application process{} does not finish `{line}` and is killed", number(process)),
                    );
                    if let Some(worker) = self.table.worker_at(&current, worker) {
                        worker.doom = Some(End::Timeout);
                    }
                    if let Some(process) = process {
                        self.context.launcher.kill(process, SIGKILL);
                    }
                }
            }
        }
    }

    fn ask_where(&self, process: AppProcess) {
        self.context.launcher.kill(process, WHERE_SIGNAL);
    }

    /// Asks the workers of slow requests where they are; nothing else happens to them.
    pub(super) fn answer_questions(&self) {
        let current = self.app.generation.load_full();
        let former = self.table.workers.iter().map(|worker| &worker.generation);
        for generation in former.chain([&current]) {
            for question in generation.take_questions() {
                let worker = generation.worker_at(question.slot, question.serial);
                let process = worker.and_then(|worker| self.table.process_of(generation, worker));
                if let Some(process) = process.filter(|one| self.shared.answers.expect(one.pid)) {
                    // The caller may have gone: then the answer is discarded.
                    let _ = question.reply.send(process.pid);
                    self.ask_where(process);
                }
            }
        }
    }

    /// Starts another worker at once in place of one that hangs: the requests that wait for it have deadlines, too.
    fn replace_late(&mut self, generation: &Arc<Generation>, number: u32) {
        let worker = self.table.worker_at(generation, number);
        if let Some(worker) = worker.filter(|worker| worker.is_ready()) {
            worker.drain(now());
            self.shared.note_restart();
        }
    }

    /// Drains workers that take no more requests and do not end: others are started in their place, and `limits.drain_timeout` applies to
    /// the requests that they still serve.
    pub(super) fn drain_done(&mut self, now: Instant, wake: &mut Wake) {
        let done = self.table.workers.iter_mut();
        let done: Vec<_> = done.map(|worker| worker.done(now)).collect();
        if done.iter().all(Option::is_none) {
            return;
        }
        let is_any_waiting =
            self.shared.waiting.len() > 0 || self.app.generation.load().segment.has_queued();
        let is_awaited = is_any_waiting && !self.table.workers.iter().any(Worker::takes_requests);
        let name = self.app.name();
        for (worker, done) in self.table.workers.iter_mut().zip(done) {
            let Some(Done { since, is_final }) = done else {
                continue;
            };
            let why = match now < since + OWN_END {
                true if is_awaited && is_final => "while others wait",
                true => {
                    wake.at(since + OWN_END);
                    continue;
                }
                false => "and has not ended",
            };
            worker.doom.get_or_insert(End::Left);
            worker.drain(now);
            let pid = number(worker.process());
            self.context.log.log(
                Level::Info,
                &format!(
                    "\"{name}\" application process{pid} takes no more requests {why}: another one is started"
                ),
            );
        }
    }

    /// Limits the number of the workers that are drained because they take no more requests: with the others, they use no more memory than
    /// a restart. Those that end within [`OWN_END`] do not count.
    pub(super) fn bound_done(&mut self, now: Instant, wake: &mut Wake) {
        let most = self.app.spec().common.processes.max();
        let is_done = |worker: &Worker| worker.is_draining() && worker.doom == Some(End::Left);
        let count = self.table.count(is_done);
        if count <= most {
            return;
        }
        let late = |worker: &Worker| is_done(worker) && now >= worker.since + OWN_END;
        let surplus = self.table.count(late).saturating_sub(most);
        let why = "more than `processes` are draining";
        self.end_oldest(surplus, now, is_done, why, wake);
    }

    /// Makes room for `count` workers in the segment of a prototype, whose numbers are all in use: ends the time of the workers that have
    /// been draining for the longest time, and for longer than [`OWN_END`]: requests of others may be about to end.
    pub(super) fn free_numbers(&mut self, prototype: u64, count: u32, wake: &mut Wake) {
        let Some(prototype) = self.table.prototype(prototype) else {
            return;
        };
        let generation = Arc::clone(&prototype.generation);
        let is_in_it = |worker: &Worker| Arc::ptr_eq(&worker.generation, &generation);
        let ending =
            |worker: &Worker| is_in_it(worker) && worker.is_leaving() && !worker.is_draining();
        let missing = count.saturating_sub(self.table.count(ending));
        let draining = |worker: &Worker| is_in_it(worker) && worker.is_draining();
        let why = "another process needs its place";
        self.end_oldest(missing, now(), draining, why, wake);
    }

    /// Ends the time of those `count` draining workers for which `is_meant` holds that have been draining for the longest time, and for
    /// longer than [`OWN_END`]; wakes up when that is over for the next.
    fn end_oldest(
        &mut self,
        count: u32,
        now: Instant,
        is_meant: impl Fn(&Worker) -> bool,
        why: &str,
        wake: &mut Wake,
    ) {
        let mut oldest = Vec::new();
        for (index, worker) in self.table.workers.iter().enumerate() {
            let end = worker.since + OWN_END;
            match is_meant(worker) {
                true if now < end => wake.at(end),
                true => oldest.push((worker.since, index)),
                false => {}
            }
        }
        oldest.sort_unstable();
        for (_, index) in oldest.into_iter().take(count as usize) {
            self.end_time_of(index, now, why);
        }
    }

    /// Limits the time of draining workers.
    pub(super) fn check_leaving(&mut self, now: Instant, wake: &mut Wake) {
        let drain = self.app.spec().common.limits.drain_timeout.0;
        for index in 0..self.table.workers.len() {
            let Some(worker) = self.table.workers.get(index) else {
                break;
            };
            if !worker.is_leaving() {
                continue;
            }
            match worker.asked_at {
                None => match drain.map(|drain| worker.since + drain) {
                    None => {}
                    Some(end) if now < end => wake.at(end),
                    Some(_) => {
                        self.end_time_of(index, now, "`limits.drain_timeout` is over");
                        wake.at(now + GRACE);
                    }
                },
                Some(asked_at) if now < asked_at + GRACE => wake.at(asked_at + GRACE),
                Some(_) => self.kill_stuck(index, now),
            }
        }
    }

    /// Answers the requests of a worker, and asks it where it is.
    fn end_time_of(&mut self, index: usize, now: Instant, why: &str) {
        let name = Arc::clone(self.app.name());
        let Some(worker) = self.table.workers.get_mut(index) else {
            return;
        };
        worker.asked_at = Some(now);
        let process = worker.process();
        let pid = number(process);
        let lines: Vec<String> = worker
            .numbers()
            .flat_map(|number| worker.generation.overrun(number, &ExchangeError::Drained))
            .collect();
        for line in &lines {
            self.log(
                Level::Warn,
                &format!("\"{name}\" application process{pid} is draining and still serving `{line}`: {why}; answered 504"),
            );
        }
        if lines.is_empty() {
            self.log(
                Level::Warn,
                &format!("\"{name}\" application process{pid} was to end and has not: {why}"),
            );
        }
        if let Some(process) = process {
            self.ask_where(process);
        }
    }

    fn kill_stuck(&mut self, index: usize, now: Instant) {
        let name = Arc::clone(self.app.name());
        let Some(worker) = self.table.workers.get_mut(index) else {
            return;
        };
        // If the process does not react even to this (in the kernel, on a dead disk), it is repeated.
        worker.asked_at = Some(now);
        worker.doom = Some(End::Timeout);
        if let Some(process) = worker.process() {
            let pid = process.pid;
            self.log(
                Level::Error,
                &format!("\"{name}\" application process {pid} does not end and is killed"),
            );
            self.context.launcher.kill(process, SIGKILL);
        }
    }

    /// After the drain time of a removed application: its remaining requests are cancelled, then their workers killed with the rest.
    pub(super) fn check_removed(&mut self, now: Instant) {
        let Mode::Retiring(Retiring {
            deadline: None,
            since,
        }) = self.mode
        else {
            return;
        };
        let Some(drain) = self.app.spec().common.limits.drain_timeout.0 else {
            return;
        };
        if now < since + drain {
            return;
        }
        self.mode = self.mode.retired(Some(now + GRACE), now);
        for index in 0..self.table.workers.len() {
            let is_asked = self
                .table
                .workers
                .get(index)
                .is_none_or(|worker| worker.asked_at.is_some());
            if !is_asked {
                self.end_time_of(
                    index,
                    now,
                    "the application was removed and `limits.drain_timeout` is over",
                );
            }
        }
    }

    /// Measures the memory of the workers. Those above `limits.memory` end after their request, those above `limits.memory_max` are killed.
    pub(super) fn measure(&mut self, now: Instant) {
        let limits = &self.app.spec().common.limits;
        let (soft, hard) = (limits.memory.0, limits.kill_above());
        if soft.is_none() && hard.is_none() {
            return;
        }
        let count = u32::try_from(self.table.workers.len()).unwrap_or(u32::MAX);
        let interval =
            MEASURE_INTERVAL.max(MEASURE_COST * count.min(MEASURE_SHARE * 100) * MEASURE_SHARE);
        if self
            .times
            .measured
            .is_some_and(|last| now < last + interval)
        {
            return;
        }
        self.times.measured = Some(now);
        let name = Arc::clone(self.app.name());
        let (log, launcher) = (&self.context.log, &self.context.launcher);
        let memory = match self.shared.starts_programs() {
            true => tutti_sys::proc::rss_of_family,
            false => tutti_sys::proc::rss,
        };
        for worker in &mut self.table.workers {
            let Some(pid) = worker.pid.filter(|_| !worker.is_starting()) else {
                continue;
            };
            // A process that has just ended uses none.
            let used = memory(pid).unwrap_or(0);
            if hard.is_some_and(|hard| used > hard) {
                log.log(
                    Level::Error,
                    &format!("\"{name}\" application process {pid} uses {used} bytes of memory, more than `limits.memory_max`, and is killed"),
                );
                worker.doom = Some(End::Memory);
                worker.signal(SIGKILL, &**launcher);
                continue;
            }
            if !worker.is_ready() || soft.is_none_or(|soft| used <= soft) {
                continue;
            }
            if worker.snapshots().any(|snapshot| snapshot.requests > 0) {
                log.log(
                    Level::Info,
                    &format!("\"{name}\" application process {pid} uses {used} bytes of memory, more than `limits.memory`, and is replaced"),
                );
                worker.doom = Some(End::Memory);
                worker.drain(now);
            } else if worker.is_size_news() {
                // A replacement would be just as large.
                log.log(
                    Level::Warn,
                    &format!("\"{name}\" application process {pid} uses {used} bytes of memory before its first request, more than `limits.memory`"),
                );
            }
        }
    }
}
