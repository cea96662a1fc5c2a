//! `send` of an HTTP request: the way of the response to the exchange.

use std::collections::VecDeque;

use pyo3::exceptions::{PyConnectionResetError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use smallvec::SmallVec;
use tutti_worker::{Exchange, HeadError};

use super::awaitable::{Connection, Done, Waiting};
use super::request::Http;
use crate::{log, wsgi};

/// How far a response is.
#[derive(Default)]
pub(super) struct Response {
    /// `http.response.start` has come.
    is_started: bool,
    /// An `http.response.body` has come.
    has_body: bool,
    /// The last `http.response.body` has come.
    is_ended: bool,
    /// What there was no room for, and how much of the first has gone.
    waiting: VecDeque<Py<PyBytes>>,
    position: usize,
}

impl Http {
    /// A message from the application; what it is to await.
    pub(super) fn take(slf: &Bound<'_, Self>, message: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        let kind = kind(message)?;
        let name = kind.to_str()?;
        let mut this = slf.borrow_mut();
        if name == "http.response.body" {
            if !this.response.is_started {
                return Err(out_of_order(
                    "http.response.body",
                    "before `http.response.start`",
                ));
            }
            if this.response.is_ended {
                return Err(out_of_order(
                    "http.response.body",
                    "after the response was complete",
                ));
            }
            let more = match message.get_item(intern!(py, "more_body"))? {
                Some(more) => more.is_truthy()?,
                None => false,
            };
            this.body(py, bytes_item(message, intern!(py, "body"))?, more)?;
        } else if name == "http.response.start" {
            if this.response.is_started {
                return Err(out_of_order("http.response.start", "a second time"));
            }
            this.head(message)?;
        } else {
            return Err(unknown(&kind));
        }
        if this.response.waiting.is_empty() {
            return Done::get(py);
        }
        this.waiters
            .register(Connection::Http(slf.clone().unbind()));
        drop(this);
        let waiting = Waiting::room(Connection::Http(slf.clone().unbind()));
        Ok(Py::new(py, waiting)?.into_any())
    }

    fn head(&mut self, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let py = message.py();
        let status = message
            .get_item(intern!(py, "status"))?
            .ok_or_else(|| PyValueError::new_err("`http.response.start` has no `status`"))?
            .extract()?;
        self.response.is_started = true;
        if self.is_gone() {
            return Err(gone());
        }
        start(&self.exchange, status, message)
    }

    fn body(
        &mut self,
        py: Python<'_>,
        bytes: Option<Bound<'_, PyBytes>>,
        more: bool,
    ) -> PyResult<()> {
        self.response.has_body = true;
        self.response.is_ended = !more;
        if self.is_gone() {
            return Err(gone());
        }
        if let Some(bytes) = bytes.filter(|bytes| !bytes.as_bytes().is_empty()) {
            // Most fit at once; what does not waits its turn.
            let sent = match self.response.waiting.is_empty() {
                true => self
                    .exchange
                    .try_write(bytes.as_bytes())
                    .map_err(|_| gone())?,
                false => 0,
            };
            if sent < bytes.as_bytes().len() {
                if self.response.waiting.is_empty() {
                    self.response.position = sent;
                }
                self.response.waiting.push_back(bytes.unbind());
                return self.push(py);
            }
        }
        if !self.response.waiting.is_empty() {
            return Ok(());
        }
        if more {
            self.exchange.flush();
            return Ok(());
        }
        self.finish(py)
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn push(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.response.waiting.is_empty() || self.exchange.is_ended() {
            return Ok(());
        }
        while let Some(first) = self.response.waiting.front() {
            let rest = first
                .as_bytes(py)
                .get(self.response.position..)
                .unwrap_or_default();
            let Ok(sent) = self.exchange.try_write(rest) else {
                self.response.waiting.clear();
                return Ok(());
            };
            if sent < rest.len() {
                if sent == 0 {
                    return Ok(());
                }
                self.response.position += sent;
            } else {
                self.response.waiting.pop_front();
                self.response.position = 0;
            }
        }
        if self.response.is_ended {
            return self.finish(py);
        }
        self.exchange.flush();
        Ok(())
    }

    /// Whether everything has gone: the answer to those who wait for that.
    pub(super) fn poll_room(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.push(py)?;
        if self.exchange.is_ended() || self.response.waiting.is_empty() {
            return Ok(Some(py.None()));
        }
        if self.exchange.is_client_gone() {
            return Err(gone());
        }
        Ok(None)
    }

    fn finish(&mut self, py: Python<'_>) -> PyResult<()> {
        self.exchange.finish();
        self.waiters.over(py)
    }

    /// The application has returned.
    pub(super) fn returned(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.exchange.is_ended() || (self.response.is_ended && !self.exchange.is_client_gone()) {
            // Complete; what there was no room for is sent as there is, the driver sees to that.
            return Ok(());
        }
        if self.response.is_started && !self.response.has_body && !self.is_gone() {
            // It has said all that it means to: the response has no body.
            static IS_TOLD: std::sync::Once = std::sync::Once::new();
            IS_TOLD.call_once(|| log::warning("the application returned without `http.response.body`; its response is taken for one with an empty body"));
            self.response.is_ended = true;
            return self.finish(py);
        }
        if !self.is_gone() {
            log::error(match self.response.is_started {
                true => "the application returned before its response was complete",
                false => "the application returned without a response",
            });
        }
        self.failed(py)
    }

    /// The application will send no more, though it should.
    pub(super) fn failed(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.exchange.is_ended() {
            return Ok(());
        }
        self.response.waiting.clear();
        if self.exchange.is_started() || self.exchange.is_client_gone() {
            self.exchange.abort();
        } else {
            wsgi::answer(&mut self.exchange, 500);
        }
        self.waiters.over(py)
    }
}

/// Hands over a head: `status` and `headers` of a message.
pub(super) fn start(exchange: &Exchange, status: u16, message: &Bound<'_, PyDict>) -> PyResult<()> {
    let py = message.py();
    let mut fields: SmallVec<[(Bound<'_, PyBytes>, Bound<'_, PyBytes>); 12]> = SmallVec::new();
    if let Some(headers) = message.get_item(intern!(py, "headers"))? {
        for field in headers.try_iter()? {
            let field = field?;
            // A pair is mostly a tuple, and may be a list.
            let part = |place: usize| -> Option<Bound<'_, PyBytes>> {
                let part = match field.cast::<PyTuple>() {
                    Ok(tuple) => tuple.get_item(place).ok()?,
                    Err(_) => field.get_item(place).ok()?,
                };
                part.cast_into().ok()
            };
            let (Some(name), Some(value), None) = (part(0), part(1), part(2)) else {
                let message = "`headers` must be made of pairs of `bytes`";
                return Err(PyTypeError::new_err(message));
            };
            fields.push((name, value));
        }
    }
    let pairs = fields
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    exchange.start(status, pairs).map_err(|error| match error {
        HeadError::Field(place) => {
            let field = fields.get(place).map(|(name, value)| {
                let text = |bytes: &Bound<'_, PyBytes>| String::from_utf8_lossy(bytes.as_bytes()).into_owned();
                format!("{}: {}", text(name), text(value))
            });
            PyValueError::new_err(format!(
                "the header field `{}` cannot be sent: a name must be a token, a value must not have line breaks",
                field.unwrap_or_default()
            ))
        }
        error => PyValueError::new_err(error.to_string()),
    })
}

/// `message["type"]`.
pub(super) fn kind<'py>(message: &Bound<'py, PyDict>) -> PyResult<Bound<'py, PyString>> {
    let kind = message
        .get_item(intern!(message.py(), "type"))?
        .ok_or_else(|| PyValueError::new_err("the message has no `type`"))?;
    Ok(kind.cast_into::<PyString>()?)
}

