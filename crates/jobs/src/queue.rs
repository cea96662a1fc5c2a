//! The jobs of one spooler in memory: numbers and times, no bodies. No I/O.
//!
//! Must never: return a job that is being delivered, or forget one that is stored.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tutti_sys::clock::Jump;

/// Milliseconds since 1970.
pub(crate) type Time = u64;

/// Milliseconds before a job is taken again whose delivery we cancelled: as long as the store waits before it opens its file again.
const CANCELLED_PAUSE: Time = 1000;

/// The number of a job consists of its arrival time and these lower bits.
const SERIAL_BITS: u32 = 16;

/// The number of a job that arrives at `now`; `last` is the highest so far.
pub(crate) fn next_id(last: u64, now: Time) -> u64 {
    (now << SERIAL_BITS).max(last.saturating_add(1))
}

/// When a job arrived.
pub(crate) fn received(id: u64) -> Time {
    id >> SERIAL_BITS
}

/// A job's number in its external form.
pub(crate) fn written(id: u64) -> String {
    format!("{id:016x}")
}

/// The state of a job, as it is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct JobState {
    /// Failed deliveries.
    pub(crate) attempts: u32,
    /// It is not delivered before this time.
    pub(crate) due: Time,
    /// When it failed for good; 0: it has not.
    pub(crate) failed: Time,
    /// Why the last delivery failed.
    pub(crate) error: String,
    /// Bytes of its request.
    pub(crate) size: u64,
}

/// Counts since the router was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// Jobs stored.
    pub stored: u64,
    /// Jobs delivered.
    pub delivered: u64,
    /// Deliveries that failed.
    pub failures: u64,
    /// Jobs that have failed for good.
    pub given_up: u64,
    /// Jobs refused because there was no room.
    pub refused: u64,
}

/// The pauses between the attempts of a delivery, and the maximum number of attempts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Patience {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
    pub(crate) attempts: u32,
}

impl Patience {
    /// The pause after this many failures; `spread` from 0 to 255 subtracts up to a fifth.
    pub(crate) fn pause(&self, attempts: u32, spread: u8) -> Duration {
        let factor = 2_f64.powi(attempts.saturating_sub(1).min(64).cast_signed());
        let pause = self.first.as_secs_f64() * factor;
        let pause = pause.min(self.longest.as_secs_f64());
        Duration::from_secs_f64(pause * (1.0 - f64::from(spread) / 255.0 / 5.0))
    }
}

/// Jobs of one spooler.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    jobs: BTreeMap<u64, JobState>,
    /// Waiting jobs, ordered by when they are due.
    waiting: BTreeSet<(Time, u64)>,
    delivering: BTreeSet<u64>,
    failed: BTreeSet<u64>,
    /// Bytes of all jobs.
    size: u64,
    /// Room reserved for jobs that are being stored.
    reserved: (usize, u64),
    pub(crate) counts: JobCounts,
}

impl Queue {
    /// Reserves room for a job that is being stored; false if there is none.
    pub(crate) fn reserve(&mut self, size: u64, most: (usize, u64)) -> bool {
        let (jobs, bytes) = self.reserved;
        let has_room = self.jobs.len() + jobs < most.0 && self.size + bytes + size <= most.1;
        match has_room {
            true => self.reserved = (jobs + 1, bytes + size),
            false => self.counts.refused += 1,
        }
        has_room
    }

    /// Releases the reservation: the job is stored, or storing failed.
    pub(crate) fn settle(&mut self, size: u64, stored: Option<(u64, JobState)>) {
        let (jobs, bytes) = self.reserved;
        self.reserved = (jobs.saturating_sub(1), bytes.saturating_sub(size));
        if let Some((id, standing)) = stored {
            self.counts.stored += 1;
            self.insert(id, standing);
        }
    }

