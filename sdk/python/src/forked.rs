//! The end of a process that the application has forked: the request, and the worker's place, are its parent's.

use pyo3::exceptions::PySystemExit;
use pyo3::prelude::*;
use tutti_worker::{end_if_forked, is_forked};

use crate::log;

/// Ends such a process, in which the application has returned, or raised; does nothing in every other.
///
/// What Python does at its end (`atexit`, the modules' own) is left out: it was registered in the parent, and is for that one.
pub(crate) fn end(py: Python<'_>, raised: Option<&PyErr>) {
    if is_forked() {
        let code = raised.map_or(0, |error| exit_code(py, error));
        for name in ["stdout", "stderr"] {
            let flushed = py
                .import("sys")
                .and_then(|sys| sys.getattr(name)?.call_method0("flush"));
            // A stream may be closed, or replaced by an object that has no `flush`.
            drop(flushed);
        }
        end_if_forked(code);
    }
}

/// The same where it would go on in its parent's event loop.
pub(crate) fn end_in_loop(py: Python<'_>) {
    if is_forked() {
        log::error(
            "a process that the application has forked ends where it waits for the event loop, which is its parent's\nhint: end it by `os._exit()`, or start it by `asyncio.create_subprocess_exec()`",
        );
        end(py, None);
    }
}

/// As Python ends with an exception, which is reported.
fn exit_code(py: Python<'_>, error: &PyErr) -> i32 {
    if error.is_instance_of::<PySystemExit>(py)
        && let Ok(code) = error.value(py).getattr("code")
        && let Ok(code) = code.extract::<Option<i32>>()
    {
        return code.unwrap_or(0);
    }
    let what = "exception in a process that the application forked";
    log::exception(py, what, error);
    1
}
