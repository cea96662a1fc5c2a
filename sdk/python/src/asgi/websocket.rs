//! A WebSocket as ASGI has it. The router speaks the protocol; messages come and go here.

use std::collections::VecDeque;
use std::sync::Arc;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tutti_worker::{Exchange, Incoming, Message, MessageOpcode, is_forked, page};

use super::awaitable::{Done, Failed, Waiters, Waiting};
use super::connection::{AsgiConnection, WaitReason};
use super::guarded::Guarded;
use super::message::{bytes_item, gone, headers, kind, out_of_order, start, unknown};
use super::turns::Turns;
use crate::log;

/// RFC 6455 §7.4.1: the connection ended without a close.
const ABNORMAL: u16 = 1006;
/// RFC 6455 §7.4.1: a close without a code.
const NO_CODE: u16 = 1005;
/// RFC 6455 §7.4.1: the server met what kept it from going on.
const FAILED: u16 = 1011;
/// Most bytes of a close's reason (RFC 6455 §5.5, less the code).
const LONGEST_REASON: usize = 123;

/// The state of a WebSocket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The application has to accept or refuse.
    Asked,
    Open,
    /// It refuses with a response of its own, whose body is coming.
    Refusing,
    /// It is over, for this reason.
    Closed(u16),
}

/// A WebSocket: what `receive` and `send` are methods of.
#[pyclass(module = "tutti")]
pub(super) struct WebSocket {
    exchange: Guarded<Exchange>,
    waiters: Waiters,
    state: State,
    /// The application has had `websocket.connect`, which comes first whatever it has sent before.
    is_told: bool,
    /// The application has said its last: it closed, or refused. More is its mistake, not the client's doing.
    is_ended_here: bool,
    reason: String,
    /// Messages that there was no room for, and how much of the first has gone.
    waiting: VecDeque<(MessageOpcode, Vec<u8>)>,
    position: usize,
}

impl WebSocket {
    pub(super) fn new(turns: Arc<Guarded<Turns>>, exchange: Exchange) -> Self {
        let slot = exchange.slot();
        Self {
            exchange: Guarded(exchange),
            waiters: Waiters::new(turns, slot),
            state: State::Asked,
            is_told: false,
            is_ended_here: false,
            reason: String::new(),
            waiting: VecDeque::new(),
            position: 0,
        }
    }

    /// True if the client has gone.
    fn is_gone(&self) -> bool {
        self.exchange.is_ended() || self.exchange.is_client_gone()
    }

    /// The next message for the application; `None` when it has to wait for one.
    fn poll_message(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        if !std::mem::replace(&mut self.is_told, true) {
            let message = PyDict::new(py);
            message.set_item(intern!(py, "type"), intern!(py, "websocket.connect"))?;
            return Ok(Some(message.into_any().unbind()));
        }
        match self.state {
            State::Asked | State::Refusing if self.is_gone() => {
                self.over(py, ABNORMAL, String::new())?;
                self.disconnected(py)
            }
            State::Asked | State::Refusing => Ok(None),
            State::Closed(_) => self.disconnected(py),
            State::Open => self.incoming(py),
        }
    }

    /// Has news of the exchange passed on from the start, before anybody waits: those of a worker that leaves are closed.
    pub(super) fn listen(&mut self, connection: Arc<dyn AsgiConnection>) {
        self.waiters.register(connection);
    }

    fn incoming(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let (key, value) = match self.exchange.try_next_message() {
            Incoming::Nothing => return Ok(None),
            Incoming::Over => {
                self.over(py, ABNORMAL, String::new())?;
                return self.disconnected(py);
            }
            Incoming::Message(Message::Close(payload)) => {
                let (code, reason) = parse_close(&payload);
                // The answer completes the closing handshake (RFC 6455 §5.5.1).
                let _ = self
                    .exchange
                    .try_send(MessageOpcode::Close, payload.get(..2).unwrap_or_default());
                self.over(py, code, reason)?;
                return self.disconnected(py);
            }
            Incoming::Message(Message::Pong(_)) => return self.incoming(py),
            Incoming::Message(Message::Text(bytes)) => (
                intern!(py, "text"),
                PyString::new(py, &String::from_utf8_lossy(&bytes)).into_any(),
            ),
            Incoming::Message(Message::Binary(bytes)) => {
                (intern!(py, "bytes"), PyBytes::new(py, &bytes).into_any())
            }
        };
        let message = PyDict::new(py);
        message.set_item(intern!(py, "type"), intern!(py, "websocket.receive"))?;
        message.set_item(key, value)?;
        Ok(Some(message.into_any().unbind()))
    }

