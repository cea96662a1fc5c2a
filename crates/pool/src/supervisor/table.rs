//! The processes of one application: its prototypes and their workers.
//!
//! Owned by the supervisor, which makes the decisions; this file finds, signals and kills processes. Must never happen: two workers with
//! the same number in a segment, or a process that is not recorded and never killed.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_wire::control::ToPrototype;

use super::prototype::{Prototype, QUIT_TIMEOUT, Stage};
use super::worker::{Numbers, Parent, SIGKILL, Worker};
use crate::context::Context;
use crate::generation::Generation;
use crate::launcher::AppProcess;
use crate::runtime::now;

/// Time after the death of its prototype in which a requested worker may appear: the message about it is in the socket already, or never
/// will be.
pub(super) const UNBORN_TIMEOUT: Duration = Duration::from_secs(1);

/// Prototypes and workers.
pub(super) struct ProcessTable {
    context: Arc<Context>,
    pub(super) prototypes: Vec<Prototype>,
    pub(super) workers: Vec<Worker>,
    /// The prototype that forks new workers.
    pub(super) current: Option<u64>,
    next_serial: u64,
}

impl ProcessTable {
    pub(super) fn new(context: Arc<Context>) -> Self {
        ProcessTable {
            context,
            prototypes: Vec::new(),
            workers: Vec::new(),
            current: None,
            next_serial: 1,
        }
    }

    /// The number of the next prototype.
    pub(super) fn next_serial(&mut self) -> u64 {
        let serial = self.next_serial;
        self.next_serial += 1;
        serial
    }

    /// True if no process is left.
    pub(super) fn is_empty(&self) -> bool {
        self.workers.is_empty() && self.prototypes.is_empty()
    }

