//! Detects contention for the workers of a server that uses one for each open connection (PHP-FPM).
//!
//! On such a server, a kept connection occupies a worker that other clients wait for, and a new connection waits until another is closed.
//! The sign of contention: requests on new connections take longer than those on kept ones. Then the server is *full*, and further requests
//! of a thread wait for the thread's own connections, where a handover costs nothing, instead of in the server's backlog, where it costs a
//! connection each time.
//!
//! While requests wait here, one of them always waits in the server's backlog, so that new workers are found and other clients get their
//! turn: for each new connection without an answer in time, a connection that was kept for [`HOLD`] is closed, and another each
//! [`MAX_WAIT`] until it is answered. Only an answer without such a closing shows that the server has a free worker.
//!
//! Must never: let a request wait here while no other request of its thread is being served, or longer than [`MAX_WAIT`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustc_hash::FxHashMap;

use crate::queue::{Queue, QueueEntry};
use crate::{Micros, Millis, micros};

/// Time for which a kept connection may occupy a worker that others wait for.
pub(crate) const HOLD: Millis = 4;

/// The longest wait for a connection of the same thread.
pub const MAX_WAIT: Millis = 50;

/// Interval at which a connection is kept although others wait, to measure requests on kept connections.
const SAMPLE_PAUSE: Millis = 100;

/// Additional time that a request on a new connection may take without the server being full, in microseconds.
const OPENING: u32 = 500;

/// The state of one server, shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Contention {
    /// Average microseconds of recent requests on kept connections; 0: unknown.
    kept: AtomicU32,
    /// The same on new connections.
    opened: AtomicU32,
    /// New connections whose first request has not been answered.
    fresh: AtomicU32,
    /// The number of those that still need another connection to be closed.
    owed: AtomicU32,
    /// Since when there are such, or when a connection was last closed although there were none.
    owed_since: AtomicU64,
    /// When a connection was last opened although the server was full, or kept although others waited.
    probed: AtomicU64,
    learned: AtomicU64,
}

impl Contention {
    /// Notes that a connection was opened for a request.
    pub(crate) fn opened(&self, at: Micros) {
        self.fresh.fetch_add(1, Ordering::Relaxed);
        if self.owed.fetch_add(1, Ordering::Relaxed) == 0 {
            self.owed_since.store(at, Ordering::Relaxed);
        }
    }

    /// Notes that such a request was answered or given up. True if no connection was closed for it: a worker was free.
    pub(crate) fn answered(&self) -> bool {
        let left = self.fresh.fetch_sub(1, Ordering::Relaxed) - 1;
        self.owed.fetch_min(left, Ordering::Relaxed) > left
    }

    /// Notes the duration of a request on a kept connection.
    pub(crate) fn note_kept(&self, took: Duration) {
        let before = self.kept.load(Ordering::Relaxed);
        let after = mixed(before, took, 8);
        // A concurrent update may be lost: it is an average.
        self.kept.store(after, Ordering::Relaxed);
    }

    /// Notes the duration of a request on a new connection; `was_free`: a worker was free for it.
    pub(crate) fn note_opened(&self, was_free: bool, took: Duration) {
        let before = self.opened.load(Ordering::Relaxed);
        let after = match mixed(before, took, 8) {
            after if before == 0 || after >= before => after,
            _ if was_free => mixed(before, took, 2),
            // A connection was closed for it, so its duration does not show how long it would have waited.
            _ => before,
        };
        self.opened.store(after, Ordering::Relaxed);
    }

