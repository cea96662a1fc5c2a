//! `wsgi.file_wrapper`: a file as a response. A real file is sent in large pieces without Python.

use std::fs::File;
use std::os::fd::{BorrowedFd, OwnedFd};

use pyo3::intern;
use pyo3::prelude::*;
use rustix::fs::FileType;

/// The wrapper. Iterating over it works as well, for middleware that looks at what it passes on.
#[pyclass(module = "tutti")]
pub(super) struct FileWrapper {
    #[pyo3(get)]
    filelike: Py<PyAny>,
    #[pyo3(get)]
    blksize: usize,
}

#[pymethods]
impl FileWrapper {
    #[new]
    #[pyo3(signature = (filelike, blksize = 8192))]
    fn new(filelike: Py<PyAny>, blksize: usize) -> Self {
        Self { filelike, blksize }
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let piece = self
            .filelike
            .bind(py)
            .call_method1(intern!(py, "read"), (self.blksize,))?;
        Ok(if piece.is_truthy()? {
            Some(piece)
        } else {
            None
        })
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        if let Some(close) = self.filelike.bind(py).getattr_opt(intern!(py, "close"))? {
            close.call0()?;
        }
        Ok(())
    }
}

/// A file on a disk, from where it is to be sent.
pub(super) struct Regular {
    pub(super) file: File,
    pub(super) offset: u64,
}

impl FileWrapper {
    /// The file behind it, if there is one whose bytes are the bytes that `read` would give.
    pub(super) fn regular(&self, py: Python<'_>) -> PyResult<Option<Regular>> {
        let object = self.filelike.bind(py);
        // A file read as text, or unpacked, is not what the descriptor gives.
        let io = py.import(intern!(py, "io"))?;
        let mut is_plain = false;
        for kind in [
            intern!(py, "BufferedReader"),
            intern!(py, "BufferedRandom"),
            intern!(py, "FileIO"),
        ] {
            is_plain |= object.get_type().is(io.getattr(kind)?);
        }
        if !is_plain {
            return Ok(None);
        }
        let number: i32 = object.call_method0(intern!(py, "fileno"))?.extract()?;
        let Some(file) = duplicate(number) else {
            return Ok(None);
        };
        let is_regular = rustix::fs::fstat(&file)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile);
        if !is_regular {
            return Ok(None);
        }
        // Python may have read ahead: its own position counts.
        let offset = object.call_method0(intern!(py, "tell"))?.extract()?;
        Ok(Some(Regular {
            file: file.into(),
            offset,
        }))
    }
}

/// A descriptor of our own for that of a Python file: the application may close its own while we send.
fn duplicate(number: i32) -> Option<OwnedFd> {
    if number < 0 {
        return None;
    }
    // SAFETY: the number came from an open file's `fileno()` just now, and no Python has run since.
    let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
    rustix::io::fcntl_dupfd_cloexec(borrowed, 3).ok()
}
