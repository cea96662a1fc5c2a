//! What this host says in the daemon's log.

use tutti_worker::log::line;

/// Writes PHP's `message`; a message of several lines (a stack trace) keeps them together.
pub(crate) fn notice(message: &[u8]) {
    line("notice", "php message: ", message);
}

/// Writes what a resident script put out between two requests.
pub(crate) fn output(data: &[u8]) {
    let data = data.strip_suffix(b"\n").unwrap_or(data);
    if !data.is_empty() {
        line("notice", "php output: ", data);
    }
}

/// Writes a fault of the application that the host found.
pub(crate) fn error(message: &str) {
    line("error", "", message.as_bytes());
}

/// Writes a warning of the host itself.
pub(crate) fn warn(message: &str) {
    line("warn", "", message.as_bytes());
}
