//! The way from Python objects to the request being served, cut when the request is over.
//!
//! An application may keep `wsgi.input` or `start_response` for longer than their request; what it then does with them must
//! be an exception, not an access to another request's memory.

use std::ptr::NonNull;

use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;
use tutti_worker::Exchange;

/// An exchange that Python objects may use until they are unlinked.
///
/// Each object that has a link is a Python class of ours, used through `&mut self` only: Python's class borrow keeps a
/// second thread out while one is in a call, also one that waits detached. And the code that serves the request unlinks them all,
/// which needs the same borrow, before it lets go of the exchange.
#[derive(Debug, Default)]
pub(crate) struct Link(Option<NonNull<Exchange>>);

// SAFETY: the pointer is followed by one thread at a time (above), and an exchange is not tied to the thread that made it:
// what it shares with its worker is touched by calls of `Exchange` only, and the worker's thread waits in the application.
unsafe impl Send for Link {}
// SAFETY: there is no use through `&Link` but `get`, for which see `Send`.
unsafe impl Sync for Link {}

impl Link {
    /// Links to an exchange. The caller unlinks before it uses the exchange mutably or lets go of it.
    pub(crate) fn new(exchange: &Exchange) -> Self {
        Self(Some(NonNull::from(exchange)))
    }

    /// The exchange, or an exception when it is over.
    pub(crate) fn get(&self) -> PyResult<&Exchange> {
        let over = || PyRuntimeError::new_err("the request is over");
        let exchange = self.0.ok_or_else(over)?;
        // SAFETY: the code that linked unlinks before the exchange moves, ends or is used mutably.
        Ok(unsafe { exchange.as_ref() })
    }
}

/// A reference that may be used by the detached part of a call: same thread, and no other code uses it meanwhile.
pub(crate) struct Detached<'a>(&'a Exchange);

// SAFETY: `Python::detach` runs its closure on the calling thread; the bound is there for Python objects.
unsafe impl Send for Detached<'_> {}

impl<'a> Detached<'a> {
    pub(crate) fn new(exchange: &'a Exchange) -> Self {
        Self(exchange)
    }

    pub(crate) fn get(&self) -> &'a Exchange {
        self.0
    }
}
