//! The time of day: what is stored outlives this process. When the clock is set, the times in memory move with it, see
//! [`State::follow_clock`](crate::state::State::follow_clock).

use crate::queue::Time;

/// The time now.
pub(crate) fn now() -> Time {
    tutti_sys::clock::wall_millis()
}
