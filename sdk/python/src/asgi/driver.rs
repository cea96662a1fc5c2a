//! The worker in the event loop: its turns, and who is told when there is news.

use std::cell::{Cell, RefCell};
use std::os::fd::AsRawFd;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use tutti_worker::{Exchange, Worker};

use super::Guarded;
use super::awaitable::Connection;
use super::request::{Http, Scopes};
use super::runner::Runner;
use super::websocket::WebSocket;
use crate::lifecycle::{Interface, Target};
use crate::log;
use crate::wsgi;

/// Most requests in one turn, of those that end without having waited: beyond that, other things of the loop are due.
const MOST_IN_A_TURN: usize = 16;

/// The worker's part of the event loop.
#[pyclass(module = "tutti", frozen)]
pub(super) struct Driver {
    worker: Guarded<RefCell<Worker>>,
    targets: Vec<Target>,
    scopes: Guarded<RefCell<Scopes>>,
    /// Those that wait for news, by slot.
    waiting: Guarded<RefCell<Vec<Option<Connection>>>>,
    event_loop: Py<PyAny>,
    create_future: Py<PyAny>,
    call_soon: Py<PyAny>,
    /// `context=`, so that no request's context gets into another.
    in_context: Py<PyDict>,
    new_task: Py<PyAny>,
    task_options: Py<PyDict>,
    /// The bound method that is called in each turn.
    turn: Guarded<RefCell<Option<Py<PyAny>>>>,
    is_scheduled: Guarded<Cell<bool>>,
    is_asleep: Guarded<Cell<bool>>,
    is_leaving: Guarded<Cell<bool>>,
    /// Tasks that run their first step at once exist (Python 3.12).
    is_eager: bool,
    bound: u32,
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
        let context = py.import("contextvars")?.call_method0("copy_context")?;
        let driver = Bound::new(
            py,
            Self {
                worker: Guarded(RefCell::new(worker)),
                scopes: Guarded(RefCell::new(Scopes::new(py, &targets, states)?)),
                targets,
                waiting: Guarded(RefCell::default()),
                create_future: event_loop.getattr("create_future")?.unbind(),
                call_soon: event_loop.getattr("call_soon")?.unbind(),
                event_loop: event_loop.clone().unbind(),
                in_context: [("context", context)].into_py_dict(py)?.unbind(),
                new_task: py.import("asyncio")?.getattr("Task")?.unbind(),
                task_options: task_options.unbind(),
                turn: Guarded(RefCell::default()),
                is_scheduled: Guarded(Cell::new(false)),
                is_asleep: Guarded(Cell::new(false)),
                is_leaving: Guarded(Cell::new(false)),
                is_eager,
                bound,
            },
        )?;
        let turn = driver.getattr("turn")?.unbind();
        *driver.get().turn.borrow_mut() = Some(turn);
        Ok(driver.unbind())
    }

    /// Announces that the worker takes requests.
    pub(super) fn ready(&self) {
        self.worker.borrow().ready();
    }

    /// Puts the worker into the loop.
    pub(super) fn start(driver: &Bound<'_, Self>) -> PyResult<()> {
        let py = driver.py();
        let this = driver.get();
        let event = this
            .worker
            .borrow()
            .event_fd()
            .map(|event| event.as_raw_fd());
        let woken = driver.getattr("woken")?;
        this.event_loop
            .bind(py)
            .call_method1("add_reader", (event, woken))?;
        this.schedule(py)
    }

    /// Breaks the circles.
    pub(super) fn stop(&self) {
        self.worker.borrow_mut().retire();
        self.turn.borrow_mut().take();
        self.waiting.borrow_mut().clear();
    }

    pub(super) fn create_future(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.create_future.call0(py)
    }

    pub(super) fn register(&self, slot: u32, connection: Connection) {
        let mut waiting = self.waiting.borrow_mut();
        let slot = slot as usize;
        if waiting.len() <= slot {
            waiting.resize_with(slot + 1, || None);
        }
        if let Some(place) = waiting.get_mut(slot) {
            *place = Some(connection);
        }
    }

    pub(super) fn forget(&self, slot: u32) {
        if let Some(place) = self.waiting.borrow_mut().get_mut(slot as usize) {
            *place = None;
        }
    }

    /// An exchange has ended: when that makes room, or was the last one of a worker that is leaving, the loop must look.
    pub(super) fn ended(&self, py: Python<'_>) -> PyResult<()> {
        let is_due = match self.worker.try_borrow() {
            Ok(worker) => self.is_leaving.get() || worker.open() + 1 >= self.bound,
            // It is being looked at.
            Err(_) => false,
        };
        if is_due && self.is_asleep.get() {
            self.schedule(py)?;
        }
        Ok(())
    }

    fn schedule(&self, py: Python<'_>) -> PyResult<()> {
        if !self.is_scheduled.replace(true)
            && let Some(turn) = &*self.turn.borrow()
        {
            self.call_soon
                .bind(py)
                .call((turn,), Some(self.in_context.bind(py)))?;
        }
        Ok(())
    }

    /// Tells those whose exchanges have news.
    fn hear(&self, py: Python<'_>) -> PyResult<()> {
        let mut news = Vec::new();
        self.worker.borrow().drain_attention(|slot| news.push(slot));
        for slot in news {
            let connection = match self.waiting.borrow().get(slot as usize) {
                Some(Some(connection)) => connection.clone_ref(py),
                _ => continue,
            };
            match connection {
                Connection::Http(http) => http.borrow_mut(py).news(py)?,
                Connection::WebSocket(socket) => socket.borrow_mut(py).news(py)?,
            }
        }
        Ok(())
    }

    /// Ends the WebSockets of a worker that is leaving: they would last for ever.
    fn leave(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_leaving.replace(true) {
            return Ok(());
        }
        let sockets: Vec<_> = self
            .waiting
            .borrow()
            .iter()
            .flatten()
            .filter_map(|connection| match connection {
                Connection::WebSocket(socket) => Some(socket.clone_ref(py)),
                Connection::Http(_) => None,
            })
            .collect();
        for socket in sockets {
            socket.borrow_mut(py).go_away(py)?;
        }
        Ok(())
    }

    fn look(slf: &Bound<'_, Self>) -> PyResult<()> {
        let (py, this) = (slf.py(), slf.get());
        if this.is_asleep.replace(false) {
            this.worker.borrow_mut().woken();
        }
        this.hear(py)?;
        for _ in 0..MOST_IN_A_TURN {
            let next = this.worker.borrow_mut().try_next();
            let Some(exchange) = next else {
                return this.settle(py);
            };
            if !Self::begin(slf, exchange)? {
                break;
            }
        }
        this.schedule(py)
    }

    /// Nothing is left to do: to sleep, or to the end.
    fn settle(&self, py: Python<'_>) -> PyResult<()> {
        if self.worker.borrow().must_stop() {
            self.leave(py)?;
            if self.worker.borrow().open() == 0 {
                self.event_loop.bind(py).call_method0("stop")?;
                return Ok(());
            }
        }
        if self.worker.borrow_mut().prepare_sleep() {
            self.is_asleep.set(true);
            return Ok(());
        }
        self.schedule(py)
    }

    /// Runs the application on a request until it waits; whether it has ended.
    fn begin(slf: &Bound<'_, Self>, mut exchange: Exchange) -> PyResult<bool> {
        let (py, this) = (slf.py(), slf.get());
        let name = exchange.request().target_name();
        let Some(place) = this.targets.iter().position(|target| target.name == name) else {
            wsgi::answer(&mut exchange, 404);
            return Ok(true);
        };
        let Some(target) = this.targets.get(place) else {
            return Ok(true);
        };
        let scope = this
            .scopes
            .borrow_mut()
            .make(py, &exchange.request(), place)?;
        let driver = slf.clone().unbind();
        let (connection, object) = if exchange.request().is_websocket() {
            let socket = Bound::new(py, WebSocket::new(driver, exchange))?;
            (
                Connection::WebSocket(socket.clone().unbind()),
                socket.into_any(),
            )
        } else {
            let http = Bound::new(py, Http::new(driver, exchange))?;
            (Connection::Http(http.clone().unbind()), http.into_any())
        };
        if let Connection::WebSocket(socket) = &connection {
            socket
                .borrow_mut(py)
                .waiters
                .register(connection.clone_ref(py));
        }
        let receive = object.getattr(pyo3::intern!(py, "receive"))?;
        let send = object.getattr(pyo3::intern!(py, "send"))?;
        let called = match target.interface {
            Interface::Asgi2 => target
                .callable
                .bind(py)
                .call1((scope,))
                .and_then(|instance| instance.call1((receive, send))),
            _ => target.callable.bind(py).call1((scope, receive, send)),
        };
        let runner =
            match called.and_then(|coroutine| Runner::new(coroutine, connection.clone_ref(py))) {
                Ok(runner) => Bound::new(py, runner)?,
                Err(error) => {
                    super::runner::failed(py, &connection, &error);
                    return Ok(true);
                }
            };
        let options = this.task_options.bind(py);
        this.new_task.bind(py).call((&runner,), Some(options))?;
        Ok(this.is_eager && runner.borrow().is_over())
    }
}

#[pymethods]
impl Driver {
    /// A turn of the loop.
    fn turn(slf: &Bound<'_, Self>) {
        slf.get().is_scheduled.set(false);
        if let Err(error) = Self::look(slf) {
            log::exception(slf.py(), "serving requests", &error);
            // Whatever it was, other requests wait.
            let _ = slf.get().schedule(slf.py());
        }
    }

    /// The worker's event is readable.
    fn woken(slf: &Bound<'_, Self>) {
        slf.get().worker.borrow().clear_event();
        if !slf.get().is_scheduled.get() {
            Self::turn(slf);
        }
    }
}
