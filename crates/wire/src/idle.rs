//! Which workers sleep, which are looking for work, and the handshake that wakes one.
//!
//! `idle` has a bit for each sleeping worker; the code that clears a bit must notify that worker. The lowest set bit is taken first, so
//! load stays on few warm workers. `searching` has a bit for each worker that is awake and has not claimed yet (woken, or spinning before
//! sleep); while `max_searching` of them are set no further worker is woken, because each of them checks the queue after clearing its bit
//! and wakes the next if there is more. `brisk` has a bit for each worker that is awake and whose requests are short: with
//! [`BRISK_PER_SEARCHER`] times as many of them as may search, a further one would only take turns with them on the same cores, with colder
//! caches. Each of them checks the queue before it sleeps; one that gets stuck loses its bit at the router's next tick.
//!
//! The two sides use a Dekker handshake with `fence(SeqCst)`: the producer publishes, fences, reads the bits; the worker sets or clears its
//! bit, fences, reads the queue. One of them sees the other.
//! sets or clears its bit, fences, reads the queue. One of them sees the other.

use crate::sync::{AtomicU64, Futex, Ordering, fence};

/// The wake word: the worker is awake, or about to sleep.
pub(crate) const AWAKE: u32 = 0;
/// The wake word: notified.
pub(crate) const NOTIFIED: u32 = 1;
/// The wake word: asleep on it in the kernel, or entering it.
pub(crate) const ASLEEP: u32 = 2;
/// The wake word: an event loop that sleeps, or is about to, until its event is written.
pub(crate) const ASLEEP_ON_EVENT: u32 = 3;

/// Awake workers with short requests, for each worker that may search at once (one per core): two keep a core busy while
/// one of them waits for a moment (docs/project/decisions/0001-bitmaps-not-rings.md).
const BRISK_PER_SEARCHER: u32 = if cfg!(loom) { 1 } else { 2 };

/// The bits of 64 workers. The words are changed together by the same parties, so they share a line.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct IdlePair {
    pub(crate) idle: AtomicU64,
    pub(crate) searching: AtomicU64,
    pub(crate) brisk: AtomicU64,
    pub(crate) reserved: AtomicU64,
}

/// The result of a wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// This worker was woken.
    Woken(u32),
    /// Enough workers are awake and looking for work already; they wake the next.
    Searching,
    /// No worker sleeps: all are busy, or there is none.
    NoneIdle,
}

/// The bitmaps of all workers.
pub(crate) struct Idle<'a> {
    pub(crate) pairs: &'a [IdlePair],
}

impl<'a> Idle<'a> {
    fn of(&self, worker: u32) -> Option<(&'a IdlePair, u64)> {
        Some((self.pairs.get(worker as usize / 64)?, 1 << (worker % 64)))
    }

    /// The number of workers that look for work. A corrupt map only makes wake-ups rarer; the router's tick covers that.
    pub(crate) fn searching(&self) -> u32 {
        self.pairs
            .iter()
            .map(|pair| pair.searching.load(Ordering::Relaxed).count_ones())
            .sum()
    }

    pub(crate) fn idle(&self) -> u32 {
        self.pairs
            .iter()
            .map(|pair| pair.idle.load(Ordering::Relaxed).count_ones())
            .sum()
    }

    pub(crate) fn is_idle(&self, worker: u32) -> bool {
        self.of(worker)
            .is_some_and(|(pair, bit)| pair.idle.load(Ordering::Acquire) & bit != 0)
    }

    pub(crate) fn set_idle(&self, worker: u32) {
        if let Some((pair, bit)) = self.of(worker) {
            pair.idle.fetch_or(bit, Ordering::AcqRel);
        }
    }

    /// True if the bit was set: if not, a waker took it, and a notification will arrive.
    pub(crate) fn clear_idle(&self, worker: u32) -> bool {
        self.of(worker)
            .is_some_and(|(pair, bit)| pair.idle.fetch_and(!bit, Ordering::AcqRel) & bit != 0)
    }

    pub(crate) fn set_searching(&self, worker: u32) {
        if let Some((pair, bit)) = self.of(worker) {
            pair.searching.fetch_or(bit, Ordering::AcqRel);
        }
    }

