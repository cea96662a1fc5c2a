//! Decides how many workers to start or retire now; touches no processes.
//!
//! Unit's documentation leaves these points open:
//!
//! - A worker that finishes requests quickly counts as available even if it is busy at the moment; only one that is at the same request for
//!   a whole interval counts as taken. So spare workers are there for requests that really occupy a worker, and a burst of short requests
//!   forks nothing.
//! - The queue makes the pool grow when its head has waited longer than [`PATIENCE`], or there is no worker at all.
//! - Several start at once, as many as the machine can start without slowing the running ones.

use std::num::NonZeroU64;
use std::time::{Duration, Instant};

use crate::spec::{AppSpec, Processes, SHORTEST_IDLE, ScaledProcesses};

/// Time that the head of the queue may wait before more workers are started. A fork of a warm prototype is ready after about this time: to
/// avoid a shorter wait, a start is of no use.
pub(super) const PATIENCE: Duration = Duration::from_millis(10);

/// The state of a pool at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Situation {
    /// Ready workers that are not draining.
    pub(super) running: u32,
    /// Workers being started.
    pub(super) starting: u32,
    /// Ready workers that have not begun their first request: each will take a waiting one.
    pub(super) fresh: u32,
    /// Workers that have been at the same request for a whole interval.
    pub(super) taken: u32,
    /// Requests that no worker has begun.
    pub(super) queued: u32,
    /// The time that the oldest of them has waited.
    pub(super) waited: Duration,
    /// Sleeping workers. More workers would only sleep, too: while requests are short, few workers on as few cores are faster, and the
    /// others are left asleep on purpose.
    pub(super) asleep: u32,
    /// Workers that may be starting at once.
    pub(super) start_capacity: u32,
}

/// Returns how many workers to start now.
pub(super) fn starts(processes: &Processes, now: &Situation) -> u32 {
    let living = now.running + now.starting;
    let (wanted, max) = match *processes {
        Processes::Fixed(count) => (count.saturating_sub(living), count),
        Processes::Scaled(ScaledProcesses { max, spare, .. }) => {
            let available = now.running.saturating_sub(now.taken) + now.starting;
            let for_spare = spare.saturating_sub(available);
            let is_pressing =
                now.queued > 0 && now.asleep == 0 && (now.waited >= PATIENCE || now.running == 0);
            let for_queue = if is_pressing {
                now.queued.saturating_sub(now.starting + now.fresh)
            } else {
                0
            };
            (for_spare.max(for_queue), max)
        }
    };
    wanted
        .min(max.saturating_sub(living))
        .min(now.start_capacity.saturating_sub(now.starting))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct IdleWorker {
    /// Its number.
    pub(super) worker: u32,
    /// Since when it has been idle.
    pub(super) since: Instant,
}

/// Returns which idle workers to retire now, and when to check again.
///
/// Requests go to the sleeping worker with the lowest number, so surplus ones with high numbers stay idle and are retired first.
pub(super) fn retirements(
    processes: &Processes,
    idle: &mut [IdleWorker],
    now: Instant,
) -> (Vec<u32>, Option<Instant>) {
    let Processes::Scaled(scaled) = processes else {
        return (Vec::new(), None);
    };
    let (spare, idle_timeout) = (scaled.spare, scaled.idle_timeout.max(SHORTEST_IDLE));
    let surplus = idle.len().saturating_sub(spare as usize);
    idle.sort_unstable_by_key(|worker| std::cmp::Reverse(worker.worker));
    let mut leave = Vec::new();
    let mut again: Option<Instant> = None;
    for worker in idle.iter() {
        if leave.len() == surplus {
            break;
        }
        let due = worker.since + idle_timeout;
        if due <= now {
            leave.push(worker.worker);
        } else {
            again = Some(again.map_or(due, |again| again.min(due)));
        }
    }
    if leave.len() == surplus {
        again = None;
    }
    (leave, again)
}

/// Returns which workers to retire when there are `count` too many: idle ones first, then those with the highest numbers.
pub(super) fn excess(idle: &[IdleWorker], mut busy: Vec<u32>, count: usize) -> Vec<u32> {
    let mut leave: Vec<u32> = idle.iter().map(|worker| worker.worker).collect();
    leave.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
    busy.sort_unstable_by_key(|number| std::cmp::Reverse(*number));
    leave.extend(busy);
    leave.truncate(count);
    leave
}

/// Memory reserved for everything else when a pool grows: 64 MiB, which a small machine needs to stay reachable.
const RESERVE: u64 = 64 << 20;

/// Returns the number of further workers of this size that fit the memory. A fork shares most of it, so this errs on the safe side.
pub(super) fn fitting(available: u64, size: u64) -> u32 {
    let count = available.saturating_sub(RESERVE) / size.max(1);
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// When to try again after failed starts.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    /// Consecutive failures. Starts that were in progress together count as one.
    failures: u32,
    last: Option<Failed>,
}

/// The last counted failure.
#[derive(Clone, Copy, Debug)]
struct Failed {
    at: Instant,
    pause: Duration,
}

/// The first pause after a failed start, doubled with each further one. Too short to be noticed after a transient fault.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause: after fixing the cause, an operator will not wait much longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl Backoff {
    /// Notes the failure of a start begun at that time. Returns the pause, counted from the first failure of those begun together.
    pub(super) fn failed(&mut self, begun: Instant, now: Instant) -> Duration {
        // It was begun before the pause: no new attempt has been made since.
        if let Some(last) = self.last.filter(|last| begun < last.at) {
            return last.pause;
        }
        let pause = FIRST_PAUSE
            .saturating_mul(1 << self.failures.min(16))
            .min(LONGEST_PAUSE);
        self.failures += 1;
        self.last = Some(Failed { at: now, pause });
        pause
    }

    /// Notes a successful start.
    pub(super) fn succeeded(&mut self) {
        *self = Backoff::default();
    }

    /// When the next start is permitted, if not now.
    pub(super) fn pause_until(&self, now: Instant) -> Option<Instant> {
        let until = self.last.map(|last| last.at + last.pause);
        until.filter(|until| *until > now)
    }
}

