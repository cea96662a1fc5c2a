//! The connections of one listen thread: their deadlines, and how to wake them.
//!
//! A timer per connection would be registered, moved and cancelled several times a request. Here a connection only stores its
//! deadline in a slab entry; one sweeper task per thread sleeps until the earliest deadline it knows, then scans. Deadlines that
//! move later (nearly all) cost one store. The scan costs a nanosecond or so per connection, at most every [`GRANULARITY`].
//!
//! Only the owning thread touches entries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use slab::Slab;
use tokio::sync::Notify;

use crate::clock::{Millis, now_millis};

/// Deadlines are met within this many milliseconds: every documented timeout is a number of seconds.
const GRANULARITY: Millis = 50;

/// No deadline.
pub const NEVER: Millis = u64::MAX;

#[derive(Debug)]
struct Wait {
    deadline: Millis,
    waker: Waker,
}

/// The entry of one connection, until it is dropped.
#[derive(Debug)]
pub struct ConnectionEntry {
    connections: Rc<Connections>,
    key: usize,
}

/// Deadlines and wakers of one thread.
#[derive(Debug, Default)]
pub struct Connections {
    waits: RefCell<Slab<Wait>>,
    /// When the sweeper will check next.
    next: Cell<Millis>,
    earlier: Notify,
}

impl Connections {
    /// Without connections.
    pub fn new() -> Self {
        Self {
            next: Cell::new(NEVER),
            ..Self::default()
        }
    }

    /// Adds a connection without a deadline. `waker` must wake its task for as long as the entry exists.
    pub fn enter(self: &Rc<Self>, waker: Waker) -> ConnectionEntry {
        let deadline = NEVER;
        ConnectionEntry {
            connections: Rc::clone(self),
            key: self.waits.borrow_mut().insert(Wait { deadline, waker }),
        }
    }

    /// Wakes every connection, so that each checks the state of its listener.
    pub fn wake_all(&self) {
        let wakers: Vec<Waker> = self
            .waits
            .borrow()
            .iter()
            .map(|(_, wait)| wait.waker.clone())
            .collect();
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Wakes those whose deadline has passed; returns the earliest remaining deadline.
    fn sweep(&self, now: Millis) -> Millis {
        let mut earliest = NEVER;
        for (_, wait) in self.waits.borrow_mut().iter_mut() {
            if wait.deadline <= now {
                wait.waker.wake_by_ref();
                // The connection acts when it runs; if it does not set a new deadline, it is woken again at the next sweep.
                earliest = earliest.min(now + GRANULARITY);
            } else {
                earliest = earliest.min(wait.deadline);
            }
        }
        earliest
    }
}

impl ConnectionEntry {
    /// Sets the waker of its task.
    pub fn set_waker(&self, waker: Waker) {
        if let Some(wait) = self.connections.waits.borrow_mut().get_mut(self.key) {
            wait.waker = waker;
        }
    }

    /// Sets the time at which the connection is woken at the latest.
    pub fn set_deadline(&self, deadline: Millis) {
        let all = &self.connections;
        if let Some(wait) = all.waits.borrow_mut().get_mut(self.key) {
            wait.deadline = deadline;
        }
        if deadline.saturating_add(GRANULARITY) < all.next.get() {
            all.next.set(deadline);
            all.earlier.notify_one();
        }
    }

    /// True if the deadline has passed.
    pub fn is_overdue(&self) -> bool {
        let waits = self.connections.waits.borrow();
        let deadline = waits.get(self.key).map_or(NEVER, |wait| wait.deadline);
        deadline != NEVER && deadline <= now_millis()
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        // The waker is dropped when the entries are not borrowed any more.
        let wait = self.connections.waits.borrow_mut().try_remove(self.key);
        drop(wait);
    }
}

/// The sweeper task; runs as long as the thread does.
pub async fn sweep_forever(connections: Rc<Connections>) {
    loop {
        let next = connections.next.get();
        if next == NEVER {
            connections.earlier.notified().await;
            continue;
        }
        let wait = next.saturating_sub(now_millis()).max(GRANULARITY);
        let sleep = tokio::time::sleep(std::time::Duration::from_millis(wait));
        tokio::select! {
            () = sleep => {
                let earliest = connections.sweep(now_millis());
                connections.next.set(earliest);
            }
            () = connections.earlier.notified() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU32);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_sweep_wakes_the_expired_and_finds_the_earliest_of_the_rest() {
        let connections = Rc::new(Connections::new());
        let counts: Vec<Arc<Count>> = (0..3).map(|_| Arc::default()).collect();
        let mut entries: Vec<ConnectionEntry> = counts
            .iter()
            .map(|count| connections.enter(Waker::from(count.clone())))
            .collect();
        entries[0].set_deadline(1_000);
        entries[1].set_deadline(5_000);
        assert_eq!(connections.next.get(), 1_000);
        assert_eq!(connections.sweep(999), 1_000);
        entries[0].set_deadline(2_000);
        assert_eq!(connections.sweep(1_500), 2_000);
        assert_eq!(connections.sweep(4_000), 4_000 + GRANULARITY);
        let woken: Vec<u32> = counts
            .iter()
            .map(|count| count.0.load(Ordering::Relaxed))
            .collect();
        assert_eq!(woken, [1, 0, 0]);
        drop(entries.remove(0));
        assert_eq!(connections.sweep(4_000), 5_000);
    }

    #[test]
    fn every_connection_can_be_woken() {
        let connections = Rc::new(Connections::new());
        let count: Arc<Count> = Arc::default();
        let entries = [(); 2].map(|()| connections.enter(Waker::from(count.clone())));
        connections.wake_all();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
        drop(entries);
        connections.wake_all();
        assert_eq!(count.0.load(Ordering::Relaxed), 2);
    }
}
