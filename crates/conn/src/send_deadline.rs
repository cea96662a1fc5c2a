//! The deadline for a receiver that does not take waiting bytes. Progress extends it; an occasional byte does not.
//!
//! A receiver that has not taken everything has a time limit; each byte that it takes adds to that, as defined by [`LEAST_RATE`]. So a
//! receiver that is slow is waited for, and one that takes a byte now and then is not.

use std::cell::Cell;

use crate::clock::{Millis, now_millis};
use crate::connections::NEVER;

/// The least rate of a receiver in bytes per second. As much as Kestrel demands (`MinResponseDataRate`): a modem of the nineties is ten
/// times as fast.
const LEAST_RATE: u64 = 240;

/// The deadline of one receiver.
#[derive(Debug)]
pub struct SendDeadline {
    /// [`NEVER`] while the receiver has taken everything.
    at: Cell<Millis>,
}

impl Default for SendDeadline {
    fn default() -> Self {
        Self {
            at: Cell::new(NEVER),
        }
    }
}

impl SendDeadline {
    /// Counts the bytes that the receiver has taken.
    pub fn note_taken(&self, bytes: u64) {
        let at = self.at.get();
        if at != NEVER {
            let gained = bytes.saturating_mul(1000) / LEAST_RATE;
            self.at.set(at.saturating_add(gained));
        }
    }

    /// Notes that the receiver has taken everything.
    pub fn note_all_taken(&self) {
        self.at.set(NEVER);
    }

    /// The time at which a receiver that has not taken everything is given up: `timeout` after the first such call, and later by what it
    /// takes meanwhile.
    pub fn owes(&self, timeout: Millis) -> Millis {
        let latest = now_millis().saturating_add(timeout);
        let at = self.at.get().min(latest);
        self.at.set(at);
        at
    }
}

/// The bytes that a client takes on a connection, as one of its streams counts them: a client that reads its other streams first is not slow.
#[derive(Debug)]
pub struct StreamShare {
    /// Those taken on the connection that have been shared out.
    counted: Cell<u64>,
}

impl StreamShare {
    /// For a new stream of a connection on which so many bytes have been `taken`.
    pub fn new(taken: u64) -> Self {
        Self {
            counted: Cell::new(taken),
        }
    }

    /// Returns the stream's share of the bytes that have been taken since the last call: `taken` in all, on `open` streams.
    pub fn next(&self, taken: u64, open: usize) -> u64 {
        let streams = open.max(1) as u64;
        let part = (taken - self.counted.get()) / streams;
        self.counted.set(self.counted.get() + part * streams);
        part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_counts_its_share_and_loses_no_byte() {
        let share = StreamShare::new(100);
        assert_eq!(share.next(105, 3), 1);
        assert_eq!(share.next(105, 3), 0);
        // The two bytes that could not be divided are counted now.
        assert_eq!(share.next(106, 3), 1);
        assert_eq!(share.next(110, 0), 4);
    }
}
