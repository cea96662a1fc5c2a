//! The coroutine that a request's task runs: the application's own, with an eye on its end.
//!
//! Whatever the end is, return or exception, the response is settled right then: no callback, no later turn of the loop.

use std::sync::Arc;

use pyo3::exceptions::asyncio::CancelledError;
use pyo3::exceptions::{PyConnectionError, PyGeneratorExit, PySystemExit};
use pyo3::prelude::*;
use pyo3::{ffi, intern};

use super::awaitable::thrown;
use super::connection::AsgiConnection;
use crate::{forked, log};

/// A task's coroutine.
#[pyclass(module = "tutti", weakref)]
pub(super) struct Runner {
    coroutine: Py<PyAny>,
    connection: Arc<dyn AsgiConnection>,
    is_over: bool,
}

impl Runner {
    pub(super) fn new(
        awaitable: Bound<'_, PyAny>,
        connection: Arc<dyn AsgiConnection>,
    ) -> PyResult<Self> {
        // SAFETY: a look at the type of a live object.
        let is_coroutine = unsafe { ffi::PyCoro_CheckExact(awaitable.as_ptr()) } != 0;
        let coroutine = if is_coroutine {
            awaitable
        } else {
            awaitable.call_method0(intern!(awaitable.py(), "__await__"))?
        };
        Ok(Self {
            coroutine: coroutine.unbind(),
            connection,
            is_over: false,
        })
    }

    /// True if the application has ended.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Goes on with the application; what it waits for, or `None` at its end.
    fn step(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> Option<Py<PyAny>> {
        let py = slf.py();
        forked::end_in_loop(py);
        let coroutine = slf.borrow().coroutine.clone_ref(py);
        let mut result = std::ptr::null_mut();
        // SAFETY: all three are live, and `result` is written.
        let outcome =
            unsafe { ffi::PyIter_Send(coroutine.as_ptr(), value.as_ptr(), &raw mut result) };
        // SAFETY: a new reference, or null with an exception set.
        let result = unsafe { Bound::from_owned_ptr_or_err(py, result) };
        match (outcome, result) {
            (ffi::PySendResult::PYGEN_NEXT, Ok(waits)) => {
                forked::end_in_loop(py);
                Some(waits.unbind())
            }
            (_, result) => {
                Self::end(slf, result);
                None
            }
        }
    }

    fn end(slf: &Bound<'_, Self>, outcome: PyResult<Bound<'_, PyAny>>) {
        let py = slf.py();
        forked::end(py, outcome.as_ref().err());
        let connection = {
            let mut this = slf.borrow_mut();
            this.is_over = true;
            Arc::clone(&this.connection)
        };
        match outcome {
            Ok(_) => returned(py, &*connection),
            Err(error) => failed(py, &*connection, &error),
        }
    }

    fn of_coroutine<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        self.coroutine.bind(py).getattr(name)
    }
}

/// The application has ended by itself: the response must be whole.
fn returned(py: Python<'_>, connection: &dyn AsgiConnection) {
    if let Err(error) = connection.returned(py) {
        log::exception(py, "ending a request", &error);
    }
}

/// The application has ended with an exception.
pub(super) fn failed(py: Python<'_>, connection: &dyn AsgiConnection, error: &PyErr) {
    let is_gone = connection.is_gone(py);
    let is_quiet = error.is_instance_of::<CancelledError>(py)
        || error.is_instance_of::<PyGeneratorExit>(py)
        || (is_gone && error.is_instance_of::<PyConnectionError>(py));
    if !is_quiet {
        log::exception(py, "exception in the application", error);
    }
    if let Err(error) = connection.failed(py) {
        log::exception(py, "ending a request", &error);
    }
    // An application that calls `sys.exit()` wants this process to end.
    if error.is_instance_of::<PySystemExit>(py) {
        tutti_worker::Process::stop();
    }
}

#[pymethods]
impl Runner {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> Option<Py<PyAny>> {
        Self::step(slf, &slf.py().None().into_bound(slf.py()))
    }

    fn send(slf: &Bound<'_, Self>, value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let stop = || pyo3::exceptions::PyStopIteration::new_err(());
        Self::step(slf, value).ok_or_else(stop)
    }

    #[pyo3(signature = (kind, value = None, _traceback = None))]
    fn throw(
        slf: &Bound<'_, Self>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        _traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let coroutine = slf.borrow().coroutine.clone_ref(py).into_bound(py);
        let error = thrown(kind, value);
        let outcome = coroutine.call_method1(intern!(py, "throw"), (error.clone_ref(py),));
        match outcome {
            Ok(waits) => Ok(waits.unbind()),
            Err(error) if error.is_instance_of::<pyo3::exceptions::PyStopIteration>(py) => {
                Self::end(slf, Ok(py.None().into_bound(py)));
                Err(error)
            }
            Err(error) => {
                let is_cancelled = error.is_instance_of::<CancelledError>(py);
                Self::end(slf, Err(error.clone_ref(py)));
                // The task is to know that it was cancelled; everything else has been reported.
                if is_cancelled {
                    Err(error)
                } else {
                    Err(pyo3::exceptions::PyStopIteration::new_err(()))
                }
            }
        }
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let coroutine = slf.borrow().coroutine.clone_ref(py).into_bound(py);
        coroutine.call_method0(intern!(py, "close")).map(drop)
    }

    // Attributes that libraries ask of a task's coroutine (anyio, debuggers).

    #[getter]
    fn cr_frame<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.of_coroutine(py, "cr_frame")
    }

    #[getter]
    fn cr_running<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.of_coroutine(py, "cr_running")
    }

    #[getter]
    fn cr_suspended<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.of_coroutine(py, "cr_suspended")
    }

    #[getter]
    fn cr_code<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.of_coroutine(py, "cr_code")
    }

    #[getter]
    fn cr_await<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.of_coroutine(py, "cr_await")
    }

    #[getter]
    fn __name__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.of_coroutine(py, "__name__")
    }

    #[getter]
    fn __qualname__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.of_coroutine(py, "__qualname__")
    }
}
