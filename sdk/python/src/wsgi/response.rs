//! `start_response`, the `write` it gives, and the way of the response to the exchange.
//!
//! The head is kept until there is something to send, so that an application that fails can still replace it.

use std::os::unix::fs::FileExt;

use pyo3::exceptions::{PyAssertionError, PyBrokenPipeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyString, PyTuple};
use smallvec::SmallVec;
use tutti_worker::{Exchange, ResponseHeadError, is_forked};

use super::file::Regular;
use crate::link::{Detached, Link};
use crate::log;
use crate::text::bytes_of;

/// As much of a response certainly fits the ring: beyond that, sending may wait, and other threads must run meanwhile.
const NEVER_WAITS: u64 = 48 * 1024;

/// Bytes of a file read at a time.
const FILE_PIECE: usize = 128 * 1024;

/// Why a response cannot go on.
pub(super) enum Broken {
    /// By an exception.
    Raised(PyErr),
    /// The client has gone.
    ClientGone,
}

impl Broken {
    /// The exception.
    pub(super) fn raised(&self) -> Option<&PyErr> {
        match self {
            Self::Raised(error) => Some(error),
            Self::ClientGone => None,
        }
    }
}

impl From<PyErr> for Broken {
    fn from(error: PyErr) -> Self {
        Self::Raised(error)
    }
}

type Fields = SmallVec<[(Py<PyString>, Py<PyString>); 8]>;

/// The response of one request at a time.
#[pyclass(module = "tutti")]
#[derive(Default)]
pub(super) struct Responder {
    link: Link,
    /// The arguments of `start_response`.
    head: Option<(u16, Fields)>,
    /// The head has been handed over; it cannot be replaced.
    is_sent: bool,
    /// The request is a HEAD: there is no body to send.
    is_head: bool,
    /// The rest of the declared length.
    left: Option<u64>,
    /// Bytes of the body so far.
    written: u64,
    /// The response is whole and was ended.
    is_finished: bool,
    /// It was said that the body is too long.
    has_complained: bool,
    /// The bound method that `start_response` returns.
    write: Option<Py<PyAny>>,
}

impl Responder {
    /// A responder with its `start_response`.
    pub(super) fn make(py: Python<'_>) -> PyResult<(Py<Self>, Py<PyAny>)> {
        let responder = Bound::new(py, Self::default())?;
        let start_response = responder.getattr(intern!(py, "start_response"))?;
        let write = responder.getattr(intern!(py, "write"))?;
        responder.borrow_mut().write = Some(write.unbind());
        Ok((responder.unbind(), start_response.unbind()))
    }

    /// The object that `start_response` returns.
    pub(super) fn given_write(&self) -> Option<&Py<PyAny>> {
        self.write.as_ref()
    }

    /// Lets go of what refers to itself: the application keeps this one.
    pub(super) fn forget(&mut self) {
        self.write = None;
    }

    pub(super) fn begin(&mut self, link: Link, is_head: bool) {
        self.link = link;
        self.is_head = is_head;
    }

    /// The request is over.
    pub(super) fn end(&mut self) {
        let write = self.write.take();
        *self = Self {
            write,
            ..Self::default()
        };
    }

    /// True if the response may be ended as it is: no declared byte is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.is_finished || self.left.is_none_or(|left| left == 0)
    }

    /// True if everything that was declared has been sent.
    pub(super) fn is_complete(&self) -> bool {
        self.is_sent && self.left == Some(0) && !self.is_finished
    }

    /// The response was ended while the application goes on.
    pub(super) fn finished(&mut self) {
        self.is_finished = true;
        self.link = Link::default();
    }

    /// Hands the head over, if that has not been done.
    pub(super) fn send_head(&mut self, py: Python<'_>) -> Result<(), Broken> {
        if self.is_sent || self.is_finished || is_forked() {
            return Ok(());
        }
        let exchange = self.link.get()?;
        let Some((status, fields)) = &self.head else {
            let message = "the application did not call `start_response` before its first bytes";
            return Err(PyAssertionError::new_err(message).into());
        };
        let texts: SmallVec<[_; 8]> = fields
            .iter()
            .map(|(name, value)| (name.bind(py), value.bind(py)))
            .collect();
        let mut pairs: SmallVec<[(&[u8], &[u8]); 8]> = SmallVec::with_capacity(texts.len());
        let mut declared = None;
        for &(name, value) in &texts {
            let (name, value) = (bytes_of(name)?, bytes_of(value)?);
            if name.len() == 14 && name.eq_ignore_ascii_case(b"content-length") {
                declared = std::str::from_utf8(value)
                    .ok()
                    .and_then(|value| value.trim().parse().ok());
            }
            pairs.push((name, value));
        }
        exchange
            .start(*status, pairs.iter().copied())
            .map_err(|error| unsendable(&error, &pairs))?;
        let has_body = !self.is_head && *status != 204 && *status != 304;
        self.left = declared.filter(|_| has_body);
        self.is_sent = true;
        Ok(())
    }

    /// Sends a part of the body; the head before it.
    pub(super) fn send(&mut self, py: Python<'_>, data: &[u8]) -> Result<(), Broken> {
        if data.is_empty() {
            return Ok(());
        }
        self.send_head(py)?;
        if is_forked() {
            // The response is the parent's; this process may go on to its own end.
            return Ok(());
        }
        let data = self.allowed(data);
        if data.is_empty() || (self.is_head && self.written > NEVER_WAITS) {
            return Ok(());
        }
        let exchange = self.link.get()?;
        let length = data.len() as u64;
        let sent = if self.written + length <= NEVER_WAITS {
            exchange.write(data)
        } else {
            let exchange = Detached::new(exchange);
            py.detach(move || exchange.get().write(data))
        };
        self.written += length;
        self.left = self.left.map(|left| left.saturating_sub(length));
        sent.map_err(|_| Broken::ClientGone)
    }

    /// The part of `data` that the declared length has room for.
    fn allowed<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        let room = match self.left {
            _ if self.is_finished => 0,
            Some(left) => usize::try_from(left).unwrap_or(usize::MAX),
            None => usize::MAX,
        };
        if data.len() > room && !self.has_complained {
            self.has_complained = true;
            log::error("the application sent more than its Content-Length; the rest is dropped");
        }
        data.get(..room).unwrap_or(data)
    }

    /// Sends a file from where it stands to its end.
    pub(super) fn send_file(&mut self, py: Python<'_>, regular: Regular) -> Result<(), Broken> {
        self.send_head(py)?;
        if self.is_head || is_forked() {
            return Ok(());
        }
        let exchange = self.link.get()?;
        let detached = Detached::new(exchange);
        let left = self.left;
        let sent = py
            .detach(move || copy_file(detached.get(), &regular, left))
            .map_err(PyErr::from)?;
        self.left = self.left.map(|left| left.saturating_sub(sent));
        if exchange.is_client_gone() {
            return Err(Broken::ClientGone);
        }
        Ok(())
    }

    pub(super) fn flush(&self) {
        if self.is_sent
            && let Ok(exchange) = self.link.get()
        {
            exchange.flush();
        }
    }
}

