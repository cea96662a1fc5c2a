//! The objects that `receive()` and `send()` give, to be awaited: mostly done before anyone waits.
//!
//! An answer that is there is given by ending the iteration at once, without a future or a turn of the loop. Only what has
//! to wait makes a future; it is a wake-up and no more: each task that is woken looks again, so nothing is lost when a wait is
//! cancelled. They have a coroutine's methods, so that `create_task` takes them.

use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::connection::{AsgiConnection, WaitReason};
use super::guarded::Guarded;
use super::turns::Turns;

/// Something that may have to wait.
#[pyclass(module = "tutti")]
pub(super) struct Waiting {
    connection: Arc<dyn AsgiConnection>,
    wanted: WaitReason,
    /// The iteration over the future that wakes us.
    inner: Option<Py<PyAny>>,
    is_over: bool,
}

impl Waiting {
    pub(super) fn new(connection: Arc<dyn AsgiConnection>, wanted: WaitReason) -> Self {
        Self {
            connection,
            wanted,
            inner: None,
            is_over: false,
        }
    }

    /// A future's iteration that ends when it is worth looking again.
    fn wait(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let future = Arc::clone(&self.connection).wait(py)?;
        let iterator = future.bind(py).call_method0(intern!(py, "__await__"))?;
        Ok(iterator.unbind())
    }

    fn step(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if self.is_over {
            return Err(PyRuntimeError::new_err(
                "cannot reuse already awaited coroutine",
            ));
        }
        loop {
            if let Some(inner) = &self.inner {
                match inner.bind(py).call_method0(intern!(py, "__next__")) {
                    Ok(waits) => return Ok(Some(waits.unbind())),
                    Err(error) if error.is_instance_of::<PyStopIteration>(py) => self.inner = None,
                    Err(error) => {
                        self.is_over = true;
                        return Err(error);
                    }
                }
            }
            match self.connection.poll(py, self.wanted) {
                Ok(Some(answer)) => {
                    self.is_over = true;
                    if answer.is_none(py) {
                        return Ok(None);
                    }
                    return Err(PyStopIteration::new_err((answer,)));
                }
                Ok(None) => self.inner = Some(self.wait(py)?),
                Err(error) => {
                    self.is_over = true;
                    return Err(error);
                }
            }
        }
    }
}

#[pymethods]
impl Waiting {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.step(py)
    }

    fn send(&mut self, py: Python<'_>, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let stop = || PyStopIteration::new_err(());
        self.step(py)?.ok_or_else(stop)
    }

    #[pyo3(signature = (kind, value = None, traceback = None))]
    fn throw(
        &mut self,
        py: Python<'_>,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        let Some(inner) = self.inner.take() else {
            self.is_over = true;
            return Err(thrown(kind, value));
        };
        let inner = inner.into_bound(py);
        let outcome = match (value, traceback) {
            (None, _) => inner.call_method1(intern!(py, "throw"), (kind,)),
            (Some(value), None) => inner.call_method1(intern!(py, "throw"), (kind, value)),
            (Some(value), Some(traceback)) => {
                inner.call_method1(intern!(py, "throw"), (kind, value, traceback))
            }
        };
        self.is_over = outcome.is_err();
        self.inner = Some(inner.unbind());
        outcome.map(Bound::unbind)
    }

    fn close(&mut self, py: Python<'_>) -> PyResult<()> {
        self.is_over = true;
        match self.inner.take() {
            Some(inner) => inner.bind(py).call_method0(intern!(py, "close")).map(drop),
            None => Ok(()),
        }
    }
}

/// The exception that `throw` was given.
pub(super) fn thrown(kind: Bound<'_, PyAny>, value: Option<Bound<'_, PyAny>>) -> PyErr {
    match value.filter(|value| !value.is_none()) {
        Some(value) => PyErr::from_value(value),
        None => PyErr::from_value(kind),
    }
}

/// An awaitable that is done already. There is one of it.
#[pyclass(module = "tutti", frozen)]
pub(super) struct Done;

static DONE: PyOnceLock<Py<Done>> = PyOnceLock::new();

impl Done {
    pub(super) fn get(py: Python<'_>) -> PyResult<Py<PyAny>> {
        let done = DONE.get_or_try_init(py, || Py::new(py, Done))?;
        Ok(done.clone_ref(py).into_any())
    }
}

#[pymethods]
impl Done {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self) -> Option<Py<PyAny>> {
        None
    }

    fn send(&self, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Err(PyStopIteration::new_err(()))
    }

    #[pyo3(signature = (kind, value = None, _traceback = None))]
    fn throw(
        &self,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        _traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        Err(thrown(kind, value))
    }

    fn close(&self) {}
}

/// An exception of `send`. As in a coroutine, it is raised in the task that awaits, which may be another than the one that called.
#[pyclass(module = "tutti")]
pub(super) struct Failed(Option<PyErr>);

impl Failed {
    pub(super) fn make(py: Python<'_>, error: PyErr) -> PyResult<Py<PyAny>> {
        Ok(Py::new(py, Self(Some(error)))?.into_any())
    }

    fn raise(&mut self) -> PyErr {
        self.0
            .take()
            .unwrap_or_else(|| PyRuntimeError::new_err("cannot reuse already awaited coroutine"))
    }
}

#[pymethods]
impl Failed {
    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&mut self) -> PyResult<Py<PyAny>> {
        Err(self.raise())
    }

    fn send(&mut self, _value: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        Err(self.raise())
    }

    #[pyo3(signature = (kind, value = None, _traceback = None))]
    fn throw(
        &mut self,
        kind: Bound<'_, PyAny>,
        value: Option<Bound<'_, PyAny>>,
        _traceback: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Py<PyAny>> {
        Err(thrown(kind, value))
    }

    fn close(&self) {}
}

/// Futures of those who wait for news of an exchange.
pub(super) struct Waiters {
    turns: Arc<Guarded<Turns>>,
    futures: Vec<Py<PyAny>>,
    /// Its slot, while the event loop passes its news on.
    slot: u32,
    is_registered: bool,
}

impl Waiters {
    pub(super) fn new(turns: Arc<Guarded<Turns>>, slot: u32) -> Self {
        Self {
            turns,
            futures: Vec::new(),
            slot,
            is_registered: false,
        }
    }

    pub(super) fn wait(
        &mut self,
        py: Python<'_>,
        connection: Arc<dyn AsgiConnection>,
    ) -> PyResult<Py<PyAny>> {
        self.register(connection);
        let future = self.turns.create_future(py)?;
        self.futures.push(future.clone_ref(py));
        Ok(future)
    }

    /// Has news of the slot passed on to the connection.
    pub(super) fn register(&mut self, connection: Arc<dyn AsgiConnection>) {
        if !self.is_registered {
            self.is_registered = true;
            self.turns.register(self.slot, connection);
        }
    }

    /// Wakes everybody.
    pub(super) fn wake(&mut self, py: Python<'_>) -> PyResult<()> {
        for future in self.futures.drain(..) {
            let future = future.bind(py);
            if !future.call_method0(intern!(py, "done"))?.is_truthy()? {
                future.call_method1(intern!(py, "set_result"), (py.None(),))?;
            }
        }
        Ok(())
    }

    /// The exchange is over: its slot will be another's.
    pub(super) fn over(&mut self, py: Python<'_>) -> PyResult<()> {
        self.wake(py)?;
        if std::mem::take(&mut self.is_registered) {
            self.turns.forget(self.slot);
        }
        self.turns.ended(py)
    }
}
