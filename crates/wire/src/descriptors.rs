//! The descriptors that the workers of a process inherit in addition to the segment.

use std::os::fd::{AsFd, OwnedFd};

/// The descriptors that the workers of a process share.
#[derive(Debug, Default)]
pub struct Descriptors {
    /// The router threads' events, in order.
    pub threads: Vec<OwnedFd>,
    /// The events of all workers of the segment, in order; empty where no worker has an event loop.
    pub workers: Vec<OwnedFd>,
    /// The application's spool file.
    pub spool: Option<OwnedFd>,
}

impl Descriptors {
    /// Writes a worker's event.
    pub(crate) fn ring(&self, worker: u32) {
        if let Some(event) = self.workers.get(worker as usize) {
            // A full counter is readable, as intended.
            let _ = rustix::io::write(event.as_fd(), &1u64.to_ne_bytes());
        }
    }
}
