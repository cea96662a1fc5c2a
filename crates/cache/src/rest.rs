//! The rest of a response whose first slices have been sent: it is passed on as it arrives, because a later slice cannot be stored.
//!
//! Must never: continue a response with bytes of another version, or from another position.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tutti_http::FieldLines;

use crate::slice::{content_range, is_same_version, total};
use crate::stored::Stored;

/// The rest of a response, as it is requested from the origin.
pub struct Rest {
    /// A slice of the same response.
    first: Arc<Stored>,
    /// The bytes that the client still needs.
    bytes: Range<u64>,
}

/// The progress of the rest.
#[derive(Debug, Default)]
pub(crate) enum RestState {
    /// There is no response yet.
    #[default]
    Awaited,
    Arriving(Arriving),
    Failed(RestFailure),
}

/// A rest whose head has arrived.
#[derive(Debug)]
pub(crate) struct Arriving {
    /// Bytes of the body before the rest that are still to come.
    before: u64,
    /// Bytes of the rest that are still to come.
    left: u64,
    /// Bytes that have come and have not been taken.
    ready: BytesMut,
}

/// Why the rest of a response does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestFailure {
    /// The origin has another version of it.
    Changed,
    /// The origin answers with something else, or not completely.
    Unavailable,
}

impl Rest {
    /// These bytes of the response that `first` is a slice of.
    pub fn new(first: Arc<Stored>, bytes: Range<u64>) -> Self {
        Self { first, bytes }
    }

    /// The value of `Range` that requests it.
    pub(crate) fn range_field(&self) -> Vec<u8> {
        let last = self.bytes.end.saturating_sub(1);
        format!("bytes={}-{last}", self.bytes.start).into_bytes()
    }

    /// Begins with the response with this head and a body of this length, if it has the rest.
    pub(crate) fn begin(
        &self,
        (status, length): (u16, Option<u64>),
        fields: &FieldLines,
    ) -> RestState {
        let whole = total(&self.first);
        let before = match status {
            206 => content_range(fields)
                .filter(|(first, end, total)| {
                    Some(*total) == whole
                        && *first == self.bytes.start
                        && *end >= self.bytes.end
                        && length.is_none_or(|length| length == *end - *first)
                })
                .map(|_| 0),
            // The server has not heeded `Range`.
            200 if length.is_some() && length == whole => Some(self.bytes.start),
            _ => None,
        };
        let is_success = matches!(status, 200 | 206 | 416);
        match before {
            _ if is_success && !is_same_version(&self.first, fields) => {
                RestState::Failed(RestFailure::Changed)
            }
            Some(before) => RestState::Arriving(Arriving {
                before,
                left: self.bytes.end.saturating_sub(self.bytes.start),
                ready: BytesMut::new(),
            }),
            None => RestState::Failed(RestFailure::Unavailable),
        }
    }
}

impl RestState {
    /// True while more of the rest is expected in a response that has begun.
    pub(crate) fn is_taking(&self) -> bool {
        matches!(self, Self::Arriving(arriving) if arriving.left > 0)
    }

    /// Takes the bytes that have come.
    pub(crate) fn take(&mut self) -> Bytes {
        match self {
            Self::Arriving(arriving) => arriving.ready.split().freeze(),
            _ => Bytes::new(),
        }
    }

    /// True if there are bytes to take, or no more will come.
    pub(crate) fn has_news(&self) -> bool {
        match self {
            Self::Awaited => false,
            Self::Arriving(arriving) => !arriving.ready.is_empty() || arriving.left == 0,
            Self::Failed(_) => true,
        }
    }

    /// The result after the response has ended.
    pub(crate) fn outcome(&self) -> Result<(), RestFailure> {
        match self {
            Self::Arriving(arriving) if arriving.left == 0 => Ok(()),
            Self::Arriving(_) | Self::Awaited => Err(RestFailure::Unavailable),
            Self::Failed(failure) => Err(*failure),
        }
    }

