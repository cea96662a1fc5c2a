//! Requests that wait for a server with capacity, in the order of arrival.
//!
//! Used only where servers have `max_connections`. A queued request is woken when a server gets capacity; it tries, and when it leaves the
//! queue, successful or not, it wakes the next. So no capacity is left unused while a request waits.
//!
//! A request overtakes those of other threads that have not waited much longer than itself ([`EARLIER`]): its own thread has the connection
//! that became free, while another would open a new one and have that closed.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};
use std::thread::{self, ThreadId};

use crate::{Micros, micros};

/// Time by which the first request may have waited longer than one of the thread that has freed capacity.
const EARLIER: Micros = 4_000;

/// The queue of a group, or of a thread's requests to one server.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    length: AtomicUsize,
}

#[derive(Debug, Default)]
struct Waiting {
    next: u64,
    list: VecDeque<Waiter>,
}

#[derive(Debug)]
struct Waiter {
    number: u64,
    thread: ThreadId,
    since: Micros,
    /// It was woken because there is capacity.
    may_try: bool,
    waker: Option<Waker>,
}

impl Waiting {
    /// The index of the next request when `thread` has freed capacity.
    fn turn(&self, thread: ThreadId) -> usize {
        let Some(first) = self.list.front() else {
            return 0;
        };
        let limit = first.since.saturating_add(EARLIER);
        let is_near = |waiter: &Waiter| waiter.thread == thread && waiter.since <= limit;
        self.list.iter().position(is_near).unwrap_or(0)
    }
}

impl Queue {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Each change is one call on the list.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of waiting requests.
    pub(crate) fn length(&self) -> usize {
        self.length.load(Ordering::Acquire)
    }

    /// Enters the queue; `None`: it has `most` requests already.
    pub(crate) fn enter(&self, most: usize) -> Option<QueueEntry<'_>> {
        self.enter_as(most, thread::current().id(), micros())
    }

    fn enter_as(&self, most: usize, thread: ThreadId, since: Micros) -> Option<QueueEntry<'_>> {
        let mut waiting = self.waiting();
        if waiting.list.len() >= most {
            return None;
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.list.push_back(Waiter {
            number,
            thread,
            since,
            may_try: false,
            waker: None,
        });
        self.length.store(waiting.list.len(), Ordering::Release);
        Some(QueueEntry {
            queue: self,
            number,
        })
    }

    /// Wakes the next request, because a connection of the calling thread may have become free.
    pub(crate) fn wake_next(&self) {
        if self.length() > 0 {
            self.wake_for(thread::current().id());
        }
    }

    fn wake_for(&self, thread: ThreadId) {
        let mut waiting = self.waiting();
        let turn = waiting.turn(thread);
        let waker = waiting.list.get_mut(turn).and_then(|waiter| {
            waiter.may_try = true;
            waiter.waker.take()
        });
        drop(waiting);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// True if the capacity that the calling thread frees goes to another thread.
    pub(crate) fn is_next_elsewhere(&self) -> bool {
        self.length() > 0 && self.goes_elsewhere(thread::current().id())
    }

    fn goes_elsewhere(&self, thread: ThreadId) -> bool {
        let waiting = self.waiting();
        let next = waiting.list.get(waiting.turn(thread));
        next.is_some_and(|waiter| waiter.thread != thread)
    }
}

/// A place in the queue of an upstream; dropping it leaves the queue.
#[derive(Debug)]
pub struct QueueEntry<'q> {
    queue: &'q Queue,
    number: u64,
}

impl QueueEntry<'_> {
    /// True if the request may try: it is the first, or was woken because there is capacity. The task is woken when that, or the capacity,
    /// may have changed.
    pub(crate) fn may_try(&self, context: &Context<'_>) -> bool {
        let mut waiting = self.queue.waiting();
        let own = waiting
            .list
            .iter_mut()
            .enumerate()
            .find(|(_, waiter)| waiter.number == self.number);
        let Some((index, waiter)) = own else {
            return false;
        };
        if !waiter
            .waker
            .as_ref()
            .is_some_and(|old| old.will_wake(context.waker()))
        {
            waiter.waker = Some(context.waker().clone());
        }
        std::mem::take(&mut waiter.may_try) || index == 0
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        let mut waiting = self.queue.waiting();
        waiting.list.retain(|waiter| waiter.number != self.number);
        self.queue
            .length
            .store(waiting.list.len(), Ordering::Release);
        drop(waiting);
        self.queue.wake_next();
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

    #[test]
    fn room_goes_to_the_thread_that_makes_it_unless_others_wait_much_longer() {
        let queue = Queue::default();
        let context = Context::from_waker(Waker::noop());
        let own = thread::current().id();
        let other = thread::spawn(|| thread::current().id()).join().unwrap();
        let first = queue.enter_as(9, other, 0).unwrap();
        let near = queue.enter_as(9, own, EARLIER).unwrap();
        let late = queue.enter_as(9, own, EARLIER + 1).unwrap();
        assert!(!queue.goes_elsewhere(own));
        queue.wake_for(own);
        assert!(near.may_try(&context));
        assert!(!near.may_try(&context), "once for each");
        assert!(!late.may_try(&context));
        assert!(first.may_try(&context), "the first always");
        // When it leaves, the next one is woken.
        drop(near);
        assert!(!late.may_try(&context), "the first has waited too long");
        assert!(queue.goes_elsewhere(own));
        drop(first);
        assert!(late.may_try(&context));
    }
}
