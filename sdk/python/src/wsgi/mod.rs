//! WSGI (PEP 3333): one request from the call of the application to `close()`.
//!
//! Called by the worker's loop, attached. Whatever the application does, exactly one response is given: whole, or an error
//! page, or, when part of it has gone out, one that breaks off so that the client can tell.

mod errors;
mod file;
mod input;
mod request;
mod response;

use pyo3::exceptions::{PyBrokenPipeError, PySystemExit, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};
use pyo3::{intern, types::PyIterator};
use tutti_worker::{Exchange, Served, page};

use self::file::FileWrapper;
use self::input::Input;
use self::request::Environ;
pub(crate) use self::request::Setting;
use self::response::{Broken, Responder};
use crate::forked;
use crate::lifecycle::Target;
use crate::link::Link;
use crate::log;

/// The objects that one thread needs to serve requests. Objects that applications see are used again for the next request, unless an
/// application has kept them.
pub(crate) struct Wsgi {
    environ: Environ,
    responder: Py<Responder>,
    start_response: Py<PyAny>,
    input: Py<Input>,
}

impl Wsgi {
    pub(crate) fn new(py: Python<'_>, setting: &Setting) -> PyResult<Self> {
        let input = Py::new(py, Input::default())?;
        let (responder, start_response) = Responder::make(py)?;
        Ok(Self {
            environ: Environ::new(py, setting, &input)?,
            responder,
            start_response,
            input,
        })
    }

    /// Serves one request to its end.
    pub(crate) fn serve(
        &mut self,
        py: Python<'_>,
        targets: &[Target],
        exchange: &mut Exchange,
    ) -> Served {
        let name = exchange.request().target_name();
        let Some(target) = targets.iter().find(|target| target.name == name) else {
            page::answer(exchange, 404);
            return Served::Again;
        };
        let outcome = self.run(py, target, exchange);
        forked::end(py, outcome.as_ref().err().and_then(Broken::raised));
        let is_whole = self.responder.borrow(py).is_whole();
        if let Err(error) = self.unlink(py) {
            log::exception(py, "cleaning up after a request", &error);
        }
        match outcome {
            Ok(()) => {
                if !is_whole {
                    // The router sends what there is, and closes the connection.
                    log::error("the application sent less than its Content-Length");
                }
                exchange.finish();
            }
            Err(Broken::ClientGone) => exchange.abort(),
            Err(Broken::Raised(error)) => return raised(py, &error, exchange),
        }
        Served::Again
    }

    fn run(
        &mut self,
        py: Python<'_>,
        target: &Target,
        exchange: &mut Exchange,
    ) -> Result<(), Broken> {
        let request = exchange.request();
        let environ = self.environ.make(py, &request, target)?;
        let is_head = request.method() == b"HEAD";
        self.responder
            .borrow_mut(py)
            .begin(Link::new(exchange), is_head);
        self.input
            .borrow_mut(py)
            .begin(Link::new(exchange), request.body());
        let result = target
            .callable
            .bind(py)
            .call1((environ, &self.start_response))?;
        let sent = self.respond(py, &result, exchange);
        let closed = close(&result);
        if let (Err(_), Err(error)) = (&sent, &closed) {
            // The first failure is the request's; this one would be lost.
            log::exception(py, "exception in `close()` of the response", error);
        }
        sent?;
        closed?;
        Ok(())
    }

