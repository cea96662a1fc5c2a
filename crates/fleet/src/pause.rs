//! Pauses between attempts: longer after each failure, and never the same on two nodes.

use std::time::Duration;

use tutti_fleet_store::random_below;

/// The first pause.
const FIRST: Duration = Duration::from_millis(200);

/// The pauses of one kind of attempt.
pub(crate) struct Pauses {
    first: Duration,
    next: Duration,
    longest: Duration,
}

impl Pauses {
    pub(crate) fn new(longest: Duration) -> Pauses {
        Pauses::beginning_with(FIRST, longest)
    }

    pub(crate) fn beginning_with(first: Duration, longest: Duration) -> Pauses {
        Pauses {
            first,
            next: first,
            longest,
        }
    }

    /// The pause after a failure: from a half to the whole of what is doubled each time.
    pub(crate) fn after_failure(&mut self) -> Duration {
        let bound = self.next.min(self.longest);
        self.next = bound.saturating_mul(2);
        let half = bound / 2;
        let more = random_below(u64::try_from(half.as_millis()).unwrap_or(u64::MAX));
        half + Duration::from_millis(more)
    }

    /// An attempt has succeeded.
    pub(crate) fn begin_anew(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_bound_and_begin_anew() {
        let longest = Duration::from_secs(1);
        let mut pauses = Pauses::new(longest);
        let first = pauses.after_failure();
        assert!((FIRST / 2..=FIRST).contains(&first), "{first:?}");
        for _ in 0..50 {
            assert!(pauses.after_failure() <= longest);
        }
        assert!(pauses.after_failure() >= longest / 2);
        pauses.begin_anew();
        assert!(pauses.after_failure() <= FIRST);
    }
}
