//! The time for which a listen thread looks for the response to a lone request before it sleeps.
//!
//! A sleep and a wake-up across processors take longer than a short response: 34 µs on a two-core virtual machine
//! (docs/project/decisions/0001-bitmaps-not-rings.md). Only a thread with a single request in its applications looks: with more of them, the
//! workers need the processors. It looks only as long as its recent responses were short, so a slow application costs it nothing.

use std::time::Duration;

/// A response that took longer, including the wake-up, would not have come while the thread looked for it.
const SHORT: Duration = Duration::from_micros(40);
/// The longest look.
const LONGEST: Duration = Duration::from_micros(24);
/// The first look after a short response.
const FIRST: Duration = Duration::from_micros(6);

/// The time for which one thread looks, by its latest responses.
#[derive(Debug, Default)]
pub(crate) struct BriefWait {
    duration: Duration,
}

impl BriefWait {
    /// The time to look now; zero: not at all.
    pub(crate) fn duration(&self) -> Duration {
        self.duration
    }

    /// Notes how long the thread waited for a response after it had nothing else to do, looking and asleep.
    pub(crate) fn note(&mut self, waited: Duration) {
        self.duration = match waited <= SHORT {
            true => (self.duration * 2).clamp(FIRST, LONGEST),
            false => self.duration / 2,
        };
        if self.duration < FIRST {
            self.duration = Duration::ZERO;
        }
        debug_assert!(self.duration <= LONGEST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_responses_are_looked_for_and_long_ones_are_not() {
        let mut wait = BriefWait::default();
        assert_eq!(wait.duration(), Duration::ZERO);
        for _ in 0..4 {
            wait.note(SHORT);
        }
        assert_eq!(wait.duration(), LONGEST);
        for _ in 0..3 {
            wait.note(SHORT * 2);
        }
        assert_eq!(wait.duration(), Duration::ZERO);
    }
}
