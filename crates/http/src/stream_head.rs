//! The head of a response for a stream of HTTP/2 or 3.

use crate::field_lines;
use crate::http2::is_connection_specific;
use crate::{Known, OutgoingHead};

/// The status on a stream; `None` if the protocol cannot express it.
pub fn stream_status(status: u16, is_websocket: bool) -> Option<u16> {
    match status {
        // RFC 8441 §5, RFC 9220 §3: acceptance is any success.
        101 if is_websocket => Some(200),
        101 => None,
        // Only a handshake that was accepted may look so.
        200..300 if is_websocket => Some(400),
        // Three digits that are not a status, which `return` may send.
        0..100 => Some(500),
        100..1000 => Some(status),
        _ => None,
    }
}

/// The fields of a head for a stream: without those of an HTTP/1 connection.
#[derive(Debug)]
pub struct StreamFields<'h> {
    fields: field_lines::Iter<'h>,
    is_websocket: bool,
    content_length: Option<u64>,
}

impl<'h> StreamFields<'h> {
    /// Those of `head`.
    pub fn of(head: &'h OutgoingHead, is_websocket: bool) -> Self {
        Self {
            fields: head.fields.iter(),
            is_websocket,
            content_length: None,
        }
    }

    /// The declared length of the body, once the fields have been read.
    pub fn content_length(&self) -> Option<u64> {
        self.content_length
    }
}

impl<'h> Iterator for StreamFields<'h> {
    type Item = (&'h [u8], &'h [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (name, value) = self.fields.next()?;
            let known = Known::from_token(name);
            let is_of_upgrade =
                self.is_websocket && name.eq_ignore_ascii_case(b"sec-websocket-accept");
            if is_of_upgrade || is_connection_specific(known) {
                continue;
            }
            // RFC 9113 §8.2.1: no white space around it.
            let value = value.trim_ascii();
            if known == Known::ContentLength && self.content_length.is_none() {
                let length = str::from_utf8(value).ok();
                self.content_length = length.and_then(|length| length.parse().ok());
            }
            return Some((name, value));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_for_a_stream_has_no_field_of_a_connection() {
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
        let mut fields = StreamFields::of(&head, true);
        let read: Vec<(&[u8], &[u8])> = fields.by_ref().collect();
        let expected: [(&[u8], &[u8]); 4] = [
            (b"Server", b"Tutti"),
            (b"Content-Length", b"7"),
            (b"X-Empty", b""),
            (b"X-Time", b"10:00 : 1"),
        ];
        assert_eq!(read, expected);
        assert_eq!(fields.content_length(), Some(7));
    }

    #[test]
    fn only_a_handshake_loses_its_key_and_the_first_length_counts() {
        let mut head = OutgoingHead::new(200);
        let key = (&b"sec-websocket-accept"[..], &b"x"[..]);
        let lengths = [
            (&b"Content-Length"[..], &b"7"[..]),
            (b"Content-Length", b"8"),
        ];
        for (name, value) in [key].into_iter().chain(lengths) {
            head.fields.push(name, value);
        }
        let mut fields = StreamFields::of(&head, false);
        assert_eq!(fields.next(), Some(key));
        assert_eq!(fields.by_ref().count(), 2);
        assert_eq!(fields.content_length(), Some(7));
        assert_eq!(StreamFields::of(&head, true).count(), 2);
    }

    #[test]
    fn the_status_on_a_stream() {
        for (status, is_websocket, expected) in [
            (200, false, Some(200)),
            (999, false, Some(999)),
            (7, false, Some(500)),
            (1000, false, None),
            (101, false, None),
            (101, true, Some(200)),
            (200, true, Some(400)),
            (299, true, Some(400)),
            (103, true, Some(103)),
            (301, true, Some(301)),
            (403, true, Some(403)),
        ] {
            assert_eq!(stream_status(status, is_websocket), expected, "{status}");
        }
    }
}