/// The number of requests after which a new worker ends: between nine tenths of the limit and the limit, so that workers that started
/// together do not end together.
fn request_limit(limit: u64, random: &mut Random) -> u64 {
    limit - random.below(limit / 10 + 1)
}

/// The number of requests after which each thread of a new worker ends; `None`: no limit.
pub(super) fn thread_limit(spec: &AppSpec, random: &mut Random) -> Option<NonZeroU64> {
    let limit = request_limit(spec.common.limits.requests.0?, random);
    NonZeroU64::new(limit.div_ceil(u64::from(spec.special.threads().get())))
}

/// Pseudo-random numbers, not for secrets.
#[derive(Debug)]
pub(super) struct Random(u64);

impl Random {
    #[cfg(not(simulated))]
    pub(super) fn new() -> Random {
        use std::hash::{BuildHasher, RandomState};
        Random(RandomState::new().hash_one(()))
    }

    /// The same in a simulation, which repeats them.
    #[cfg(simulated)]
    pub(super) fn new() -> Random {
        Random(tutti_simulated::random())
    }

    /// A number below `end` (which is not 0): splitmix64.
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALM: Situation = Situation {
        running: 0,
        starting: 0,
        fresh: 0,
        taken: 0,
        queued: 0,
        waited: Duration::ZERO,
        asleep: 0,
        start_capacity: 4,
    };

    fn dynamic(max: u32, spare: u32) -> Processes {
        Processes::Scaled(ScaledProcesses {
            max,
            spare,
            idle_timeout: Duration::from_secs(10),
        })
    }

    #[test]
    fn a_fixed_number_is_kept_several_at_a_time() {
        let ten = Processes::Fixed(10);
        assert_eq!(starts(&ten, &CALM), 4);
        assert_eq!(
            starts(
                &ten,
                &Situation {
                    running: 7,
                    starting: 2,
                    ..CALM
                }
            ),
            1
        );
        assert_eq!(
            starts(
                &ten,
                &Situation {
                    running: 10,
                    queued: 99,
                    ..CALM
                }
            ),
            0
        );
    }

    #[test]
    fn spare_ones_are_refilled_for_workers_that_are_really_taken() {
        let processes = dynamic(10, 3);
        assert_eq!(starts(&processes, &CALM), 3);
        assert_eq!(starts(&processes, &Situation { running: 3, ..CALM }), 0);
        assert_eq!(
            starts(
                &processes,
                &Situation {
                    running: 3,
                    taken: 2,
                    ..CALM
                }
            ),
            2
        );
        assert_eq!(
            starts(
                &processes,
                &Situation {
                    running: 3,
                    taken: 2,
                    starting: 2,
                    ..CALM
                }
            ),
            0
        );
    }

    #[test]
    fn a_short_queue_of_quick_requests_starts_nothing() {
        let processes = dynamic(100, 2);
        let busy = Situation {
            running: 2,
            queued: 60,
            waited: Duration::from_millis(3),
            ..CALM
        };
        assert_eq!(starts(&processes, &busy), 0);
        assert_eq!(
            starts(
                &processes,
                &Situation {
                    waited: PATIENCE,
                    ..busy
                }
            ),
            4
        );
    }

    #[test]
    fn without_workers_the_first_request_starts_one_at_once() {
        let processes = dynamic(5, 0);
        assert_eq!(starts(&processes, &CALM), 0);
        assert_eq!(starts(&processes, &Situation { queued: 1, ..CALM }), 1);
        assert_eq!(
            starts(
                &processes,
                &Situation {
                    queued: 1,
                    starting: 1,
                    ..CALM
                }
            ),
            0
        );
        assert_eq!(
            starts(
                &processes,
                &Situation {
                    queued: 9,
                    starting: 1,
                    ..CALM
                }
            ),
            3
        );
    }