    fn disconnected(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let code = match self.state {
            State::Closed(code) => code,
            _ => ABNORMAL,
        };
        let message = PyDict::new(py);
        message.set_item(intern!(py, "type"), intern!(py, "websocket.disconnect"))?;
        message.set_item(intern!(py, "code"), code)?;
        message.set_item(intern!(py, "reason"), &self.reason)?;
        Ok(Some(message.into_any().unbind()))
    }

    /// Ends the exchange; those who wait will see why.
    fn over(&mut self, py: Python<'_>, code: u16, reason: String) -> PyResult<()> {
        if !matches!(self.state, State::Closed(_)) {
            self.state = State::Closed(code);
            self.reason = reason;
        }
        self.waiting.clear();
        if self.exchange.is_ended() {
            return Ok(());
        }
        if self.exchange.is_started() {
            self.exchange.finish();
        } else {
            self.exchange.abort();
        }
        self.waiters.over(py)
    }

    /// Something has happened.
    fn news(&mut self, py: Python<'_>) -> PyResult<()> {
        self.push(py)?;
        self.waiters.wake(py)
    }

    /// Sends what waits, as far as there is room.
    fn push(&mut self, py: Python<'_>) -> PyResult<()> {
        while let Some((opcode, bytes)) = self.waiting.front() {
            let rest = bytes.get(self.position..).unwrap_or_default();
            match self.exchange.try_send(*opcode, rest) {
                Ok(None) => return Ok(()),
                Ok(Some(sent)) if sent < rest.len() => self.position += sent,
                Ok(Some(_)) => {
                    self.waiting.pop_front();
                    self.position = 0;
                }
                Err(_) => return self.over(py, ABNORMAL, String::new()),
            }
        }
        if let State::Closed(_) = self.state
            && !self.exchange.is_ended()
        {
            self.exchange.finish();
            return self.waiters.over(py);
        }
        Ok(())
    }

    /// Looks whether everything has gone: the answer to those who wait for that.
    fn poll_room(&mut self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.push(py)?;
        Ok((self.exchange.is_ended() || self.waiting.is_empty()).then(|| py.None()))
    }

    /// Sends a message, or has it wait its turn.
    fn put(&mut self, opcode: MessageOpcode, bytes: &[u8]) -> PyResult<()> {
        let sent = match self.waiting.is_empty() {
            true => self.exchange.try_send(opcode, bytes).map_err(|_| gone())?,
            false => None,
        };
        match sent {
            Some(sent) if sent == bytes.len() => {}
            sent => {
                if self.waiting.is_empty() {
                    self.position = sent.unwrap_or(0);
                }
                self.waiting.push_back((opcode, bytes.to_vec()));
            }
        }
        Ok(())
    }

    fn accept(&mut self, py: Python<'_>, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let mut fields = headers(message)?;
        if let Some(subprotocol) = message.get_item(intern!(py, "subprotocol"))?
            && !subprotocol.is_none()
        {
            let name = PyBytes::new(py, b"Sec-WebSocket-Protocol");
            let value = PyBytes::new(py, subprotocol.cast::<PyString>()?.to_str()?.as_bytes());
            fields.push((name, value));
        }
        start(&self.exchange, 101, &fields)?;
        self.exchange.flush();
        self.state = State::Open;
        // A task that waits for a message looks at the exchange only from now on: without that look, it would miss its news.
        self.waiters.wake(py)
    }

