//! Bytes of a request as Python strings, and back.
//!
//! HTTP's strings are bytes; PEP 3333 has them as `str` of the characters 0 to 255 (latin-1). Most are the same from request
//! to request, so the last one of each kind is kept.

use std::ptr;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;
use pyo3::types::string::PyStringData;

/// Makes a `str` of bytes, each one character.
pub(crate) fn latin1<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
    let length = bytes.len().cast_signed();
    // SAFETY: pointer and length are those of a live slice, and `py` shows that we are attached.
    let object = unsafe { ffi::PyUnicode_DecodeLatin1(bytes.as_ptr().cast(), length, ptr::null()) };
    // SAFETY: the call gives a new reference, or null with an exception set.
    let object = unsafe { Bound::from_owned_ptr_or_err(py, object) }?;
    // SAFETY: a decoder makes a `str`.
    Ok(unsafe { object.cast_into_unchecked() })
}

/// The bytes of a `str` all of whose characters are 0 to 255.
pub(crate) fn bytes_of<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a [u8]> {
    // SAFETY: a `str` is never changed once others can see it.
    match unsafe { text.data() }? {
        PyStringData::Ucs1(bytes) => Ok(bytes),
        _ => Err(PyValueError::new_err(format!(
            "`{}` has characters that cannot be sent: encode it to latin-1 first (PEP 3333)",
            text.to_string_lossy()
        ))),
    }
}

/// The `str` of the last request, which is often that of the next.
#[derive(Debug, Default)]
pub(crate) struct Last {
    bytes: Vec<u8>,
    text: Option<Py<PyString>>,
}

/// Longer ones are not kept: they are not often the same, and memory must not fill with them.
const LONGEST_KEPT: usize = 256;

impl Last {
    /// The `str` for `bytes`.
    pub(crate) fn get<'py>(
        &mut self,
        py: Python<'py>,
        bytes: &[u8],
    ) -> PyResult<Bound<'py, PyString>> {
        if let Some(text) = &self.text
            && self.bytes == bytes
        {
            return Ok(text.bind(py).clone());
        }
        let text = latin1(py, bytes)?;
        if bytes.len() <= LONGEST_KEPT {
            self.bytes.clear();
            self.bytes.extend_from_slice(bytes);
            self.text = Some(text.clone().unbind());
        }
        Ok(text)
    }
}
