//! The descriptors by which the router wakes its own listen threads: one eventfd each, which no other process has.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};

/// The eventfds of all listen threads. Made once; every segment is laid out for this many threads.
#[derive(Debug)]
pub struct ThreadWakers {
    eventfds: Vec<OwnedFd>,
}

impl ThreadWakers {
    /// One eventfd for each of `count` threads.
    pub fn new(count: u32) -> io::Result<Arc<ThreadWakers>> {
        let eventfds = (0..count.max(1))
            .map(|_| eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK))
            .collect::<Result<_, _>>()?;
        Ok(Arc::new(ThreadWakers { eventfds }))
    }

    /// Number of threads.
    pub fn count(&self) -> u32 {
        u32::try_from(self.eventfds.len()).unwrap_or(u32::MAX)
    }

    /// The eventfd written when this thread sleeps and a worker's death has completed some of its requests.
    pub fn eventfd(&self, thread: u32) -> Option<BorrowedFd<'_>> {
        self.eventfds.get(thread as usize).map(AsFd::as_fd)
    }

    pub(crate) fn duplicates(&self) -> io::Result<Vec<OwnedFd>> {
        self.eventfds.iter().map(OwnedFd::try_clone).collect()
    }
}