    fn close(&mut self, py: Python<'_>, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let code = match message.get_item(intern!(py, "code"))? {
            Some(code) if !code.is_none() => code.extract()?,
            _ => 1000,
        };
        let reason = match message.get_item(intern!(py, "reason"))? {
            Some(reason) if !reason.is_none() => reason.extract::<String>()?,
            _ => String::new(),
        };
        self.end(py, code, &reason)?;
        self.is_ended_here = true;
        Ok(())
    }

    /// Closes an open WebSocket.
    fn end(&mut self, py: Python<'_>, code: u16, reason: &str) -> PyResult<()> {
        let payload = close_payload(code, reason)?;
        let outcome = self.put(MessageOpcode::Close, &payload);
        self.state = State::Closed(code);
        self.reason = reason.to_owned();
        outcome?;
        self.push(py)?;
        self.waiters.wake(py)
    }

    fn refuse(&mut self, py: Python<'_>) -> PyResult<()> {
        page::answer(&mut self.exchange, 403);
        self.is_ended_here = true;
        self.state = State::Closed(ABNORMAL);
        self.waiters.over(py)
    }

    /// The application has returned.
    fn returned(&mut self, py: Python<'_>) -> PyResult<()> {
        match self.state {
            State::Open if !self.is_gone() => self.end(py, 1000, ""),
            State::Asked if !self.is_gone() => {
                log::error("the application returned without accepting or closing the WebSocket");
                self.failed(py)
            }
            State::Closed(_) => Ok(()),
            _ => self.over(py, ABNORMAL, String::new()),
        }
    }

    /// The application has ended with an exception.
    fn failed(&mut self, py: Python<'_>) -> PyResult<()> {
        if self.exchange.is_ended() {
            return Ok(());
        }
        if self.state == State::Open && !self.exchange.is_client_gone() {
            // Behind what it has sent, the acceptance too, which the client may not have heard of yet.
            return self.end(py, FAILED, "");
        }
        self.waiting.clear();
        if self.exchange.is_started() || self.exchange.is_client_gone() {
            self.exchange.abort();
        } else {
            page::answer(&mut self.exchange, 500);
        }
        self.state = State::Closed(FAILED);
        self.waiters.over(py)
    }

    fn take(&mut self, py: Python<'_>, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let kind = kind(message)?;
        let name = kind.to_str()?;
        if self.is_gone() && !self.is_ended_here {
            if name == "websocket.close" {
                // It is closed already.
                return Ok(());
            }
            return Err(gone());
        }
        match (name, self.state) {
            ("websocket.send", State::Open) => {
                if let Some(bytes) = bytes_item(message, intern!(py, "bytes"))? {
                    return self.put(MessageOpcode::Binary, bytes.as_bytes());
                }
                match message.get_item(intern!(py, "text"))? {
                    Some(text) => self.put(
                        MessageOpcode::Text,
                        text.cast::<PyString>()?.to_str()?.as_bytes(),
                    ),
                    None => Err(PyValueError::new_err(
                        "`websocket.send` has neither `text` nor `bytes`",
                    )),
                }
            }
            ("websocket.accept", State::Asked) => self.accept(py, message),
            ("websocket.close", State::Open) => self.close(py, message),
            ("websocket.close", State::Asked) => self.refuse(py),
            ("websocket.http.response.start", State::Asked) => {
                let status = message
                    .get_item(intern!(py, "status"))?
                    .ok_or_else(|| {
                        PyValueError::new_err("`websocket.http.response.start` has no `status`")
                    })?
                    .extract()?;
                if status == 101 {
                    return Err(PyValueError::new_err("status 101 is `websocket.accept`"));
                }
                start(&self.exchange, status, &headers(message)?)?;
                self.state = State::Refusing;
                Ok(())
            }
            ("websocket.http.response.body", State::Refusing) => self.refusal(py, message),
            (
                "websocket.send"
                | "websocket.accept"
                | "websocket.close"
                | "websocket.http.response.start"
                | "websocket.http.response.body",
                state,
            ) => Err(out_of_order(
                name,
                match state {
                    State::Open => "after `websocket.accept`",
                    State::Asked => "before `websocket.accept`",
                    State::Refusing => "while the handshake is being refused",
                    State::Closed(_) => "after the WebSocket was closed",
                },
            )),
            _ => Err(unknown(&kind)),
        }
    }

    /// A part of the page that is sent in place of a WebSocket.
    fn refusal(&mut self, py: Python<'_>, message: &Bound<'_, PyDict>) -> PyResult<()> {
        if let Some(bytes) = bytes_item(message, intern!(py, "body"))? {
            let sent = self
                .exchange
                .try_write(bytes.as_bytes())
                .map_err(|_| gone())?;
            if sent < bytes.as_bytes().len() {
                // Pages of refusals are small; one that does not fit the ring is cut off visibly.
                self.exchange.abort();
                self.state = State::Closed(ABNORMAL);
                self.waiters.over(py)?;
                return Err(PyRuntimeError::new_err(
                    "the response that refuses the WebSocket is too large",
                ));
            }
        }
        let more = match message.get_item(intern!(py, "more_body"))? {
            Some(more) => more.is_truthy()?,
            None => false,
        };
        if !more {
            self.exchange.finish();
            self.is_ended_here = true;
            self.state = State::Closed(ABNORMAL);
            return self.waiters.over(py);
        }
        Ok(())
    }
}

