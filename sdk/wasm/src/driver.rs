//! The life of a worker: one task takes requests, and each runs until it waits for something before the next is taken. So a request that this
//! worker cannot begin at once, another takes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

use tokio::io::unix::AsyncFd;
use tutti_event_loop::{self as event_loop, Runtime, behind_the_others, readable};
use tutti_sys::signal::Signals;
use tutti_worker::{Process, StartError, Worker};

use crate::guest::Maker;
use crate::instance::Instances;
use crate::response::serve;

/// Serves until the worker has to leave and its instances are done.
pub(crate) fn run<M: Maker>(
    worker: Worker,
    process: &mut Process,
    instances: Rc<Instances<M>>,
    question: Signals,
) -> Result<(), StartError> {
    let failed = |error: io::Error| StartError::new("running the event loop", error);
    let runtime = Runtime::new(&worker).map_err(failed)?;
    runtime.prepare(instances.try_one())?;
    worker.ready();
    process.ready();
    let outcome = runtime.serve(worker, async {
        let asked = readable(question.as_fd().try_clone_to_owned()?)?;
        tokio::task::spawn_local(pass_on(question, asked, Rc::clone(&instances)));
        // A task like the others: the runtime would look at the system's events each time before it called this one.
        let all_taken = tokio::task::spawn_local(take_all(instances));
        all_taken.await.map_err(io::Error::other)
    });
    outcome.map_err(failed)
}

/// Tells the instances each time that the server asks where the worker is.
async fn pass_on<M: Maker>(
    question: Signals,
    asked: AsyncFd<OwnedFd>,
    instances: Rc<Instances<M>>,
) {
    while let Ok(mut ready) = asked.readable().await {
        ready.clear_ready();
        if question.next().is_some() {
            while question.next().is_some() {}
            instances.is_asked();
        }
    }
}

/// Takes requests until there are no more, and gives each to a task.
async fn take_all<M: Maker>(instances: Rc<Instances<M>>) {
    while let Some(exchange) = event_loop::next_request().await {
        let instances = Rc::clone(&instances);
        tokio::task::spawn_local(async move {
            serve(instances, exchange).await;
            // It may be what a leaving worker waits for.
            event_loop::wake_taker();
        });
        behind_the_others().await;
    }
    // An instance may go on when its answer has been sent.
    instances.end().await;
}
