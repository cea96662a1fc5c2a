//! The head of a response to be sent: data, until a protocol's writer takes it.
//!
//! The writer of HTTP/1 is here ([`OutgoingHead::write_http1`]); that of HTTP/2 is with the streams, in the server. Fields about one HTTP/1
//! message or connection are only for HTTP/1: [`OutgoingHead::frame`] adds them, and adds none for HTTP/2.

use crate::field_lines::FieldLines;
use crate::framing::{ConnectionField, ResponseDecision, ResponseFraming};
use crate::status::reason_phrase;

/// Status and fields of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OutgoingHead {
    /// The status; Unit permits any three digits in a configuration, and anything beyond is sent as 500.
    pub status: u16,
    /// The fields.
    pub fields: FieldLines,
}

impl OutgoingHead {
    /// A head without fields.
    pub const fn new(status: u16) -> Self {
        Self {
            status,
            fields: FieldLines::new(),
        }
    }

    /// Clears the head and keeps the memory.
    pub fn reset(&mut self, status: u16) {
        self.status = status;
        self.fields.clear();
    }

    /// Appends the fields that determine the end of the body and the persistence of the connection.
    pub fn frame(&mut self, decision: &ResponseDecision) {
        if let Some(length) = decision.content_length {
            self.fields.push_number(b"Content-Length", length);
        } else if decision.framing == ResponseFraming::Chunked {
            self.fields.push(b"Transfer-Encoding", b"chunked");
        }
        self.push_connection(decision.connection);
    }

    /// Appends the `Connection` field, if any.
    pub fn push_connection(&mut self, connection: ConnectionField) {
        match connection {
            ConnectionField::Nothing => {}
            ConnectionField::Close => self.fields.push(b"Connection", b"close"),
            ConnectionField::KeepAlive => self.fields.push(b"Connection", b"keep-alive"),
        }
    }

    /// Appends the head to `out` as HTTP/1.1, the version this server speaks to every HTTP/1 client (RFC 9110 §6.2).
    pub fn write_http1(&self, out: &mut Vec<u8>) {
        if self.status == 200 {
            out.extend_from_slice(b"HTTP/1.1 200 OK\r\n");
        } else {
            let status = if self.status > 999 { 500 } else { self.status };
            let digit = |value: u16| b'0' + (value % 10) as u8;
            out.extend_from_slice(b"HTTP/1.1 ");
            out.extend_from_slice(&[digit(status / 100), digit(status / 10), digit(status), b' ']);
            out.extend_from_slice(reason_phrase(status).as_bytes());
            out.extend_from_slice(b"\r\n");
        }
        out.extend_from_slice(self.fields.lines());
        out.extend_from_slice(b"\r\n");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_appended_to_the_output() {
        for (status, line) in [
            (200, "HTTP/1.1 200 OK\r\n\r\n"),
            (404, "HTTP/1.1 404 Not Found\r\n\r\n"),
            (299, "HTTP/1.1 299 \r\n\r\n"),
            (7, "HTTP/1.1 007 \r\n\r\n"),
            (1000, "HTTP/1.1 500 Internal Server Error\r\n\r\n"),
        ] {
            let mut out = b"before".to_vec();
            OutgoingHead::new(status).write_http1(&mut out);
            assert_eq!(out, ["before", line].concat().as_bytes());
        }
    }

    #[test]
    fn a_head_that_is_used_again_begins_without_fields() {
        let mut head = OutgoingHead::new(200);
        head.fields.push(b"A", b"1");
        head.reset(404);
        assert_eq!(head, OutgoingHead::new(404));
    }
}
