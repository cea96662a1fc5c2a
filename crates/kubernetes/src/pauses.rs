//! Pauses between attempts: longer after each failure, and never the same for two servers.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(200);

/// The longest: an API server that is away for a night is not to be asked every second by everybody, nor to be missed long when it is back.
const LONGEST: Duration = Duration::from_secs(30);

/// The pauses of one kind of attempt.
#[derive(Debug)]
pub(crate) struct Pauses(Duration);

impl Pauses {
    pub(crate) fn new() -> Self {
        Pauses(FIRST)
    }

    /// The pause after a failure: from a half to the whole of what is doubled each time.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let bound = self.0.min(LONGEST);
        self.0 = bound.saturating_mul(2);
        bound / 2 + random_below(bound / 2)
    }

    /// An attempt has succeeded.
    pub(crate) fn begin_anew(&mut self) {
        self.0 = FIRST;
    }
}

/// A time below a bound, which nobody else has: each `RandomState` has keys of its own.
pub(crate) fn random_below(bound: Duration) -> Duration {
    let number = RandomState::new().build_hasher().finish();
    let bound = u64::try_from(bound.as_millis()).unwrap_or(u64::MAX);
    Duration::from_millis(number % bound.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew() {
        let mut pauses = Pauses::new();
        let first = pauses.after_failure();
        assert!((FIRST / 2..=FIRST).contains(&first), "{first:?}");
        for _ in 0..50 {
            assert!(pauses.after_failure() <= LONGEST);
        }
        assert!(pauses.after_failure() >= LONGEST / 2);
        pauses.begin_anew();
        assert!(pauses.after_failure() <= FIRST);
    }

    #[test]
    fn pauses_differ() {
        let bound = Duration::from_secs(3600);
        let pauses: std::collections::HashSet<_> = (0..20).map(|_| random_below(bound)).collect();
        assert!(pauses.len() > 10, "{pauses:?}");
    }
}
