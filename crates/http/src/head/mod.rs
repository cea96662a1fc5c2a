//! What request and response heads have in common: spans, the raw field list, and reading in pieces.

pub(crate) mod request;
pub(crate) mod response;

use std::mem::MaybeUninit;

use httparse::{Error, Header};
use smallvec::SmallVec;

use crate::error::HeadError;
use crate::field::Known;
use crate::limits::Limits;

/// A part of the caller's buffer, so that a head holds no borrow of it. Offsets count from the start of the slice that was
/// given to `parse`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub(crate) offset: u32,
    pub(crate) length: u32,
}

impl Span {
    /// Where `part`, a subslice of `buffer`, lies in it. Heads are far below 4 GiB ([`MAX_BUFFER`]).
    fn locate(buffer: &[u8], part: &[u8]) -> Self {
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

    /// Whether it has no bytes.
    pub fn is_empty(self) -> bool {
        self.length == 0
    }
}

/// One field as two spans.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawField {
    pub(crate) name: Span,
    pub(crate) value: Span,
    pub(crate) known: Known,
}

/// Fields kept in place; browsers send about 15, behind proxies about 25.
pub(crate) type RawFields = SmallVec<[RawField; 32]>;

/// What became of the bytes so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No end of the head yet: read more, and call again with the longer slice.
    Incomplete,
    /// The head is the first `length` bytes; what follows is its body or the next message.
    Complete {
        /// Bytes of the head with its empty line.
        length: usize,
    },
}

/// `httparse` is tried with this many fields on the stack before more are taken from the heap.
const STACK_FIELDS: usize = 64;

/// Only this much of the caller's slice is looked at, so that every offset fits a `u32`.
const MAX_BUFFER: usize = u32::MAX as usize;

/// Reading a head that comes in pieces, at a cost linear in its length.
///
/// `httparse` starts from the beginning at each call. So after a partial one it is called again only when the end of the
/// head is in sight, or when the bytes have doubled (so that garbage is refused long before the limit).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pieces {
    /// No head ends before this offset.
    scanned: usize,
    /// Parse again from this length on, end in sight or not.
    retry_at: usize,
}

impl Pieces {
    /// Whether a parse of `buffer` could tell anything new.
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

/// Runs `parse` with room for the fields: on the stack first, then as many as `limits` allow.
fn with_field_room<'b, T>(
    limits: &Limits,
    mut parse: impl FnMut(&mut [MaybeUninit<Header<'b>>]) -> Result<T, Error>,
) -> Result<T, HeadError> {
    let stack = &mut [const { MaybeUninit::uninit() }; STACK_FIELDS];
    let room = limits.max_fields.min(STACK_FIELDS);
    let mut outcome = parse(stack.get_mut(..room).unwrap_or_default());
    if matches!(outcome, Err(Error::TooManyHeaders)) && limits.max_fields > STACK_FIELDS {
        let mut heap = Vec::new();
        heap.resize_with(limits.max_fields, MaybeUninit::uninit);
        outcome = parse(&mut heap);
    }
    outcome.map_err(|error| match error {
        Error::HeaderName => HeadError::FieldName,
        Error::HeaderValue => HeadError::FieldValue,
        Error::NewLine => HeadError::LineEnd,
        Error::TooManyHeaders => HeadError::FieldsTooLarge,
        Error::Version => HeadError::Version,
        Error::Token | Error::Status => HeadError::StartLine,
    })
}

/// Limits on a head whose end has not been seen. Refuses nothing that [`check_complete`] would let pass, so that the split of
/// the bytes does not matter.
fn check_partial(buffer: &[u8], limits: &Limits) -> Result<(), HeadError> {
    let line_limit = limits.large_header_buffer_size;
    if buffer.len() <= line_limit {
        return Ok(());
    }
    let line_start = memchr::memrchr(b'\n', buffer).map_or(0, |newline| newline + 1);
    // One byte more than the limit may be the CR of a line that just fits.
    if buffer.len() - line_start > line_limit.saturating_add(1) {
        return Err(too_long(buffer, line_start));
    }
    if buffer.len() >= limits.max_head_bytes() {
        return Err(HeadError::FieldsTooLarge);
    }
    Ok(())
}

/// Limits on a complete head: each of its lines without line end, and the whole.
fn check_complete(head: &[u8], limits: &Limits) -> Result<(), HeadError> {
    let line_limit = limits.large_header_buffer_size;
    if head.len() <= line_limit {
        return Ok(()); // no line is longer than the whole
    }
    let mut line_start = 0;
    for newline in memchr::memchr_iter(b'\n', head) {
        let line = head.get(line_start..newline).unwrap_or_default();
        if line.strip_suffix(b"\r").unwrap_or(line).len() > line_limit {
            return Err(too_long(head, line_start));
        }
        line_start = newline + 1;
    }
    if head.len() > limits.max_head_bytes() {
        Err(HeadError::FieldsTooLarge)
    } else {
        Ok(())
    }
}

/// The error for a long line: nothing but empty lines before it makes it the request line.
fn too_long(buffer: &[u8], line_start: usize) -> HeadError {
    let before = buffer.get(..line_start).unwrap_or_default();
    if before.iter().all(|byte| matches!(byte, b'\r' | b'\n')) {
        HeadError::RequestLineTooLong
    } else {
        HeadError::FieldsTooLarge
    }
}
