//! Pauses between failing attempts: longer after each failure, and randomized so that servers differ.
//!
//! Used by clients of stores and API servers that many servers share, and that must not get all their requests at the
//! same moment. No I/O; the randomness of the standard library is good enough for this, as nothing here is secret.

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
    /// Creates pauses of at most this length.
    pub fn new(longest: Duration) -> Backoff {
        Backoff::beginning_with(FIRST, longest)
    }

    /// Creates pauses that start with another first one.
    pub fn beginning_with(first: Duration, longest: Duration) -> Backoff {
        Backoff {
            first,
            next: first,
            longest,
        }
    }

    /// Returns the pause after a failure: between half and all of a time that doubles each time.
    pub fn after_failure(&mut self) -> Duration {
        let bound = self.next.min(self.longest);
        self.next = bound.saturating_mul(2);
        bound / 2 + random_time_below(bound / 2)
    }

    /// Must be called after a successful attempt.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

/// Returns a random number below a limit: each `RandomState` has its own keys.
pub fn random_below(bound: u64) -> u64 {
    RandomState::new().build_hasher().finish() % bound.max(1)
}

/// Returns a random time below a limit, in milliseconds.
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
