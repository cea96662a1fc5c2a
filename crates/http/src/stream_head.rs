//! The head of a response for a stream of HTTP/2 or 3.

use http::StatusCode;
use memchr::memchr;

use crate::http2::is_connection_specific;
use crate::http3::encode_response;
use crate::token::{is_field_name, is_field_value};
use crate::{Known, OutgoingHead};

/// The head of a response in HTTP/3.
#[derive(Debug)]
pub struct EncodedHead {
    /// The status, which is also in the section.
    pub status: StatusCode,
    /// Status and fields in QPACK.
    pub section: Vec<u8>,
    /// The declared length of the body.
    pub content_length: Option<u64>,
}

/// The head of a response in HTTP/2, encoded when it is sent: the table depends on the order in which heads are sent.
#[derive(Debug)]
pub struct LinedHead {
    /// The status.
    pub status: u16,
    /// The fields as lines of HTTP/1, for [`lined_fields`].
    pub lines: Vec<u8>,
    /// The declared length of the body.
    pub content_length: Option<u64>,
}

/// The head for HTTP/2: without fields of an HTTP/1 connection. `None` if it cannot be expressed.
pub fn lined_head(head: &OutgoingHead, is_websocket: bool) -> Option<LinedHead> {
    let status = stream_status(head.status, is_websocket)?;
    let mut lines = Vec::with_capacity(head.fields.lines().len());
    let mut content_length = None;
    for (name, value) in stream_fields(head, is_websocket) {
        note_length(&mut content_length, name, value);
        lines.extend_from_slice(name);
        lines.extend_from_slice(b": ");
        lines.extend_from_slice(value);
        lines.extend_from_slice(b"\r\n");
    }
    Some(LinedHead {
        status: status.as_u16(),
        lines,
        content_length,
    })
}

/// The fields of a [`LinedHead`].
pub fn lined_fields(mut lines: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (name, rest) = lines.split_at_checked(memchr(b':', lines)?)?;
        let value = rest.get(2..)?;
        let (value, rest) = value.split_at_checked(memchr(b'\r', value)?)?;
        lines = rest.get(2..)?;
        Some((name, value))
    })
}

/// Takes the declared length of the body from the first field that has it.
fn note_length(length: &mut Option<u64>, name: &[u8], value: &[u8]) {
    if length.is_none() && Known::from_name(name) == Known::ContentLength {
        *length = str::from_utf8(value)
            .ok()
            .and_then(|value| value.parse().ok());
    }
}

/// The head for HTTP/3, encoded: its table is static, so nothing depends on the order in which heads are sent.
pub fn encoded_head(head: &OutgoingHead, is_websocket: bool) -> Option<EncodedHead> {
    let status = stream_status(head.status, is_websocket)?;
    let mut content_length = None;
    let fields = stream_fields(head, is_websocket)
        .filter(|(name, value)| is_field_name(name) && is_field_value(value))
        .inspect(|(name, value)| note_length(&mut content_length, name, value));
    let section = encode_response(status.as_u16(), fields);
    Some(EncodedHead {
        status,
        section,
        content_length,
    })
}

/// The status on a stream; `None` if it cannot be sent.
fn stream_status(status: u16, is_websocket: bool) -> Option<StatusCode> {
    match status {
        // RFC 8441 §5, RFC 9220 §3: acceptance is any success.
        101 if is_websocket => Some(StatusCode::OK),
        101 => None,
        // Three digits that are not a status, which `return` may send.
        status if status < 100 => Some(StatusCode::INTERNAL_SERVER_ERROR),
        status => StatusCode::from_u16(status).ok(),
    }
}

/// The fields for a stream. RFC 9113 §8.2.1: no white space around their values.
fn stream_fields(head: &OutgoingHead, is_websocket: bool) -> impl Iterator<Item = (&[u8], &[u8])> {
    head.fields
        .iter()
        .filter(move |(name, _)| {
            let is_of_upgrade = is_websocket && name.eq_ignore_ascii_case(b"sec-websocket-accept");
            !is_of_upgrade && !is_connection_specific(Known::from_name(name))
        })
        .map(|(name, value)| (name, value.trim_ascii()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_for_http2_has_no_field_of_a_connection() {
        let mut head = OutgoingHead::new(200);
        let fields = [
            ("Server", "Tutti"),
            ("Connection", "close"),
            ("Content-Length", "7"),
            ("X-Empty", ""),
            ("X-Time", " 10:00 : 1 "),
            ("Sec-WebSocket-Accept", "x"),
        ];
        for (name, value) in fields {
            head.fields.push(name.as_bytes(), value.as_bytes());
        }
        let lined = lined_head(&head, true).unwrap();
        assert_eq!((lined.status, lined.content_length), (200, Some(7)));
        let read: Vec<(&[u8], &[u8])> = lined_fields(&lined.lines).collect();
        let expected: [(&[u8], &[u8]); 4] = [
            (b"Server", b"Tutti"),
            (b"Content-Length", b"7"),
            (b"X-Empty", b""),
            (b"X-Time", b"10:00 : 1"),
        ];
        assert_eq!(read, expected);
        assert!(lined_head(&OutgoingHead::new(101), false).is_none());
        assert_eq!(
            lined_head(&OutgoingHead::new(101), true).unwrap().status,
            200
        );
    }
}
