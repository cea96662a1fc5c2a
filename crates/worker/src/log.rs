//! Lines for the daemon's log, written to standard error, which the router forwards as it is.
//!
//! One `write` a line, so that lines of several workers do not mix.

use std::fmt::Write as _;
use std::io::Write as _;
use std::sync::OnceLock;
use std::time::SystemTime;

use tutti_sys::{process, time};

static APPLICATION: OnceLock<String> = OnceLock::new();

/// Notes whose lines they are.
pub(crate) fn is_of(application: &str) {
    let _ = APPLICATION.set(application.to_owned());
}

/// Writes `kind` and `message` at `level` (`error`, `notice`, …) in the format of the daemon's log; a message of several lines (a
/// stack trace) keeps them together.
pub fn line(level: &str, kind: &str, message: &[u8]) {
    let now = time::local(SystemTime::now());
    let mut line = String::with_capacity(64);
    // Writing to a string cannot fail.
    let _ = write!(
        line,
        "{:04}/{:02}/{:02} {:02}:{:02}:{:02} [{level}] {}#{} ",
        now.year,
        now.month,
        now.day,
        now.hour,
        now.minute,
        now.second,
        process::id(),
        process::thread_id(),
    );
    if let Some(application) = APPLICATION.get() {
        let _ = write!(line, "\"{application}\": ");
    }
    line.push_str(kind);
    let mut bytes = line.into_bytes();
    bytes.extend_from_slice(message);
    bytes.push(b'\n');
    // Nobody can be told that the log is gone.
    let _ = std::io::stderr().lock().write_all(&bytes);
}
