//! The body of an HTTP request, as messages for the application.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use tutti_worker::{BodyRef, Exchange};

/// Bytes of a body in one message.
const PIECE: usize = 256 * 1024;
/// The same where the body is a stream, which has no more than a ring at once.
const STREAM_PIECE: usize = 64 * 1024;

/// The part of a body that the application has read.
pub(super) struct Body {
    /// The application has had the whole body.
    is_read: bool,
    /// Bytes of it that are left; `None`: not known.
    left: Option<u64>,
    /// Most bytes of it in one message.
    piece: usize,
}

impl Body {
    pub(super) fn new(exchange: &Exchange) -> Self {
        let (left, piece) = match exchange.request().body() {
            BodyRef::None => (Some(0), PIECE),
            BodyRef::Inline(bytes) => (Some(bytes.len() as u64), PIECE),
            BodyRef::Spool { len, .. } => (Some(len), PIECE),
            BodyRef::Stream { len } => (len, STREAM_PIECE),
        };
        Self {
            is_read: false,
            left,
            piece,
        }
    }

    /// The next message for the application; `None` when it has to wait for one.
    pub(super) fn next(
        &mut self,
        py: Python<'_>,
        exchange: &Exchange,
    ) -> PyResult<Option<Py<PyAny>>> {
        if self.is_read {
            return Ok(None);
        }
        let most = self
            .left
            .map_or(self.piece, |left| {
                usize::try_from(left).unwrap_or(self.piece)
            })
            .min(self.piece);
        let body = match most {
            0 => PyBytes::new(py, b""),
            _ => match read(py, exchange, most)? {
                Piece::Bytes(bytes) => bytes,
                Piece::Nothing => return Ok(None),
                Piece::Gone => return disconnected(py).map(Some),
            },
        };
        let length = body.as_bytes().len() as u64;
        self.left = self.left.map(|left| left.saturating_sub(length));
        self.is_read = self.left == Some(0) || length == 0;
        let message = PyDict::new(py);
        message.set_item(intern!(py, "type"), intern!(py, "http.request"))?;
        message.set_item(intern!(py, "body"), body)?;
        message.set_item(intern!(py, "more_body"), !self.is_read)?;
        Ok(Some(message.into_any().unbind()))
    }
}

fn read<'py>(py: Python<'py>, exchange: &Exchange, wanted: usize) -> PyResult<Piece<'py>> {
    if let Some(bytes) = exchange.body_inline() {
        return Ok(Piece::Bytes(PyBytes::new(py, bytes)));
    }
    let mut buffer = vec![0; wanted];
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match exchange.try_read_body(rest) {
            Ok(Some(0)) => break,
            Ok(Some(count)) => filled += count,
            Ok(None) if filled == 0 => return Ok(Piece::Nothing),
            Ok(None) => break,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {
                return Ok(Piece::Gone);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Piece::Bytes(PyBytes::new(
        py,
        buffer.get(..filled).unwrap_or_default(),
    )))
}

enum Piece<'py> {
    Bytes(Bound<'py, PyBytes>),
    /// None has come yet.
    Nothing,
    /// The client went away before its end.
    Gone,
}

/// The message that the client has gone.
pub(super) fn disconnected(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let message = PyDict::new(py);
    message.set_item(intern!(py, "type"), intern!(py, "http.disconnect"))?;
    Ok(message.into_any().unbind())
}
