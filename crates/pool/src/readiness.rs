//! Waiting for a descriptor on tokio's reactor.

use std::io;
use std::os::fd::OwnedFd;

use crate::runtime::AsyncFd;

/// Watches a descriptor, which must be non-blocking, for readability.
#[cfg(not(simulated))]
#[expect(
    deprecated,
    reason = "the safe constructor is deprecated for types that can close or replace their descriptor while it is \
              registered; an `OwnedFd` that is only ever borrowed can do neither, and this crate has no unsafe code"
)]
pub fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(fd, tokio::io::Interest::READABLE)
}

/// The same on a simulated machine.
#[cfg(simulated)]
pub fn readable(fd: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::new(fd)
}
