//! The worker in the event loop: in each turn it takes requests, and runs the application on each until that waits.

use std::cell::RefCell;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use tutti_worker::{Exchange, Worker, page};

use super::connection::AsgiConnection;
use super::guarded::Guarded;
use super::http::Http;
use super::runner::{Runner, failed};
use super::scope::Scopes;
use super::turns::Turns;
use super::websocket::WebSocket;
use crate::lifecycle::{Interface, Target};
use crate::log;

/// Most requests in one turn, of those that end without having waited: beyond that, other things of the loop are due.
const MOST_IN_A_TURN: usize = 16;

/// The worker's part of the event loop.
#[pyclass(module = "tutti", frozen)]
pub(super) struct Driver {
    turns: Arc<Guarded<Turns>>,
    targets: Vec<Target>,
    scopes: Guarded<RefCell<Scopes>>,
    new_task: Py<PyAny>,
    task_options: Py<PyDict>,
    /// Tasks that run their first step at once exist (Python 3.12).
    is_eager: bool,
}

impl Driver {
    pub(super) fn new(
        py: Python<'_>,
        worker: Worker,
        bound: u32,
        targets: Vec<Target>,
        states: Vec<Py<PyDict>>,
        event_loop: &Bound<'_, PyAny>,
    ) -> PyResult<Py<Self>> {
        let is_eager = py.version_info() >= (3, 12);
        let task_options = [("loop", event_loop.clone())].into_py_dict(py)?;
        if is_eager {
            task_options.set_item("eager_start", true)?;
        }
        Py::new(
            py,
            Self {
                turns: Arc::new(Guarded(Turns::new(py, worker, bound, event_loop)?)),
                scopes: Guarded(RefCell::new(Scopes::new(py, &targets, states)?)),
                targets,
                new_task: py.import("asyncio")?.getattr("Task")?.unbind(),
                task_options: task_options.unbind(),
                is_eager,
            },
        )
    }

    /// Tells the router that the worker takes requests.
    pub(super) fn ready(&self) {
        self.turns.ready();
    }

    /// Puts the worker into the loop.
    pub(super) fn start(driver: &Bound<'_, Self>) -> PyResult<()> {
        let (turn, woken) = (driver.getattr("turn")?, driver.getattr("woken")?);
        driver.get().turns.start(&turn, &woken)
    }

    /// Breaks the circles.
    pub(super) fn stop(&self) {
        self.turns.stop();
    }

    fn look(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        this.turns.begin(py)?;
        for _ in 0..MOST_IN_A_TURN {
            let Some(exchange) = this.turns.take() else {
                return this.turns.settle(py);
            };
            if !Self::begin(slf, exchange)? {
                break;
            }
        }
        this.turns.schedule(py)
    }

    /// Runs the application on a request until it waits. True if it has ended.
    fn begin(slf: &Bound<'_, Self>, mut exchange: Exchange) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let name = exchange.request().target_name();
        let Some(place) = this.targets.iter().position(|target| target.name == name) else {
            page::answer(&mut exchange, 404);
            return Ok(true);
        };
        let Some(target) = this.targets.get(place) else {
            return Ok(true);
        };
        let scope = this
            .scopes
            .borrow_mut()
            .make(py, &exchange.request(), place)?;
        let turns = Arc::clone(&this.turns);
        let connection: Arc<dyn AsgiConnection>;
        let object = if exchange.request().is_websocket() {
            let socket = Bound::new(py, WebSocket::new(turns, exchange))?;
            connection = Arc::new(socket.clone().unbind());
            socket.borrow_mut().listen(Arc::clone(&connection));
            socket.into_any()
        } else {
            let http = Bound::new(py, Http::new(turns, exchange))?;
            connection = Arc::new(http.clone().unbind());
            http.into_any()
        };
        let receive = object.getattr(pyo3::intern!(py, "receive"))?;
        let send = object.getattr(pyo3::intern!(py, "send"))?;
        let context = copy_context(py)?;
        let runner = within(&context, || {
            let callable = target.callable.bind(py);
            let coroutine = match target.interface {
                Interface::Asgi2 => callable.call1((scope,))?.call1((receive, send)),
                _ => callable.call1((scope, receive, send)),
            };
            Runner::new(coroutine?, Arc::clone(&connection))
        });
        let runner = match runner {
            Ok(runner) => Bound::new(py, runner)?,
            Err(error) => {
                failed(py, &*connection, &error);
                return Ok(true);
            }
        };
        let (options, name) = (this.task_options.bind(py), pyo3::intern!(py, "context"));
        options.set_item(name, &context)?;
        let task = this.new_task.bind(py).call((&runner,), Some(options));
        // The context, with all that the request has set, ends with it.
        options.set_item(name, py.None())?;
        task?;
        Ok(this.is_eager && runner.borrow().is_over())
    }
}

/// A copy of the current context, which costs the same however much is in it (PEP 567).
fn copy_context(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    // SAFETY: attached.
    let copy = unsafe { ffi::PyContext_CopyCurrent() };
    // SAFETY: a new reference, or null with an exception set.
    unsafe { Bound::from_owned_ptr_or_err(py, copy) }
}

/// Calls `act` in a context: a variable that an application sets before its coroutine runs is its request's own, too.
fn within<T>(context: &Bound<'_, PyAny>, act: impl FnOnce() -> PyResult<T>) -> PyResult<T> {
    // SAFETY: attached, and a context.
    if unsafe { ffi::PyContext_Enter(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(context.py()));
    }
    let result = act();
    // SAFETY: as above; no exception is set, because `act` has taken its own.
    if unsafe { ffi::PyContext_Exit(context.as_ptr()) } != 0 {
        return Err(PyErr::fetch(context.py()));
    }
    result
}

#[pymethods]
impl Driver {
    /// A turn of the loop.
    fn turn(slf: &Bound<'_, Self>) {
        let turns = &slf.get().turns;
        turns.has_come();
        if let Err(error) = Self::look(slf) {
            log::exception(slf.py(), "serving requests", &error);
            // Whatever it was, other requests wait.
            let _ = turns.schedule(slf.py());
        }
    }

    /// The worker's event is readable.
    fn woken(slf: &Bound<'_, Self>) {
        if slf.get().turns.is_due() {
            Self::turn(slf);
        }
    }
}
