//! The encoded request: one record that the router writes once and a worker reads in place.
//!
//! `Record` (fixed part) | field table | strings | inline body. Every string is followed by a NUL that its length does not count, so that C
//! interfaces can use it in place. The decoder checks each offset and length against the record.

use crate::span::SpanMut;

/// A request as the router knows it.
#[derive(Clone, Copy, Debug, Default)]
pub struct WireRequestHead<'a> {
    /// `GET`.
    pub method: &'a [u8],
    /// The request target as received: `/a%20b?c`.
    pub target: &'a [u8],
    /// The path, decoded and normalised: `/a b`.
    pub path: &'a [u8],
    /// The part after the question mark, raw; empty when there is none.
    pub query: &'a [u8],
    /// The minor version of HTTP/1: 0 or 1; 2 for HTTP/2, 3 for HTTP/3.
    pub version_minor: u8,
    /// True if the connection is encrypted.
    pub tls: bool,
    /// `http` or `https`.
    pub scheme: &'a [u8],
    /// The client's address, without port.
    pub remote_address: &'a [u8],
    /// The client's port; 0 on UNIX sockets.
    pub remote_port: u16,
    /// The address the request came in at.
    pub local_address: &'a [u8],
    /// The port the request came in at; 0 on UNIX sockets.
    pub local_port: u16,
    /// The host the client asked for, without port, in lower case.
    pub server_name: &'a [u8],
    /// The last part of `applications/NAME/TARGET`; empty when there is none.
    pub target_name: &'a [u8],
    /// The user that `authenticate` has found; empty when there is none.
    pub user: &'a [u8],
    /// The body's length where it is known.
    pub content_length: Option<u64>,
    /// Header fields in order, names as received.
    pub fields: &'a [(&'a [u8], &'a [u8])],
    /// CLOCK_MONOTONIC milliseconds of the arrival; 0 when unknown.
    pub arrived_ms: u64,
    /// CLOCK_MONOTONIC milliseconds after which the response is not needed any more; 0 for never.
    pub deadline_ms: u64,
    /// True if it opens a WebSocket (`spec/wire.md` §10); then its body is a stream.
    pub websocket: bool,
}

/// Where the body of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRef<'a> {
    /// There is none.
    None,
    /// All of it is here.
    Inline(&'a [u8]),
    /// All of it is in the application's spool file.
    Spool {
        /// First byte.
        offset: u64,
        /// Number of bytes.
        len: u64,
    },
    /// It is streamed through the slot's ring.
    Stream {
        /// Its length, where it is known.
        len: Option<u64>,
    },
}

/// The record does not fit the slot; write it to the spool (`encode`, `Segment::write_request_spooled`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("request head of {length} bytes does not fit its slot")]
pub struct TooLarge {
    /// The record's length.
    pub length: u64,
}

const BODY_NONE: u8 = 0;
const BODY_INLINE: u8 = 1;
const BODY_SPOOL: u8 = 2;
const BODY_STREAM: u8 = 3;
const UNKNOWN: u64 = u64::MAX;
/// Strings of the fixed part, in this order.
const STRINGS: usize = 10;

/// Byte offsets of the fixed part.
pub(crate) mod at {
    pub(crate) const LENGTH: usize = 0;
    pub(crate) const FIELD_COUNT: usize = 4;
    pub(crate) const VERSION_MINOR: usize = 8;
    pub(crate) const TLS: usize = 9;
    pub(crate) const BODY_KIND: usize = 10;
    pub(crate) const WEBSOCKET: usize = 11;
    pub(crate) const REMOTE_PORT: usize = 12;
    pub(crate) const LOCAL_PORT: usize = 14;
    pub(crate) const CONTENT_LENGTH: usize = 16;
    pub(crate) const BODY_OFFSET: usize = 24;
    pub(crate) const BODY_LENGTH: usize = 32;
    pub(crate) const ARRIVED: usize = 40;
    pub(crate) const DEADLINE: usize = 48;
    /// Ten pairs of u32: offset, length.
    pub(crate) const STRINGS: usize = 56;
    /// Entries of three u32: name offset, name length, value length; the value follows the name's NUL.
    pub(crate) const FIELDS: usize = 136;
    pub(crate) const FIELD_SIZE: usize = 12;
}