    /// Sends what the application returned.
    fn respond(
        &self,
        py: Python<'_>,
        result: &Bound<'_, PyAny>,
        exchange: &mut Exchange,
    ) -> Result<(), Broken> {
        let responder = self.responder.bind(py);
        if let Ok(list) = result.cast_exact::<PyList>() {
            for chunk in list {
                responder.borrow_mut().send(py, bytes(&chunk)?)?;
            }
        } else if let Ok(tuple) = result.cast_exact::<PyTuple>() {
            for chunk in tuple {
                responder.borrow_mut().send(py, bytes(&chunk)?)?;
            }
        } else if let Ok(whole) = result.cast::<PyBytes>() {
            // Iterating would give numbers.
            responder.borrow_mut().send(py, whole.as_bytes())?;
        } else if let Ok(wrapper) = result.cast_exact::<FileWrapper>()
            && let Some(file) = wrapper.borrow().regular(py)?
        {
            responder.borrow_mut().send_file(py, file)?;
        } else {
            for chunk in iterator(result)? {
                let chunk = chunk?;
                let mut responder = responder.borrow_mut();
                responder.send(py, bytes(&chunk)?)?;
                // Whatever the iterator does before its next chunk, this one is on its way (PEP 3333).
                if responder.is_complete() {
                    // No client waits for what the application does from here on.
                    responder.finished();
                    self.input.borrow_mut(py).end();
                    exchange.finish();
                } else {
                    responder.flush();
                }
            }
        }
        responder.borrow_mut().send_head(py)
    }

    /// Cuts the objects that the application has seen from the exchange, and replaces those it has kept.
    fn unlink(&mut self, py: Python<'_>) -> PyResult<()> {
        self.responder.borrow_mut(py).end();
        self.input.borrow_mut(py).end();
        // Ours, and the one in the pattern of `environ`.
        if references(&self.input) > 2 {
            self.input = Py::new(py, Input::default())?;
            self.environ.set_input(py, &self.input)?;
        }
        let is_kept = references(&self.start_response) > 1
            || self
                .responder
                .borrow(py)
                .given_write()
                .is_some_and(|write| references(write) > 1);
        if is_kept {
            self.responder.borrow_mut(py).forget();
            (self.responder, self.start_response) = Responder::make(py)?;
        }
        Ok(())
    }
}

fn bytes<'a>(chunk: &'a Bound<'_, PyAny>) -> PyResult<&'a [u8]> {
    match chunk.cast::<PyBytes>() {
        Ok(bytes) => Ok(bytes.as_bytes()),
        Err(_) => Err(PyTypeError::new_err(format!(
            "a WSGI application's response must be made of `bytes`, not `{}`",
            chunk.get_type()
        ))),
    }
}

/// The iterator of what the application returned.
fn iterator<'py>(result: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyIterator>> {
    PyIterator::from_object(result).map_err(|error| {
        let py = result.py();
        // An exception of its `__iter__` is the application's own.
        if !error.is_instance_of::<PyTypeError>(py) || result.hasattr("__iter__").unwrap_or(true) {
            return error;
        }
        PyTypeError::new_err(format!(
            "the application returned not an iterable object, but `{}`",
            result.get_type()
        ))
    })
}

/// The number of references to an object.
fn references<T>(object: &Py<T>) -> isize {
    // SAFETY: our own reference keeps the object alive.
    unsafe { pyo3::ffi::Py_REFCNT(object.as_ptr()) }
}

/// Calls `close()` of what the application returned, whatever has happened before.
fn close(result: &Bound<'_, PyAny>) -> PyResult<()> {
    if result.is_exact_instance_of::<PyList>() || result.is_exact_instance_of::<PyTuple>() {
        return Ok(());
    }
    if let Some(close) = result.getattr_opt(intern!(result.py(), "close"))? {
        close.call0()?;
    }
    Ok(())
}

/// An exception came out of the application.
fn raised(py: Python<'_>, error: &PyErr, exchange: &mut Exchange) -> Served {
    let is_gone = exchange.is_client_gone();
    if !(is_gone && error.is_instance_of::<PyBrokenPipeError>(py)) {
        log::exception(py, "exception in the application", error);
    }
    if exchange.is_started() {
        exchange.abort();
    } else {
        page::answer(exchange, 500);
    }
    // An application that calls `sys.exit()` wants this process to end.
    if error.is_instance_of::<PySystemExit>(py) {
        Served::Recycle
    } else {
        Served::Again
    }
}
