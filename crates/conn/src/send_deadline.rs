//! The time after which a receiver that does not take what waits for it is given up. Progress extends it; a byte now and then does not.
//!
//! A receiver that has not taken all there is for it has a time; each byte that it takes gives it some of that back, as much as
//! [`LEAST_RATE`] says. So one that takes something slowly is waited for, and one that takes a byte now and then is not.

use std::cell::Cell;

use crate::clock::{Millis, now_millis};
use crate::connections::NEVER;

/// Bytes a second that a receiver must take of what there is for it. As much as Kestrel asks for (`MinResponseDataRate`): a modem of the
/// nineties takes ten times that.
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
    /// The receiver has taken so many bytes of what there is for it.
    pub fn note_taken(&self, bytes: u64) {
        let at = self.at.get();
        if at != NEVER {
            let gained = bytes.saturating_mul(1000) / LEAST_RATE;
            self.at.set(at.saturating_add(gained));
        }
    }

    /// The receiver has taken all there was.
    pub fn note_all_taken(&self) {
        self.at.set(NEVER);
    }

    /// The time at which the receiver is given up, which has not taken all there is for it: `timeout` after the first such call, and
    /// later by what it takes meanwhile.
    pub fn owes(&self, timeout: Millis) -> Millis {
        let latest = now_millis().saturating_add(timeout);
        let at = self.at.get().min(latest);
        self.at.set(at);
        at
    }
}
