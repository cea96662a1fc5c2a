//! The chunked coding (RFC 9112 §7.1): decoder for any split of the bytes, and encoder.
//!
//! Stricter than the grammar where leniency has been used for smuggling: CRLF only, no white space around a size, at most 16 digits, and no
//! trailer that would change framing or routing. Extensions are checked, counted and discarded. Trailers are kept for forwarding.

use crate::decoded::Decoded;
use crate::error::BodyError;
use crate::known_fields::Known;
use crate::limits::MessageLimits;
use crate::path::hex_value;
use crate::token::is_token_byte;
use crate::trailers::Trailers;

/// Digits of a chunk size, leading zeros counted: as many as fit 64 bits.
const MAX_SIZE_DIGITS: u8 = 16;

/// The longest forbidden trailer name (`transfer-encoding`).
const FORBIDDEN_NAME_MAX: usize = 17;

/// The position in the coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a chunk size, after this many digits.
    Size { digits: u8 },
    /// In a chunk extension.
    Extension(Extension),
    /// After the CR of a chunk's head.
    SizeLf,
    /// In chunk data; `remaining` bytes are left.
    Data,
    /// After chunk data.
    DataCr,
    /// After the CR behind chunk data.
    DataLf,
    /// At the start of a trailer line.
    TrailerStart,
    /// In a trailer's name.
    TrailerName,
    /// In a trailer's value.
    TrailerValue,
    /// After the CR of a trailer line.
    TrailerLf,
    /// After the CR of the last, empty line.
    EndLf,
    /// After the body.
    Finished,
}

/// The position in a chunk extension: `;` name [`=` value], with spaces around both signs (RFC 9112 §7.1.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    BeforeName,
    Name,
    /// In the space behind a name.
    AfterName,
    BeforeValue,
    Token,
    Quoted,
    /// After a backslash in a quoted string.
    Escaped,
    AfterQuoted,
    /// In the space behind a value.
    AfterValue,
}

impl Extension {
    /// The position after `byte`; `None` if it is not permitted.
    fn step(self, byte: u8) -> Option<State> {
        let is_text = matches!(byte, b'\t' | b' '..=b'~' | 0x80..);
        let next = match (self, byte) {
            (Self::Name | Self::Token | Self::AfterQuoted, b'\r') => return Some(State::SizeLf),
            (Self::Quoted, b'"') => Self::AfterQuoted,
            (Self::Quoted, b'\\') => Self::Escaped,
            (Self::Quoted | Self::Escaped, _) if is_text => Self::Quoted,
            (
                Self::BeforeName | Self::AfterName | Self::BeforeValue | Self::AfterValue,
                b' ' | b'\t',
            ) => self,
            (Self::Name, b' ' | b'\t') => Self::AfterName,
            (Self::Token | Self::AfterQuoted, b' ' | b'\t') => Self::AfterValue,
            (Self::Name | Self::AfterName, b'=') => Self::BeforeValue,
            (Self::BeforeValue, b'"') => Self::Quoted,
            (Self::BeforeName | Self::Quoted | Self::Escaped | Self::BeforeValue, b';') => {
                return None;
            }
            (_, b';') => Self::BeforeName,
            (Self::BeforeName | Self::Name, _) if is_token_byte(byte) => Self::Name,
            (Self::BeforeValue | Self::Token, _) if is_token_byte(byte) => Self::Token,
            _ => return None,
        };
        Some(State::Extension(next))
    }
}

