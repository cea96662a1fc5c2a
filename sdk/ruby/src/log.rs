//! This host's lines in the daemon's log.

use tutti_worker::log::line;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    /// A fault of the application, or a text that it has written to `rack.errors`.
    Error,
    /// The application works, but not as its author may think.
    Warn,
}

/// Writes `message`.
pub(crate) fn write(level: Level, message: &[u8]) {
    let level = match level {
        Level::Error => "error",
        Level::Warn => "warn",
    };
    line(level, "", message);
}
