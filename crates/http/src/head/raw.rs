//! A stored head: parts of the caller's buffer.

use smallvec::SmallVec;

use crate::known_fields::Known;

/// A part of the caller's buffer, so that a head holds no borrow of it. Offsets count from the start of the slice that was
/// given to `parse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferSpan {
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

impl BufferSpan {
    /// Where `part`, a subslice of `buffer`, lies in it. Heads are far below 4 GiB ([`MAX_BUFFER`](super::MAX_BUFFER)).
    pub(super) fn locate(buffer: &[u8], part: &[u8]) -> Self {
        let offset = (part.as_ptr() as usize).wrapping_sub(buffer.as_ptr() as usize);
        Self {
            offset: offset as u32,
            length: part.len() as u32,
        }
    }

    /// First byte, as an offset into the parsed slice.
    pub fn start(self) -> usize {
        self.offset as usize
    }

    /// One past the last byte.
    pub fn end(self) -> usize {
        self.offset as usize + self.length as usize
    }

    /// True if it has no bytes.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// One field as two spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawField {
    pub(crate) name: BufferSpan,
    pub(crate) value: BufferSpan,
    pub(crate) known: Known,
}

/// Fields stored inline; browsers send about 15, behind proxies about 25.
pub(crate) type RawFields = SmallVec<[RawField; 32]>;
