//! The encoded response head: status and fields, written by a worker, copied once and checked by the router.
//!
//! Per field: `u16 name length | u32 value length | name | value`, native-endian, unaligned. Names must be tokens and values
//! free of CR, LF and NUL: a worker cannot smuggle a second response (RFC 9110 §5.1, §5.5).

use crate::Violation;
use crate::span::SpanMut;

/// The bytes in front of a field's name.
pub(crate) const PREFIX: usize = 6;

/// The bytes in front of an interim response's fields: `u16 status | u16 0 | u32 length of the fields`.
pub(crate) const INTERIM_PREFIX: usize = 8;

/// A response head, in the router's own memory, checked.
#[derive(Clone, Debug, Default)]
pub struct WireResponseHead {
    /// 200 to 599; 101 for an accepted WebSocket; another below 200 for an interim response.
    pub status: u16,
    fields: ResponseFields,
}

/// Checked fields in the router's own memory.
#[derive(Clone, Debug, Default)]
pub struct ResponseFields {
    bytes: Vec<u8>,
    count: u32,
}

impl ResponseFields {
    /// Checks copied fields: all of `bytes`.
    pub(crate) fn parse(bytes: Vec<u8>) -> Result<Self, Violation> {
        let mut rest = bytes.as_slice();
        let mut count = 0;
        while !rest.is_empty() {
            let (name, value, tail) = split(rest).ok_or(Violation::Head)?;
            if !is_valid(name, value) {
                return Err(Violation::Head);
            }
            rest = tail;
            count += 1;
        }
        Ok(Self { bytes, count })
    }

    /// Name and value of each, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (name, value, tail) = split(rest)?;
            rest = tail;
            Some((name, value))
        })
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

impl WireResponseHead {
    /// Checks a copied head. `bytes` is private memory here.
    pub(crate) fn parse(
        status: u32,
        count: u32,
        bytes: Vec<u8>,
        may_upgrade: bool,
    ) -> Result<Self, Violation> {
        let status = u16::try_from(status)
            .ok()
            .filter(|status| (200..=599).contains(status) || (may_upgrade && *status == 101))
            .ok_or(Violation::Status(status))?;
        let fields = ResponseFields::parse(bytes)?;
        match fields.count == count {
            true => Ok(Self { status, fields }),
            false => Err(Violation::Head),
        }
    }

    /// Checks the copied start of an interim response: its status, and how many bytes of fields follow.
    pub(crate) fn parse_interim(prefix: [u8; INTERIM_PREFIX]) -> Result<(u16, u32), Violation> {
        let [s0, s1, _, _, l0, l1, l2, l3] = prefix;
        let status = u16::from_ne_bytes([s0, s1]);
        match is_interim(status) {
            true => Ok((status, u32::from_ne_bytes([l0, l1, l2, l3]))),
            false => Err(Violation::Status(status.into())),
        }
    }

    /// An interim response with copied fields.
    pub(crate) fn interim(status: u16, fields: Vec<u8>) -> Result<Self, Violation> {
        let fields = ResponseFields::parse(fields)?;
        Ok(Self { status, fields })
    }

    /// True if another head follows this one.
    pub fn is_interim(&self) -> bool {
        is_interim(self.status)
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.fields.len()
    }

    /// True if there are no fields.
    pub fn is_empty(&self) -> bool {
        self.fields.is_empty()
    }

    /// Name and value of each field, in order.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> + Clone {
        self.fields.iter()
    }
}

/// True for the status of an interim response, except 100 (Continue) and 101, which only the server sends.
pub(crate) fn is_interim(status: u16) -> bool {
    (102..=199).contains(&status)
}

fn split(bytes: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (name_length, rest) = bytes.split_first_chunk::<2>()?;
    let (value_length, rest) = rest.split_first_chunk::<4>()?;
    let name_length = u16::from_ne_bytes(*name_length) as usize;
    let (name, rest) = rest.split_at_checked(name_length)?;
    let (value, rest) = rest.split_at_checked(u32::from_ne_bytes(*value_length) as usize)?;
    Some((name, value, rest))
}

/// True if a field may be sent: the name a token, the value without CR, LF and NUL.
pub fn is_valid(name: &[u8], value: &[u8]) -> bool {
    !name.is_empty()
        && name.len() <= usize::from(u16::MAX)
        && name.iter().all(|&byte| TOKEN[usize::from(byte)])
        && !value.iter().any(|byte| matches!(byte, b'\r' | b'\n' | 0))
}

/// RFC 9110 §5.6.2.
const TOKEN: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = matches!(byte as u8,
            b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
            | b'0'..=b'9' | b'a'..=b'z' | b'A'..=b'Z');
        byte += 1;
    }
    table
};

/// A head that could not be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResponseHeadError {
    /// An invalid name, or a value with CR, LF or NUL; its position among the fields.
    #[error("response field {0} is not valid: name must be a token, value without line breaks")]
    Field(usize),
    /// Two different `Content-Length` fields: a client could take the rest of the response for another one (RFC 9112 §6.3).
    #[error("response fields contradict each other about Content-Length")]
    Lengths,
    /// Not 200 to 599.
    #[error("status {0} is outside 200 to 599")]
    Status(u16),
    /// Not 102 to 199.
    #[error("interim response with status {0}: it must be 102 to 199")]
    Interim(u16),
    /// More than head area and ring can hold.
    #[error("response head of {0} bytes is too large")]
    TooLarge(usize),
    /// The head has been sent already.
    #[error("response has been started already")]
    Started,
    /// Trailer fields before the head, or after the response's end.
    #[error("trailer fields come after the head of a response and before its end")]
    Misplaced,
}

/// Length and number of the encoded fields.
pub(crate) fn measure<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> Result<(usize, u32), ResponseHeadError> {
    let mut length = 0;
    let mut count = 0;
    let mut content_length = None;
    for (name, value) in fields {
        if !is_valid(name, value) {
            return Err(ResponseHeadError::Field(count));
        }
        if name.eq_ignore_ascii_case(b"content-length") {
            let value = value.trim_ascii();
            if *content_length.get_or_insert(value) != value {
                return Err(ResponseHeadError::Lengths);
            }
        }
        length += PREFIX + name.len() + value.len();
        count += 1;
    }
    Ok((length, count as u32))
}

/// Writes the fields at `start`; false when they do not fit.
#[must_use]
pub(crate) fn encode_into<'f>(
    target: SpanMut<'_>,
    start: usize,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> bool {
    let mut cursor = start;
    let mut put = |bytes: &[u8]| {
        let fits = target.write(cursor, bytes);
        cursor += bytes.len();
        fits
    };
    let mut fits = true;
    for (name, value) in fields {
        fits &= put(&(name.len() as u16).to_ne_bytes());
        fits &= put(&(value.len() as u32).to_ne_bytes());
        fits &= put(name) && put(value);
    }
    fits
}
