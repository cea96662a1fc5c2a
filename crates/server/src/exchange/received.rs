//! The body of a request as the variables of logs see it: its length so far, and its beginning.

use std::cell::{Cell, RefCell};

/// Bytes of a body that are kept: as many as nginx keeps in memory by default.
const MOST_KEPT: usize = 16 * 1024;

/// The received part of a body.
#[derive(Default)]
pub(crate) struct ReceivedBody {
    bytes: Cell<u64>,
    beginning: RefCell<Vec<u8>>,
}

impl ReceivedBody {
    /// Notes a piece; its bytes only if they are `kept`.
    pub(crate) fn note(&self, piece: &[u8], is_kept: bool) {
        self.bytes.set(self.bytes.get() + piece.len() as u64);
        if is_kept {
            let mut beginning = self.beginning.borrow_mut();
            let room = MOST_KEPT.saturating_sub(beginning.len());
            beginning.extend_from_slice(piece.get(..room).unwrap_or(piece));
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.get()
    }

    pub(crate) fn write_beginning(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.beginning.borrow());
    }
}
