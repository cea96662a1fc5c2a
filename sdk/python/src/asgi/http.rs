//! An HTTP request with its response: what `receive` and `send` are methods of.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tutti_worker::{Exchange, is_forked};

use super::awaitable::{Done, Failed, Waiters, Waiting};
use super::connection::{AsgiConnection, WaitReason};
use super::guarded::Guarded;
use super::message::gone;
use super::request::{Body, disconnected};
use super::response::{After, Response, is_gone};
use super::turns::Turns;

/// An HTTP request and its response.
#[pyclass(module = "tutti")]
pub(super) struct Http {
    exchange: Guarded<Exchange>,
    body: Body,
    response: Response,
    waiters: Waiters,
}

impl Http {
    pub(super) fn new(turns: Arc<Guarded<Turns>>, exchange: Exchange) -> Self {
        let slot = exchange.slot();
        Self {
            body: Body::new(&exchange),
            exchange: Guarded(exchange),
            response: Response::default(),
            waiters: Waiters::new(turns, slot),
        }
    }

    /// The next message for the application; `None` when it has to wait for one.
    fn poll_message(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if is_gone(&self.exchange) {
            return disconnected(py).map(Some);
        }
        self.body.next(py, &self.exchange)
    }

    /// Looks whether everything has gone: the answer to those who wait for that.
    fn poll_room(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.push(py)?;
        if self.exchange.is_ended() || self.response.is_sent() {
            return Ok(Some(py.None()));
        }
        if self.exchange.is_client_gone() {
            return Err(gone());
        }
        Ok(None)
    }

    fn push(&mut self, py: Python<'_>) -> PyResult<()> {
        let after = self.response.push(py, &mut self.exchange);
        self.tell(py, after)
    }

    /// Tells those who wait that the exchange has ended, if it has.
    fn tell(&mut self, py: Python<'_>, after: After) -> PyResult<()> {
        match after {
            After::Unchanged => Ok(()),
            After::Ended => self.waiters.over(py),
        }
    }

    /// Takes a message from the application; returns what it is to await.
    fn take(slf: &Bound<'_, Self>, message: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if is_forked() {
            // The response is the parent's.
            return Done::get(py);
        }
        let mut borrowed = slf.borrow_mut();
        let this = &mut *borrowed;
        let after = this.response.take(&mut this.exchange, message)?;
        this.tell(py, after)?;
        if this.response.is_sent() {
            return Done::get(py);
        }
        let connection: Arc<dyn AsgiConnection> = Arc::new(slf.clone().unbind());
        this.waiters.register(Arc::clone(&connection));
        drop(borrowed);
        let waiting = Waiting::new(connection, WaitReason::Room);
        Ok(Py::new(py, waiting)?.into_any())
    }
}

impl AsgiConnection for Py<Http> {
    fn poll(&self, py: Python<'_>, wanted: WaitReason) -> PyResult<Option<Py<PyAny>>> {
        let mut http = self.borrow_mut(py);
        match wanted {
            WaitReason::Message => http.poll_message(py),
            WaitReason::Room => http.poll_room(py),
        }
    }

    fn wait(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut http = self.borrow_mut(py);
        http.waiters
            .wait(py, Arc::clone(&self) as Arc<dyn AsgiConnection>)
    }

    fn news(&self, py: Python<'_>) -> PyResult<()> {
        let mut http = self.borrow_mut(py);
        http.push(py)?;
        http.waiters.wake(py)
    }

    fn is_gone(&self, py: Python<'_>) -> bool {
        is_gone(&self.borrow(py).exchange)
    }

    fn returned(&self, py: Python<'_>) -> PyResult<()> {
        let mut borrowed = self.borrow_mut(py);
        let http = &mut *borrowed;
        let after = http.response.returned(&mut http.exchange);
        http.tell(py, after)
    }

    fn failed(&self, py: Python<'_>) -> PyResult<()> {
        let mut borrowed = self.borrow_mut(py);
        let http = &mut *borrowed;
        let after = http.response.failed(&mut http.exchange);
        http.tell(py, after)
    }
}

#[pymethods]
impl Http {
    fn receive(slf: &Bound<'_, Self>) -> Waiting {
        Waiting::new(Arc::new(slf.clone().unbind()), WaitReason::Message)
    }

    fn send(slf: &Bound<'_, Self>, message: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
        Self::take(slf, message).or_else(|error| Failed::make(slf.py(), error))
    }
}
