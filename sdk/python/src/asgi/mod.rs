//! ASGI 3 and 2: the application runs in an event loop of Python's, asyncio's or uvloop's, and so does the worker.
//!
//! The loop watches the worker's event descriptor. In its turn the driver hears what is new of the requests it holds, takes
//! *one* request, and runs its application until that waits for something; then it is the loop's turn again, and what is
//! left in the queue other workers may take. What must never happen: a request whose application has ended and that is not
//! answered; a wait in here while the loop has other things to do.

mod awaitable;
mod connection;
mod driver;
mod event_loop;
mod guarded;
mod http;
mod lifespan;
mod message;
mod request;
mod response;
mod runner;
mod scope;
mod turns;
mod websocket;

use pyo3::prelude::*;
use tutti_worker::{Process, StartError};

use self::driver::Driver;
pub(crate) use self::event_loop::{Loop, Support};
use self::lifespan::{shutdown, startup};
use crate::lifecycle::{Target, failure};
use crate::log;
use crate::options::Options;

/// Serves until told to leave. An error before the process is ready says why it does not start.
pub(crate) fn run(
    py: Python<'_>,
    targets: Vec<Target>,
    event_loop: &Loop,
    options: &Options,
    process: &mut Process,
) -> Result<(), StartError> {
    let Some(unstarted) = process.take_worker() else {
        return Ok(());
    };
    let mut worker = unstarted.into_worker();
    let bound = process.concurrency();
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
        event_loop.handle.bind(py),
    )
    .map_err(|error| failure(py, "preparing the event loop", &error))?;
    let driver = driver.into_bound(py);
    driver.get().ready();
    process.ready();
    let outcome = Driver::start(&driver).and_then(|()| {
        event_loop.handle.bind(py).call_method0("run_forever")?;
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
        let arguments = (
            options.threads.threads.get(),
            options.threads.thread_stack_size,
        );
        let sized = event_loop
            .support
            .bind(py)
            .call_method1("size_threads", arguments)?;
        let handle = event_loop.handle.bind(py);
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