    /// Adds a job from the file at `now`. One that arrived in the future was stored before the clock was set back, so its times are moved.
    pub(crate) fn restore(&mut self, id: u64, mut standing: JobState, now: Time) {
        let came = received(id);
        let ahead = came.saturating_sub(now);
        // A number may be ahead of its job, because numbers only grow; such a job has correct times.
        if ahead > 0 && standing.due >= came {
            let back = Jump::Back(Duration::from_millis(ahead));
            standing.due = back.moved(standing.due);
            if standing.failed > 0 {
                standing.failed = back.moved(standing.failed).max(1);
            }
        }
        self.insert(id, standing);
    }

    /// Adds a stored job.
    pub(crate) fn insert(&mut self, id: u64, standing: JobState) {
        self.size += standing.size;
        match standing.failed {
            0 => drop(self.waiting.insert((standing.due, id))),
            _ => drop(self.failed.insert(id)),
        }
        self.jobs.insert(id, standing);
    }

    /// Returns the next due job, which counts as being delivered from now on; at most `most` are.
    pub(crate) fn take_due(&mut self, now: Time, most: usize) -> Option<u64> {
        if self.delivering.len() >= most {
            return None;
        }
        let &(due, id) = self.waiting.first()?;
        if due > now {
            return None;
        }
        self.waiting.remove(&(due, id));
        self.delivering.insert(id);
        Some(id)
    }

    /// When the next job is due, if one more can be delivered then.
    pub(crate) fn next_due(&self, most: usize) -> Option<Time> {
        let is_free = self.delivering.len() < most;
        let first = self.waiting.first().filter(|_| is_free);
        first.map(|(due, _)| *due)
    }

    /// Its failed deliveries.
    pub(crate) fn attempts(&self, id: u64) -> u32 {
        self.jobs.get(&id).map_or(0, |job| job.attempts)
    }

    /// Removes a delivered job.
    pub(crate) fn delivered(&mut self, id: u64) {
        self.counts.delivered += 1;
        self.remove(id);
    }

    /// Notes a failed delivery; returns the job's new state. `None`: it does not exist any more.
    pub(crate) fn failed(
        &mut self,
        id: u64,
        error: String,
        wish: Option<Duration>,
        now: Time,
        patience: &Patience,
    ) -> Option<JobState> {
        self.delivering.remove(&id);
        self.counts.failures += 1;
        let job = self.jobs.get_mut(&id)?;
        job.attempts = job.attempts.saturating_add(1);
        job.error = error;
        if job.attempts >= patience.attempts {
            job.failed = now.max(1);
            self.failed.insert(id);
            self.counts.given_up += 1;
        } else {
            // Derived from the number, so that it differs between jobs.
            let spread = (id ^ (id >> 16)).wrapping_mul(0x9e37_79b9).to_le_bytes()[3];
            let pause = patience.pause(job.attempts, spread);
            // `Retry-After` is honoured.
            let pause = pause.max(wish.unwrap_or_default()).as_millis();
            job.due = now.saturating_add(u64::try_from(pause).unwrap_or(u64::MAX));
            self.waiting.insert((job.due, id));
        }
        Some(job.clone())
    }

    /// Returns a job whose delivery we cancelled: as if it had not begun. It is taken again after a pause, because the cause may last.
    pub(crate) fn give_back(&mut self, id: u64, now: Time) {
        if self.delivering.remove(&id)
            && let Some(job) = self.jobs.get_mut(&id)
        {
            job.due = job.due.max(now.saturating_add(CANCELLED_PAUSE));
            self.waiting.insert((job.due, id));
        }
    }

    /// Postpones those being delivered until `due`, when their results are known; returns their states.
    pub(crate) fn put_off(&mut self, due: Time) -> Vec<(u64, JobState)> {
        let mut put_off = Vec::new();
        for id in &self.delivering {
            if let Some(job) = self.jobs.get_mut(id) {
                job.due = due;
                put_off.push((*id, job.clone()));
            }
        }
        put_off
    }

    /// Moves the times of waiting and failed jobs with a changed clock: pauses keep their length.
    pub(crate) fn follow(&mut self, jump: Jump) {
        let is_waiting =
            |id: &u64, job: &JobState| job.failed == 0 && !self.delivering.contains(id);
        self.waiting = self
            .jobs
            .iter_mut()
            .filter_map(|(id, job)| {
                job.due = jump.moved(job.due);
                if job.failed > 0 {
                    job.failed = jump.moved(job.failed).max(1);
                }
                is_waiting(id, job).then_some((job.due, *id))
            })
            .collect();
    }

