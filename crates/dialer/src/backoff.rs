//! Pauses between attempts that fail: longer after each failure, and never the same for two servers.
//!
//! Called by the clients of stores and of API servers, which many servers have in common: those must not be asked by all of them at one
//! moment. Pure but for randomness, which is that of the standard library: good enough to be apart from others, and no secret.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(200);

/// The pauses of one kind of attempt.
#[derive(Debug)]
pub struct Backoff {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Backoff {
    /// Pauses of at most this length.
    pub fn new(longest: Duration) -> Backoff {
        Backoff::beginning_with(FIRST, longest)
    }

    /// The same with another first pause.
    pub fn beginning_with(first: Duration, longest: Duration) -> Backoff {
        Backoff {
            first,
            next: first,
            longest,
        }
    }

    /// The pause after a failure: from a half to the whole of what is doubled each time.
    pub fn after_failure(&mut self) -> Duration {
        let bound = self.next.min(self.longest);
        self.next = bound.saturating_mul(2);
        bound / 2 + random_time_below(bound / 2)
    }

    /// An attempt has succeeded.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A random number below a bound: each `RandomState` has keys of its own.
pub fn random_below(bound: u64) -> u64 {
    RandomState::new().build_hasher().finish() % bound.max(1)
}

/// A random time below a bound, in milliseconds.
pub fn random_time_below(bound: Duration) -> Duration {
    let bound = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(random_below(bound))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_reset() {
        let longest = Duration::from_secs(1);
        let mut backoff = Backoff::new(longest);
        let first = backoff.after_failure();
        assert!((FIRST / 2..=FIRST).contains(&first), "{first:?}");
        for _ in 0..50 {
            assert!(backoff.after_failure() <= longest);
        }
        assert!(backoff.after_failure() >= longest / 2);
        backoff.reset();
        assert!(backoff.after_failure() <= FIRST);
    }

    #[test]
    fn pauses_differ() {
        let bound = Duration::from_secs(3600);
        let pauses: HashSet<_> = (0..20).map(|_| random_time_below(bound)).collect();
        assert!(pauses.len() > 10, "{pauses:?}");
        assert_eq!(random_below(0), 0);
    }
}
