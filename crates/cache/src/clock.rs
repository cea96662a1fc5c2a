//! The two clocks of the cache. Ages are counted on the monotonic clock, because the time of day may be changed while a response is stored.
//! The time of day is compared with dates from outside (`Date`, `Expires`), and is written to disk, where it outlives this process.

use tutti_sys::clock::{steady_millis, wall_millis};

use crate::Millis;

/// The value of the monotonic clock of the cache when the machine starts, 139 years: responses on disk may be older than the last start.
const BASE: Millis = 1 << 42;

/// Milliseconds that the date of a response on disk may be in the future: the clocks are not read at the same moment, and get corrected.
const TOLERANCE: Millis = 60_000;

/// Returns the time for ages.
pub fn now() -> Millis {
    BASE.saturating_add(steady_millis())
}

/// Both clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReading {
    /// The time for ages.
    pub steady: Millis,
    /// Milliseconds since 1970.
    pub wall: Millis,
}

impl ClockReading {
    /// Reads both clocks.
    pub fn now() -> Self {
        Self {
            steady: now(),
            wall: wall_millis(),
        }
    }

    /// Converts a time for ages into a time of day.
    pub fn wall_at(self, steady: Millis) -> Millis {
        self.wall.saturating_sub(self.steady.saturating_sub(steady))
    }

    /// Converts a time of day into a time for ages; `None` if it is in the future: the clock was changed, and the age is unknown.
    pub fn steady_at(self, wall: Millis) -> Option<Millis> {
        let age = match self.wall.checked_sub(wall) {
            Some(age) => age,
            None if wall - self.wall <= TOLERANCE => 0,
            None => return None,
        };
        Some(self.steady.saturating_sub(age))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_come_back_as_they_were_unless_the_clock_was_set_back() {
        let noon = ClockReading {
            steady: BASE + 5_000,
            wall: 1_700_000_000_000,
        };
        let stored = noon.wall_at(BASE + 2_000);
        assert_eq!(stored, 1_700_000_000_000 - 3_000);
        assert_eq!(noon.steady_at(stored), Some(BASE + 2_000));
        // After a restart of the machine.
        let later = ClockReading {
            steady: BASE + 1_000,
            wall: noon.wall + 60_000,
        };
        assert_eq!(later.steady_at(stored), Some(BASE + 1_000 - 63_000));
        let set_back = ClockReading {
            wall: noon.wall - 3_600_000,
            ..later
        };
        assert_eq!(set_back.steady_at(stored), None);
    }
}
