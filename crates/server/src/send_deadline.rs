//! When a receiver that does not take what waits for it is given up: by progress, not by any byte.
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
pub(crate) struct SendDeadline {
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
    pub(crate) fn note_taken(&self, bytes: u64) {
        let at = self.at.get();
        if at != NEVER {
            let gained = bytes.saturating_mul(1000) / LEAST_RATE;
            self.at.set(at.saturating_add(gained));
        }
    }

    /// The receiver has taken all there was.
    pub(crate) fn note_all_taken(&self) {
        self.at.set(NEVER);
    }

    /// When a receiver is given up that has not taken all there is for it, which is so at least since now: after `timeout` without progress.
    pub(crate) fn owes(&self, timeout: Millis) -> Millis {
        let latest = now_millis().saturating_add(timeout);
        let at = self.at.get().min(latest);
        self.at.set(at);
        at
    }
}