    /// Issue 11: the worker that a lone request had started was ready, and a second one was started before the first was scheduled.
    #[test]
    fn a_worker_that_has_just_started_gets_the_requests_it_was_started_for() {
        let processes = dynamic(5, 0);
        let first = Situation {
            running: 1,
            fresh: 1,
            queued: 1,
            waited: PATIENCE * 3,
            ..CALM
        };
        assert_eq!(starts(&processes, &first), 0);
        assert_eq!(starts(&processes, &Situation { queued: 3, ..first }), 2);
        assert_eq!(starts(&processes, &Situation { fresh: 0, ..first }), 1);
    }

    #[test]
    fn while_workers_sleep_more_of_them_would_not_help() {
        let processes = dynamic(100, 5);
        let busy = Situation {
            running: 5,
            queued: 900,
            waited: PATIENCE * 5,
            ..CALM
        };
        assert_eq!(starts(&processes, &busy), 4);
        assert_eq!(starts(&processes, &Situation { asleep: 1, ..busy }), 0);
    }

    #[test]
    fn memory_bounds_growth() {
        assert_eq!(fitting(RESERVE + 25, 10), 2);
        assert_eq!(fitting(RESERVE - 1, 10), 0);
        assert_eq!(fitting(u64::MAX, 0), u32::MAX);
    }

    #[test]
    fn when_fewer_are_wanted_idle_ones_leave_first() {
        let since = Instant::now();
        let idle: Vec<_> = [1, 4]
            .into_iter()
            .map(|worker| IdleWorker { worker, since })
            .collect();
        assert_eq!(excess(&idle, vec![0, 2, 5], 3), [4, 1, 5]);
    }

    #[test]
    fn never_more_than_max() {
        let processes = dynamic(5, 5);
        let full = Situation {
            running: 5,
            taken: 5,
            queued: 100,
            waited: PATIENCE * 9,
            ..CALM
        };
        assert_eq!(starts(&processes, &full), 0);
    }

    #[test]
    fn the_highest_numbered_surplus_leaves_first() {
        let processes = dynamic(10, 2);
        let start = Instant::now();
        let now = start + Duration::from_secs(60);
        let recent = now - Duration::from_secs(1);
        let idle = |worker, since| IdleWorker { worker, since };
        let mut list = [
            idle(0, start),
            idle(5, start),
            idle(3, recent),
            idle(4, start),
        ];
        assert_eq!(retirements(&processes, &mut list, now), (vec![5, 4], None));
        let mut list = [idle(0, start), idle(1, start), idle(3, recent)];
        let (leave, again) = retirements(&processes, &mut list, now);
        assert_eq!((leave, again), (vec![1], None));
        let mut list = [idle(0, recent), idle(1, recent), idle(3, recent)];
        let due = recent + Duration::from_secs(10);
        assert_eq!(retirements(&processes, &mut list, now), (vec![], Some(due)));
        assert_eq!(
            retirements(&Processes::Fixed(1), &mut list, now),
            (vec![], None)
        );
    }

    #[test]
    fn limits_of_requests_differ_and_never_exceed_the_configured_one() {
        let mut random = Random::new();
        let limits: Vec<u64> = (0..100).map(|_| request_limit(1000, &mut random)).collect();
        assert!(
            limits.iter().all(|limit| (900..=1000).contains(limit)),
            "{limits:?}"
        );
        assert!(limits.iter().any(|limit| *limit != limits[0]));
        assert_eq!(request_limit(0, &mut random), 0);
        assert!((0..50).all(|_| request_limit(5, &mut random) == 5));
    }

    #[test]
    fn pauses_double_up_to_a_bound_and_end_with_success() {
        let now = Instant::now();
        let mut backoff = Backoff::default();
        assert_eq!(backoff.failed(now, now), FIRST_PAUSE);
        assert_eq!(backoff.failed(now, now), FIRST_PAUSE * 2);
        assert_eq!(backoff.pause_until(now), Some(now + FIRST_PAUSE * 2));
        for _ in 0..40 {
            backoff.failed(now, now);
        }
        assert_eq!(backoff.pause_until(now), Some(now + LONGEST_PAUSE));
        backoff.succeeded();
        assert_eq!(backoff.failed(now, now), FIRST_PAUSE);
    }

    #[test]
    fn starts_that_were_under_way_together_fail_once() {
        let begun = Instant::now();
        let mut backoff = Backoff::default();
        let at = |milliseconds| begun + Duration::from_millis(milliseconds);
        assert_eq!(backoff.failed(begun, at(5)), FIRST_PAUSE);
        assert_eq!(backoff.failed(begun, at(9)), FIRST_PAUSE);
        assert_eq!(backoff.pause_until(at(9)), Some(at(5) + FIRST_PAUSE));
        assert_eq!(backoff.failed(at(105), at(110)), FIRST_PAUSE * 2);
        assert_eq!(backoff.failed(begun, at(111)), FIRST_PAUSE * 2);
    }
}
