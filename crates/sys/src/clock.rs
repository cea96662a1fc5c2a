//! The two clocks: the steady one for ages and intervals, the time of day for times that outlive this boot or are
//! shared with others.
//!
//! The time of day can be set forward and back at any moment. Times that are compared with a later reading belong to the steady clock;
//! where a time of day has to be kept, a [`ClockWatch`] reports how far it has been set since.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// A step of the time of day that is smaller than this is a correction, in milliseconds: NTP slews, and leap seconds are a second.
const LEAST_JUMP: i64 = 2_000;

/// Returns milliseconds of a clock that cannot be set and that also runs while the machine is suspended
/// (`CLOCK_BOOTTIME`).
pub fn steady_millis() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    u64::try_from(time.tv_sec)
        .unwrap_or(0)
        .saturating_mul(1000)
        .saturating_add(u64::try_from(time.tv_nsec).unwrap_or(0) / 1_000_000)
}

/// Returns milliseconds since 1970 by the machine's time of day; 0 before.
pub fn wall_millis() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}

/// A step of the time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jump {
    /// It was set forward by so much.
    Forward(Duration),
    /// It was set back by so much.
    Back(Duration),
}

impl Jump {
    /// Moves a time of day, in milliseconds since 1970, that was noted before the jump to where it is now.
    #[must_use]
    pub fn moved(self, time: u64) -> u64 {
        let millis = |by: Duration| u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        match self {
            Self::Forward(by) => time.saturating_add(millis(by)),
            Self::Back(by) => time.saturating_sub(millis(by)),
        }
    }
}

/// Notices that the time of day has been set.
#[derive(Debug)]
pub struct ClockWatch {
    /// The time of day less the steady clock, in milliseconds, when they were last compared.
    offset: i64,
}

impl Default for ClockWatch {
    fn default() -> Self {
        Self::new(wall_millis(), steady_millis())
    }
}

impl ClockWatch {
    /// Begins with these readings of the two clocks, in milliseconds.
    pub fn new(wall: u64, steady: u64) -> Self {
        Self {
            offset: offset(wall, steady),
        }
    }

    /// Compares the clocks. Returns the jump since they were compared before, if there was one.
    pub fn look(&mut self) -> Option<Jump> {
        self.compare(wall_millis(), steady_millis())
    }

    /// Compares these readings.
    pub fn compare(&mut self, wall: u64, steady: u64) -> Option<Jump> {
        let offset = offset(wall, steady);
        let step = offset.saturating_sub(self.offset);
        self.offset = offset;
        let by = Duration::from_millis(step.unsigned_abs());
        match step {
            LEAST_JUMP.. => Some(Jump::Forward(by)),
            _ if step <= -LEAST_JUMP => Some(Jump::Back(by)),
            _ => None,
        }
    }
}

fn offset(wall: u64, steady: u64) -> i64 {
    let signed = |time: u64| i64::try_from(time).unwrap_or(i64::MAX);
    signed(wall).saturating_sub(signed(steady))
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: u64 = 31_536_000_000;

    #[test]
    fn a_clock_that_is_set_is_noticed_and_one_that_is_corrected_is_not() {
        let mut watch = ClockWatch::new(50 * YEAR, 1000);
        assert_eq!(watch.compare(50 * YEAR + 60_000, 61_000), None);
        assert_eq!(watch.compare(50 * YEAR + 121_500, 121_000), None);
        let year = Duration::from_millis(YEAR);
        let forward = watch.compare(51 * YEAR + 122_500, 122_000);
        assert_eq!(forward, Some(Jump::Forward(year)));
        assert_eq!(watch.compare(51 * YEAR + 123_500, 123_000), None);
        let back = watch.compare(50 * YEAR + 124_500, 124_000);
        assert_eq!(back, Some(Jump::Back(year)));
    }

    #[test]
    fn times_move_with_the_clock() {
        let hour = Duration::from_secs(3600);
        assert_eq!(Jump::Forward(hour).moved(5), 3_600_005);
        assert_eq!(Jump::Back(hour).moved(3_600_005), 5);
        assert_eq!(Jump::Back(hour).moved(5), 0);
    }

    #[test]
    fn the_steady_clock_runs_on() {
        let before = steady_millis();
        assert!(before > 0 && steady_millis() >= before);
    }
}
