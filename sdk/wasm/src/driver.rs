//! The life of a worker: one task takes requests, and each runs until it waits for something before the next is taken. So a request that this
//! worker cannot begin at once, another takes.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::task::Poll;

use tokio::io::unix::AsyncFd;
use tokio::runtime::{Builder, LocalOptions};
use tutti_event_loop::{self as event_loop, readable};
use tutti_sys::signal::Signals;
use tutti_worker::{Process, StartError, Worker};

use crate::instance::Instances;
use crate::response::serve;

/// Serves until the worker has been told to leave and its instances are done.
pub(crate) fn run(
    worker: Worker,
    process: &mut Process,
    instances: Rc<Instances>,
    question: Signals,
) -> Result<(), StartError> {
    let failed = |error: io::Error| StartError::new("running the event loop", error);
    let runtime = Builder::new_current_thread()
        .enable_io()
        .enable_time()
        .on_thread_park(event_loop::before_sleep)
        .on_thread_unpark(event_loop::after_sleep)
        .build_local(LocalOptions::default())
        .map_err(failed)?;
    let event = worker
        .event_fd()
        .ok_or_else(|| failed(io::ErrorKind::Unsupported.into()))?
        .try_clone_to_owned()
        .map_err(failed)?;
    runtime.block_on(instances.try_one())?;
    worker.ready();
    process.ready();
    event_loop::enter(worker, process.request_limit());
    let outcome = runtime.block_on(async {
        // Registered, never read: each write is an edge that ends the runtime's sleep.
        let _event = readable(event)?;
        let asked = readable(question.as_fd().try_clone_to_owned()?)?;
        tokio::task::spawn_local(pass_on(question, asked, Rc::clone(&instances)));
        // A task like the others: the runtime would look at the system's events each time before it called this one.
        let all_taken = tokio::task::spawn_local(take_all(instances));
        all_taken.await.map_err(io::Error::other)
    });
    // The exchanges' tasks first: they use the worker's segment.
    drop(runtime);
    event_loop::leave();
    outcome.map_err(failed)
}

/// Tells the instances each time that the server asks where the worker is.
async fn pass_on(question: Signals, asked: AsyncFd<OwnedFd>, instances: Rc<Instances>) {
    while let Ok(mut ready) = asked.readable().await {
        ready.clear_ready();
        if question.next().is_some() {
            while question.next().is_some() {}
            instances.is_asked();
        }
    }
}

/// Takes requests until there are no more, and gives each to a task.
async fn take_all(instances: Rc<Instances>) {
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
    instances.all_done().await;
}

/// Lets the tasks that can run do so. Unlike tokio's `yield_now` it makes no system call between.
async fn behind_the_others() {
    let mut has_waited = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
