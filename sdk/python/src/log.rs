//! This host's lines in the daemon's log.

use pyo3::prelude::*;
use pyo3::types::PyString;
use tutti_worker::Level;
use tutti_worker::log::line;

/// Writes what the application says to `wsgi.errors`; lines that come together stay together.
pub(crate) fn application(message: &[u8]) {
    line(Level::Error, "", message);
}

/// Writes a fault of the application that the host found.
pub(crate) fn error(message: &str) {
    line(Level::Error, "", message.as_bytes());
}

/// Writes a fault of the application that does no harm to its answer.
pub(crate) fn warning(message: &str) {
    line(Level::Warn, "", message.as_bytes());
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
