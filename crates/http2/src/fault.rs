//! Error codes, and the faults of a client.

use tutti_http::Flood;

/// An error code of HTTP/2 (RFC 9113 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Http2Code(pub u32);

#[expect(missing_docs, reason = "the names of the standard")]
impl Http2Code {
    pub const NO_ERROR: Self = Self(0);
    pub const PROTOCOL_ERROR: Self = Self(1);
    pub const INTERNAL_ERROR: Self = Self(2);
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    pub const STREAM_CLOSED: Self = Self(5);
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    pub const REFUSED_STREAM: Self = Self(7);
    pub const CANCEL: Self = Self(8);
    pub const COMPRESSION_ERROR: Self = Self(9);
    pub const ENHANCE_YOUR_CALM: Self = Self(11);
}

impl From<u32> for Http2Code {
    fn from(code: u32) -> Self {
        Self(code)
    }
}

/// A frame that the client must not send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The connection ends (RFC 9113 §5.4.1).
    Connection(Http2Code),
    /// Too many frames without use: the same, and it is logged.
    Flood,
    /// The stream is reset (§5.4.2).
    Stream(u32, Http2Code),
}

impl From<Flood> for Fault {
    fn from(_: Flood) -> Self {
        Self::Flood
    }
}