    /// True if new connections wait for a worker.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.load(Ordering::Relaxed) > 0 && self.opened.load(Ordering::Relaxed) > self.usual()
    }

    /// The longest time of a request on a new connection if a worker is free, in microseconds.
    fn usual(&self) -> u32 {
        let kept = self.kept.load(Ordering::Relaxed);
        kept.saturating_mul(2).saturating_add(OPENING)
    }

    /// True if a connection that has been kept for `age` must be closed for a waiting one; true once for each.
    pub(crate) fn must_make_room(
        &self,
        age: Millis,
        now: Millis,
        clock: impl FnOnce() -> Micros,
    ) -> bool {
        if self.fresh.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let since = self.owed_since.load(Ordering::Relaxed);
        let at = clock();
        let waited = at.saturating_sub(since);
        if self.owed.load(Ordering::Relaxed) == 0 {
            // A connection was closed, and yet there is no answer: another client was first in the server's backlog.
            return waited >= MAX_WAIT * 1000
                && age >= HOLD
                && self
                    .owed_since
                    .compare_exchange(since, at, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
        }
        if waited < Micros::from(self.usual()).min(MAX_WAIT * 1000) {
            return false;
        }
        let may_stay = match self.is_full() {
            true => age < HOLD,
            false => is_time(&self.learned, SAMPLE_PAUSE, now),
        };
        let less = |owed: u32| owed.checked_sub(1);
        !may_stay
            && self
                .owed
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
    }

    /// True if a connection that has been idle for `rested` must be closed: for a waiting request of this server, or, where workers have
    /// been scarce, for other clients.
    pub(crate) fn is_left(&self, rested: Millis, now: Millis) -> bool {
        (rested > HOLD && self.is_full()) || self.must_make_room(Millis::MAX, now, micros)
    }

    /// True if a connection may be opened although the server is full.
    pub(crate) fn may_probe(&self, now: Millis) -> bool {
        self.fresh.load(Ordering::Relaxed) == 0 && is_time(&self.probed, HOLD, now)
    }
}

/// Updates a moving average, in which the new value counts as one in `part`.
fn mixed(before: u32, took: Duration, part: u32) -> u32 {
    let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
    match before {
        0 => took,
        _ => (before - before / part + took / part).max(1),
    }
}

/// True if `pause` has passed since `last`, which is then set to now.
fn is_time(last: &AtomicU64, pause: Millis, now: Millis) -> bool {
    let before = last.load(Ordering::Relaxed);
    now.saturating_sub(before) >= pause
        && last
            .compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

/// A thread's requests to such a server: the open ones, and those that wait for a connection.
#[derive(Debug, Default)]
pub struct ThreadQueue {
    pub(crate) waiting: Queue,
    /// Open requests.
    pub(crate) served: Cell<usize>,
}

/// Those of all servers that have requests, by id.
#[derive(Debug, Default)]
pub(crate) struct ThreadQueues(RefCell<FxHashMap<u64, Rc<ThreadQueue>>>);

impl ThreadQueues {
    /// Those of a server; `None`: it has no request.
    pub(crate) fn of(&self, server: u64) -> Option<Rc<ThreadQueue>> {
        self.0.borrow().get(&server).map(Rc::clone)
    }

    /// Removes those whose last request has left without being served.
    pub(crate) fn prune(&self) {
        self.0.borrow_mut().retain(|_, queue| !queue.is_empty());
    }
}

/// An open request.
#[derive(Debug)]
pub struct InFlight {
    queues: Rc<ThreadQueues>,
    server: u64,
    queue: Rc<ThreadQueue>,
}

impl ThreadQueue {
    fn is_empty(&self) -> bool {
        self.served.get() == 0 && self.waiting.length() == 0
    }

    /// Enters the queue.
    pub fn enter(&self) -> Option<QueueEntry<'_>> {
        self.waiting.enter(usize::MAX)
    }
}

