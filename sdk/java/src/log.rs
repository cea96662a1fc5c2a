//! This host's lines in the daemon's log.

use tutti_worker::log::line;

/// The levels, as the Java part numbers them.
const LEVELS: [&str; 5] = ["debug", "info", "notice", "warn", "error"];

/// The number of a level.
pub(crate) const WARN: usize = 3;

/// Writes `message` at the level of this number.
pub(crate) fn write(level: usize, message: &[u8]) {
    line(LEVELS.get(level).unwrap_or(&"error"), "", message);
}