/// Code and reason of a close.
fn parse_close(payload: &[u8]) -> (u16, String) {
    match payload.split_first_chunk::<2>() {
        Some((code, reason)) => (
            u16::from_be_bytes(*code),
            String::from_utf8_lossy(reason).into_owned(),
        ),
        None => (NO_CODE, String::new()),
    }
}

fn close_payload(code: u16, reason: &str) -> PyResult<Vec<u8>> {
    if !(1000..5000).contains(&code) || matches!(code, 1004..=1006 | 1015) {
        return Err(PyValueError::new_err(format!(
            "{code} is not a code that a WebSocket can be closed with (RFC 6455 §7.4.1)"
        )));
    }
    if reason.len() > LONGEST_REASON {
        return Err(PyValueError::new_err(format!(
            "a reason for closing has at most {LONGEST_REASON} bytes; this one has {}",
            reason.len()
        )));
    }
    Ok([&code.to_be_bytes(), reason.as_bytes()].concat())
}

impl AsgiConnection for Py<WebSocket> {
    fn poll(&self, py: Python<'_>, wanted: WaitReason) -> PyResult<Option<Py<PyAny>>> {
        let mut socket = self.borrow_mut(py);
        match wanted {
            WaitReason::Message => socket.poll_message(py),
            WaitReason::Room => socket.poll_room(py),
        }
    }

    fn wait(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let mut socket = self.borrow_mut(py);
        socket
            .waiters
            .wait(py, Arc::clone(&self) as Arc<dyn AsgiConnection>)
    }

    fn news(&self, py: Python<'_>) -> PyResult<()> {
        self.borrow_mut(py).news(py)
    }

    fn is_gone(&self, py: Python<'_>) -> bool {
        self.borrow(py).is_gone()
    }

    fn returned(&self, py: Python<'_>) -> PyResult<()> {
        self.borrow_mut(py).returned(py)
    }

    fn failed(&self, py: Python<'_>) -> PyResult<()> {
        self.borrow_mut(py).failed(py)
    }
}

#[pymethods]
impl WebSocket {
    fn receive(slf: &Bound<'_, Self>) -> Waiting {
        Waiting::new(Arc::new(slf.clone().unbind()), WaitReason::Message)
    }

    fn send(slf: &Bound<'_, Self>, message: &Bound<'_, PyDict>) -> PyResult<Py<PyAny>> {
        let py = slf.py();
        if is_forked() {
            // The connection is the parent's.
            return Done::get(py);
        }
        if let Err(error) = slf.borrow_mut().take(py, message) {
            return Failed::make(py, error);
        }
        if slf.borrow().waiting.is_empty() {
            return Done::get(py);
        }
        let waiting = Waiting::new(Arc::new(slf.clone().unbind()), WaitReason::Room);
        Ok(Py::new(py, waiting)?.into_any())
    }
}
