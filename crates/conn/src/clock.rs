//! A coarse monotonic clock for deadlines.
//!
//! `CLOCK_MONOTONIC_COARSE` advances with the kernel's tick (1 to 10 ms) and costs a fifth of the exact clock: deadlines are in seconds,
//! so the tick is enough.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
/// Milliseconds on the coarse monotonic clock.
pub type Millis = u64;

/// Now, in milliseconds of the coarse monotonic clock.
pub fn now_millis() -> Millis {
    let time = clock_gettime(ClockId::MonotonicCoarse);
    (time.tv_sec as u64)
        .saturating_mul(1000)
        .saturating_add(time.tv_nsec as u64 / 1_000_000)
}

/// Converts a `Duration` to the milliseconds of deadlines.
pub fn millis(duration: Duration) -> Millis {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX / 4)
}
