//! Where a body ends, and reading it from bytes that come in pieces.

use crate::chunked::ChunkedDecoder;
use crate::decoded::Decoded;
use crate::error::BodyError;
use crate::limits::MessageLimits;
use crate::trailers::Trailers;

/// The rule that determines the end of a message body (RFC 9112 §6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// There is none, or it is empty.
    None,
    /// This many bytes, at least one.
    Known(u64),
    /// The last chunk ends it.
    Chunked,
    /// The end of the connection ends it; responses only.
    UntilClose,
    /// The end of the stream ends it; requests of HTTP/2 only.
    UntilEnd,
}

/// The body of one message, as it is being read.
///
/// Call [`BodyDecoder::decode`] with what has arrived until it says finished; each call gives at most one run of body bytes.
#[derive(Clone, Debug)]
pub enum BodyDecoder {
    /// No body: finished at once.
    None,
    /// A counted body.
    Length(u64),
    /// A chunked body.
    Chunked(ChunkedDecoder),
    /// All that comes is body.
    UntilClose,
    /// All that comes is body, until [`BodyDecoder::end`] is called; this much more is allowed.
    UntilEnd(u64),
}

impl BodyDecoder {
    /// A decoder for a request body of this length.
    ///
    /// # Errors
    /// [`BodyError::TooLarge`] (413) if the given length exceeds `max_body_size`. A chunked body is measured as it arrives.
    pub fn new(length: BodyLength, limits: &MessageLimits) -> Result<Self, BodyError> {
        match length {
            BodyLength::None => Ok(Self::None),
            BodyLength::Known(bytes) if bytes > limits.max_body_size => Err(BodyError::TooLarge),
            BodyLength::Known(bytes) => Ok(Self::Length(bytes)),
            BodyLength::Chunked => Ok(Self::Chunked(ChunkedDecoder::new(limits))),
            BodyLength::UntilClose => Ok(Self::UntilClose),
            BodyLength::UntilEnd => Ok(Self::UntilEnd(limits.max_body_size)),
        }
    }

    /// Notes the end of the stream; false if the body is incomplete.
    pub fn end(&mut self) -> bool {
        if matches!(self, Self::UntilEnd(_)) {
            *self = Self::None;
        }
        self.is_finished()
    }

    /// Decodes the front of `input`, which continues where the last call's `consumed` ended.
    ///
    /// # Errors
    /// Any [`BodyError`]: answer its status if no response has begun, and close the connection.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, BodyError> {
        match self {
            Self::None => Ok(Decoded {
                consumed: 0,
                data: 0..0,
                is_finished: true,
            }),
            Self::Length(remaining) => {
                let take = usize::try_from(*remaining)
                    .unwrap_or(usize::MAX)
                    .min(input.len());
                *remaining -= take as u64;
                Ok(Decoded {
                    consumed: take,
                    data: 0..take,
                    is_finished: *remaining == 0,
                })
            }
            Self::Chunked(decoder) => decoder.decode(input),
            Self::UntilClose => Ok(Decoded {
                consumed: input.len(),
                data: 0..input.len(),
                is_finished: false,
            }),
            Self::UntilEnd(allowance) => {
                *allowance = allowance
                    .checked_sub(input.len() as u64)
                    .ok_or(BodyError::TooLarge)?;
                Ok(Decoded {
                    consumed: input.len(),
                    data: 0..input.len(),
                    is_finished: false,
                })
            }
        }
    }

    /// Decodes as much of `input` as possible, passing each run of body bytes to `sink`; returns the bytes consumed and whether the body
    /// has ended.
    ///
    /// # Errors
    /// As [`BodyDecoder::decode`]; everything before the error has been passed to `sink`.
    pub fn decode_all(
        &mut self,
        input: &[u8],
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(usize, bool), BodyError> {
        let mut position = 0;
        loop {
            let rest = input.get(position..).unwrap_or_default();
            let step = self.decode(rest)?;
            let data = rest.get(step.data).unwrap_or_default();
            if !data.is_empty() {
                sink(data);
            }
            position += step.consumed;
            if step.is_finished || step.consumed == 0 {
                return Ok((position, step.is_finished));
            }
        }
    }

    /// The trailer fields of a body that has ended, if it may have any.
    pub fn trailers(&self) -> Trailers {
        match self {
            Self::Chunked(decoder) => decoder.trailers(),
            _ => Trailers::default(),
        }
    }

    /// Remaining bytes, if known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            Self::None => Some(0),
            Self::Length(remaining) => Some(*remaining),
            Self::Chunked(decoder) if decoder.is_finished() => Some(0),
            Self::Chunked(_) | Self::UntilClose | Self::UntilEnd(_) => None,
        }
    }

    /// True if the body has ended.
    pub fn is_finished(&self) -> bool {
        self.remaining() == Some(0)
    }
}
