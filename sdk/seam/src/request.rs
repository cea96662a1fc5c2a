//! A request as the C half takes it.

use percent::decode;
use tutti_worker::{BodyView, Exchange, RequestView};

use crate::{Bytes, Field, RawRequest};

/// Memory that is kept from request to request.
#[derive(Debug, Default)]
pub struct Memory {
    fields: Vec<Field>,
    path: Vec<u8>,
}

impl Memory {
    /// Describes the request of `exchange`. What it points to lives until the exchange is finished or `self` is used again.
    pub fn describe(&mut self, exchange: &Exchange) -> RawRequest {
        let view = exchange.request();
        self.fields.clear();
        self.fields
            .extend(view.fields().map(|(name, value)| Field::new(name, value)));
        let (body, inline_body) = match view.body() {
            BodyView::None => (0, Bytes::new(b"")),
            BodyView::Inline(bytes) => (1, Bytes::new(bytes)),
            BodyView::Spool { .. } => (2, Bytes::new(b"")),
            BodyView::Stream { .. } => (3, Bytes::new(b"")),
        };
        let server_name = if view.server_name().is_empty() {
            view.local_address()
        } else {
            view.server_name()
        };
        let server_port = match (view.local_port(), view.tls()) {
            (0, false) => 80,
            (0, true) => 443,
            (port, _) => port,
        };
        RawRequest {
            method: Bytes::new(view.method()),
            target: Bytes::new(view.target()),
            path: self.path_info(&view),
            query: Bytes::new(view.query()),
            protocol: Bytes::new(match view.version_minor() {
                0 => b"HTTP/1.0",
                1 => b"HTTP/1.1",
                2 => b"HTTP/2.0",
                _ => b"HTTP/3.0",
            }),
            scheme: Bytes::new(view.scheme()),
            remote_address: Bytes::new(view.remote_address()),
            server_name: Bytes::new(server_name),
            remote_port: view.remote_port(),
            server_port,
            body,
            is_websocket: u32::from(view.is_websocket()),
            content_length: view
                .content_length()
                .and_then(|length| i64::try_from(length).ok())
                .unwrap_or(-1),
            inline_body,
            fields: self.fields.as_ptr(),
            field_count: self.fields.len(),
        }
    }

    /// `PATH_INFO`: the path that was routed, but with repeated slashes as the client sent them. Anything else in which the
    /// two differ (dot segments, a rewritten path) is as it was routed, so that an application never sees a path that the
    /// routes did not judge.
    fn path_info(&mut self, view: &RequestView<'_>) -> Bytes {
        let routed = view.path();
        let target = view.target();
        let sent = memchr::memchr2(b'?', b'#', target)
            .and_then(|end| target.get(..end))
            .unwrap_or(target);
        if sent == routed {
            return Bytes::new(routed);
        }
        decode(sent, &mut self.path);
        if self.path.first() == Some(&b'/') && differs_in_slashes_only(&self.path, routed) {
            Bytes::new(&self.path)
        } else {
            Bytes::new(routed)
        }
    }
}

/// True if `sent` with its repeated slashes merged is `routed`.
fn differs_in_slashes_only(sent: &[u8], routed: &[u8]) -> bool {
    let mut last = 0;
    let merged = sent.iter().filter(|&&byte| {
        let is_repeated = byte == b'/' && last == b'/';
        last = byte;
        !is_repeated
    });
    merged.eq(routed)
}

mod percent {
    /// Decodes what is percent-encoded, once; what is no encoding stays.
    pub(super) fn decode(text: &[u8], into: &mut Vec<u8>) {
        into.clear();
        let mut rest = text;
        while let Some((&first, after)) = rest.split_first() {
            let digits = (first == b'%').then(|| (after.first(), after.get(1)));
            let byte = match digits {
                Some((Some(&high), Some(&low))) => digit(high)
                    .zip(digit(low))
                    .map(|(high, low)| high << 4 | low),
                _ => None,
            };
            match byte {
                Some(byte) => {
                    into.push(byte);
                    rest = after.get(2..).unwrap_or_default();
                }
                None => {
                    into.push(first);
                    rest = after;
                }
            }
        }
    }

    fn digit(byte: u8) -> Option<u8> {
        char::from(byte)
            .to_digit(16)
            .and_then(|digit| u8::try_from(digit).ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_slashes_may_differ() {
        assert!(differs_in_slashes_only(b"//a///b/", b"/a/b/"));
        assert!(differs_in_slashes_only(b"/a", b"/a"));
        assert!(!differs_in_slashes_only(b"/a/../b", b"/b"));
        assert!(!differs_in_slashes_only(b"/a/./b", b"/a/b"));
        assert!(!differs_in_slashes_only(b"/a", b"/a/"));
        assert!(!differs_in_slashes_only(b"//", b""));
    }

    #[test]
    fn decoding_happens_once() {
        let mut into = Vec::new();
        decode(b"/a%252cb%2cc%zz%4", &mut into);
        assert_eq!(into, b"/a%2cb,c%zz%4");
    }
}
