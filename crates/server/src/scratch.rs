//! Buffers of exchanges with upstreams: taken when one begins, given back when it ends, at most [`KEPT`] kept per thread.

use std::cell::RefCell;

use tutti_http::ResponseHead;

/// Sets kept per thread.
const KEPT: usize = 32;

/// A buffer that has grown beyond this is dropped instead of kept.
const KEPT_BYTES: usize = 128 * 1024;

/// Buffers of one exchange.
#[derive(Default)]
pub(crate) struct Scratch {
    /// The request as it is sent.
    pub(crate) sent: Vec<u8>,
    /// What of the answer has come.
    pub(crate) received: Vec<u8>,
    /// The same, as it came, where it comes in records.
    pub(crate) raw: Vec<u8>,
    pub(crate) head: ResponseHead,
}

/// The per-thread stock.
#[derive(Default)]
#[expect(
    clippy::vec_box,
    reason = "a set is large, and moves between requests and this list"
)]
pub(crate) struct Scratches(RefCell<Vec<Box<Scratch>>>);

impl Scratches {
    pub(crate) fn take(&self) -> Box<Scratch> {
        self.0.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn give(&self, mut scratch: Box<Scratch>) {
        let mut kept = self.0.borrow_mut();
        if kept.len() >= KEPT {
            return;
        }
        let Scratch {
            sent,
            received,
            raw,
            ..
        } = &mut *scratch;
        for buffer in [sent, received, raw] {
            buffer.clear();
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        kept.push(scratch);
    }
}
