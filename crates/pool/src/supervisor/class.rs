//! Chooses the scheduling class of an application's workers.

use std::time::{Duration, Instant};

use super::Supervisor;
use super::worker::Used;
use crate::scheduling::SHORT;

/// Interval at which the class is chosen.
const INTERVAL: Duration = Duration::from_millis(200);

/// Workers whose CPU time is read in one round, which costs about ten microseconds each; they are a sample of all.
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

    /// Called before the supervisor sleeps: resets the class, because the next requests may come under other load.
    pub(super) fn leave_class(&mut self) {
        self.set_batch(false);
        self.times.class_chosen = None;
    }

    fn set_batch(&self, is_batch: bool) {
        for worker in &self.table.workers {
            worker.set_batch(is_batch);
        }
    }

    /// CPU time of the workers since the last round, if their requests are short and there were any.
    fn short_cpu(&mut self) -> Option<Duration> {
        let clocks = &*self.context.scheduling.clocks;
        let mut sums = Sums::default();
        let mut at_work = 0;
        for worker in &mut self.table.workers {
            let read = |pid| {
                at_work += 1;
                (at_work <= SAMPLED).then(|| clocks.worker(pid)).flatten()
            };
            if let Some(used) = worker.note_used(read) {
                sums.add(used);
            }
        }
        sums.short()
    }
}

/// Sums over the workers of an application. Workers may report any number of requests.
#[derive(Debug, Default)]
struct Sums {
    requests: u64,
    /// Requests of the workers whose CPU time was read.
    sampled: u64,
    cpu: Duration,
}

impl Sums {
    fn add(&mut self, used: Used) {
        self.requests = self.requests.saturating_add(used.requests);
        if let Some(cpu) = used.cpu {
            self.sampled = self.sampled.saturating_add(used.requests);
            self.cpu = self.cpu.saturating_add(cpu);
        }
    }

    /// The CPU time of all, if it is known and the requests were short.
    fn short(&self) -> Option<Duration> {
        let sampled = u32::try_from(self.sampled)
            .ok()
            .filter(|&count| count > 0)?;
        let each = self.cpu / sampled;
        let requests = u32::try_from(self.requests).unwrap_or(u32::MAX);
        (each < SHORT).then(|| each.saturating_mul(requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(workers: &[(u64, Option<u64>)]) -> Option<Duration> {
        let mut sums = Sums::default();
        for &(requests, cpu) in workers {
            let cpu = cpu.map(Duration::from_millis);
            sums.add(Used { requests, cpu });
        }
        sums.short()
    }

    #[test]
    fn workers_that_were_read_stand_for_the_others() {
        assert_eq!(sum(&[(100, Some(10))]), Some(Duration::from_millis(10)));
        assert_eq!(
            sum(&[(100, Some(10)), (300, None)]),
            Some(Duration::from_millis(40))
        );
        assert_eq!(sum(&[(10, Some(10))]), None, "they are not short");
        assert_eq!(sum(&[(100, None)]), None, "the CPU time is unknown");
        assert_eq!(sum(&[]), None);
    }

    /// Issue 11: invalid counts of two workers made the router panic in a build with overflow checks.
    #[test]
    fn counts_that_no_worker_has_are_survived() {
        let most = u64::MAX;
        assert_eq!(sum(&[(most, Some(1)), (most, Some(1)), (most, None)]), None);
        assert!(sum(&[(1000, Some(1)), (most, None), (most, None)]).is_some());
    }
}