/// The length of the record.
pub fn encoded_length(head: &WireRequestHead<'_>, body: &BodyRef<'_>) -> u64 {
    let strings: usize = strings(head).iter().map(|text| text.len() + 1).sum();
    let fields: usize = head
        .fields
        .iter()
        .map(|(name, value)| at::FIELD_SIZE + name.len() + value.len() + 2)
        .sum();
    let inline = match body {
        BodyRef::Inline(bytes) => bytes.len(),
        _ => 0,
    };
    (at::FIELDS + strings + fields + inline) as u64
}

fn strings<'a>(head: &WireRequestHead<'a>) -> [&'a [u8]; STRINGS] {
    [
        head.method,
        head.target,
        head.path,
        head.query,
        head.scheme,
        head.remote_address,
        head.local_address,
        head.server_name,
        head.target_name,
        head.user,
    ]
}

/// Writes the record into `target`; returns its length, or the room that it would need.
pub fn encode_into(
    target: SpanMut<'_>,
    head: &WireRequestHead<'_>,
    body: &BodyRef<'_>,
) -> Result<u32, TooLarge> {
    let length = encoded_length(head, body);
    let too_large = TooLarge { length };
    if length > target.len() as u64 || length > u64::from(u32::MAX) {
        return Err(too_large);
    }
    let mut fixed = [0u8; at::FIELDS];
    let mut cursor = at::FIELDS + head.fields.len() * at::FIELD_SIZE;
    let mut fits = true;
    let mut place = |text: &[u8]| {
        let start = cursor;
        fits &= target.write(cursor, text) && target.write(cursor + text.len(), &[0]);
        cursor += text.len() + 1;
        start as u32
    };
    for (index, text) in strings(head).iter().enumerate() {
        let offset = place(text);
        put(&mut fixed, at::STRINGS + index * 8, &offset.to_ne_bytes());
        put(
            &mut fixed,
            at::STRINGS + index * 8 + 4,
            &(text.len() as u32).to_ne_bytes(),
        );
    }
    let mut entry_at = at::FIELDS;
    for (name, value) in head.fields {
        let offset = place(name);
        place(value);
        let mut entry = [0u8; at::FIELD_SIZE];
        put(&mut entry, 0, &offset.to_ne_bytes());
        put(&mut entry, 4, &(name.len() as u32).to_ne_bytes());
        put(&mut entry, 8, &(value.len() as u32).to_ne_bytes());
        if !target.write(entry_at, &entry) {
            return Err(too_large);
        }
        entry_at += at::FIELD_SIZE;
    }
    let (kind, offset, len) = match *body {
        BodyRef::None => (BODY_NONE, 0, 0),
        BodyRef::Inline(bytes) => {
            fits &= target.write(cursor, bytes);
            (BODY_INLINE, cursor as u64, bytes.len() as u64)
        }
        BodyRef::Spool { offset, len } => (BODY_SPOOL, offset, len),
        BodyRef::Stream { len } => (BODY_STREAM, 0, len.unwrap_or(UNKNOWN)),
    };
    put(&mut fixed, at::LENGTH, &(length as u32).to_ne_bytes());
    put(
        &mut fixed,
        at::FIELD_COUNT,
        &(head.fields.len() as u32).to_ne_bytes(),
    );
    put(
        &mut fixed,
        at::VERSION_MINOR,
        &[
            head.version_minor,
            u8::from(head.tls),
            kind,
            u8::from(head.websocket),
        ],
    );
    put(&mut fixed, at::REMOTE_PORT, &head.remote_port.to_ne_bytes());
    put(&mut fixed, at::LOCAL_PORT, &head.local_port.to_ne_bytes());
    let content_length = head.content_length.unwrap_or(UNKNOWN);
    put(
        &mut fixed,
        at::CONTENT_LENGTH,
        &content_length.to_ne_bytes(),
    );
    put(&mut fixed, at::BODY_OFFSET, &offset.to_ne_bytes());
    put(&mut fixed, at::BODY_LENGTH, &len.to_ne_bytes());
    put(&mut fixed, at::ARRIVED, &head.arrived_ms.to_ne_bytes());
    put(&mut fixed, at::DEADLINE, &head.deadline_ms.to_ne_bytes());
    if fits && target.write(0, &fixed) {
        Ok(length as u32)
    } else {
        Err(too_large)
    }
}

