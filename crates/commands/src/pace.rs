//! The pause before a command is restarted. No I/O.

use std::time::Duration;

/// A command that ran this long was stable; its next end counts as the first.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// The recent ends of one process.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    quick_ends: u32,
}

impl Pace {
    /// Records that the process ended after this time, or could not be started; returns the pause before the next
    /// start.
    pub(crate) fn ended(
        &mut self,
        ran: Duration,
        (first, longest): (Duration, Duration),
    ) -> Duration {
        if ran >= STABLE_AFTER {
            self.quick_ends = 0;
            return Duration::ZERO;
        }
        let factor = 2_f64.powi(self.quick_ends.min(64).cast_signed());
        self.quick_ends = self.quick_ends.saturating_add(1);
        let pause = (first.as_secs_f64() * factor).min(longest.as_secs_f64());
        Duration::from_secs_f64(pause)
    }

    /// Forgets earlier ends: the process has run long enough, or is another one.
    pub(crate) fn forget(&mut self) {
        self.quick_ends = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest_and_begin_anew_after_a_good_run() {
        let pauses = (Duration::from_secs(1), Duration::from_secs(5));
        let mut pace = Pace::default();
        let quick = Duration::from_millis(10);
        let mut next = |ran| pace.ended(ran, pauses).as_secs();
        assert_eq!(
            [next(quick), next(quick), next(quick), next(quick)],
            [1, 2, 4, 5]
        );
        assert_eq!(next(STABLE_AFTER), 0);
        assert_eq!([next(quick), next(quick)], [1, 2]);
        for _ in 0..100 {
            assert_eq!(pace.ended(quick, pauses).max(pauses.1), pauses.1);
        }
    }
}