/// Copies a file to the response; how much. It may end early: then the client has gone.
fn copy_file(exchange: &Exchange, regular: &Regular, left: Option<u64>) -> std::io::Result<u64> {
    let mut piece = vec![0; FILE_PIECE];
    let mut sent = 0;
    loop {
        let room = left.map_or(u64::MAX, |left| left - sent);
        let wanted = usize::try_from(room).unwrap_or(FILE_PIECE).min(FILE_PIECE);
        let target = piece.get_mut(..wanted).unwrap_or_default();
        let count = match regular.file.read_at(target, regular.offset + sent) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            count => count?,
        };
        if count == 0
            || exchange
                .write(target.get(..count).unwrap_or_default())
                .is_err()
        {
            return Ok(sent);
        }
        sent += count as u64;
    }
}

fn unsendable(error: &ResponseHeadError, pairs: &[(&[u8], &[u8])]) -> PyErr {
    match error {
        ResponseHeadError::Field(place) => {
            let (name, value) = pairs.get(*place).copied().unwrap_or_default();
            PyValueError::new_err(format!(
                "the header field `{}: {}` cannot be sent: a name must be a token, a value must not have line breaks",
                String::from_utf8_lossy(name),
                String::from_utf8_lossy(value)
            ))
        }
        error => PyValueError::new_err(error.to_string()),
    }
}

/// `200 OK` as a number.
fn status_code(status: &Bound<'_, PyString>) -> PyResult<u16> {
    let text = status.to_str()?;
    let digits = text
        .get(..3)
        .filter(|_| text.as_bytes().get(3).is_none_or(|byte| *byte == b' '));
    digits
        .and_then(|digits| digits.parse().ok())
        .filter(|code| (200..=599).contains(code))
        .ok_or_else(|| PyValueError::new_err(format!("`{text}` is not a status like `200 OK`")))
}

fn collect(headers: &Bound<'_, PyList>) -> PyResult<Fields> {
    headers
        .iter()
        .map(|field| {
            let wrong = || PyTypeError::new_err("`headers` must be a list of tuples of two `str`");
            let pair = field.cast::<PyTuple>().map_err(|_| wrong())?;
            if pair.len() != 2 {
                return Err(wrong());
            }
            let text = |place| -> PyResult<Py<PyString>> {
                let item = pair.get_item(place)?;
                Ok(item.cast_into::<PyString>().map_err(|_| wrong())?.unbind())
            };
            Ok((text(0)?, text(1)?))
        })
        .collect()
}

#[pymethods]
impl Responder {
    /// PEP 3333's `start_response`.
    #[pyo3(signature = (status, headers, exc_info = None, /))]
    fn start_response(
        &mut self,
        py: Python<'_>,
        status: &Bound<'_, PyString>,
        headers: &Bound<'_, PyList>,
        exc_info: Option<&Bound<'_, PyTuple>>,
    ) -> PyResult<Option<Py<PyAny>>> {
        if !self.is_finished {
            self.link.get()?;
        }
        match exc_info {
            Some(exc_info) if self.is_sent => {
                return Err(PyErr::from_value(exc_info.get_item(1)?));
            }
            None if self.head.is_some() => {
                let message = "`start_response` was called a second time, without `exc_info`";
                return Err(PyAssertionError::new_err(message));
            }
            _ => {}
        }
        self.head = Some((status_code(status)?, collect(headers)?));
        Ok(self.write.as_ref().map(|write| write.clone_ref(py)))
    }

    /// The object that `start_response` returns, for applications that push their response.
    #[pyo3(signature = (data, /))]
    fn write(&mut self, py: Python<'_>, data: &Bound<'_, PyBytes>) -> PyResult<()> {
        match self.send(py, data.as_bytes()) {
            Ok(()) => {
                self.flush();
                Ok(())
            }
            Err(Broken::Raised(error)) => Err(error),
            Err(Broken::ClientGone) => Err(PyBrokenPipeError::new_err("the client has gone")),
        }
    }
}
