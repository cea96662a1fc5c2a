//! The threads of the router, and their tasks.

use std::any::Any;
use std::collections::VecDeque;
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

/// All tasks, each at the place that its number says. Numbers are not used again in a run.
#[derive(Default)]
pub(crate) struct Tasks(Vec<Option<Task>>);

impl Tasks {
    /// The number of the next task.
    pub(crate) fn next(&self) -> u64 {
        self.0.len() as u64
    }

    pub(crate) fn add(&mut self, task: Task) {
        self.0.push(Some(task));
    }

    pub(crate) fn get_mut(&mut self, number: u64) -> Option<&mut Task> {
        self.0.get_mut(number as usize)?.as_mut()
    }

    pub(crate) fn remove(&mut self, number: u64) -> Option<Task> {
        self.0.get_mut(number as usize)?.take()
    }

    /// Takes any of them.
    pub(crate) fn pop(&mut self) -> Option<Task> {
        while let Some(last) = self.0.pop() {
            if last.is_some() {
                return last;
            }
        }
        None
    }
}