    /// Keeps the part of `length` more bytes of the body that belongs to the rest.
    pub(crate) fn write(&mut self, append: impl FnOnce(&mut BytesMut), length: usize) {
        let Self::Arriving(arriving) = self else {
            return;
        };
        let length = length as u64;
        if length <= arriving.before {
            arriving.before -= length;
            return;
        }
        let mut piece = BytesMut::new();
        append(&mut piece);
        let skipped = usize::try_from(arriving.before).unwrap_or(usize::MAX);
        let most = usize::try_from(arriving.left).unwrap_or(usize::MAX);
        let kept = piece.get(skipped..).unwrap_or_default();
        let kept = kept.get(..most).unwrap_or(kept);
        arriving.before = 0;
        arriving.left -= kept.len() as u64;
        arriving.ready.extend_from_slice(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::tests::{fresh, key};
    use crate::vary::Vary;

    fn fields(range: &str, tag: &str) -> FieldLines {
        let mut fields = FieldLines::of("ETag", tag.as_bytes());
        if !range.is_empty() {
            fields.push(b"Content-Range", range.as_bytes());
        }
        fields
    }

    /// The bytes 10 to 19 of 25.
    fn rest() -> Rest {
        let fields = fields("bytes 0-9/25", "\"a\"");
        let first = Stored::new(key("a"), Vary::default(), (206, fields), fresh(), &[]);
        Rest::new(Arc::new(first), 10..20)
    }

    fn begun(status: u16, length: u64, range: &str, tag: &str) -> Result<u64, RestFailure> {
        match rest().begin((status, Some(length)), &fields(range, tag)) {
            RestState::Arriving(arriving) => Ok(arriving.before),
            RestState::Failed(failure) => Err(failure),
            RestState::Awaited => unreachable!("it has begun"),
        }
    }

    #[test]
    fn only_the_same_version_from_the_right_byte_continues_a_response() {
        let (changed, unavailable) = (Err(RestFailure::Changed), Err(RestFailure::Unavailable));
        for (status, length, range, tag, expected) in [
            (206, 10, "bytes 10-19/25", "\"a\"", Ok(0)),
            (206, 15, "bytes 10-24/25", "\"a\"", Ok(0)),
            (206, 10, "bytes 10-19/25", "\"b\"", changed),
            (206, 10, "bytes 10-19/26", "\"a\"", unavailable),
            (206, 9, "bytes 10-18/25", "\"a\"", unavailable),
            (206, 10, "bytes 11-20/25", "\"a\"", unavailable),
            (206, 10, "", "\"a\"", unavailable),
            (206, 9, "bytes 10-19/25", "\"a\"", unavailable),
            (200, 25, "", "\"a\"", Ok(10)),
            (200, 24, "", "\"a\"", unavailable),
            (200, 25, "", "\"b\"", changed),
            (416, 0, "bytes */5", "\"b\"", changed),
            (500, 25, "", "\"b\"", unavailable),
            (304, 25, "", "\"a\"", unavailable),
        ] {
            let begun = begun(status, length, range, tag);
            assert_eq!(begun, expected, "{status} {range} {tag}");
        }
    }

    #[test]
    fn only_the_bytes_of_the_rest_are_taken_from_a_whole_response() {
        let whole = b"0123456789abcdefghijABCDE";
        for piece in 1..=whole.len() {
            let mut state = rest().begin((200, Some(25)), &fields("", "\"a\""));
            let mut taken = Vec::new();
            for piece in whole.chunks(piece) {
                state.write(|bytes| bytes.extend_from_slice(piece), piece.len());
                taken.extend_from_slice(&state.take());
            }
            assert_eq!(taken, b"abcdefghij", "{piece}");
            assert_eq!(state.outcome(), Ok(()));
        }
    }

    #[test]
    fn a_short_body_is_no_success() {
        let mut state = rest().begin((206, Some(10)), &fields("bytes 10-19/25", "\"a\""));
        state.write(|bytes| bytes.extend_from_slice(b"abc"), 3);
        assert!(state.has_news() && state.is_taking());
        assert_eq!(state.outcome(), Err(RestFailure::Unavailable));
    }
}
