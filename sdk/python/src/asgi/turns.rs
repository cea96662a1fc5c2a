//! The worker's turns in the event loop, and the tasks to wake when an exchange has news.
//!
//! Made by the driver, whose `turn` is called in each turn; shared with everything that waits for news of its exchange.

use std::cell::{Cell, RefCell};
use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{IntoPyDict, PyDict};
use tutti_worker::{Exchange, Worker};

use super::connection::AsgiConnection;

/// The worker as a part of the event loop.
pub(super) struct Turns {
    worker: RefCell<Worker>,
    /// Those that wait for news, by slot.
    waiting: RefCell<Vec<Option<Arc<dyn AsgiConnection>>>>,
    event_loop: Py<PyAny>,
    create_future: Py<PyAny>,
    call_soon: Py<PyAny>,
    /// `context=`, so that no request's context gets into another.
    in_context: Py<PyDict>,
    /// The bound method that is called in each turn.
    turn: RefCell<Option<Py<PyAny>>>,
    is_scheduled: Cell<bool>,
    is_asleep: Cell<bool>,
    /// Most exchanges at once.
    bound: u32,
}

impl Turns {
    pub(super) fn new(
        py: Python<'_>,
        worker: Worker,
        bound: u32,
        event_loop: &Bound<'_, PyAny>,
    ) -> PyResult<Self> {
        let context = py.import("contextvars")?.call_method0("copy_context")?;
        Ok(Self {
            worker: RefCell::new(worker),
            waiting: RefCell::default(),
            create_future: event_loop.getattr("create_future")?.unbind(),
            call_soon: event_loop.getattr("call_soon")?.unbind(),
            event_loop: event_loop.clone().unbind(),
            in_context: [("context", context)].into_py_dict(py)?.unbind(),
            turn: RefCell::default(),
            is_scheduled: Cell::new(false),
            is_asleep: Cell::new(false),
            bound,
        })
    }

    /// Tells the router that the worker takes requests.
    pub(super) fn ready(&self) {
        self.worker.borrow().ready();
    }

    /// Puts the worker into the loop: `turn` is called in its turns, `woken` when its event is readable.
    pub(super) fn start(&self, turn: &Bound<'_, PyAny>, woken: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = turn.py();
        *self.turn.borrow_mut() = Some(turn.clone().unbind());
        let event: Option<RawFd> = self
            .worker
            .borrow()
            .event_fd()
            .map(|event| event.as_raw_fd());
        self.event_loop
            .bind(py)
            .call_method1("add_reader", (event, woken))?;
        self.schedule(py)
    }

    /// Breaks the circles.
    pub(super) fn stop(&self) {
        self.worker.borrow_mut().retire();
        self.turn.borrow_mut().take();
        self.waiting.borrow_mut().clear();
    }

    /// The worker's event is readable. True if a turn is due now.
    pub(super) fn is_due(&self) -> bool {
        self.worker.borrow().clear_event();
        !self.is_scheduled.get()
    }

    /// A turn begins: the worker is awake, and tasks whose exchanges have news are woken.
    pub(super) fn begin(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_asleep.replace(false) {
            self.worker.borrow_mut().woken();
        }
        self.hear(py)
    }

    /// The turn that was asked for has come.
    pub(super) fn has_come(&self) {
        self.is_scheduled.set(false);
    }

    /// Takes a request, if there is one.
    pub(super) fn take(&self) -> Option<Exchange> {
        self.worker.borrow_mut().try_next()
    }

    pub(super) fn create_future(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        self.create_future.call0(py)
    }

    pub(super) fn register(&self, slot: u32, connection: Arc<dyn AsgiConnection>) {
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
            Ok(worker) => worker.must_stop() || worker.open() + 1 >= self.bound,
            // It is being looked at.
            Err(_) => false,
        };
        if is_due && self.is_asleep.get() {
            self.schedule(py)?;
        }
        Ok(())
    }

    /// Asks for a turn.
    pub(super) fn schedule(&self, py: Python<'_>) -> PyResult<()> {
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
            let connection = self.waiting.borrow().get(slot as usize).cloned();
            if let Some(connection) = connection.flatten() {
                connection.news(py)?;
            }
        }
        Ok(())
    }

    /// Nothing is left to do: to sleep, or to the end.
    pub(super) fn settle(&self, py: Python<'_>) -> PyResult<()> {
        let is_done = {
            let worker = self.worker.borrow();
            worker.must_stop() && worker.open() == 0
        };
        if is_done {
            self.event_loop.bind(py).call_method0("stop")?;
            return Ok(());
        }
        if self.worker.borrow_mut().prepare_sleep() {
            self.is_asleep.set(true);
            return Ok(());
        }
        self.schedule(py)
    }
}
