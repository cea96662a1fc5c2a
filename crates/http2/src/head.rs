//! The head of a stream's request.

use tutti_http::http2::{Opening, RequestField, WebSocketKey};
use tutti_http::{Known, Priority, Section, Version};

use crate::stream::Kind;

/// The head of a received request.
#[derive(Debug, Default)]
pub struct Http2Head {
    pub(crate) section: Section,
    pub(crate) has_body: bool,
    pub(crate) is_too_large: bool,
}

impl Http2Head {
    /// True if a body follows.
    pub fn has_body(&self) -> bool {
        self.has_body
    }

    /// True if it exceeds the permitted size; then it has no fields that can be relied on.
    pub fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// True for an extended `CONNECT` for WebSocket.
    pub fn is_websocket(&self) -> bool {
        self.section.protocol() == Some(b"websocket")
    }

    /// True for an extended `CONNECT` for another protocol.
    pub fn is_unknown(&self) -> bool {
        self.section.protocol().is_some() && !self.is_websocket()
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind {
            is_head: self.section.method() == b"HEAD",
            is_websocket: self.is_websocket(),
        }
    }

    /// The declared length of the body. One that is not a number is refused when the head is composed.
    pub(crate) fn content_length(&self) -> Option<u64> {
        let value = self.section.values(Known::ContentLength).next()?;
        str::from_utf8(value).ok()?.parse().ok()
    }

    /// The priority of its response (RFC 9218 §5).
    pub(crate) fn priority(&self) -> Priority {
        Priority::of_lines(self.section.values(Known::Priority))
    }

    /// The first line as HTTP/1 has it, with framing for a body if the request `has_body`, and with a key if it is for a WebSocket.
    pub fn opening<'o>(
        &'o self,
        has_body: bool,
        websocket: Option<&'o WebSocketKey>,
    ) -> Opening<'o> {
        let authority = self.section.authority();
        Opening {
            method: self.section.method(),
            target: self.section.path().or(authority).unwrap_or_default(),
            authority,
            is_checked: true,
            has_body,
            websocket,
            version: Version::Http2,
        }
    }

    /// Its fields.
    pub fn fields(&self) -> impl Iterator<Item = RequestField<'_>> {
        self.section.checked_fields()
    }
}