    /// Retries a failed job from the beginning; returns its new state.
    pub(crate) fn retry(&mut self, id: u64, now: Time) -> Option<JobState> {
        if !self.failed.remove(&id) {
            return None;
        }
        let job = self.jobs.get_mut(&id)?;
        job.attempts = 0;
        job.failed = 0;
        job.due = now;
        self.waiting.insert((now, id));
        Some(job.clone())
    }

    /// Removes a job, unless it is being delivered: its result would be reported.
    pub(crate) fn remove(&mut self, id: u64) -> bool {
        let Some(job) = self.jobs.remove(&id) else {
            return false;
        };
        self.size = self.size.saturating_sub(job.size);
        self.waiting.remove(&(job.due, id));
        self.failed.remove(&id);
        self.delivering.remove(&id);
        true
    }

    /// Failed jobs, the oldest first.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (u64, &JobState)> {
        let of = |id: &u64| Some((*id, self.jobs.get(id)?));
        self.failed.iter().filter_map(of)
    }

    /// The numbers of all jobs.
    pub(crate) fn all(&self) -> Vec<u64> {
        self.jobs.keys().copied().collect()
    }

    /// When the oldest job arrived that is neither delivered nor failed.
    pub(crate) fn oldest(&self) -> Option<Time> {
        let mut jobs = self.jobs.iter();
        let (id, _) = jobs.find(|(_, job)| job.failed == 0)?;
        Some(received(*id))
    }

    /// Returns the numbers of jobs that are waiting, being delivered, failed; and the bytes of all.
    pub(crate) fn totals(&self) -> (usize, usize, usize, u64) {
        let (waiting, delivering) = (self.waiting.len(), self.delivering.len());
        (waiting, delivering, self.failed.len(), self.size)
    }

    /// True if there is no job, and none is being stored.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.reserved.0 == 0
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience {
        first: Duration::from_secs(1),
        longest: Duration::from_secs(10),
        attempts: 3,
    };

    fn waiting(due: Time) -> JobState {
        JobState {
            due,
            size: 10,
            ..JobState::default()
        }
    }

    #[test]
    fn jobs_are_started_when_due_within_the_concurrency_limit() {
        let mut queue = Queue::default();
        for (id, due) in [(1, 50), (2, 10), (3, 70)] {
            queue.insert(id, waiting(due));
        }
        assert_eq!(queue.take_due(5, 2), None);
        assert_eq!(queue.next_due(2), Some(10));
        assert_eq!(queue.take_due(60, 2), Some(2));
        assert_eq!(queue.take_due(60, 2), Some(1));
        assert_eq!((queue.take_due(99, 2), queue.next_due(2)), (None, None));
        queue.delivered(2);
        assert_eq!(queue.take_due(99, 2), Some(3));
        assert_eq!(queue.totals(), (0, 2, 0, 20));
    }

    #[test]
    fn a_clock_that_is_set_changes_no_pause() {
        const YEAR: Time = 31_536_000_000;
        let mut queue = Queue::default();
        queue.insert(1, waiting(1_000));
        queue.insert(2, waiting(5_000));
        assert_eq!(queue.take_due(1_000, 9), Some(1));
        let year = Duration::from_millis(YEAR);
        queue.follow(Jump::Forward(year));
        assert_eq!(queue.take_due(YEAR + 4_999, 9), None);
        assert_eq!(queue.next_due(9), Some(YEAR + 5_000));
        queue.follow(Jump::Back(year));
        assert_eq!(queue.take_due(4_999, 9), None);
        assert_eq!(queue.take_due(5_000, 9), Some(2));
        queue
            .failed(1, String::new(), None, 6_000, &PATIENCE)
            .unwrap();
        assert_eq!(queue.totals(), (1, 1, 0, 20));
    }

    #[test]
    fn jobs_of_a_clock_that_was_set_back_while_the_server_was_down_do_not_wait_for_it() {
        let (now, year) = (1_700_000_000_000, 31_536_000_000);
        let mut queue = Queue::default();
        let id = next_id(0, now + year);
        queue.restore(id, waiting(now + year + 60_000), now);
        assert_eq!(queue.next_due(9), Some(now + 60_000));
        // The numbers continue from there, the times do not.
        queue.restore(next_id(id, now), waiting(now + 30_000), now);
        assert_eq!(queue.next_due(9), Some(now + 30_000));
    }

    #[test]
    fn failures_wait_longer_each_time_and_are_given_up_in_the_end() {
        let mut queue = Queue::default();
        queue.insert(7, waiting(0));
        assert_eq!(queue.take_due(1, 1), Some(7));
        let first = queue.failed(7, "a".into(), None, 1000, &PATIENCE).unwrap();
        assert!((1800..=2000).contains(&first.due), "{first:?}");
        assert_eq!(queue.take_due(3000, 1), Some(7));
        let second = queue.failed(7, "b".into(), None, 3000, &PATIENCE).unwrap();
        assert!((4600..=5000).contains(&second.due), "{second:?}");
        assert_eq!(queue.take_due(9000, 1), Some(7));
        let last = queue.failed(7, "c".into(), None, 9000, &PATIENCE).unwrap();
        assert_eq!((last.failed, last.attempts), (9000, 3));
        assert_eq!(queue.take_due(u64::MAX, 1), None);
        assert_eq!(queue.retry(7, 9500).unwrap().attempts, 0);
        assert!(queue.retry(7, 9500).is_none());
        assert_eq!(queue.take_due(9500, 1), Some(7));
        queue.delivered(7);
        assert!(queue.is_empty());
        assert_eq!((queue.counts.failures, queue.counts.given_up), (3, 1));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = [1, 2, 3, 4, 5, 6, 1000].map(|n| PATIENCE.pause(n, 0).as_secs());
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10, 10]);
        assert_eq!(PATIENCE.pause(1, 255), Duration::from_millis(800));
    }

    #[test]
    fn room_is_counted_before_a_job_is_on_disk() {
        let mut queue = Queue::default();
        assert!(queue.reserve(60, (2, 100)));
        assert!(!queue.reserve(60, (2, 100)), "bytes");
        assert!(queue.reserve(40, (2, 100)));
        assert!(!queue.reserve(0, (2, 100)), "jobs");
        queue.settle(60, None);
        queue.settle(
            40,
            Some((
                1,
                JobState {
                    size: 40,
                    ..JobState::default()
                },
            )),
        );
        assert!(queue.reserve(60, (2, 100)));
        assert_eq!((queue.counts.refused, queue.counts.stored), (2, 1));
    }

    #[test]
    fn numbers_grow_also_where_the_clock_goes_back() {
        let first = next_id(0, 5);
        assert_eq!(received(first), 5);
        assert_eq!(next_id(first, 4), first + 1);
        assert_eq!(written(first), "0000000000050000");
    }

    #[test]
    fn a_cancelled_delivery_begins_again_after_a_pause() {
        let mut queue = Queue::default();
        queue.insert(1, waiting(50));
        assert_eq!(queue.take_due(100, 1), Some(1));
        queue.give_back(1, 100);
        assert_eq!(queue.take_due(100, 1), None);
        assert_eq!(queue.next_due(1), Some(100 + CANCELLED_PAUSE));
        assert_eq!(queue.take_due(100 + CANCELLED_PAUSE, 1), Some(1));
    }

    #[test]
    fn jobs_in_delivery_at_the_end_are_postponed() {
        let mut queue = Queue::default();
        queue.insert(1, waiting(0));
        queue.insert(2, waiting(0));
        let id = queue.take_due(0, 1).unwrap();
        let put_off = queue.put_off(500);
        assert_eq!(put_off.len(), 1);
        assert_eq!((put_off[0].0, put_off[0].1.due), (id, 500));
    }
}
