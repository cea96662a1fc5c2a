//! `send` of an HTTP request: the way of the response to the exchange.

use std::collections::VecDeque;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString};
use tutti_worker::log::unless_too_large;
use tutti_worker::{Exchange, page};

use super::message::{bytes_item, gone, headers, kind, out_of_order, start, unknown, unsendable};
use crate::log;

/// The state of a response.
#[derive(Default)]
pub(super) struct Response {
    /// `http.response.start` has come.
    is_started: bool,
    /// An `http.response.body` has come.
    has_body: bool,
    /// The last `http.response.body` has come.
    is_body_over: bool,
    /// Nothing is to come: neither that, nor `http.response.trailers`.
    is_ended: bool,
    /// The head has announced trailer fields.
    has_trailers: bool,
    /// Those that have come.
    trailers: Vec<(Vec<u8>, Vec<u8>)>,
    /// Bytes that there was no room for, and how much of the first has gone.
    waiting: VecDeque<Py<PyBytes>>,
    position: usize,
}

/// The exchange after a step of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(super) enum After {
    /// It is as it was.
    Unchanged,
    /// It has just ended: tasks that wait for it must be woken.
    Ended,
}

impl Response {
    /// True if all that the application has sent has gone.
    pub(super) fn is_sent(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Takes a message from the application.
    pub(super) fn take(
        &mut self,
        exchange: &mut Exchange,
        message: &Bound<'_, PyDict>,
    ) -> PyResult<After> {
        let py = message.py();
        let kind = kind(message)?;
        match kind.to_str()? {
            "http.response.body" => {
                if !self.is_started {
                    return Err(out_of_order(
                        "http.response.body",
                        "before `http.response.start`",
                    ));
                }
                if self.is_body_over {
                    return Err(out_of_order(
                        "http.response.body",
                        "after the response was complete",
                    ));
                }
                let more = is_true(message, intern!(py, "more_body"))?;
                let bytes = bytes_item(message, intern!(py, "body"))?;
                self.body(exchange, bytes, more)
            }
            "http.response.start" => {
                if self.is_started {
                    return Err(out_of_order("http.response.start", "a second time"));
                }
                self.head(exchange, message)?;
                Ok(After::Unchanged)
            }
            "http.response.trailers" => {
                if !self.has_trailers || !self.is_body_over || self.is_ended {
                    let when = "where none are due: `http.response.start` announces them with `trailers`, and they follow the body";
                    return Err(out_of_order("http.response.trailers", when));
                }
                self.trailers(exchange, message)
            }
            "http.response.early_hint" => {
                if self.is_started {
                    return Err(out_of_order(
                        "http.response.early_hint",
                        "after `http.response.start`",
                    ));
                }
                hint(exchange, message)?;
                Ok(After::Unchanged)
            }
            _ => Err(unknown(&kind)),
        }
    }

    fn trailers(
        &mut self,
        exchange: &mut Exchange,
        message: &Bound<'_, PyDict>,
    ) -> PyResult<After> {
        for (name, value) in headers(message)? {
            let field = (name.as_bytes().to_vec(), value.as_bytes().to_vec());
            self.trailers.push(field);
        }
        if is_true(message, intern!(message.py(), "more_trailers"))? {
            return Ok(After::Unchanged);
        }
        if is_gone(exchange) {
            return Err(gone());
        }
        let pairs = self.trailers.iter();
        let fields = pairs.map(|(name, value)| (name.as_slice(), value.as_slice()));
        unless_too_large(exchange, exchange.trailers(fields))
            .map_err(|error| unsendable(error, |_| None))?;
        Ok(self.end(exchange))
    }

    /// Nothing more is to come from the application.
    fn end(&mut self, exchange: &mut Exchange) -> After {
        self.is_ended = true;
        if !self.waiting.is_empty() {
            return After::Unchanged;
        }
        exchange.finish();
        After::Ended
    }

    fn head(&mut self, exchange: &Exchange, message: &Bound<'_, PyDict>) -> PyResult<()> {
        let status = message
            .get_item(intern!(message.py(), "status"))?
            .ok_or_else(|| PyValueError::new_err("`http.response.start` has no `status`"))?
            .extract()?;
        self.is_started = true;
        if is_gone(exchange) {
            return Err(gone());
        }
        self.has_trailers = is_true(message, intern!(message.py(), "trailers"))?;
        let mut fields = headers(message)?;
        if self.has_trailers {
            // A field without a value tells the server of trailer fields that will come.
            let py = message.py();
            fields.push((PyBytes::new(py, b"trailer"), PyBytes::new(py, b"")));
        }
        start(exchange, status, &fields)
    }

    fn body(
        &mut self,
        exchange: &mut Exchange,
        bytes: Option<Bound<'_, PyBytes>>,
        more: bool,
    ) -> PyResult<After> {
        self.has_body = true;
        self.is_body_over = !more;
        self.is_ended = !more && !self.has_trailers;
        if is_gone(exchange) {
            return Err(gone());
        }
        if let Some(bytes) = bytes.filter(|bytes| !bytes.as_bytes().is_empty()) {
            // Most fit at once; what does not waits its turn.
            let sent = match self.waiting.is_empty() {
                true => exchange.try_write(bytes.as_bytes()).map_err(|_| gone())?,
                false => 0,
            };
            if sent < bytes.as_bytes().len() {
                if self.waiting.is_empty() {
                    self.position = sent;
                }
                let py = bytes.py();
                self.waiting.push_back(bytes.unbind());
                return Ok(self.push(py, exchange));
            }
        }
        if !self.waiting.is_empty() {
            return Ok(After::Unchanged);
        }
        if !self.is_ended {
            exchange.flush();
            return Ok(After::Unchanged);
        }
        Ok(self.end(exchange))
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn push(&mut self, py: Python<'_>, exchange: &mut Exchange) -> After {
        if self.waiting.is_empty() || exchange.is_ended() {
            return After::Unchanged;
        }
        while let Some(first) = self.waiting.front() {
            let rest = first.as_bytes(py).get(self.position..).unwrap_or_default();
            let Ok(sent) = exchange.try_write(rest) else {
                self.waiting.clear();
                return After::Unchanged;
            };
            if sent < rest.len() {
                if sent == 0 {
                    return After::Unchanged;
                }
                self.position += sent;
            } else {
                self.waiting.pop_front();
                self.position = 0;
            }
        }
        if self.is_ended {
            exchange.finish();
            return After::Ended;
        }
        exchange.flush();
        After::Unchanged
    }

    /// The application has returned.
    pub(super) fn returned(&mut self, exchange: &mut Exchange) -> After {
        if exchange.is_ended() || (self.is_ended && !exchange.is_client_gone()) {
            // Complete; what there was no room for is sent as there is, the driver sees to that.
            return After::Unchanged;
        }
        if self.is_body_over && !self.is_ended {
            // The body is whole; the fields behind it are not to be had.
            log::warning(
                "the application returned without the `http.response.trailers` that it had announced",
            );
            return self.end(exchange);
        }
        if self.is_started && !self.has_body && !is_gone(exchange) {
            // It has said all that it means to: the response has no body.
            static IS_TOLD: std::sync::Once = std::sync::Once::new();
            IS_TOLD.call_once(|| log::warning("the application returned without `http.response.body`; its response is taken for one with an empty body"));
            self.is_ended = true;
            exchange.finish();
            return After::Ended;
        }
        if !is_gone(exchange) {
            log::error(match self.is_started {
                true => "the application returned before its response was complete",
                false => "the application returned without a response",
            });
        }
        self.failed(exchange)
    }

    /// The application will send no more, though it should.
    pub(super) fn failed(&mut self, exchange: &mut Exchange) -> After {
        if exchange.is_ended() {
            return After::Unchanged;
        }
        self.waiting.clear();
        if exchange.is_started() || exchange.is_client_gone() {
            exchange.abort();
        } else {
            page::answer(exchange, 500);
        }
        After::Ended
    }
}

/// A member that is true or false, and false where it is not there.
fn is_true(message: &Bound<'_, PyDict>, key: &Bound<'_, PyString>) -> PyResult<bool> {
    message
        .get_item(key)?
        .map_or(Ok(false), |value| value.is_truthy())
}

/// Sends 103 with the `links` of the message.
fn hint(exchange: &Exchange, message: &Bound<'_, PyDict>) -> PyResult<()> {
    let links = message
        .get_item(intern!(message.py(), "links"))?
        .ok_or_else(|| PyValueError::new_err("`http.response.early_hint` has no `links`"))?;
    let links: Vec<Bound<'_, PyBytes>> = links
        .try_iter()?
        .map(|link| Ok(link?.cast_into::<PyBytes>()?))
        .collect::<PyResult<_>>()?;
    if is_gone(exchange) {
        return Err(gone());
    }
    let fields = links.iter().map(|link| (&b"link"[..], link.as_bytes()));
    unless_too_large(exchange, exchange.interim(103, fields))
        .map_err(|error| unsendable(error, |_| None))
}

/// True if the client has gone.
pub(super) fn is_gone(exchange: &Exchange) -> bool {
    exchange.is_ended() || exchange.is_client_gone()
}
