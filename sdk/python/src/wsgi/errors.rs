//! `wsgi.errors`: the log, at level `error`.

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::log;

/// The stream. It has no state: lines that are written at once appear as one entry.
#[pyclass(module = "tutti", frozen)]
pub(super) struct Errors;

#[pymethods]
impl Errors {
    /// Writes text to the log; an unfinished line is finished.
    fn write(&self, text: &Bound<'_, PyString>) -> PyResult<usize> {
        let lossy = text.to_string_lossy();
        let message = lossy.trim_end_matches('\n');
        // `print` writes the line's end by itself.
        if !message.is_empty() {
            log::application(message.as_bytes());
        }
        text.len()
    }

    fn writelines(&self, lines: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut whole = String::new();
        for line in lines.try_iter()? {
            whole.push_str(&line?.cast::<PyString>()?.to_string_lossy());
        }
        let message = whole.trim_end_matches('\n');
        if !message.is_empty() {
            log::application(message.as_bytes());
        }
        Ok(())
    }

    /// Nothing waits: every `write` goes to the log.
    fn flush(&self) {}
}
