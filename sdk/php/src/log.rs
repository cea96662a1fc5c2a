//! Lines for the daemon's log, written to standard error, which the router forwards as it is.
//!
//! One `write` a line, so that lines of several workers do not mix.

use std::{
    fmt::Write as _,
    io::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

/// Writes PHP's `message`; a message of several lines (a stack trace) keeps them together.
pub(crate) fn notice(message: &[u8]) {
    write("notice", "php message: ", message);
}

/// Writes what a resident script put out between two requests.
pub(crate) fn output(data: &[u8]) {
    let data = data.strip_suffix(b"\n").unwrap_or(data);
    if !data.is_empty() {
        write("notice", "php output: ", data);
    }
}

/// Writes a fault of the application that the host found.
pub(crate) fn error(message: &str) {
    write("error", "", message.as_bytes());
}

/// Writes a warning of the host itself.
pub(crate) fn warn(message: &str) {
    write("warn", "", message.as_bytes());
}

fn write(level: &str, kind: &str, message: &[u8]) {
    let pid = std::process::id();
    let mut line = String::with_capacity(64);
    // Writing to a string cannot fail.
    let _ = write!(line, "{} [{level}] {pid}#{pid} {kind}", timestamp());
    let mut bytes = line.into_bytes();
    bytes.extend_from_slice(message);
    bytes.push(b'\n');
    // Nobody can be told that the log is gone.
    let _ = std::io::stderr().lock().write_all(&bytes);
}

/// `YYYY/MM/DD HH:MM:SS`, local time.
fn timestamp() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let seconds = libc::time_t::try_from(seconds).unwrap_or_default();
    // SAFETY: `tm` is plain numbers and a pointer that may be null: zeros are a valid value.
    let mut parts: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both pointers are to live values of the right type.
    unsafe { libc::localtime_r(&raw const seconds, &raw mut parts) };
    format!(
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02}",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec
    )
}