    pub(crate) fn clear_searching(&self, worker: u32) {
        if let Some((pair, bit)) = self.of(worker) {
            pair.searching.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    pub(crate) fn is_searching(&self, worker: u32) -> bool {
        self.of(worker)
            .is_some_and(|(pair, bit)| pair.searching.load(Ordering::Acquire) & bit != 0)
    }

    /// The number of workers that are awake and will be back at the queue soon.
    pub(crate) fn brisk(&self) -> u32 {
        self.pairs
            .iter()
            .map(|pair| pair.brisk.load(Ordering::Relaxed).count_ones())
            .sum()
    }

    /// True if more brisk workers would be of no use.
    pub(crate) fn has_enough_brisk(&self, max_searching: u32) -> bool {
        self.brisk() >= max_searching.saturating_mul(BRISK_PER_SEARCHER)
    }

    /// True if enough brisk workers precede this one.
    pub(crate) fn is_surplus(&self, worker: u32, max_searching: u32) -> bool {
        let mut before = 0;
        for (index, pair) in self.pairs.iter().enumerate() {
            let first = index as u32 * 64;
            let mask = match worker.checked_sub(first) {
                None => break,
                Some(position @ 0..64) => (1 << position) - 1,
                Some(_) => u64::MAX,
            };
            before += (pair.brisk.load(Ordering::Relaxed) & mask).count_ones();
        }
        before >= max_searching.saturating_mul(BRISK_PER_SEARCHER)
    }

    pub(crate) fn is_brisk(&self, worker: u32) -> bool {
        self.of(worker)
            .is_some_and(|(pair, bit)| pair.brisk.load(Ordering::Relaxed) & bit != 0)
    }

    pub(crate) fn set_brisk(&self, worker: u32) {
        if let Some((pair, bit)) = self.of(worker) {
            pair.brisk.fetch_or(bit, Ordering::AcqRel);
        }
    }

    pub(crate) fn clear_brisk(&self, worker: u32) {
        if let Some((pair, bit)) = self.of(worker) {
            pair.brisk.fetch_and(!bit, Ordering::AcqRel);
        }
    }

    /// Takes the lowest sleeping worker out of the map.
    pub(crate) fn take_lowest(&self) -> Option<u32> {
        for (index, pair) in self.pairs.iter().enumerate() {
            let mut word = pair.idle.load(Ordering::Relaxed);
            while word != 0 {
                let bit = word & word.wrapping_neg();
                let before = pair.idle.fetch_and(!bit, Ordering::AcqRel);
                if before & bit != 0 {
                    return Some(index as u32 * 64 + bit.trailing_zeros());
                }
                word = before & !bit;
            }
        }
        None
    }
}

/// Wakes the lowest sleeping worker, unless `max_searching` look for work already. `word` finds a worker's wake word, `ring` writes its
/// event.
///
/// The caller has published the work before; the fence that the handshake needs is here.
pub(crate) fn wake_one<'a>(
    idle: &Idle<'a>,
    max_searching: u32,
    word: impl Fn(u32) -> Option<&'a Futex>,
    ring: impl Fn(u32),
) -> Wake {
    fence(Ordering::SeqCst);
    if idle.searching() >= max_searching || idle.has_enough_brisk(max_searching) {
        return Wake::Searching;
    }
    while let Some(worker) = idle.take_lowest() {
        // Bits without a worker are corrupt, and are cleared here.
        if let Some(word) = word(worker) {
            idle.set_searching(worker);
            notify(word, || ring(worker));
            return Wake::Woken(worker);
        }
    }
    if idle.searching() > 0 {
        Wake::Searching
    } else {
        Wake::NoneIdle
    }
}

/// Notifies a worker whose idle bit the caller has cleared, or for which there is news. `ring` writes its event.
pub(crate) fn notify(word: &Futex, ring: impl FnOnce()) {
    match word.word().swap(NOTIFIED, Ordering::AcqRel) {
        ASLEEP => word.wake(),
        ASLEEP_ON_EVENT => ring(),
        _ => {}
    }
}

/// Notifies a sleeping worker for which the caller has published news: one that is awake checks before it sleeps.
pub(crate) fn notify_sleeper(word: &Futex, ring: impl FnOnce()) {
    fence(Ordering::SeqCst);
    if word.word().load(Ordering::Relaxed) >= ASLEEP {
        notify(word, ring);
    }
}

/// The result of an attempt to sleep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slept {
    /// There was something to do; no notification is pending.
    NotAtAll,
    /// It was notified, and counts as searching now.
    Notified,
}

/// Puts the calling worker to sleep until it is notified or `must_stop` returns true, unless `has_work` returns true.
pub(crate) fn sleep<'a>(
    idle: &Idle<'a>,
    worker: u32,
    word: &Futex,
    has_work: impl Fn() -> bool,
    must_stop: impl Fn() -> bool,
) -> Slept {
    word.word().store(AWAKE, Ordering::Relaxed);
    idle.set_idle(worker);
    fence(Ordering::SeqCst);
    if (has_work() || must_stop()) && idle.clear_idle(worker) {
        return Slept::NotAtAll;
    }
    // Either there is nothing to do, or a waker has taken our bit and the notification must be consumed.
    loop {
        let slept =
            word.word()
                .compare_exchange(AWAKE, ASLEEP, Ordering::AcqRel, Ordering::Acquire);
        match slept {
            Ok(_) | Err(ASLEEP) => word.wait(ASLEEP),
            Err(_) => {
                // An unexpected notification (a signal, a recovery) leaves the bit, which must be cleared.
                if idle.is_idle(worker) {
                    idle.clear_idle(worker);
                }
                return Slept::Notified;
            }
        }
        // A signal handler sets a flag and interrupts the wait, without taking our bit.
        if must_stop() && idle.clear_idle(worker) {
            word.word().store(AWAKE, Ordering::Relaxed);
            return Slept::NotAtAll;
        }
    }
}
