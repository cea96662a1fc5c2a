//! The clock, and times that the environment may set.

use std::time::Duration;

/// Returns the seconds since 1970.
pub fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

/// Time limit for an answer from a member of the store, and for its silence before it is checked.
const PATIENCE: Duration = Duration::from_secs(5);

/// The environment variable that overrides this number of seconds.
const PATIENCE_VARIABLE: &str = "TUTTI_FLEET_PATIENCE";

/// Returns a time in seconds from an environment variable.
pub fn seconds(variable: &str, default: Duration) -> Duration {
    let given = std::env::var(variable).ok();
    let given = given.and_then(|text| text.parse::<f64>().ok());
    let given = given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    given.filter(|given| !given.is_zero()).unwrap_or(default)
}

/// Returns the time limit for an answer from a member of the store.
pub fn patience() -> Duration {
    seconds(PATIENCE_VARIABLE, PATIENCE)
}
