//! The descriptors by which the workers of one application wake listen threads: an eventfd for each thread.
//!
//! A worker may misuse them: fill or empty the counter, or make them block. So each application has its own, and the router neither reads
//! nor writes them; it only watches them.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::readiness::readable;
use crate::runtime::{self, AbortHandle};
use rustix::event::{EventfdFlags, eventfd};

/// One for each listen thread.
#[derive(Debug)]
pub(crate) struct Bells(Box<[Bell]>);

#[derive(Debug)]
struct Bell {
    event: OwnedFd,
    /// The descriptor, until its thread watches it.
    unwatched: Mutex<Option<OwnedFd>>,
    watch: OnceLock<AbortHandle>,
}

impl Bells {
    /// For this many threads.
    pub(crate) fn new(threads: u32) -> io::Result<Bells> {
        let bell = |_| -> io::Result<Bell> {
            let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            let unwatched = Mutex::new(Some(event.try_clone()?));
            Ok(Bell {
                event,
                unwatched,
                watch: OnceLock::new(),
            })
        };
        Ok(Bells((0..threads).map(bell).collect::<io::Result<_>>()?))
    }

    /// Duplicates for the processes of the application.
    pub(crate) fn duplicates(&self) -> io::Result<Vec<OwnedFd>> {
        self.0.iter().map(|bell| bell.event.try_clone()).collect()
    }

    /// Calls `rung` on the calling listen thread whenever a worker rings its bell. Only the first call has an effect.
    pub(crate) fn watch(&self, thread: u32, rung: fn()) {
        let Some(bell) = self.0.get(thread as usize) else {
            return;
        };
        if bell.watch.get().is_some() {
            return;
        }
        let mut unwatched = bell
            .unwatched
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Registered at once, so that no ring after this is missed.
        if let Some(Ok(event)) = unwatched.take().map(readable) {
            let task = runtime::spawn(async move {
                // The counter is never read: every write is an edge (eventfd(2), epoll(7)).
                while let Ok(mut ready) = event.readable().await {
                    ready.clear_ready();
                    rung();
                }
            });
            let _ = bell.watch.set(task.abort_handle());
        }
    }

    /// True if the thread watches its bell.
    pub(crate) fn is_watched(&self, thread: u32) -> bool {
        let bell = self.0.get(thread as usize);
        bell.is_some_and(|bell| bell.watch.get().is_some())
    }
}

impl Drop for Bells {
    fn drop(&mut self) {
        for watch in self.0.iter().filter_map(|bell| bell.watch.get()) {
            watch.abort();
        }
    }
}
