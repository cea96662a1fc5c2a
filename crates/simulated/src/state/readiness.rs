//! The descriptors that are watched, in an epoll set (epoll(7)).

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::task::Waker;

use super::processes::Pid;

/// A watched descriptor, and who waits for it.
#[derive(Debug, Default)]
pub(crate) struct Entry {
    pub(crate) is_ready: bool,
    pub(crate) waker: Option<Waker>,
    pub(crate) process: Option<Pid>,
}

/// The epoll set, and the descriptors in it.
#[derive(Debug, Default)]
pub(crate) struct Readiness {
    pub(crate) epoll: Option<OwnedFd>,
    pub(crate) next: u64,
    pub(crate) all: BTreeMap<u64, Entry>,
}
