//! This host's lines in the daemon's log.

use tutti_worker::Level;
use tutti_worker::log::line;

/// The levels, as the Java part numbers them.
const LEVELS: [Level; 5] = [
    Level::Debug,
    Level::Info,
    Level::Notice,
    Level::Warn,
    Level::Error,
];

/// Writes `message` at the level of this number.
pub(crate) fn write(level: usize, message: &[u8]) {
    line(
        LEVELS.get(level).copied().unwrap_or(Level::Error),
        "",
        message,
    );
}
