//! ASGI 3 and 2: the application runs in an event loop of Python's, asyncio's or uvloop's, and so does the worker.
//!
//! The loop watches the worker's event descriptor. In its turn the driver hears what is new of the requests it holds, takes
//! *one* request, and runs its application until that waits for something; then it is the loop's turn again, and what is
//! left in the queue other workers may take. What must never happen: a request whose application has ended and that is not
//! answered; a wait in here while the loop has other things to do.

mod awaitable;
mod driver;
mod request;
mod response;
mod runner;
mod websocket;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tutti_worker::{Process, StartError};

use self::driver::Driver;
use crate::lifecycle::{Interface, Target, failure};
use crate::log;
use crate::options::Options;

const SUPPORT: &str = include_str!("support.py");

/// Requests that one loop holds unless `limits.concurrency` says otherwise: as many as the router makes slots for.
const CONCURRENCY: u32 = 1024;

/// The loop of a worker, made before the application is imported: modules may ask for it.
pub(crate) struct Loop {
    event_loop: Py<PyAny>,
    support: Py<PyModule>,
}

impl Loop {
    pub(crate) fn new(py: Python<'_>) -> PyResult<Self> {
        let code = std::ffi::CString::new(SUPPORT)?;
        let support = PyModule::from_code(py, &code, c"<tutti>/support.py", c"tutti_support")?;
        Ok(Self {
            event_loop: support.call_method0("make_loop")?.unbind(),
            support: support.unbind(),
        })
    }
}

/// Serves until told to leave. An error before the process is ready says why it does not start.
pub(crate) fn run(
    py: Python<'_>,
    targets: Vec<Target>,
    event_loop: &Loop,
    options: &Options,
    process: &mut Process,
) -> Result<(), StartError> {
    let Some(seat) = process.take_seat() else {
        return Ok(());
    };
    let mut worker = seat.into_worker();
    let bound = match process.concurrency() {
        0 => CONCURRENCY,
        bound => bound,
    };
    worker
        .enter_loop(bound)
        .map_err(|error| StartError::new("entering the event loop", error))?;
    size_threads(py, options, event_loop)?;
    let lifespans = startup(py, &targets, event_loop)?;
    let states = lifespans
        .iter()
        .map(|lifespan| lifespan.state.clone_ref(py));
    let driver = Driver::new(
        py,
        worker,
        bound,
        targets,
        states.collect(),
        event_loop.event_loop.bind(py),
    )
    .map_err(|error| failure(py, "preparing the event loop", &error))?;
    let driver = driver.into_bound(py);
    driver.get().ready();
    process.ready();
    let outcome = Driver::start(&driver).and_then(|()| {
        event_loop.event_loop.bind(py).call_method0("run_forever")?;
        Ok(())
    });
    if let Err(error) = outcome {
        log::exception(py, "the event loop has ended", &error);
    }
    driver.get().stop();
    shutdown(py, &lifespans, event_loop);
    Ok(())
}

/// `threads` and `thread_stack_size`: requests share the loop, what the application moves off it shares these.
fn size_threads(py: Python<'_>, options: &Options, event_loop: &Loop) -> Result<(), StartError> {
    let size = || {
        let arguments = (options.threads.threads, options.threads.thread_stack_size);
        let sized = event_loop
            .support
            .bind(py)
            .call_method1("size_threads", arguments)?;
        let handle = event_loop.event_loop.bind(py);
        handle.call_method1("run_until_complete", (sized,))
    };
    match size() {
        Ok(_) => Ok(()),
        Err(error) => {
            let failed = failure(py, "preparing the application's threads", &error);
            Err(failed.member("thread_stack_size"))
        }
    }
}

/// The lifespan conversation with one target.
struct Lifespan {
    object: Py<PyAny>,
    state: Py<PyDict>,
}

/// Tells each target that the server starts.
fn startup(
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
                    .event_loop
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
            log::error(&format!("{step}: {reason}"));
            Err(StartError::new(step, reason)
                .hint("it sent `lifespan.startup.failed`; the lines before this one in the log may tell more"))
        })
        .collect()
}

/// Tells each target that the server stops, and ends the loop.
fn shutdown(py: Python<'_>, lifespans: &[Lifespan], event_loop: &Loop) {
    let handle = event_loop.event_loop.bind(py);
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

/// `scope["asgi"]`.
fn asgi_versions<'py>(py: Python<'py>, interface: Interface) -> PyResult<Bound<'py, PyDict>> {
    let versions = PyDict::new(py);
    let version = if interface == Interface::Asgi2 {
        "2.0"
    } else {
        "3.0"
    };
    versions.set_item("version", version)?;
    // 2.4 would make Starlette stop listening for disconnects while it streams.
    versions.set_item("spec_version", "2.3")?;
    Ok(versions)
}

/// What only one thread at a time touches, because it is attached to the interpreter then.
///
/// Python objects may be let go of by any thread of the application's, and so may what they own.
#[derive(Debug)]
pub(crate) struct Guarded<T>(T);

// SAFETY: there is one interpreter lock (free-threaded builds are refused), whoever reaches the value holds it, and nobody
// detaches within.
unsafe impl<T> Send for Guarded<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Guarded<T> {}

impl<T> std::ops::Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> std::ops::DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
