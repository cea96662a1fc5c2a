//! Header fields: which names the server knows, and how a list of them is read.
//!
//! Fields keep their order and the case they came in; a field is two spans into the caller's buffer. Names are matched by
//! length and first letter first, so an unknown name costs one comparison at most.

use crate::head::{RawField, Span};

/// A field name the server itself looks at; everything else is [`Known::Other`] and is found by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)] // the variants are the field names
pub enum Known {
    Host,
    ContentLength,
    TransferEncoding,
    Connection,
    Expect,
    Upgrade,
    Range,
    IfRange,
    IfMatch,
    IfNoneMatch,
    IfModifiedSince,
    IfUnmodifiedSince,
    ContentType,
    Cookie,
    UserAgent,
    Referer,
    Accept,
    AcceptEncoding,
    Authorization,
    Te,
    Trailer,
    KeepAlive,
    ProxyConnection,
    Date,
    Server,
    Location,
    Other,
}

/// Number of names in [`Known`] without `Other`.
pub(crate) const KNOWN_COUNT: usize = Known::Other as usize;

impl Known {
    /// The known field of this name, ASCII case ignored.
    pub fn from_name(name: &[u8]) -> Self {
        if memchr::memchr(b'\r', name).is_some() {
            Self::Other
        } else {
            Self::from_token(name)
        }
    }

    /// As [`Known::from_name`], for a name without CR, as every name of a parsed head is.
    ///
    /// One branch on the length, then whole-word comparisons: about 20 instructions where a loop over the bytes takes 100.
    #[rustfmt::skip]
    pub(crate) fn from_token(name: &[u8]) -> Self {
        /// `name` in lower case: `| 0x20` makes a lower-case letter of letters only, and `-` of itself and CR.
        fn lower<const N: usize>(name: &[u8]) -> [u8; N] {
            <&[u8; N]>::try_from(name).map_or([0; N], |name| name.map(|byte| byte | 0x20))
        }
        match name.len() {
            2 if &lower(name) == b"te" => Self::Te,
            4 => match &lower(name) {
                b"host" => Self::Host,
                b"date" => Self::Date,
                _ => Self::Other,
            },
            5 if &lower(name) == b"range" => Self::Range,
            6 => match &lower(name) {
                b"accept" => Self::Accept,
                b"cookie" => Self::Cookie,
                b"expect" => Self::Expect,
                b"server" => Self::Server,
                _ => Self::Other,
            },
            7 => match &lower(name) {
                b"referer" => Self::Referer,
                b"upgrade" => Self::Upgrade,
                b"trailer" => Self::Trailer,
                _ => Self::Other,
            },
            8 => match &lower(name) {
                b"if-range" => Self::IfRange,
                b"if-match" => Self::IfMatch,
                b"location" => Self::Location,
                _ => Self::Other,
            },
            10 => match &lower(name) {
                b"connection" => Self::Connection,
                b"user-agent" => Self::UserAgent,
                b"keep-alive" => Self::KeepAlive,
                _ => Self::Other,
            },
            12 if &lower(name) == b"content-type" => Self::ContentType,
            13 => match &lower(name) {
                b"authorization" => Self::Authorization,
                b"if-none-match" => Self::IfNoneMatch,
                _ => Self::Other,
            },
            14 if &lower(name) == b"content-length" => Self::ContentLength,
            15 if &lower(name) == b"accept-encoding" => Self::AcceptEncoding,
            16 if &lower(name) == b"proxy-connection" => Self::ProxyConnection,
            17 => match &lower(name) {
                b"transfer-encoding" => Self::TransferEncoding,
                b"if-modified-since" => Self::IfModifiedSince,
                _ => Self::Other,
            },
            19 if &lower(name) == b"if-unmodified-since" => Self::IfUnmodifiedSince,
            _ => Self::Other,
        }
    }
}

/// One field of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The name as it came.
    pub name: &'a [u8],
    /// The value without white space around it.
    pub value: &'a [u8],
    /// Which field it is, if the server knows it.
    pub known: Known,
}

/// The fields of a head in the order they came.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    pub(crate) buffer: &'a [u8],
    pub(crate) fields: std::slice::Iter<'a, RawField>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fields.next().map(|field| field.resolve(self.buffer))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// Where each known field first occurs in a head; `u16::MAX` where it does not.
#[derive(Clone, Debug)]
pub(crate) struct FirstOf([u16; KNOWN_COUNT]);

impl Default for FirstOf {
    fn default() -> Self {
        Self([u16::MAX; KNOWN_COUNT])
    }
}