/// Decoder of one chunked body.
#[derive(Clone, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Remaining bytes of the current chunk.
    remaining: u64,
    /// Data bytes still permitted by the limit.
    allowance: u64,
    extension_allowance: u32,
    trailer_allowance: u32,
    /// The beginning of the current trailer's name, in lower case, as long as a forbidden name.
    name: [u8; FORBIDDEN_NAME_MAX],
    name_length: usize,
    /// The trailer lines so far.
    trailers: Vec<u8>,
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    pub fn new(limits: &MessageLimits) -> Self {
        Self {
            state: State::Size { digits: 0 },
            remaining: 0,
            allowance: limits.max_body_size,
            extension_allowance: limits.max_chunk_extension_bytes,
            trailer_allowance: limits.max_trailer_bytes,
            name: [0; FORBIDDEN_NAME_MAX],
            name_length: 0,
            trailers: Vec::new(),
        }
    }

    /// The trailer fields that may be forwarded, once the body has ended.
    pub fn trailers(&self) -> Trailers {
        Trailers::of_section(&self.trailers)
    }

    /// True if the body has ended.
    pub fn is_finished(&self) -> bool {
        self.state == State::Finished
    }

    /// Decodes the front of `input`: consumes framing up to and including one run of data.
    ///
    /// # Errors
    /// Any [`BodyError`]; the decoder must not be used after one.
    pub fn decode(&mut self, input: &[u8]) -> Result<Decoded, BodyError> {
        let mut position = 0;
        while self.state != State::Data && self.state != State::Finished {
            let Some(&byte) = input.get(position) else {
                break;
            };
            position += 1;
            self.state = self.step(byte)?;
        }
        let mut data = position..position;
        if self.state == State::Data {
            let available = input.len() - position;
            let take = usize::try_from(self.remaining)
                .unwrap_or(usize::MAX)
                .min(available);
            self.remaining -= take as u64;
            data.end += take;
            if self.remaining == 0 {
                self.state = State::DataCr;
            }
        }
        Ok(Decoded {
            consumed: data.end,
            data,
            is_finished: self.state == State::Finished,
        })
    }

    /// The state after one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, BodyError> {
        match self.state {
            State::Size { digits } => self.step_size(byte, digits),
            State::Extension(place) => self.step_extension(byte, place),
            State::SizeLf if byte == b'\n' => self.begin_chunk(),
            State::SizeLf => Err(BodyError::ChunkSize),
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(State::Size { digits: 0 }),
            State::DataCr | State::DataLf => Err(BodyError::ChunkEnd),
            State::TrailerStart | State::TrailerName | State::TrailerValue => {
                self.trailer_allowance = self
                    .trailer_allowance
                    .checked_sub(1)
                    .ok_or(BodyError::TrailerTooLarge)?;
                let next = self.step_trailer(byte)?;
                // The limit applies to extensions, too.
                if next != State::EndLf {
                    self.trailers.push(byte);
                }
                Ok(next)
            }
            State::TrailerLf if byte == b'\n' => {
                self.trailers.push(byte);
                Ok(State::TrailerStart)
            }
            State::EndLf if byte == b'\n' => Ok(State::Finished),
            State::TrailerLf | State::EndLf => Err(BodyError::Trailer),
            State::Data | State::Finished => Ok(self.state), // not framing: `decode` does not call this in these states
        }
    }

    fn step_size(&mut self, byte: u8, digits: u8) -> Result<State, BodyError> {
        if digits == 0 {
            self.remaining = 0;
        }
        match (hex_value(byte), byte) {
            (Some(value), _) if digits < MAX_SIZE_DIGITS => {
                self.remaining = self.remaining << 4 | u64::from(value);
                Ok(State::Size { digits: digits + 1 })
            }
            (None, b'\r') if digits > 0 => Ok(State::SizeLf),
            (None, b';') if digits > 0 => self.step_extension(byte, Extension::AfterValue),
            _ => Err(BodyError::ChunkSize),
        }
    }

    fn step_extension(&mut self, byte: u8, place: Extension) -> Result<State, BodyError> {
        self.extension_allowance = self
            .extension_allowance
            .checked_sub(u32::from(byte != b'\r'))
            .ok_or(BodyError::ChunkExtension)?;
        place.step(byte).ok_or(BodyError::ChunkExtension)
    }

    fn begin_chunk(&mut self) -> Result<State, BodyError> {
        if self.remaining == 0 {
            return Ok(State::TrailerStart);
        }
        self.allowance = self
            .allowance
            .checked_sub(self.remaining)
            .ok_or(BodyError::TooLarge)?;
        Ok(State::Data)
    }

    fn step_trailer(&mut self, byte: u8) -> Result<State, BodyError> {
        match (self.state, byte) {
            (State::TrailerStart, b'\r') => Ok(State::EndLf),
            (State::TrailerName, b':') if self.name_is_forbidden() => Err(BodyError::Trailer),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, _) if is_token_byte(byte) => {
                if self.state == State::TrailerStart {
                    self.name_length = 0;
                }
                if let Some(slot) = self.name.get_mut(self.name_length) {
                    *slot = byte.to_ascii_lowercase();
                }
                self.name_length += 1;
                Ok(State::TrailerName)
            }
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, b'\t' | b' '..=b'~' | 0x80..) => Ok(State::TrailerValue),
            _ => Err(BodyError::Trailer),
        }
    }

    /// Fields that a trailer must not carry because another reader might act on them (RFC 9110 §6.5.1).
    fn name_is_forbidden(&self) -> bool {
        self.name.get(..self.name_length).is_some_and(|name| {
            matches!(
                Known::from_name(name),
                Known::Host
                    | Known::ContentLength
                    | Known::TransferEncoding
                    | Known::Connection
                    | Known::Trailer
            )
        })
    }
}

/// The end of a chunked body: the last chunk and no trailers. Trailer lines go before the last two bytes.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The head of a chunk of `length` bytes, written to the end of `scratch`. The data and CRLF come after it. A `length` of
/// zero would end the body: use [`LAST_CHUNK`] for that.
pub fn chunk_head(length: usize, scratch: &mut [u8; 18]) -> &[u8] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut rest = length;
    let mut start = 16;
    scratch[16..].copy_from_slice(b"\r\n");
    loop {
        start -= 1;
        scratch[start] = DIGITS[rest & 15];
        rest >>= 4;
        if rest == 0 {
            return &scratch[start..];
        }
    }
}

/// Appends the head of a chunk of `length` bytes; see [`chunk_head`].
pub fn write_chunk_head(length: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(chunk_head(length, &mut [0; 18]));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_are_kept_for_forwarding() {
        let body = b"1\r\na\r\n0\r\nETag: x\r\nX-Sum: 1 2\r\n\r\n";
        let mut decoder = ChunkedDecoder::new(&MessageLimits::default());
        let mut rest = &body[..];
        while !decoder.is_finished() {
            let decoded = decoder.decode(rest).unwrap();
            rest = &rest[decoded.consumed..];
        }
        let trailers = decoder.trailers();
        let found: Vec<_> = trailers.fields().collect();
        assert_eq!(
            found,
            [(&b"ETag"[..], &b"x"[..]), (&b"X-Sum"[..], &b"1 2"[..])]
        );
    }

    #[test]
    fn a_name_that_begins_like_a_forbidden_one_is_permitted() {
        for (name, is_permitted) in [
            ("Transfer-Encoding", false),
            ("Transfer-Encodings", true),
            ("Content-Length", false),
            ("Content-Length-And-Type", true),
            ("Hos", true),
        ] {
            let body = format!("0\r\n{name}: 1\r\n\r\n");
            let mut decoder = ChunkedDecoder::new(&MessageLimits::default());
            let outcome = decoder.decode(body.as_bytes()).map(|_| ());
            let expected = is_permitted.then_some(()).ok_or(BodyError::Trailer);
            assert_eq!(outcome, expected, "{name}");
            assert_eq!(decoder.is_finished(), is_permitted, "{name}");
        }
    }
}
