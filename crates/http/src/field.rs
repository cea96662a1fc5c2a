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
        let first = name.first().copied().unwrap_or_default() | 0x20;
        let candidates: &[(&str, Self)] = match (name.len(), first) {
            (2, b't') => &[("te", Self::Te)],
            (4, b'h') => &[("host", Self::Host)],
            (4, b'd') => &[("date", Self::Date)],
            (5, b'r') => &[("range", Self::Range)],
            (6, b'c') => &[("cookie", Self::Cookie)],
            (6, b'a') => &[("accept", Self::Accept)],
            (6, b'e') => &[("expect", Self::Expect)],
            (6, b's') => &[("server", Self::Server)],
            (7, b'r') => &[("referer", Self::Referer)],
            (7, b'u') => &[("upgrade", Self::Upgrade)],
            (7, b't') => &[("trailer", Self::Trailer)],
            (8, b'i') => &[("if-range", Self::IfRange), ("if-match", Self::IfMatch)],
            (8, b'l') => &[("location", Self::Location)],
            (10, b'c') => &[("connection", Self::Connection)],
            (10, b'u') => &[("user-agent", Self::UserAgent)],
            (10, b'k') => &[("keep-alive", Self::KeepAlive)],
            (12, b'c') => &[("content-type", Self::ContentType)],
            (13, b'a') => &[("authorization", Self::Authorization)],
            (13, b'i') => &[("if-none-match", Self::IfNoneMatch)],
            (14, b'c') => &[("content-length", Self::ContentLength)],
            (15, b'a') => &[("accept-encoding", Self::AcceptEncoding)],
            (16, b'p') => &[("proxy-connection", Self::ProxyConnection)],
            (17, b't') => &[("transfer-encoding", Self::TransferEncoding)],
            (17, b'i') => &[("if-modified-since", Self::IfModifiedSince)],
            (19, b'i') => &[("if-unmodified-since", Self::IfUnmodifiedSince)],
            _ => &[],
        };
        candidates
            .iter()
            .find(|(text, _)| name.eq_ignore_ascii_case(text.as_bytes()))
            .map_or(Self::Other, |&(_, known)| known)
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
pub(crate) fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
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

/// Whether every byte is in `[A-Za-z0-9-]` (`discard_unsafe_fields`).
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    name.iter()
        .all(|byte| byte.is_ascii_alphanumeric() || *byte == b'-')
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
