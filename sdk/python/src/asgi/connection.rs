//! An exchange, as the event loop and the awaitables see it: an HTTP request or a WebSocket.

use std::sync::Arc;

use pyo3::prelude::*;

/// The reason of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitReason {
    /// The next message for the application.
    Message,
    /// That all that was to be sent has gone.
    Room,
}

/// An exchange with the objects that serve it.
pub(super) trait AsgiConnection: Send + Sync {
    /// Looks for what is wanted: the answer, or `None` to wait.
    fn poll(&self, py: Python<'_>, wanted: WaitReason) -> PyResult<Option<Py<PyAny>>>;

    /// A future that is done when it is worth looking again.
    fn wait(self: Arc<Self>, py: Python<'_>) -> PyResult<Py<PyAny>>;

    /// Called when the router has done something.
    fn news(&self, py: Python<'_>) -> PyResult<()>;

    /// True if the client has gone.
    fn is_gone(&self, py: Python<'_>) -> bool;

    /// Called when the application has returned.
    fn returned(&self, py: Python<'_>) -> PyResult<()>;

    /// Called when the application has ended with an exception.
    fn failed(&self, py: Python<'_>) -> PyResult<()>;
}
