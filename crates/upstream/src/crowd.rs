//! Servers with a worker for each connection (PHP-FPM) that have more connections than workers.
//!
//! There a connection that is kept keeps its worker from whoever else has connected, and one that is opened waits until another is
//! closed. What can be seen of that: requests on connections opened for them take longer than those on kept ones. Then the server is
//! *full*, and further requests of a thread wait for its own connections, where handing over costs nothing, instead of in the server's
//! queue, where it costs a connection each time. One always stands in the server's queue while others wait here, so that workers that
//! come are found, and whoever else has connected gets its turn: for each opened connection that is not answered in time one that
//! was kept for [`TURN`] is closed, and another each [`PATIENCE`] while it has none. Only one that is answered without that says that
//! the server has a worker to spare.
//!
//! Must never: let a request wait here when nobody of its thread is being served, or longer than [`PATIENCE`].

use std::cell::Cell;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::queue::{Place, Queue};
use crate::{Micros, Millis, micros};

/// How long a worker is kept from others.
pub(crate) const TURN: Millis = 4;

/// Longest wait for a connection of the same thread.
pub const PATIENCE: Millis = 50;

/// How often a connection is kept although others wait, to learn how long requests take on such.
const LESSON: Millis = 100;

/// The time that opening a connection may take without the server being full, in microseconds.
const OPENING: u32 = 500;

/// The state of one server; shared by all threads.
#[derive(Debug, Default)]
pub(crate) struct Crowd {
    /// Microseconds that requests took lately on connections that had been kept; 0: not known.
    kept: AtomicU32,
    /// The same on those that were opened for them.
    opened: AtomicU32,
    /// Connections opened for requests that have not been answered yet.
    fresh: AtomicU32,
    /// For so many of those no other has been closed yet.
    owed: AtomicU32,
    /// Since when there are such, or when room was last made although there were none.
    owed_since: AtomicU64,
    /// When one was last opened although the server is full, or kept although others wait.
    probed: AtomicU64,
    learned: AtomicU64,
}

impl Crowd {
    /// A connection has been opened for a request.
    pub(crate) fn opened(&self, at: Micros) {
        self.fresh.fetch_add(1, Ordering::Relaxed);
        if self.owed.fetch_add(1, Ordering::Relaxed) == 0 {
            self.owed_since.store(at, Ordering::Relaxed);
        }
    }

    /// That request has been answered, or given up. Whether nothing was closed for it: a worker was free.
    pub(crate) fn answered(&self) -> bool {
        let left = self.fresh.fetch_sub(1, Ordering::Relaxed) - 1;
        self.owed.fetch_min(left, Ordering::Relaxed) > left
    }

    /// A request on a connection that had been kept took so long.
    pub(crate) fn note_kept(&self, took: Duration) {
        let before = self.kept.load(Ordering::Relaxed);
        let after = mixed(before, took, 8);
        // Of two at once one is lost: it is an average.
        self.kept.store(after, Ordering::Relaxed);
    }

    /// A request on a connection that was opened for it took so long, with a worker that `was_free`.
    pub(crate) fn note_opened(&self, was_free: bool, took: Duration) {
        let before = self.opened.load(Ordering::Relaxed);
        let after = match mixed(before, took, 8) {
            after if before == 0 || after >= before => after,
            _ if was_free => mixed(before, took, 2),
            // Room was made for it: so it says nothing of how long it would have waited.
            _ => before,
        };
        self.opened.store(after, Ordering::Relaxed);
    }

    /// Connections that are opened wait for a worker.
    pub(crate) fn is_full(&self) -> bool {
        self.kept.load(Ordering::Relaxed) > 0 && self.opened.load(Ordering::Relaxed) > self.usual()
    }

    /// The longest time that a request on an opened connection takes where a worker is free, in microseconds.
    fn usual(&self) -> u32 {
        let kept = self.kept.load(Ordering::Relaxed);
        kept.saturating_mul(2).saturating_add(OPENING)
    }

    /// True if a connection that has been kept for `age` is to be closed for somebody who waits; true once for each.
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
            // Room was made, and yet it has no answer: somebody else was before it in the server's queue.
            return waited >= PATIENCE * 1000
                && age >= TURN
                && self
                    .owed_since
                    .compare_exchange(since, at, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
        }
        if waited < Micros::from(self.usual()).min(PATIENCE * 1000) {
            return false;
        }
        let may_stay = match self.is_full() {
            true => age < TURN,
            false => is_time(&self.learned, LESSON, now),
        };
        let less = |owed: u32| owed.checked_sub(1);
        !may_stay
            && self
                .owed
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less)
                .is_ok()
    }

    /// True if a connection that nobody has used for `rested` is to be closed: for somebody here who waits, or, where workers have been
    /// scarce, for whoever else has connected.
    pub(crate) fn is_left(&self, rested: Millis, now: Millis) -> bool {
        (rested > TURN && self.is_full()) || self.must_make_room(Millis::MAX, now, micros)
    }

    /// True if a connection may be opened although the server is full.
    pub(crate) fn may_probe(&self, now: Millis) -> bool {
        self.fresh.load(Ordering::Relaxed) == 0 && is_time(&self.probed, TURN, now)
    }
}