/// The bytes of a member, whatever kind of bytes they are; `None` for none.
pub(super) fn bytes_item<'py>(
    message: &Bound<'py, PyDict>,
    key: &Bound<'py, PyString>,
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let Some(value) = message.get_item(key)?.filter(|value| !value.is_none()) else {
        return Ok(None);
    };
    match value.cast_into::<PyBytes>() {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) => {
            let value = error.into_inner();
            if value.is_instance_of::<PyString>() {
                return Err(PyTypeError::new_err(format!(
                    "`{key}` must be `bytes`, not `str`"
                )));
            }
            // bytearray, memoryview.
            let made = value.py().get_type::<PyBytes>().call1((value,))?;
            Ok(Some(made.cast_into()?))
        }
    }
}

/// The application said what does not fit there.
pub(super) fn out_of_order(kind: &str, when: &str) -> PyErr {
    PyRuntimeError::new_err(format!("`{kind}` was sent {when}"))
}

pub(super) fn unknown(kind: &Bound<'_, PyString>) -> PyErr {
    PyValueError::new_err(format!("a message of type `{kind}` cannot be sent here"))
}

/// Nobody listens any more (ASGI 2.4: an `OSError`).
pub(super) fn gone() -> PyErr {
    PyConnectionResetError::new_err("the client has gone")
}
