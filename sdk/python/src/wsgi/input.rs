//! `wsgi.input`: the request's body, as a file that is read.
//!
//! A body is in the request's slot or in the spool file by the time the application runs, or, where it is streamed, comes
//! while it is read. Reading ends at the body's end by itself (`wsgi.input_terminated`).

use memchr::memchr;
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use tutti_worker::BodyRef;

use crate::link::{Detached, Link};

/// Bytes read ahead for lines, and at a time from a body of unknown length.
const PIECE: usize = 64 * 1024;

/// The stream.
#[pyclass(module = "tutti")]
#[derive(Default)]
pub(super) struct Input {
    link: Link,
    /// Bytes of the body that have not been taken from the exchange; `None`: not known.
    left: Option<u64>,
    /// The body comes while it is read: reading may wait.
    is_stream: bool,
    /// The bytes read ahead, from `start` on.
    buffer: Vec<u8>,
    start: usize,
}

impl Input {
    pub(super) fn begin(&mut self, link: Link, body: BodyRef<'_>) {
        self.link = link;
        (self.left, self.is_stream) = match body {
            BodyRef::None => (Some(0), false),
            BodyRef::Inline(bytes) => (Some(bytes.len() as u64), false),
            BodyRef::Spool { len, .. } => (Some(len), false),
            BodyRef::Stream { len } => (len, true),
        };
        self.buffer.clear();
        self.start = 0;
    }

    pub(super) fn end(&mut self) {
        self.link = Link::default();
        self.left = Some(0);
        self.buffer.clear();
        self.start = 0;
    }

    /// Fills `target` from the exchange as far as the body goes, or, where it `reads_ahead` in a stream, with what is
    /// there: a line may be complete while the client thinks. How far.
    fn fill(&mut self, py: Python<'_>, target: &mut [u8], reads_ahead: bool) -> PyResult<usize> {
        let exchange = self.link.get()?;
        let is_stream = self.is_stream;
        let mut filled = 0;
        while let Some(rest) = target.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let count = if is_stream {
                let exchange = Detached::new(exchange);
                py.detach(move || exchange.get().body_read(rest))
            } else {
                exchange.body_read(rest)
            };
            match count.map_err(|error| {
                PyOSError::new_err(format!("reading the request's body: {error}"))
            })? {
                0 => break,
                count => filled += count,
            }
            if is_stream && reads_ahead {
                break;
            }
        }
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(filled as u64);
        }
        Ok(filled)
    }

    /// Reads ahead; false at the end.
    fn read_ahead(&mut self, py: Python<'_>) -> PyResult<bool> {
        if self.left == Some(0) {
            return Ok(false);
        }
        self.buffer.drain(..self.start);
        self.start = 0;
        let wanted = match self.left {
            Some(left) => usize::try_from(left).unwrap_or(PIECE).min(PIECE),
            None => PIECE,
        };
        let mut buffer = std::mem::take(&mut self.buffer);
        let before = buffer.len();
        buffer.resize(before + wanted, 0);
        let filled = self.fill(py, buffer.get_mut(before..).unwrap_or_default(), true);
        buffer.truncate(before + *filled.as_ref().unwrap_or(&0));
        self.buffer = buffer;
        let filled = filled?;
        if filled == 0 {
            self.left = Some(0);
        }
        Ok(filled > 0)
    }

    fn buffered(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn take<'py>(&mut self, py: Python<'py>, count: usize) -> Bound<'py, PyBytes> {
        let count = count.min(self.buffered().len());
        let bytes = PyBytes::new(py, self.buffered().get(..count).unwrap_or_default());
        self.start += count;
        bytes
    }

    /// Up to `size` bytes: all of them, unless the body ends.
    fn read_up_to<'py>(&mut self, py: Python<'py>, size: usize) -> PyResult<Bound<'py, PyBytes>> {
        if self.left == Some(0) || self.buffered().len() >= size {
            return Ok(self.take(py, size));
        }
        let Some(left) = self.left else {
            while self.buffered().len() < size && self.read_ahead(py)? {}
            return Ok(self.take(py, size));
        };
        // The length is known: straight into the bytes that Python gets.
        let ahead = self.buffered().len();
        let whole = usize::try_from(left)
            .unwrap_or(usize::MAX)
            .saturating_add(ahead)
            .min(size);
        let mut filled = 0;
        let bytes = PyBytes::new_with(py, whole, |target| {
            let (first, rest) = target.split_at_mut(ahead);
            first.copy_from_slice(self.buffered());
            filled = ahead + self.fill(py, rest, false)?;
            Ok(())
        })?;
        self.buffer.clear();
        self.start = 0;
        if filled < whole {
            // A spool file that is shorter than the request says: the rest does not exist.
            self.left = Some(0);
            return Ok(PyBytes::new(
                py,
                bytes.as_bytes().get(..filled).unwrap_or_default(),
            ));
        }
        Ok(bytes)
    }

    fn line<'py>(&mut self, py: Python<'py>, most: usize) -> PyResult<Bound<'py, PyBytes>> {
        let mut searched = 0;
        loop {
            let ahead = self.buffered();
            let end = memchr(b'\n', ahead.get(searched..).unwrap_or_default())
                .map(|found| searched + found + 1);
            if let Some(end) = end {
                return Ok(self.take(py, end.min(most)));
            }
            searched = ahead.len();
            if searched >= most || !self.read_ahead(py)? {
                return Ok(self.take(py, most));
            }
        }
    }
}

/// A size as file methods take it: negative or `None` for no limit.
fn limit(size: Option<isize>) -> usize {
    size.and_then(|size| usize::try_from(size).ok())
        .unwrap_or(usize::MAX)
}

#[pymethods]
impl Input {
    #[pyo3(signature = (size = None, /))]
    fn read<'py>(&mut self, py: Python<'py>, size: Option<isize>) -> PyResult<Bound<'py, PyBytes>> {
        self.link.get()?;
        self.read_up_to(py, limit(size))
    }

    #[pyo3(signature = (size = None, /))]
    fn readline<'py>(
        &mut self,
        py: Python<'py>,
        size: Option<isize>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        self.link.get()?;
        self.line(py, limit(size))
    }

    #[pyo3(signature = (hint = None, /))]
    fn readlines<'py>(
        &mut self,
        py: Python<'py>,
        hint: Option<isize>,
    ) -> PyResult<Bound<'py, PyList>> {
        self.link.get()?;
        let most = limit(hint.filter(|hint| *hint > 0));
        let lines = PyList::empty(py);
        let mut total = 0;
        while total < most {
            let line = self.line(py, usize::MAX)?;
            if line.as_bytes().is_empty() {
                break;
            }
            total += line.as_bytes().len();
            lines.append(line)?;
        }
        Ok(lines)
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&mut self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        self.link.get()?;
        let line = self.line(py, usize::MAX)?;
        Ok(Some(line).filter(|line| !line.as_bytes().is_empty()))
    }
}