    /// The number of workers for which `is_counted` holds.
    pub(super) fn count(&self, is_counted: impl Fn(&Worker) -> bool) -> u32 {
        let count = self
            .workers
            .iter()
            .filter(|worker| is_counted(worker))
            .count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    pub(super) fn prototype(&self, serial: u64) -> Option<&Prototype> {
        self.prototypes
            .iter()
            .find(|prototype| prototype.serial == serial)
    }

    pub(super) fn prototype_mut(&mut self, serial: u64) -> Option<&mut Prototype> {
        self.prototypes
            .iter_mut()
            .find(|prototype| prototype.serial == serial)
    }

    pub(super) fn worker_mut(&mut self, prototype: u64, number: u32) -> Option<&mut Worker> {
        self.workers
            .iter_mut()
            .find(|worker| worker.prototype == prototype && worker.number == number)
    }

    /// The worker with this number in a segment.
    pub(super) fn worker_at(
        &mut self,
        generation: &Arc<Generation>,
        number: u32,
    ) -> Option<&mut Worker> {
        self.workers.iter_mut().find(|worker| {
            worker.numbers().contains(&number) && Arc::ptr_eq(&worker.generation, generation)
        })
    }

    /// The process of the worker with this number in a segment, if its process id is known.
    pub(super) fn process_of(
        &self,
        generation: &Arc<Generation>,
        number: u32,
    ) -> Option<AppProcess> {
        self.workers
            .iter()
            .find(|worker| {
                worker.numbers().contains(&number) && Arc::ptr_eq(&worker.generation, generation)
            })
            .and_then(Worker::process)
    }

    /// All processes whose ids are known.
    pub(super) fn processes(&self) -> impl Iterator<Item = AppProcess> {
        let prototypes = self.prototypes.iter();
        let prototypes = prototypes.filter(|prototype| prototype.is_alive());
        let prototypes = prototypes.filter_map(|prototype| prototype.pid);
        let workers = self.workers.iter().filter_map(Worker::process);
        prototypes.map(AppProcess::prototype).chain(workers)
    }

    /// Removes a worker that has ended.
    pub(super) fn take_worker(&mut self, prototype: u64, number: u32) -> Option<Worker> {
        let position = self
            .workers
            .iter()
            .position(|worker| worker.prototype == prototype && worker.number == number)?;
        Some(self.workers.swap_remove(position))
    }

    /// Asks a prototype to fork `count` workers with the lowest free numbers. `limit` returns the number of requests after which each
    /// thread of a worker ends. Returns for how many of them no numbers are free.
    pub(super) fn fork(
        &mut self,
        serial: u64,
        count: u32,
        threads: NonZeroU32,
        mut limit: impl FnMut() -> Option<NonZeroU64>,
    ) -> u32 {
        let Some(prototype) = self.prototype(serial) else {
            return 0;
        };
        if prototype.stage != Stage::Ready {
            return 0;
        }
        let Some(pid) = prototype.pid else {
            debug_assert!(false, "a prototype is ready before it was launched");
            return 0;
        };
        let generation = Arc::clone(&prototype.generation);
        let mark = prototype.output.mark();
        for forked in 0..count {
            let Some(number) = self.free_number(&generation, threads.get()) else {
                return count - forked;
            };
            assert!(
                self.is_free(&generation, number..number + threads.get()),
                "two workers of one segment would have the number {number}"
            );
            let limit = limit();
            for number in number..number + threads.get() {
                generation.segment.set_request_limit(number, limit);
            }
            let fork = ToPrototype::Fork {
                worker: number,
                threads,
            };
            let is_sent = self
                .prototype(serial)
                .is_some_and(|prototype| prototype.send(&fork));
            if !is_sent {
                return 0;
            }
            let numbers = Numbers {
                generation: Arc::clone(&generation),
                number,
                threads: threads.get(),
            };
            self.workers.push(Worker::asked_for(
                Parent { serial, pid },
                numbers,
                mark,
                now(),
            ));
        }
        0
    }

    /// The lowest free block of numbers in a segment for a process with this many threads.
    fn free_number(&self, generation: &Arc<Generation>, threads: u32) -> Option<u32> {
        let numbers = generation.segment.layout().workers;
        let mut number = 0;
        while number + threads <= numbers {
            if self.is_free(generation, number..number + threads) {
                return Some(number);
            }
            number += threads;
        }
        None
    }

    /// True if no worker of a segment has one of these numbers.
    fn is_free(&self, generation: &Arc<Generation>, numbers: Range<u32>) -> bool {
        !self.workers.iter().any(|worker| {
            let own = worker.numbers();
            own.start < numbers.end
                && numbers.start < own.end
                && Arc::ptr_eq(&worker.generation, generation)
        })
    }

    /// Drains the workers for which `is_meant` holds.
    pub(super) fn drain_workers(&mut self, is_meant: impl Fn(&Worker) -> bool) {
        let now = now();
        for worker in self.workers.iter_mut().filter(|worker| is_meant(worker)) {
            worker.drain(now);
        }
    }

    /// Kills the workers for which `is_killed` holds.
    pub(super) fn kill_workers(&mut self, is_killed: impl Fn(&Worker) -> bool) {
        let now = now();
        for worker in self.workers.iter_mut().filter(|worker| is_killed(worker)) {
            worker.kill(now, &*self.context.launcher);
        }
    }

    /// Kills a prototype that is not needed, and its workers.
    pub(super) fn end_prototype(&mut self, serial: u64) {
        self.kill_workers(|worker| worker.prototype == serial);
        self.kill_prototype(serial);
    }

    /// Kills a prototype. Its ready workers keep running until they are replaced.
    fn kill_prototype(&mut self, serial: u64) -> Option<i32> {
        let launcher = Arc::clone(&self.context.launcher);
        let prototype = self.prototype_mut(serial)?;
        if prototype.stage == Stage::Gone {
            return None;
        }
        prototype.stage = Stage::Ending;
        prototype.ending_since = now();
        let pid = prototype.pid?;
        launcher.kill(AppProcess::prototype(pid), SIGKILL);
        Some(pid)
    }

    /// Kills prototypes that have not forked a worker within `limit`, or have not ended in time after they were asked to. Returns their
    /// process ids with the reasons.
    pub(super) fn kill_unresponsive(
        &mut self,
        now: Instant,
        limit: Duration,
    ) -> Vec<(i32, &'static str)> {
        let workers = &self.workers;
        let reason = |prototype: &Prototype| {
            if !prototype.is_alive() {
                return None;
            }
            let is_unborn = |worker: &Worker| {
                worker.prototype == prototype.serial
                    && worker.pid.is_none()
                    && now >= worker.since + limit
            };
            match prototype.stage {
                Stage::Ending => (now >= prototype.ending_since + QUIT_TIMEOUT)
                    .then_some("has not ended in time"),
                Stage::Starting | Stage::Ready | Stage::Draining | Stage::Gone => workers
                    .iter()
                    .any(is_unborn)
                    .then_some("does not fork (`limits.start_timeout`)"),
            }
        };
        let found = self.prototypes.iter();
        let found: Vec<_> = found
            .filter_map(|prototype| Some((prototype.serial, reason(prototype)?)))
            .collect();
        let killed = found.into_iter();
        killed
            .filter_map(|(serial, reason)| Some((self.kill_prototype(serial)?, reason)))
            .collect()
    }

    /// When the next prototype must have ended.
    pub(super) fn next_quit(&self) -> Option<Instant> {
        let ending = self.prototypes.iter();
        let ending = ending.filter(|one| one.stage == Stage::Ending && one.is_alive());
        ending.map(|one| one.ending_since + QUIT_TIMEOUT).min()
    }

    /// Kills all prototypes and their workers.
    pub(super) fn end_all(&mut self) {
        let serials: Vec<u64> = self
            .prototypes
            .iter()
            .map(|prototype| prototype.serial)
            .collect();
        for serial in serials {
            self.end_prototype(serial);
        }
        self.current = None;
    }

    /// Ends the prototypes for which `is_drained` holds, after their workers have ended.
    pub(super) fn drain_prototypes(&mut self, is_drained: impl Fn(&Prototype) -> bool) {
        for prototype in &mut self.prototypes {
            if is_drained(prototype) && matches!(prototype.stage, Stage::Starting | Stage::Ready) {
                prototype.stage = Stage::Draining;
            }
        }
    }

    /// Ends a prototype that will not take over. Its ready workers may be serving already, so they are drained.
    pub(super) fn withdraw_prototype(&mut self, serial: u64) {
        let is_serving = |worker: &Worker| worker.prototype == serial && !worker.is_starting();
        if !self.workers.iter().any(is_serving) {
            self.end_prototype(serial);
            return;
        }
        self.kill_workers(|worker| worker.prototype == serial && worker.is_starting());
        self.drain_workers(|worker| worker.prototype == serial);
        self.drain_prototypes(|prototype| prototype.serial == serial);
    }

    /// Asks drained prototypes to quit.
    pub(super) fn quit_drained(&mut self) {
        for prototype in &mut self.prototypes {
            if prototype.stage == Stage::Draining
                && !self
                    .workers
                    .iter()
                    .any(|worker| worker.prototype == prototype.serial)
            {
                // One that cannot take the message now does not react, and is killed after a while.
                prototype.send(&ToPrototype::Quit);
                prototype.stage = Stage::Ending;
                prototype.ending_since = now();
            }
        }
    }

    /// Kills the workers of a dead prototype that are not ready: they can never report that. Their numbers stay reserved while they may
    /// live; main reports their ends.
    pub(super) fn kill_unborn(&mut self, serial: u64) {
        self.kill_workers(|worker| {
            let is_up = !worker.is_starting() && worker.pid.is_some();
            worker.prototype == serial && !is_up
        });
    }

    /// Forgets requested workers that, it seems, were never forked before their prototype died.
    pub(super) fn forget_unborn(&mut self, now: Instant) {
        let prototypes = &self.prototypes;
        self.workers.retain(|worker| {
            let has_prototype = prototypes
                .iter()
                .any(|prototype| prototype.serial == worker.prototype && prototype.is_alive());
            has_prototype || worker.pid.is_some() || now < worker.since + UNBORN_TIMEOUT
        });
    }

    /// Forgets ended prototypes without workers.
    pub(super) fn forget_gone(&mut self) {
        let workers = &self.workers;
        self.prototypes.retain(|prototype| {
            prototype.stage != Stage::Gone
                || workers
                    .iter()
                    .any(|worker| worker.prototype == prototype.serial)
        });
    }

    /// The workers whose prototype has ended.
    pub(super) fn orphans(&self) -> impl Iterator<Item = &Worker> {
        self.workers.iter().filter(|worker| {
            self.prototype(worker.prototype)
                .is_none_or(|prototype| !prototype.is_alive())
        })
    }
}
