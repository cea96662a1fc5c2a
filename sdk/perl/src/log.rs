//! This host's lines in the daemon's log.

use tutti_worker::log::line;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// A fault of the application, or what it has written to `psgi.errors`.
    Error,
    /// The process is to be killed.
    Alert,
}

/// Writes `message`.
pub(crate) fn write(level: Level, message: &[u8]) {
    let level = match level {
        Level::Error => "error",
        Level::Alert => "alert",
    };
    line(level, "", message);
}
