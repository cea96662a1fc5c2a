//! Limits requests per time by the generic cell rate algorithm: each key has the time at which its requests so far are paid off.
//!
//! One word per key, so that threads share a table without a lock: 23 bits distinguish keys that share a slot, 40 bits are the time, in
//! fractions of the rate's interval. A table does not grow. If all slots of a key are taken, the key that is closest to expiry is evicted,
//! so the clients that exceed their rate the most are remembered longest.
//!
//! If a limit is a whole fleet's, each node has its share: a request costs as many intervals as there are nodes, so that a change of their
//! number changes no word.
//!
//! Must never: wait, or let two threads both take the last permit. (Two keys of one set may collide, once in a million; a client cannot
//! choose such keys, since the hash has a secret. A key that two threads see for the first time at once may get one request too many.)

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
use tutti_config::model::Rate;

use crate::fleet_share::{FleetShare, MOST_NODES};
use crate::valkey::Taken;

/// Fractions of an interval: the rate is accurate to a thousandth.
const PARTS: u64 = 1024;

/// Slots of a key. They fill a cache line.
const WAYS: usize = 8;

/// Bits of the time, which wraps after a thousand million intervals.
const MOMENT_BITS: u32 = 40;
const MOMENT: u64 = (1 << MOMENT_BITS) - 1;

/// Attempts at a change of a word that is changed concurrently.
const ATTEMPTS: usize = 16;

/// Limits the requests of many keys.
#[derive(Debug)]
pub struct RateLimiter {
    places: Box<[AtomicU64]>,
    hasher: RandomState,
    epoch: Instant,
    /// Fractions per nanosecond.
    parts_per_nanosecond: f64,
    interval: Duration,
    /// The burst.
    capacity: u64,
    /// The nodes that share the limit; `None`: it is this node's alone.
    share: Option<Arc<FleetShare>>,
    /// No key can owe more fractions.
    most_debt: u64,
}

/// The requests that one key may send at once, and the time after which all of them are paid off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// A number of requests.
    pub requests: u64,
    /// The time.
    pub window: Duration,
}

impl RateLimiter {
    /// A table for about this many keys.
    pub fn new(rate: Rate, burst: u32, keys: usize) -> Self {
        let interval = rate.interval();
        let sets = keys.div_ceil(WAYS).next_power_of_two();
        Self {
            places: (0..sets * WAYS).map(|_| AtomicU64::new(0)).collect(),
            hasher: RandomState::new(),
            epoch: Instant::now(),
            parts_per_nanosecond: PARTS as f64 / interval.as_nanos() as f64,
            interval,
            capacity: u64::from(burst) + 1,
            share: None,
            most_debt: (u64::from(burst) + 1) * PARTS,
        }
    }

    /// The same for a limit of which this node has its share.
    pub fn shared(self, share: &Arc<FleetShare>) -> Self {
        Self {
            share: Some(Arc::clone(share)),
            most_debt: self.capacity.max(u64::from(MOST_NODES)) * PARTS,
            ..self
        }
    }

    /// The nodes that share the limit.
    pub fn nodes(&self) -> u32 {
        self.share.as_ref().map_or(1, |share| share.nodes())
    }

    /// True if other nodes share it.
    pub fn is_shared(&self) -> bool {
        self.share.is_some()
    }

    /// The whole limit.
    pub fn whole(&self) -> Quota {
        self.quota(1)
    }

    /// This node's share of it.
    pub fn own(&self) -> Quota {
        self.quota(u64::from(self.nodes()))
    }

    fn quota(&self, nodes: u64) -> Quota {
        let requests = self.capacity_of(nodes);
        let intervals = u32::try_from(requests * nodes).unwrap_or(u32::MAX);
        Quota {
            requests,
            window: self.interval.saturating_mul(intervals),
        }
    }

    /// The time per request of the whole limit.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The burst at one of this many nodes: at least one.
    fn capacity_of(&self, nodes: u64) -> u64 {
        match nodes {
            0 | 1 => self.capacity,
            nodes => (self.capacity / nodes).max(1),
        }
    }

    /// Takes a permit for this key at this time.
    pub fn take(&self, key: &[u8], now: Instant) -> Taken {
        let now = self.parts(now.saturating_duration_since(self.epoch));
        let hash = self.hasher.hash_one(key);
        let sets = self.places.len() / WAYS;
        let set = (hash as usize & (sets - 1)) * WAYS;
        let ways = self.places.get(set..set + WAYS).unwrap_or_default();
        // The word of a key is never 0, which marks an empty slot.
        let tag = (hash & !MOMENT) | (1 << MOMENT_BITS);
        let nodes = u64::from(self.nodes());
        let cost = nodes * PARTS;
        let capacity = self.capacity_of(nodes) * cost;
        for _ in 0..ATTEMPTS {
            let (place, word) = self.find(ways, tag, now);
            let Some(place) = place else { break };
            let debt = match word & !MOMENT == tag {
                true => self.debt(word, now),
                false => 0,
            };
            let owed = debt + cost;
            if owed > capacity {
                let retry = self.time(owed - capacity);
                return Taken::Refused { retry };
            }
            let next = tag | (now.wrapping_add(owed) & MOMENT);
            let exchanged =
                place.compare_exchange(word, next, Ordering::Relaxed, Ordering::Relaxed);
            if exchanged.is_ok() {
                return Taken::Admitted {
                    early: self.time(debt),
                    remaining: (capacity - owed) / cost,
                    reset: self.time(owed),
                };
            }
        }
        // This many threads at one word at once exceed any rate.
        Taken::Refused {
            retry: self.interval,
        }
    }

