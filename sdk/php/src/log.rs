//! This host's lines in the daemon's log.

use tutti_worker::Level;
use tutti_worker::log::line;

/// Writes PHP's `message`. PHP says how bad it is by the
/// numbers of syslog(3): a fatal error is an error, a warning a warning, and what `error_log()` writes a notice.
pub(crate) fn message(message: &[u8], severity: i32) {
    line(level(severity), "php message: ", message);
}

fn level(severity: i32) -> Level {
    match severity {
        libc::LOG_EMERG | libc::LOG_ALERT | libc::LOG_CRIT => Level::Alert,
        libc::LOG_ERR => Level::Error,
        libc::LOG_WARNING => Level::Warn,
        libc::LOG_INFO | libc::LOG_DEBUG => Level::Info,
        _ => Level::Notice,
    }
}

/// Writes what a resident script put out between two requests.
pub(crate) fn output(data: &[u8]) {
    let data = data.strip_suffix(b"\n").unwrap_or(data);
    if !data.is_empty() {
        line(Level::Notice, "php output: ", data);
    }
}

/// Writes a fault of the application that the host found.
pub(crate) fn error(message: &str) {
    line(Level::Error, "", message.as_bytes());
}