impl FirstOf {
    /// Notes field number `index`; returns false if the name was there before.
    pub(crate) fn note(&mut self, known: Known, index: usize) -> bool {
        match self.0.get_mut(known as usize) {
            Some(slot) if *slot == u16::MAX => {
                *slot = u16::try_from(index).unwrap_or(u16::MAX);
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    pub(crate) fn get(&self, known: Known) -> Option<usize> {
        self.0
            .get(known as usize)
            .filter(|&&index| index != u16::MAX)
            .map(|&index| usize::from(index))
    }
}

impl RawField {
    pub(crate) fn resolve<'a>(&self, buffer: &'a [u8]) -> FieldRef<'a> {
        FieldRef {
            name: self.name.of(buffer),
            value: self.value.of(buffer),
            known: self.known,
        }
    }
}

impl Span {
    /// The bytes of this span; empty if `buffer` is not the one it was made from and too short for it.
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        let start = self.offset as usize;
        buffer
            .get(start..start.saturating_add(self.length as usize))
            .unwrap_or_default()
    }
}

/// The members of a comma-separated list (RFC 9110 §5.6.1), white space trimmed, empty members left out.
pub fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(trim)
        .filter(|member| !member.is_empty())
}

/// `bytes` without spaces and tabs around it (OWS, RFC 9110 §5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// True if the name has letters, digits and hyphens only (`discard_unsafe_fields`): those that CGI's translation to upper case and
/// underscores keeps apart (RFC 9110 §16.3.1, RFC 3875 §4.1.18).
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    /// One bit for each byte that is safe.
    const SAFE: [u64; 4] = {
        let mut safe = [0; 4];
        let mut byte = 0_u8;
        while byte < 128 {
            if byte.is_ascii_alphanumeric() || byte == b'-' {
                safe[byte as usize >> 6] |= 1 << (byte & 63);
            }
            byte += 1;
        }
        safe
    };
    // Without a branch for each byte: names are short, and nearly all are safe.
    let bit = |byte: &u8| SAFE[usize::from(byte >> 6)] >> (byte & 63);
    name.iter().fold(1, |safe, byte| safe & bit(byte)) & 1 == 1
}

/// The number a `Content-Length` value gives: digits only, no sign, no list, fitting 63 bits (so that sums cannot wrap).
pub(crate) fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    value
        .iter()
        .try_fold(0_u64, |number, &digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .filter(|&number| number <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_names_are_found_in_any_case_and_no_other() {
        for (name, known) in [
            ("Host", Known::Host),
            ("Content-Length", Known::ContentLength),
            ("Transfer-Encoding", Known::TransferEncoding),
            ("Connection", Known::Connection),
            ("Expect", Known::Expect),
            ("Upgrade", Known::Upgrade),
            ("Range", Known::Range),
            ("If-Range", Known::IfRange),
            ("If-Match", Known::IfMatch),
            ("If-None-Match", Known::IfNoneMatch),
            ("If-Modified-Since", Known::IfModifiedSince),
            ("If-Unmodified-Since", Known::IfUnmodifiedSince),
            ("Content-Type", Known::ContentType),
            ("Cookie", Known::Cookie),
            ("User-Agent", Known::UserAgent),
            ("Referer", Known::Referer),
            ("Accept", Known::Accept),
            ("Accept-Encoding", Known::AcceptEncoding),
            ("Authorization", Known::Authorization),
            ("TE", Known::Te),
            ("Trailer", Known::Trailer),
            ("Keep-Alive", Known::KeepAlive),
            ("Proxy-Connection", Known::ProxyConnection),
            ("Date", Known::Date),
            ("Server", Known::Server),
            ("Location", Known::Location),
        ] {
            for spelling in [name.to_owned(), name.to_lowercase(), name.to_uppercase()] {
                assert_eq!(Known::from_name(spelling.as_bytes()), known, "{spelling}");
            }
            // Any other name of the same length, one byte away, is another field.
            for at in 0..name.len() {
                for byte in 0..=255 {
                    let mut other = name.as_bytes().to_vec();
                    other[at] = byte;
                    let same = other.eq_ignore_ascii_case(name.as_bytes());
                    assert_eq!(
                        Known::from_name(&other) == known,
                        same,
                        "{}",
                        other.escape_ascii()
                    );
                }
            }
        }
        for name in [
            "",
            "X",
            "Hos",
            "Hostx",
            "Content_Length",
            "TransferEncoding",
        ] {
            assert_eq!(Known::from_name(name.as_bytes()), Known::Other, "{name}");
        }
    }
}
