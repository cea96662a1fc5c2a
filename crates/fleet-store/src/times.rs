//! The clock, and times that the environment may say.

use std::time::Duration;

/// Seconds since 1970.
pub fn now() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |time| time.as_secs())
}

/// How long a member of the store may take to answer, and how long it may be silent before it is asked whether it is there.
const PATIENCE: Duration = Duration::from_secs(5);

/// The variable of the environment for another number of seconds.
const PATIENCE_VARIABLE: &str = "TUTTI_FLEET_PATIENCE";

/// A time that a variable of the environment may say in seconds.
pub fn seconds(variable: &str, default: Duration) -> Duration {
    let given = std::env::var(variable).ok();
    let given = given.and_then(|text| text.parse::<f64>().ok());
    let given = given.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    given.filter(|given| !given.is_zero()).unwrap_or(default)
}

/// How long a member of the store may take to answer.
pub fn patience() -> Duration {
    seconds(PATIENCE_VARIABLE, PATIENCE)
}
