//! The time of day, for ages.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::Millis;

/// The time for ages.
pub fn now() -> Millis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| Millis::try_from(since.as_millis()).unwrap_or(0))
}
