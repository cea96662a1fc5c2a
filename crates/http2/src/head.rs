//! The head of a stream's request, as `h2` has parsed it.

use h2::ext::Protocol;
use http::Method;
use http::request::Parts;
use tutti_http::Version;
use tutti_http::http2::{Opening, WebSocketKey};

use crate::stream::Kind;

/// The head of a received request.
pub struct Http2Head {
    parts: Parts,
    /// A body follows.
    has_body: bool,
}

impl Http2Head {
    pub(crate) fn new(parts: Parts, has_body: bool) -> Self {
        Self { parts, has_body }
    }

    /// True if a body follows.
    pub fn has_body(&self) -> bool {
        self.has_body
    }

    fn protocol(&self) -> Option<&str> {
        let protocol = self.parts.extensions.get::<Protocol>();
        protocol.map(Protocol::as_str)
    }

    /// True for an extended `CONNECT` for WebSocket.
    pub fn is_websocket(&self) -> bool {
        self.protocol() == Some("websocket")
    }

    /// True for an extended `CONNECT` for another protocol.
    pub fn is_unknown(&self) -> bool {
        self.protocol().is_some() && !self.is_websocket()
    }

    pub(crate) fn kind(&self) -> Kind {
        Kind {
            is_head: self.parts.method == Method::HEAD,
            is_websocket: self.is_websocket(),
        }
    }

    /// The first line as HTTP/1 has it, with framing for a body if the request `has_body`, and with a key if it is for a WebSocket.
    pub fn opening<'o>(
        &'o self,
        has_body: bool,
        websocket: Option<&'o WebSocketKey>,
    ) -> Opening<'o> {
        let authority = self.parts.uri.authority();
        let authority = authority.map(|authority| authority.as_str());
        let path = self.parts.uri.path_and_query().map(|path| path.as_str());
        Opening {
            method: self.parts.method.as_str().as_bytes(),
            target: path.or(authority).unwrap_or_default().as_bytes(),
            authority: authority.map(str::as_bytes),
            has_body,
            websocket,
            version: Version::Http2,
        }
    }

    /// Its fields.
    pub fn fields(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let fields = self.parts.headers.iter();
        fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
    }
}
