//! Forwarding a message: fields of one connection are removed (RFC 9110 §7.6.1), and the request is written anew.
//!
//! Used by code that communicates with another HTTP server. Must never: copy a field that determines the end of a message, or a byte that
//! would end a line; the framing is decided by the writer of the message.

use smallvec::SmallVec;

use crate::field::{FieldRef, list_members};
use crate::head::request::RequestView;
use crate::known_fields::Known;

/// Fields that belong to the connection a message came on.
#[derive(Clone, Debug, Default)]
pub struct PerConnection<'a> {
    /// The names in its `Connection` fields, in addition to those that always belong to it. Never `Host`, without which no request is
    /// valid.
    named: SmallVec<[&'a [u8]; 4]>,
}

impl<'a> PerConnection<'a> {
    /// The fields of a request's connection. Fields that the server adds later are not affected by the client's `Connection`.
    pub fn of_request(request: &RequestView<'a>) -> Self {
        match request.get(Known::Connection) {
            Some(_) => Self::of(request.fields()),
            None => Self::default(),
        }
    }

    /// The same for a message with these fields.
    pub fn of(fields: impl Iterator<Item = FieldRef<'a>>) -> Self {
        let values = fields.filter(|field| field.known == Known::Connection);
        Self::from_values(values.map(|field| field.value))
    }

    /// The same, from the values of its `Connection` fields.
    pub fn from_values(values: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut named = SmallVec::new();
        for name in values.flat_map(list_members) {
            let is_usual = [&b"close"[..], b"keep-alive", b"upgrade", b"te", b"host"]
                .iter()
                .any(|usual| name.eq_ignore_ascii_case(usual));
            if !is_usual {
                named.push(name);
            }
        }
        Self { named }
    }

    /// True for these fields, and for those that determine the end of the message.
    pub fn has(&self, name: &[u8], known: Known) -> bool {
        matches!(
            known,
            Known::Connection
                | Known::ContentLength
                | Known::KeepAlive
                | Known::ProxyConnection
                | Known::Te
                | Known::Trailer
                | Known::TransferEncoding
                | Known::Upgrade
        ) || self.is_named(name)
    }

    /// True if `Connection` names it.
    pub fn is_named(&self, name: &[u8]) -> bool {
        self.named
            .iter()
            .any(|named| named.eq_ignore_ascii_case(name))
    }
}

/// The rule by which the server determines the end of a request's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestFraming {
    /// There is none, and the method promises none.
    None,
    /// After this many bytes.
    Length(u64),
    /// At the last chunk.
    Chunked,
}

/// Writes the request line; `target` is a path with its query, or `*`.
pub fn write_request_line(out: &mut Vec<u8>, method: &[u8], target: &[u8]) {
    out.reserve(method.len() + target.len() + 12);
    out.extend_from_slice(method);
    out.push(b' ');
    out.extend_from_slice(target);
    out.extend_from_slice(b" HTTP/1.1\r\n");
}

/// Writes a field that comes from a parsed head, or that [`crate::is_field_name`] and [`crate::is_field_value`] accept.
pub fn write_field(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.reserve(name.len() + value.len() + 4);
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Writes the field that determines the end of the body.
pub fn write_request_framing(out: &mut Vec<u8>, framing: RequestFraming) {
    match framing {
        RequestFraming::None => {}
        RequestFraming::Length(length) => {
            let mut digits = itoa::Buffer::new();
            write_field(out, b"Content-Length", digits.format(length).as_bytes());
        }
        RequestFraming::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_connection_are_known() {
        let values: [&[u8]; 2] = [b"close, X-Hop , ,\"q\"", b"Keep-Alive,cookie"];
        let own = PerConnection::from_values(values.into_iter());
        for (name, is_own) in [
            ("Connection", true),
            ("Keep-Alive", true),
            ("proxy-connection", true),
            ("TE", true),
            ("Trailer", true),
            ("Transfer-Encoding", true),
            ("Upgrade", true),
            ("Content-Length", true),
            ("x-hop", true),
            ("Cookie", true),
            ("X-Hop-2", false),
            ("Host", false),
            ("Close", false),
        ] {
            let name = name.as_bytes();
            assert_eq!(
                own.has(name, Known::from_name(name)),
                is_own,
                "{}",
                name.escape_ascii()
            );
        }
    }

    #[test]
    fn a_request_is_written() {
        let mut out = Vec::new();
        write_request_line(&mut out, b"POST", b"/a?b");
        write_field(&mut out, b"Host", b"example.org");
        write_request_framing(&mut out, RequestFraming::Length(7));
        write_request_framing(&mut out, RequestFraming::Chunked);
        assert_eq!(
            out,
            b"POST /a?b HTTP/1.1\r\nHost: example.org\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n"
        );
    }
}
