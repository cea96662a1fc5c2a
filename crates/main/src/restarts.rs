//! When a process that has ended is restarted.

use std::time::{Duration, Instant};

/// A process that ends sooner than this after its start counts as failing.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Consecutive processes that ended before they were useful; after that main gives up, unless requests are being
/// served.
const MAX_FRUITLESS_STARTS: u32 = 8;

/// Pause before the second start after a failure; doubled each time: 8 starts take six seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause: a request that kills every router must not make the site unavailable for much longer.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The starts of one kind of process.
#[derive(Default)]
pub(super) struct Restarts {
    /// When the next start is due.
    at: Option<Instant>,
    /// Failures since one was last stable.
    failures: u32,
    fruitless: u32,
    total: u64,
}

impl Restarts {
    /// A process has ended, which was useful since `useful_from`, or never; false if another start is not worthwhile.
    pub(super) fn ended(&mut self, useful_from: Option<Instant>) -> bool {
        self.total += 1;
        let was_stable = useful_from.is_some_and(|started| started.elapsed() >= STABLE_AFTER);
        self.failures = if was_stable { 0 } else { self.failures + 1 };
        self.fruitless = match useful_from {
            Some(_) => 0,
            None => self.fruitless + 1,
        };
        // The first restart is immediate: new connections meanwhile wait in the backlog.
        let pause = match self.failures {
            0 | 1 => Duration::ZERO,
            n => FIRST_PAUSE
                .saturating_mul(1 << (n - 2).min(16))
                .min(LONGEST_PAUSE),
        };
        debug_assert!(pause <= LONGEST_PAUSE);
        self.at = Some(Instant::now() + pause);
        self.fruitless < MAX_FRUITLESS_STARTS
    }

    /// Processes that have ended.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Cancels the next start.
    pub(super) fn cancel(&mut self) {
        self.at = None;
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// True once if a start is due.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        self.at.take_if(|at| *at <= now).is_some()
    }
}
