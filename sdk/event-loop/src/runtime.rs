//! Tokio's runtime around a worker: it sleeps only when the wire allows it, and ends before the worker does.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::task::Poll;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};
use tutti_worker::Worker;

use crate::current::{after_sleep, before_sleep, enter, leave, readable};

/// A runtime that has no worker yet.
#[derive(Debug)]
pub struct Runtime {
    tokio: LocalRuntime,
    /// The worker's event, by which the router wakes it.
    event: OwnedFd,
}

impl Runtime {
    /// A runtime of the calling thread for this worker.
    ///
    /// # Errors
    /// When the system refuses what it needs, or the worker has no event of its own.
    pub fn new(worker: &Worker) -> io::Result<Self> {
        let tokio = Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .on_thread_park(before_sleep)
            .on_thread_unpark(after_sleep)
            .build_local(LocalOptions::default())?;
        let event = worker
            .event_fd()
            .ok_or(io::ErrorKind::Unsupported)?
            .try_clone_to_owned()?;
        Ok(Self { tokio, event })
    }

    /// Runs a future to its end before there is a worker.
    pub fn prepare<F: Future>(&self, future: F) -> F::Output {
        self.tokio.block_on(future)
    }

    /// Serves with this worker until the future ends.
    pub fn serve<T>(
        self,
        worker: Worker,
        serving: impl Future<Output = io::Result<T>>,
    ) -> io::Result<T> {
        enter(worker);
        let event = self.event;
        let outcome = self.tokio.block_on(async {
            // Registered, never read: each write is an edge that ends the runtime's sleep.
            let _event = readable(event)?;
            serving.await
        });
        // The exchanges' tasks first: they use the worker's segment.
        drop(self.tokio);
        leave();
        outcome
    }
}

/// Lets the tasks that can run do so. Unlike tokio's `yield_now` it makes no system call between.
pub async fn behind_the_others() {
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