impl InFlight {
    pub(crate) fn new(queues: &Rc<ThreadQueues>, server: u64) -> InFlight {
        let mut known = queues.0.borrow_mut();
        let queue = Rc::clone(known.entry(server).or_default());
        queue.served.set(queue.served.get() + 1);
        InFlight {
            queues: Rc::clone(queues),
            server,
            queue,
        }
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        let Self {
            queues,
            server,
            queue,
        } = self;
        queue.served.set(queue.served.get().saturating_sub(1));
        queue.waiting.wake_next();
        if queue.is_empty() {
            queues.0.borrow_mut().remove(server);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(100);

    /// Longer than the usual time.
    const LATER: fn() -> Micros = || 10_000;

    fn full() -> Contention {
        let contention = Contention::default();
        contention.note_kept(SHORT);
        contention.note_opened(false, Duration::from_millis(4));
        contention
    }

    #[test]
    fn a_server_is_full_when_opened_connections_wait() {
        let contention = Contention::default();
        contention.note_opened(true, Duration::from_secs(1));
        assert!(!contention.is_full(), "nothing to compare with");
        contention.note_kept(Duration::from_secs(1));
        assert!(!contention.is_full(), "requests that take long");
        assert!(full().is_full());
    }

    #[test]
    fn it_is_so_until_one_is_answered_for_which_none_was_closed() {
        let contention = full();
        for _ in 0..100 {
            contention.opened(0);
            assert!(contention.must_make_room(HOLD, 1000, LATER));
            assert!(!contention.answered());
            contention.note_opened(false, SHORT);
        }
        assert!(contention.is_full());
        for _ in 0..4 {
            contention.opened(0);
            assert!(contention.answered(), "a worker was free");
            contention.note_opened(true, SHORT);
        }
        assert!(!contention.is_full());
    }

    #[test]
    fn each_that_waits_has_one_connection_closed() {
        let contention = full();
        let must = |age| contention.must_make_room(age, 1000, LATER);
        assert!(!must(HOLD), "no request waits");
        contention.opened(0);
        contention.opened(9999);
        assert!(
            !contention.must_make_room(HOLD, 1000, || 600),
            "a worker may be free"
        );
        assert!(!must(HOLD - 1), "it has its turn");
        assert!(must(HOLD));
        assert!(must(HOLD));
        assert!(!must(HOLD), "for both there is room");
        let again = |at| contention.must_make_room(HOLD, 1000, || at);
        assert!(!again(MAX_WAIT * 1000 - 1));
        assert!(again(MAX_WAIT * 1000), "another server was before them");
        assert!(!again(MAX_WAIT * 1000 + 1));
        contention.opened(0);
        assert!(!contention.answered());
        assert!(!contention.answered());
        assert!(contention.answered());
        assert!(!must(HOLD), "a worker was free");
    }

    #[test]
    fn unused_connections_are_released_where_workers_are_scarce() {
        let contention = full();
        assert!(!contention.is_left(HOLD, 1000));
        assert!(contention.is_left(HOLD + 1, 1000));
        assert!(!Contention::default().is_left(1000, 1000));
    }

    #[test]
    fn where_nothing_is_known_one_is_kept_now_and_then() {
        let contention = Contention::default();
        for _ in 0..3 {
            contention.opened(0);
        }
        let must = |now| contention.must_make_room(0, now, LATER);
        assert!(!must(1000));
        assert!(must(1001));
        assert!(!must(1000 + SAMPLE_PAUSE));
        assert!(must(1001 + SAMPLE_PAUSE));
    }

    #[test]
    fn a_server_without_requests_has_no_queue() {
        let queues = Rc::<ThreadQueues>::default();
        let first = InFlight::new(&queues, 1);
        let second = InFlight::new(&queues, 1);
        let other = InFlight::new(&queues, 2);
        assert!(Rc::ptr_eq(&first.queue, &second.queue));
        drop((first, other));
        assert_eq!(queues.of(1).unwrap().served.get(), 1);
        assert!(queues.of(2).is_none());
        let queue = Rc::clone(&second.queue);
        let place = queue.enter().unwrap();
        drop(second);
        queues.prune();
        assert!(queues.of(1).is_some(), "a request waits");
        drop(place);
        queues.prune();
        assert!(queues.of(1).is_none());
    }

    #[test]
    fn one_at_a_time_is_opened_for_a_full_server() {
        let contention = full();
        assert!(contention.may_probe(1000));
        assert!(!contention.may_probe(1000 + HOLD - 1));
        contention.opened(0);
        assert!(!contention.may_probe(2000));
        contention.answered();
        assert!(contention.may_probe(2000));
    }
}
