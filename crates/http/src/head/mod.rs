//! The common parts of request and response heads: spans, the raw field list ([`storage`]), sizes ([`size`]), and incremental parsing.

mod raw;
pub(crate) mod request;
pub(crate) mod response;
mod size;
mod storage;

pub use self::raw::BufferSpan;
pub(crate) use self::raw::{RawField, RawFields};

/// The result of reading the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// The head is incomplete: read more, and call again with the longer slice.
    Incomplete,
    /// The head is the first `length` bytes; its body or the next message follows.
    Complete {
        /// Bytes of the head with its empty line.
        length: usize,
    },
}

/// Only this much of the caller's slice is parsed, so that every offset fits a `u32`.
const MAX_BUFFER: usize = u32::MAX as usize;

/// Parses a head that arrives in pieces, at a cost linear in its length.
///
/// `httparse` starts from the beginning at each call. So after a partial one it is called again only when the end of the head may have
/// arrived, or when the bytes have doubled (so that garbage is refused long before the limit).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pieces {
    /// No head ends before this offset.
    scanned: usize,
    /// Parse again from this length on, even without an end.
    retry_at: usize,
}

impl Pieces {
    /// True if parsing `buffer` again could give another result.
    fn is_worth_parsing(&mut self, buffer: &[u8]) -> bool {
        if self.retry_at == 0 || buffer.len() >= self.retry_at || buffer.len() < self.scanned {
            return true;
        }
        let from = self.scanned.saturating_sub(2); // `\n\r` may have been the last of it
        let unseen = buffer.get(from..).unwrap_or_default();
        let end_in_sight = memchr::memchr_iter(b'\n', unseen)
            .any(|at| matches!(unseen.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..])));
        if !end_in_sight {
            self.scanned = buffer.len();
        }
        end_in_sight
    }

    fn note_partial(&mut self, length: usize) {
        self.scanned = length;
        self.retry_at = length.saturating_mul(2).max(256);
    }
}
