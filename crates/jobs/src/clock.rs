//! The time of day, because stored times outlive this process. When the clock is changed, the times in memory are moved, see
//! [`State::follow_clock`](crate::state::State::follow_clock).

use crate::queue::Time;

/// Returns the current time.
pub(crate) fn now() -> Time {
    tutti_sys::clock::wall_millis()
}
