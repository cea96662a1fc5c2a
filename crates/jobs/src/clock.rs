//! The clock of the machine: what is stored outlives this process, so that its times are the world's.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::queue::Time;

/// The time now.
pub(crate) fn now() -> Time {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    u64::try_from(since.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
