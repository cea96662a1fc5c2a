//! The counters that `/status` shows: one set for each listen thread, summed when somebody asks.
//!
//! Only the owning thread writes its set, so an increment is a plain load and store (no locked instruction); any thread may read. A
//! counter is raised before the first byte of the answer it counts is sent, so it is right by the time that client can ask.

use std::sync::atomic::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Raises it. Only the owning thread may.
    pub fn add(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_add(n),
            Ordering::Relaxed,
        );
    }

    /// Lowers it. Only the owning thread may.
    pub fn subtract(&self, n: u64) {
        self.0.store(
            self.0.load(Ordering::Relaxed).wrapping_sub(n),
            Ordering::Relaxed,
        );
    }

    /// Its value.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one listen thread, alone on its cache lines.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct ThreadCounters {
    /// Connections taken from a listener.
    pub accepted: Counter,
    /// Connections that have ended.
    pub closed: Counter,
    /// Connections waiting for a request.
    pub idle: Counter,
    /// Requests whose head has been read.
    pub requests: Counter,
    /// Connections this thread holds now, used to balance threads.
    pub open: AtomicU64,
}

/// Sums over all threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Connections with a request in progress.
    pub active: u64,
    /// Connections waiting for their next (or first) request.
    pub idle: u64,
    /// Connections closed since the start.
    pub closed: u64,
    /// Requests read since the start.
    pub requests: u64,
}

impl Totals {
    /// Adds up the counters of all threads.
    pub fn sum<'a>(threads: impl Iterator<Item = &'a ThreadCounters>) -> Self {
        let mut totals = Self::default();
        for thread in threads {
            // `closed` first and `accepted` last: a connection seen closed has been seen accepted.
            totals.closed += thread.closed.get();
            totals.idle += thread.idle.get();
            totals.requests += thread.requests.get();
            totals.accepted += thread.accepted.get();
        }
        totals.active = totals
            .accepted
            .saturating_sub(totals.closed)
            .saturating_sub(totals.idle);
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_is_what_is_neither_closed_nor_idle() {
        let threads = [ThreadCounters::default(), ThreadCounters::default()];
        threads[0].accepted.add(5);
        threads[1].accepted.add(2);
        threads[0].idle.add(3);
        threads[0].idle.subtract(1);
        threads[1].closed.add(1);
        threads[1].requests.add(9);
        let totals = Totals::sum(threads.iter());
        assert_eq!(
            totals,
            Totals {
                accepted: 7,
                active: 4,
                idle: 2,
                closed: 1,
                requests: 9
            }
        );
    }
}
