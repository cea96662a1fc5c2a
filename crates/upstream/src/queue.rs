//! Requests that wait for a server with room, in the order they came.
//!
//! Only where servers have `max_connections`. The first in the queue is woken when a server gets room; it tries, and when it goes,
//! served or not, it wakes the next. So no room is left unused while somebody waits, and nobody overtakes.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// The queue of a group, or of a thread's requests to one server.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    length: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    list: VecDeque<(u64, Option<Waker>)>,
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change is one call on the list.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests that wait.
    pub(crate) fn length(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// A place at the end; `None`: there are `most` before it.
    pub(crate) fn enter(&self, most: usize) -> Option<Place<'_>> {
        let mut waiting = self.waiting();
        if waiting.list.len() >= most {
            return None;
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.list.push_back((number, None));
        self.length.store(waiting.list.len(), Ordering::Release);
        Some(Place {
            queue: self,
            number,
        })
    }

    /// There may be room.
    pub(crate) fn wake_first(&self) {
        if self.length() == 0 {
            return;
        }
        let waker = self
            .waiting()
            .list
            .front_mut()
            .and_then(|(_, waker)| waker.take());
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// A place in the queue of an upstream; dropping it leaves the queue.
#[derive(Debug)]
pub struct Place<'q> {
    queue: &'q Queue,
    number: u64,
}

impl Place<'_> {
    /// Whether it is the first, who may try. The task is woken when that, or the room there is, may have changed.
    pub(crate) fn may_try(&self, context: &Context<'_>) -> bool {
        let mut waiting = self.queue.waiting();
        let is_first = waiting
            .list
            .front()
            .is_some_and(|(number, _)| *number == self.number);
        let own = waiting
            .list
            .iter_mut()
            .find(|(number, _)| *number == self.number);
        if let Some((_, waker)) = own
            && !waker
                .as_ref()
                .is_some_and(|old| old.will_wake(context.waker()))
        {
            *waker = Some(context.waker().clone());
        }
        is_first
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting();
        waiting.list.retain(|(number, _)| *number != self.number);
        self.queue
            .length
            .store(waiting.list.len(), Ordering::Release);
        drop(waiting);
        self.queue.wake_first();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_queue_is_bounded_and_in_order() {
        let queue = Queue::default();
        let context = Context::from_waker(Waker::noop());
        let first = queue.enter(2).unwrap();
        let second = queue.enter(2).unwrap();
        assert!(queue.enter(2).is_none());
        assert!(first.may_try(&context));
        assert!(!second.may_try(&context));
        drop(first);
        assert!(second.may_try(&context));
        drop(second);
        assert_eq!(queue.length(), 0);
    }
}