/// Encodes the record into a new buffer, for the spool.
pub fn encode(head: &WireRequestHead<'_>, body: &BodyRef<'_>) -> Result<Vec<u8>, TooLarge> {
    let length = encoded_length(head, body);
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| TooLarge { length })?];
    encode_into(SpanMut::from_slice(&mut bytes), head, body)?;
    Ok(bytes)
}

fn put(target: &mut [u8], offset: usize, bytes: &[u8]) {
    if let Some(place) = target.get_mut(offset..offset + bytes.len()) {
        place.copy_from_slice(bytes);
    }
}

/// A request as a worker reads it, in place.
#[derive(Clone, Copy, Debug)]
pub struct WireRequestView<'a> {
    bytes: &'a [u8],
}

impl<'a> WireRequestView<'a> {
    /// An empty request.
    pub const EMPTY: WireRequestView<'static> = WireRequestView { bytes: &[] };

    /// The view of a record; `None` when its fixed part or field table do not fit. Strings are checked when they are read.
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let view = Self { bytes };
        let length = view.number::<4>(at::LENGTH).map(u32::from_ne_bytes)? as usize;
        let bytes = bytes.get(..length)?;
        let view = Self { bytes };
        let table = view.field_count().checked_mul(at::FIELD_SIZE)?;
        (at::FIELDS.checked_add(table)? <= length).then_some(view)
    }

    fn number<const N: usize>(&self, offset: usize) -> Option<[u8; N]> {
        self.bytes.get(offset..offset + N)?.try_into().ok()
    }

    fn u32_at(&self, offset: usize) -> u32 {
        self.number(offset).map_or(0, u32::from_ne_bytes)
    }

    fn u64_at(&self, offset: usize) -> u64 {
        self.number(offset).map_or(0, u64::from_ne_bytes)
    }

    fn u16_at(&self, offset: usize) -> u16 {
        self.number(offset).map_or(0, u16::from_ne_bytes)
    }

    fn byte_at(&self, offset: usize) -> u8 {
        self.bytes.get(offset).copied().unwrap_or(0)
    }

    /// A string that is followed by a NUL; empty when the record is corrupt.
    fn text(&self, offset: usize, length: usize) -> &'a [u8] {
        let end = offset.checked_add(length);
        match end.and_then(|end| self.bytes.get(offset..=end)) {
            Some([text @ .., 0]) => text,
            _ => EMPTY,
        }
    }

    fn string(&self, index: usize) -> &'a [u8] {
        let entry = at::STRINGS + index * 8;
        self.text(self.u32_at(entry) as usize, self.u32_at(entry + 4) as usize)
    }

    /// See [`WireRequestHead::method`]. All strings are followed by a NUL in memory.
    pub fn method(&self) -> &'a [u8] {
        self.string(0)
    }
    /// See [`WireRequestHead::target`].
    pub fn target(&self) -> &'a [u8] {
        self.string(1)
    }
    /// See [`WireRequestHead::path`].
    pub fn path(&self) -> &'a [u8] {
        self.string(2)
    }
    /// See [`WireRequestHead::query`].
    pub fn query(&self) -> &'a [u8] {
        self.string(3)
    }
    /// See [`WireRequestHead::scheme`].
    pub fn scheme(&self) -> &'a [u8] {
        self.string(4)
    }
    /// See [`WireRequestHead::remote_address`].
    pub fn remote_address(&self) -> &'a [u8] {
        self.string(5)
    }
    /// See [`WireRequestHead::local_address`].
    pub fn local_address(&self) -> &'a [u8] {
        self.string(6)
    }
    /// See [`WireRequestHead::server_name`].
    pub fn server_name(&self) -> &'a [u8] {
        self.string(7)
    }
    /// See [`WireRequestHead::target_name`].
    pub fn target_name(&self) -> &'a [u8] {
        self.string(8)
    }
    /// See [`WireRequestHead::user`].
    pub fn user(&self) -> &'a [u8] {
        self.string(9)
    }
    /// See [`WireRequestHead::version_minor`].
    pub fn version_minor(&self) -> u8 {
        self.byte_at(at::VERSION_MINOR)
    }
    /// The client's protocol as CGI names it (RFC 3875 §4.1.16): `HTTP/1.1`.
    pub fn protocol(&self) -> &'static str {
        match self.version_minor() {
            0 => "HTTP/1.0",
            1 => "HTTP/1.1",
            2 => "HTTP/2.0",
            _ => "HTTP/3.0",
        }
    }
    /// See [`WireRequestHead::tls`].
    pub fn tls(&self) -> bool {
        self.byte_at(at::TLS) != 0
    }
    /// See [`WireRequestHead::remote_port`].
    pub fn remote_port(&self) -> u16 {
        self.u16_at(at::REMOTE_PORT)
    }
    /// See [`WireRequestHead::local_port`].
    pub fn local_port(&self) -> u16 {
        self.u16_at(at::LOCAL_PORT)
    }
    /// See [`WireRequestHead::content_length`].
    pub fn content_length(&self) -> Option<u64> {
        Some(self.u64_at(at::CONTENT_LENGTH)).filter(|&length| length != UNKNOWN)
    }
    /// See [`WireRequestHead::arrived_ms`].
    pub fn arrived_ms(&self) -> u64 {
        self.u64_at(at::ARRIVED)
    }
    /// See [`WireRequestHead::deadline_ms`].
    pub fn deadline_ms(&self) -> u64 {
        self.u64_at(at::DEADLINE)
    }
    /// See [`WireRequestHead::websocket`].
    pub fn is_websocket(&self) -> bool {
        self.byte_at(at::WEBSOCKET) != 0
    }
    /// Number of header fields.
    pub fn field_count(&self) -> usize {
        self.u32_at(at::FIELD_COUNT) as usize
    }

    /// Header fields in order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let view = *self;
        (0..self.field_count()).map(move |index| {
            let entry = at::FIELDS + index * at::FIELD_SIZE;
            let offset = view.u32_at(entry) as usize;
            let name_length = view.u32_at(entry + 4) as usize;
            let value_length = view.u32_at(entry + 8) as usize;
            let value_offset = offset.saturating_add(name_length).saturating_add(1);
            (
                view.text(offset, name_length),
                view.text(value_offset, value_length),
            )
        })
    }

    /// The first field of that name, in any case.
    pub fn field(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.fields()
            .find(|(candidate, _)| candidate.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    /// Where the body is.
    pub fn body(&self) -> BodyRef<'a> {
        let offset = self.u64_at(at::BODY_OFFSET);
        let len = self.u64_at(at::BODY_LENGTH);
        match self.byte_at(at::BODY_KIND) {
            BODY_INLINE => {
                let start = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = start.saturating_add(usize::try_from(len).unwrap_or(usize::MAX));
                BodyRef::Inline(self.bytes.get(start..end).unwrap_or(&[]))
            }
            BODY_SPOOL => BodyRef::Spool { offset, len },
            BODY_STREAM => BodyRef::Stream {
                len: (len != UNKNOWN).then_some(len),
            },
            _ => BodyRef::None,
        }
    }
}

/// The empty string, followed by a NUL like every other.
const EMPTY: &[u8] = match b"\0".split_last() {
    Some((_, rest)) => rest,
    None => &[],
};