    /// The slot of a key and its word, or the slot to use.
    fn find<'p>(&self, ways: &'p [AtomicU64], tag: u64, now: u64) -> (Option<&'p AtomicU64>, u64) {
        let mut least = (None, 0, u64::MAX);
        for place in ways {
            let word = place.load(Ordering::Relaxed);
            if word & !MOMENT == tag {
                return (Some(place), word);
            }
            let debt = if word == 0 { 0 } else { self.debt(word, now) };
            if debt < least.2 {
                least = (Some(place), word, debt);
            }
        }
        (least.0, least.1)
    }

    /// Returns the lead of a key over the rate, in fractions.
    fn debt(&self, word: u64, now: u64) -> u64 {
        let ahead = (word & MOMENT).wrapping_sub(now) & MOMENT;
        // The time has passed, or was stored before the clock wrapped.
        match ahead > self.most_debt {
            true => 0,
            false => ahead,
        }
    }

    fn parts(&self, time: Duration) -> u64 {
        // The last bits do not matter.
        (time.as_nanos() as f64 * self.parts_per_nanosecond) as u64
    }

    fn time(&self, parts: u64) -> Duration {
        Duration::from_nanos((parts as f64 / self.parts_per_nanosecond) as u64)
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;

    fn limiter(requests: u32, burst: u32) -> RateLimiter {
        let per = Duration::from_secs(1);
        let requests = NonZeroU32::new(requests).unwrap();
        RateLimiter::new(Rate { requests, per }, burst, 1024)
    }

    fn is_admitted(taken: Taken) -> bool {
        matches!(taken, Taken::Admitted { .. })
    }

    #[test]
    fn a_key_has_its_burst_and_then_the_rate() {
        let limiter = limiter(10, 4);
        let start = Instant::now();
        for left in (0..5).rev() {
            match limiter.take(b"a", start) {
                Taken::Admitted {
                    remaining, early, ..
                } => {
                    assert_eq!(remaining, left);
                    let expected = Duration::from_millis(100 * (4 - left));
                    assert!(
                        early.abs_diff(expected) < Duration::from_millis(1),
                        "{early:?}"
                    );
                }
                refused => panic!("{refused:?}"),
            }
        }
        let Taken::Refused { retry } = limiter.take(b"a", start) else {
            panic!("a sixth request");
        };
        assert!(
            retry.abs_diff(Duration::from_millis(100)) < Duration::from_millis(1),
            "{retry:?}"
        );
        assert!(is_admitted(limiter.take(b"b", start)), "another key");
        let later = start + Duration::from_millis(101);
        assert!(is_admitted(limiter.take(b"a", later)));
        assert!(!is_admitted(limiter.take(b"a", later)));
        let much_later = start + Duration::from_secs(60);
        for _ in 0..5 {
            assert!(is_admitted(limiter.take(b"a", much_later)));
        }
        assert!(!is_admitted(limiter.take(b"a", much_later)));
    }

    /// Requests of one key that are admitted in this many seconds, of one each millisecond.
    fn admitted(limiter: &RateLimiter, start: Instant, seconds: u32) -> usize {
        let times = (0..seconds * 1000).map(|step| start + Duration::from_millis(step.into()));
        times
            .filter(|now| is_admitted(limiter.take(b"a", *now)))
            .count()
    }

    #[test]
    fn each_node_has_its_share_of_rate_and_burst() {
        let share = Arc::new(FleetShare::default());
        let limiter = limiter(100, 9).shared(&share);
        let start = Instant::now();
        let minute = Duration::from_secs(60);
        assert_eq!(limiter.own(), limiter.whole());
        // The burst and one, and the rate for ten seconds.
        let about =
            |count: usize, expected: usize| assert!(count.abs_diff(expected) <= 2, "{count}");
        about(admitted(&limiter, start, 10), 1010);
        for (nodes, at_once, rate) in [(2, 5, 50), (5, 2, 20), (10, 1, 10), (100, 1, 1)] {
            share.set(nodes);
            let now = start + minute * nodes;
            let burst = (0..20).filter(|_| is_admitted(limiter.take(b"b", now)));
            assert_eq!(burst.count(), at_once, "{nodes}");
            assert_eq!(limiter.own().requests, at_once as u64);
            about(admitted(&limiter, now, 10), 10 * rate + at_once);
        }
        assert_eq!(limiter.whole().requests, 10);
        assert_eq!(limiter.own().window, Duration::from_secs(1));
        // More than there are requests in the burst.
        share.set(0);
        assert_eq!(limiter.own(), limiter.whole());
        share.set(u32::MAX);
        assert_eq!(limiter.nodes(), MOST_NODES);
    }

    #[test]
    fn another_number_of_nodes_forgets_no_key() {
        let share = Arc::new(FleetShare::default());
        share.set(4);
        let limiter = limiter(10, 3).shared(&share);
        let now = Instant::now();
        assert!(is_admitted(limiter.take(b"a", now)));
        assert!(!is_admitted(limiter.take(b"a", now)));
        for nodes in [1, 3, 100, 4] {
            share.set(nodes);
            assert!(!is_admitted(limiter.take(b"a", now)), "{nodes}");
        }
        // Four intervals of a tenth of a second are its share.
        let later = now + Duration::from_millis(399);
        assert!(!is_admitted(limiter.take(b"a", later)));
        let later = now + Duration::from_millis(401);
        assert!(is_admitted(limiter.take(b"a", later)));
    }

    #[test]
    fn over_a_long_time_the_rate_is_kept() {
        for requests in [1, 7, 333, 10_000, 1_000_000] {
            let limiter = limiter(requests, 3);
            let interval = Duration::from_secs(1) / requests;
            let start = Instant::now();
            let admitted = (0..10_000)
                .filter(|step| is_admitted(limiter.take(b"a", start + interval * *step / 4)))
                .count();
            // 2500 intervals and the burst; a thousandth may be lost by rounding.
            assert!((2495..=2506).contains(&admitted), "{requests}: {admitted}");
        }
    }

    #[test]
    fn a_table_does_not_grow_and_keeps_the_keys_with_most_requests() {
        let limiter = limiter(1, 9);
        let now = Instant::now();
        for _ in 0..10 {
            assert!(is_admitted(limiter.take(b"greedy", now)));
        }
        for key in 0..100_000_u32 {
            assert!(is_admitted(limiter.take(&key.to_be_bytes(), now)));
        }
        assert!(!is_admitted(limiter.take(b"greedy", now)));
        assert_eq!(limiter.places.len(), 1024);
    }

    #[test]
    fn a_clock_that_wraps_refuses_no_request() {
        let limiter = limiter(1_000_000, 100);
        let start = Instant::now();
        let round = Duration::from_nanos((MOMENT + 1) / PARTS * 1000);
        assert!(is_admitted(limiter.take(b"a", start)));
        for step in 0..50 {
            let now =
                start + round - Duration::from_micros(1000) + Duration::from_micros(50) * step;
            assert!(is_admitted(limiter.take(b"a", now)), "{step}");
        }
    }

    /// Prints the cost of a request: `cargo test --release -p tutti-guard cost -- --ignored --nocapture`.
    #[test]
    #[ignore = "it measures and shows, and cannot fail"]
    fn cost() {
        let limiter = RateLimiter::new(
            Rate {
                requests: NonZeroU32::new(10).unwrap(),
                per: Duration::from_secs(1),
            },
            20,
            65_536,
        );
        let start = Instant::now();
        let mut admitted = 0_u32;
        for request in 0..5_000_000_u32 {
            let key = (request.wrapping_mul(2_654_435_761) % 50_000).to_be_bytes();
            admitted += u32::from(is_admitted(limiter.take(&key, Instant::now())));
        }
        let nanoseconds = start.elapsed().as_nanos() / 5_000_000;
        println!("{nanoseconds} ns for each request, of which {admitted} were admitted");
    }

    #[test]
    fn threads_take_nothing_twice() {
        let limiter = limiter(1, 999);
        let now = Instant::now();
        // The key exists before they begin.
        assert!(is_admitted(limiter.take(b"a", now)));
        let admitted: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        (0..1000)
                            .filter(|_| is_admitted(limiter.take(b"a", now)))
                            .count()
                    })
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum()
        });
        assert_eq!(admitted, 999);
    }
}

#[cfg(all(test, loom))]
mod models {
    use loom::sync::Arc;
    use loom::thread;

    use super::*;

    /// Three requests of a key that may send two: one is refused, whatever the order.
    #[test]
    fn threads_take_nothing_twice() {
        loom::model(|| {
            let per = Duration::from_secs(1);
            let limiter = Arc::new(RateLimiter::new(
                Rate {
                    requests: NonZeroU32::MIN,
                    per,
                },
                1,
                WAYS,
            ));
            let now = Instant::now();
            assert!(matches!(limiter.take(b"a", now), Taken::Admitted { .. }));
            let threads: Vec<_> = (0..2)
                .map(|_| {
                    let limiter = Arc::clone(&limiter);
                    thread::spawn(move || matches!(limiter.take(b"a", now), Taken::Admitted { .. }))
                })
                .collect();
            let admitted = threads.into_iter().filter_map(|thread| thread.join().ok());
            assert_eq!(admitted.filter(|admitted| *admitted).count(), 1);
        });
    }
}
