//! Messages that applications send: their members, and the exceptions for those that cannot be sent.

use pyo3::exceptions::{PyConnectionResetError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyTuple};
use smallvec::SmallVec;
use tutti_worker::{Exchange, ResponseHeadError};

/// Names and values of a message.
pub(super) type Fields<'py> = SmallVec<[(Bound<'py, PyBytes>, Bound<'py, PyBytes>); 12]>;

/// The `headers` of a message.
pub(super) fn headers<'py>(message: &Bound<'py, PyDict>) -> PyResult<Fields<'py>> {
    let py = message.py();
    let mut fields = Fields::new();
    if let Some(headers) = message.get_item(intern!(py, "headers"))?
        && !headers.is_none()
    {
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
    Ok(fields)
}

/// Hands over a head: `status` and fields.
pub(super) fn start(
    exchange: &Exchange,
    status: u16,
    fields: &[(Bound<'_, PyBytes>, Bound<'_, PyBytes>)],
) -> PyResult<()> {
    let pairs = fields
        .iter()
        .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    exchange
        .start(status, pairs)
        .map_err(|error| unsendable(error, |place| fields.get(place).map(text)))
}

/// A field, for a message.
pub(super) fn text((name, value): &(Bound<'_, PyBytes>, Bound<'_, PyBytes>)) -> String {
    let text = |bytes: &Bound<'_, PyBytes>| String::from_utf8_lossy(bytes.as_bytes()).into_owned();
    format!("{}: {}", text(name), text(value))
}

/// The exception for fields that cannot be sent, of which `field` knows those in their places.
pub(super) fn unsendable(
    error: ResponseHeadError,
    field: impl Fn(usize) -> Option<String>,
) -> PyErr {
    match error {
        ResponseHeadError::Field(place) => {
            let field = field(place);
            PyValueError::new_err(format!(
                "the header field `{}` cannot be sent: a name must be a token, a value must not have line breaks",
                field.unwrap_or_default()
            ))
        }
        error => PyValueError::new_err(error.to_string()),
    }
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

/// The client has gone (ASGI 2.4: an `OSError`).
pub(super) fn gone() -> PyErr {
    PyConnectionResetError::new_err("the client has gone")
}
