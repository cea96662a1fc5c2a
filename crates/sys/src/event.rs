//! eventfd: a counter one side adds to and the other sleeps on.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::EventfdFlags;

use crate::error::context;

/// A non-blocking, close-on-exec eventfd.
#[derive(Debug)]
pub struct EventFd(OwnedFd);

impl EventFd {
    /// A new counter at zero.
    pub fn new() -> io::Result<EventFd> {
        let fd = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| context("creating an eventfd", e))?;
        Ok(EventFd(fd))
    }

    /// Takes over a descriptor that is an eventfd already (inherited by exec).
    pub fn from_fd(fd: OwnedFd) -> EventFd {
        EventFd(fd)
    }

    /// Adds one; a full counter is signalled anyway, so that is no error.
    pub fn signal(&self) {
        signal(self.0.as_fd());
    }

    /// Sets the counter back to zero; true if it was signalled.
    pub fn clear(&self) -> bool {
        let mut bytes = [0u8; 8];
        rustix::io::read(&self.0, &mut bytes).is_ok()
    }

    /// A second handle on the same counter.
    pub fn try_clone(&self) -> io::Result<EventFd> {
        Ok(EventFd(self.0.try_clone()?))
    }

    /// The descriptor, given away.
    pub fn into_fd(self) -> OwnedFd {
        self.0
    }
}

/// Adds one to the eventfd behind `fd`.
pub fn signal(fd: BorrowedFd<'_>) {
    let _ = rustix::io::write(fd, &1u64.to_ne_bytes());
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl std::os::fd::AsRawFd for EventFd {
    fn as_raw_fd(&self) -> std::os::fd::RawFd {
        self.0.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signalled_once_and_cleared() {
        let event = EventFd::new().unwrap();
        assert!(!event.clear());
        event.signal();
        event.signal();
        assert!(event.clear());
        assert!(!event.clear());
    }
}
