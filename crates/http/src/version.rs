//! The HTTP version of a message.

/// A version of HTTP, in the order in which they came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// HTTP/1.0: a connection takes one request unless both sides say otherwise, and a body has a length or ends the connection.
    Http10,
    /// HTTP/1.1.
    #[default]
    Http11,
    /// HTTP/2: each request has a stream of its own.
    Http2,
    /// HTTP/3: the same over QUIC.
    Http3,
}

impl Version {
    /// The version of HTTP/1 with the minor number from a parser.
    pub(crate) fn of_minor(minor: Option<u8>) -> Self {
        match minor {
            None | Some(0) => Self::Http10,
            Some(_) => Self::Http11,
        }
    }

    /// The number of the version in one byte: the minor one of HTTP/1, the major one of later versions.
    pub const fn number(self) -> u8 {
        match self {
            Self::Http10 => 0,
            Self::Http11 => 1,
            Self::Http2 => 2,
            Self::Http3 => 3,
        }
    }

    /// The version as text: `1.0`, `1.1`, `2` or `3`.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Http10 => "1.0",
            Self::Http11 => "1.1",
            Self::Http2 => "2",
            Self::Http3 => "3",
        }
    }
}
