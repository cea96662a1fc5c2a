//! The scheduling class of an application's workers.

use std::time::{Duration, Instant};

use super::Supervisor;
use super::worker::{Used, Worker};
use crate::scheduling::SHORT;

/// How often it is looked at.
const INTERVAL: Duration = Duration::from_millis(200);

/// Workers whose CPU time is read at one look, which costs some ten microseconds each; they stand for the others.
const SAMPLED: usize = 16;

impl Supervisor {
    /// Puts the workers into the batch class, or out of it.
    pub(super) fn choose_class(&mut self, now: Instant) {
        if self
            .times
            .class_chosen
            .is_some_and(|last| now < last + INTERVAL)
        {
            return;
        }
        self.times.class_chosen = Some(now);
        let short = self.short_cpu();
        let is_wanted = self.context.scheduling.note(short.unwrap_or_default(), now);
        self.set_batch(is_wanted && short.is_some());
    }

    /// Before it sleeps, the application's workers are as they were: the next requests may come beside others.
    pub(super) fn leave_class(&mut self) {
        self.set_batch(false);
        self.times.class_chosen = None;
    }

    fn set_batch(&self, is_batch: bool) {
        for worker in &self.table.workers {
            worker.set_batch(is_batch);
        }
    }

    /// CPU time of the workers since the last look, if their requests are short and there were any.
    fn short_cpu(&mut self) -> Option<Duration> {
        let clocks = &*self.context.scheduling.clocks;
        let mut sampled = Used::default();
        let mut requests = 0u64;
        let at_work = |worker: &&mut Worker| worker.is_ready() && worker.is_at_work();
        for (place, worker) in self.table.workers.iter_mut().filter(at_work).enumerate() {
            let pid = worker.pid.filter(|_| place < SAMPLED);
            let since = worker.note_used(pid.and_then(|pid| clocks.worker(pid)));
            // Workers may tell anything.
            requests = since.requests.saturating_add(requests);
            if since.cpu.is_some() {
                sampled = sampled + since;
            }
        }
        let cpu = sampled.cpu?;
        let each = cpu
            / u32::try_from(sampled.requests)
                .ok()
                .filter(|&count| count > 0)?;
        (each < SHORT).then(|| each.saturating_mul(u32::try_from(requests).unwrap_or(u32::MAX)))
    }
}
