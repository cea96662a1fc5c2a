//! Lifespan: each target learns when the server starts and when it stops, and may refuse to start.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tutti_worker::StartError;

use super::event_loop::Loop;
use super::scope::asgi_versions;
use crate::lifecycle::{Interface, Target, failure};
use crate::log;

/// One target's lifespan: it learns when the server starts and when it stops.
pub(super) struct Lifespan {
    object: Py<PyAny>,
    pub(super) state: Py<PyDict>,
}

/// Tells each target that the server starts.
pub(super) fn startup(
    py: Python<'_>,
    targets: &[Target],
    event_loop: &Loop,
) -> Result<Vec<Lifespan>, StartError> {
    targets
        .iter()
        .map(|target| {
            let step = match String::from_utf8_lossy(&target.name) {
                name if name.is_empty() => "starting the application (lifespan)".to_owned(),
                name => format!("starting target `{name}` (lifespan)"),
            };
            let begin = || -> PyResult<(Lifespan, Bound<'_, PyAny>)> {
                let state = PyDict::new(py);
                let scope = PyDict::new(py);
                scope.set_item("type", "lifespan")?;
                scope.set_item("asgi", asgi_versions(py, target.interface)?)?;
                scope.set_item("state", &state)?;
                let arguments = (&target.callable, target.interface == Interface::Asgi2, scope);
                let object = event_loop.support.bind(py).getattr("Lifespan")?.call1(arguments)?;
                let reason = event_loop
                    .handle
                    .bind(py)
                    .call_method1("run_until_complete", (object.call_method0("startup")?,))?;
                Ok((Lifespan { object: object.unbind(), state: state.unbind() }, reason))
            };
            let (lifespan, outcome) = begin().map_err(|error| failure(py, &step, &error))?;
            let (reason, raised) = outcome
                .extract::<(Option<String>, Option<String>)>()
                .map_err(|error| failure(py, &step, &error))?;
            let raised = raised.as_deref().map(str::trim_end);
            let Some(reason) = reason else {
                if let Some(raised) = raised {
                    log::warning(&format!("{step}: the application raised; it is served without lifespan\n{raised}"));
                }
                return Ok(lifespan);
            };
            let reason = match reason.trim_end() {
                "" => "the application says that its startup failed",
                reason => reason,
            };
            // Frameworks put the traceback into the message themselves.
            let reason = match raised {
                Some(raised) if !reason.contains(raised) => format!("{reason}\n{raised}"),
                _ => reason.to_owned(),
            };
            // These words are searched for.
            log::error(&format!("{step}: Application startup failed: {reason}"));
            Err(StartError::new(step, reason)
                .hint("it sent `lifespan.startup.failed`; the lines before this one in the log may tell more"))
        })
        .collect()
}

/// Tells each target that the server stops, and ends the loop.
pub(super) fn shutdown(py: Python<'_>, lifespans: &[Lifespan], event_loop: &Loop) {
    let handle = event_loop.handle.bind(py);
    for lifespan in lifespans {
        let outcome = lifespan
            .object
            .bind(py)
            .call_method0("shutdown")
            .and_then(|shutdown| handle.call_method1("run_until_complete", (shutdown,)));
        match outcome {
            Err(error) => log::exception(py, "shutting the application down (lifespan)", &error),
            Ok(reason) if !reason.is_none() => {
                log::error(&format!(
                    "the application says that its shutdown failed: {reason}"
                ));
            }
            Ok(_) => {}
        }
    }
    if let Err(error) = event_loop
        .support
        .bind(py)
        .call_method1("finish", (handle,))
    {
        log::exception(py, "ending the event loop", &error);
    }
}
