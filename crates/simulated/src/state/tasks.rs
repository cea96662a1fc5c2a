//! The threads of the router, and their tasks.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::Waker;

/// A router thread with its tasks.
pub(crate) struct Thread {
    pub(crate) ready: VecDeque<u64>,
    /// It has announced that it sleeps.
    pub(crate) is_parked: bool,
    /// Not scheduled until then.
    pub(crate) stopped_until: u64,
    pub(crate) park: fn(),
    pub(crate) unpark: fn(),
    pub(crate) locals: Vec<Box<dyn Any>>,
}

/// A task, of one thread.
pub(crate) struct Task {
    pub(crate) thread: usize,
    /// `None` while it is polled.
    pub(crate) future: Option<Pin<Box<dyn Future<Output = ()>>>>,
    pub(crate) waker: Waker,
    pub(crate) is_queued: bool,
}

/// All tasks.
#[derive(Default)]
pub(crate) struct Tasks {
    pub(crate) next: u64,
    pub(crate) all: BTreeMap<u64, Task>,
}
