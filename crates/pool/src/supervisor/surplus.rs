//! Growth within the available memory, and the end of surplus workers.

use std::time::{Duration, Instant};

use super::reconcile::Wake;
use super::scale::{self, IdleWorker};
use super::worker::Worker;
use super::{FAST_TICK, Supervisor};
use crate::launcher::Level;
use crate::spec::Processes;

/// The number of workers that are measured to estimate the size of one.
const MEASURED: usize = 4;

impl Supervisor {
    /// Beyond the configured minimum, permits as many of `wanted` as memory has room for.
    pub(super) fn within_memory(&mut self, wanted: u32, living: u32, processes: &Processes) -> u32 {
        let certain = processes.initial().max(1).saturating_sub(living);
        if wanted <= certain || matches!(processes, Processes::Fixed(_)) {
            return wanted;
        }
        let size = self
            .table
            .workers
            .iter()
            .filter(|worker| worker.is_ready())
            .filter_map(|worker| tutti_sys::proc::rss(worker.pid?).ok())
            .take(MEASURED)
            .max();
        let (Some(size), Some(available)) = (size, tutti_sys::proc::available_memory()) else {
            return wanted;
        };
        let fitting = scale::fitting(available, size).max(certain);
        if fitting < wanted {
            let name = self.app.name();
            let line = format!(
                "\"{name}\" does not grow beyond {living} processes: {available} bytes of memory are available, and a process uses {size}"
            );
            if self
                .memory_warnings
                .admit(&line, tutti_wire::now_ms())
                .is_some()
            {
                self.log(Level::Warn, &line);
            }
        }
        wanted.min(fitting)
    }

    /// Retires surplus workers: idle ones, and, if there are more than permitted, any.
    pub(super) fn retire_surplus(&mut self, now: Instant, processes: &Processes, wake: &mut Wake) {
        let (mut idle, busy) = self.idle_and_busy(now);
        let ready = u32::try_from(idle.len() + busy.len()).unwrap_or(u32::MAX);
        let excess = ready.saturating_sub(processes.max()) as usize;
        let (leave, again) = if excess == 0 {
            scale::retirements(processes, &mut idle, now)
        } else {
            (scale::excess(&idle, busy, excess), None)
        };
        for number in leave {
            let current = self.table.current;
            self.table.drain_workers(|worker| {
                worker.number == number && Some(worker.prototype) == current
            });
        }
        if let Some(again) = again {
            wake.at(again + FAST_TICK);
        }
    }

    /// The current prototype's workers: the idle ones, and the numbers of the others.
    fn idle_and_busy(&self, now: Instant) -> (Vec<IdleWorker>, Vec<u32>) {
        let now_ms = tutti_wire::now_ms();
        let is_ours =
            |worker: &&Worker| worker.is_ready() && Some(worker.prototype) == self.table.current;
        let (mut idle, mut busy) = (Vec::new(), Vec::new());
        for worker in self.table.workers.iter().filter(is_ours) {
            let since_ms = worker.snapshots().map(|snapshot| snapshot.since_ms).max();
            if !worker.snapshots().any(|snapshot| snapshot.is_busy()) {
                let idle_for = Duration::from_millis(now_ms.saturating_sub(since_ms.unwrap_or(0)));
                let since = now.checked_sub(idle_for).unwrap_or(now).max(worker.since);
                idle.push(IdleWorker {
                    worker: worker.number,
                    since,
                });
            } else {
                busy.push(worker.number);
            }
        }
        (idle, busy)
    }
}
