//! The time of day, in the resolution of file dates.

use rustix::time::{ClockId, clock_gettime};

/// Whole seconds since the epoch.
pub fn unix_seconds() -> u64 {
    clock_gettime(ClockId::RealtimeCoarse).tv_sec.max(0) as u64
}
