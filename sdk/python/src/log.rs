//! Lines for the daemon's log, written to standard error, which the router forwards as it is.
//!
//! One `write` a line, so that lines of several workers do not mix.

use std::{
    fmt::Write as _,
    io::Write as _,
    time::{SystemTime, UNIX_EPOCH},
};

use pyo3::prelude::*;
use pyo3::types::PyString;

/// Writes what the application says to `wsgi.errors`; lines that come together stay together.
pub(crate) fn application(message: &[u8]) {
    write("error", message);
}

/// Writes a fault of the application that the host found.
pub(crate) fn error(message: &str) {
    write("error", message.as_bytes());
}

/// Writes a warning of the host itself.
pub(crate) fn warn(message: &str) {
    write("warn", message.as_bytes());
}

/// Writes an exception with its traceback.
pub(crate) fn exception(py: Python<'_>, what: &str, exception: &PyErr) {
    error(&format!("{what}\n{}", traceback(py, exception).trim_end()));
}

/// An exception as Python prints it: traceback, causes and all.
pub(crate) fn traceback(py: Python<'_>, error: &PyErr) -> String {
    let format = || -> PyResult<String> {
        let value = error.value(py);
        let kind = error.get_type(py);
        let lines = py
            .import("traceback")?
            .call_method1("format_exception", (kind, value, error.traceback(py)))?;
        PyString::new(py, "")
            .call_method1("join", (lines,))?
            .extract()
    };
    format().unwrap_or_else(|_| error.to_string())
}

fn write(level: &str, message: &[u8]) {
    let pid = std::process::id();
    let thread = rustix::thread::gettid().as_raw_nonzero();
    let mut line = String::with_capacity(64);
    // Writing to a string cannot fail.
    let _ = write!(line, "{} [{level}] {pid}#{thread} ", timestamp());
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