/// An average with what comes to it, of which it takes a part.
fn mixed(before: u32, took: Duration, part: u32) -> u32 {
    let took = u32::try_from(took.as_micros()).unwrap_or(u32::MAX).max(1);
    match before {
        0 => took,
        _ => (before - before / part + took / part).max(1),
    }
}

/// True if it was so long ago; if so, it was now.
fn is_time(last: &AtomicU64, pause: Millis, now: Millis) -> bool {
    let before = last.load(Ordering::Relaxed);
    now.saturating_sub(before) >= pause
        && last
            .compare_exchange(before, now, Ordering::Relaxed, Ordering::Relaxed)
            .is_ok()
}

/// A thread's requests to such a server: how many are with it, and who waits for one of their connections.
#[derive(Debug, Default)]
pub struct Line {
    pub(crate) queue: Queue,
    pub(crate) served: Cell<usize>,
}

/// A request that is with the server.
#[derive(Debug)]
pub struct Turn(Rc<Line>);

impl Line {
    /// A place at the end.
    pub fn enter(&self) -> Option<Place<'_>> {
        self.queue.enter(usize::MAX)
    }
}

impl Turn {
    pub(crate) fn new(line: Rc<Line>) -> Turn {
        line.served.set(line.served.get() + 1);
        Turn(line)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.served.set(self.0.served.get().saturating_sub(1));
        self.0.queue.wake_next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_micros(100);

    /// Longer than the usual.
    const LATER: fn() -> Micros = || 10_000;

    fn full() -> Crowd {
        let crowd = Crowd::default();
        crowd.note_kept(SHORT);
        crowd.note_opened(false, Duration::from_millis(4));
        crowd
    }

    #[test]
    fn a_server_is_full_when_opened_connections_wait() {
        let crowd = Crowd::default();
        crowd.note_opened(true, Duration::from_secs(1));
        assert!(!crowd.is_full(), "nothing to compare with");
        crowd.note_kept(Duration::from_secs(1));
        assert!(!crowd.is_full(), "requests that take long");
        assert!(full().is_full());
    }

    #[test]
    fn it_is_so_until_one_is_answered_for_which_none_was_closed() {
        let crowd = full();
        for _ in 0..100 {
            crowd.opened(0);
            assert!(crowd.must_make_room(TURN, 1000, LATER));
            assert!(!crowd.answered());
            crowd.note_opened(false, SHORT);
        }
        assert!(crowd.is_full());
        for _ in 0..4 {
            crowd.opened(0);
            assert!(crowd.answered(), "a worker was free");
            crowd.note_opened(true, SHORT);
        }
        assert!(!crowd.is_full());
    }

    #[test]
    fn each_that_waits_has_one_connection_closed() {
        let crowd = full();
        let must = |age| crowd.must_make_room(age, 1000, LATER);
        assert!(!must(TURN), "nobody waits");
        crowd.opened(0);
        crowd.opened(9999);
        assert!(
            !crowd.must_make_room(TURN, 1000, || 600),
            "a worker may be free"
        );
        assert!(!must(TURN - 1), "it has its turn");
        assert!(must(TURN));
        assert!(must(TURN));
        assert!(!must(TURN), "for both there is room");
        let again = |at| crowd.must_make_room(TURN, 1000, || at);
        assert!(!again(PATIENCE * 1000 - 1));
        assert!(again(PATIENCE * 1000), "another server was before them");
        assert!(!again(PATIENCE * 1000 + 1));
        crowd.opened(0);
        assert!(!crowd.answered());
        assert!(!crowd.answered());
        assert!(crowd.answered());
        assert!(!must(TURN), "a worker was free");
    }

    #[test]
    fn what_is_not_used_is_left_to_others_where_workers_are_scarce() {
        let crowd = full();
        assert!(!crowd.is_left(TURN, 1000));
        assert!(crowd.is_left(TURN + 1, 1000));
        assert!(!Crowd::default().is_left(1000, 1000));
    }

    #[test]
    fn where_nothing_is_known_one_is_kept_now_and_then() {
        let crowd = Crowd::default();
        for _ in 0..3 {
            crowd.opened(0);
        }
        let must = |now| crowd.must_make_room(0, now, LATER);
        assert!(!must(1000));
        assert!(must(1001));
        assert!(!must(1000 + LESSON));
        assert!(must(1001 + LESSON));
    }

    #[test]
    fn one_at_a_time_is_opened_for_a_full_server() {
        let crowd = full();
        assert!(crowd.may_probe(1000));
        assert!(!crowd.may_probe(1000 + TURN - 1));
        crowd.opened(0);
        assert!(!crowd.may_probe(2000));
        crowd.answered();
        assert!(crowd.may_probe(2000));
    }
}
