//! Why a message was refused, and the corresponding status.
//!
//! After any of these the connection must be closed: the position of the next message is unknown or cannot be trusted.

use crate::path::PathError;

/// Why a head is refused. All are the sender's fault; retrying the same bytes is useless.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    /// The request or status line is malformed.
    #[error("malformed start line")]
    StartLine,
    /// A major or minor version other than 1.0 and 1.1.
    #[error("unsupported HTTP version")]
    Version,
    /// A bare CR, or something after the version.
    #[error("malformed line end")]
    LineEnd,
    /// Empty or non-token name, white space before the colon, or a folded line.
    #[error("malformed field name")]
    FieldName,
    /// A control character in a field value.
    #[error("malformed field value")]
    FieldValue,
    /// The request line exceeds `large_header_buffer_size`.
    #[error("request line too long")]
    RequestLineTooLong,
    /// One field, or all together, exceed the limits.
    #[error("header fields too large")]
    FieldsTooLarge,
    /// The target's form does not fit the method, or it has a fragment or a scheme that is not HTTP.
    #[error("invalid request target")]
    Target,
    /// The path is ambiguous or malformed.
    #[error("{0}")]
    Path(PathError),
    /// HTTP/1.1 without `Host` (RFC 9112 §3.2).
    #[error("missing `Host`")]
    HostMissing,
    /// More than one `Host`.
    #[error("conflicting `Host`")]
    HostConflict,
    /// `Host` or the target's authority is not `host[:port]`.
    #[error("invalid `Host`")]
    HostInvalid,
    /// `Content-Length` is not one decimal number.
    #[error("invalid `Content-Length`")]
    ContentLength,
    /// `Content-Length` occurs more than once.
    #[error("repeated `Content-Length`")]
    ContentLengthRepeated,
    /// Both `Content-Length` and `Transfer-Encoding` (RFC 9112 §6.1).
    #[error("both `Content-Length` and `Transfer-Encoding`")]
    LengthConflict,
    /// `Transfer-Encoding` is not exactly `chunked`.
    #[error("invalid `Transfer-Encoding`")]
    TransferEncoding,
    /// `Transfer-Encoding` ends in `chunked` but names a coding that is not implemented.
    #[error("unsupported transfer coding")]
    TransferCodingUnsupported,
    /// `Transfer-Encoding` in HTTP/1.0.
    #[error("`Transfer-Encoding` in HTTP/1.0")]
    TransferEncodingVersion,
    /// A field of an HTTP/1 connection in HTTP/2 (RFC 9113 §8.2.2).
    #[error("connection-specific field in HTTP/2")]
    ConnectionField,
    /// `Expect` asks for something other than `100-continue`.
    #[error("unsupported expectation")]
    Expectation,
}

impl HeadError {
    /// The status for a refused request. (A proxy answers 502 for any error in a response's head.)
    pub fn status(self) -> u16 {
        match self {
            Self::RequestLineTooLong => 414,
            Self::Expectation => 417,
            Self::FieldsTooLarge => 431,
            Self::TransferCodingUnsupported => 501,
            Self::Version => 505,
            _ => 400,
        }
    }
}

/// Why a body is refused.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// A chunk size that is not 1 to 16 hexadecimal digits followed by CRLF or an extension.
    #[error("invalid chunk size")]
    ChunkSize,
    /// A chunk extension that is not `;` name [`=` value], or more of them than allowed.
    #[error("invalid chunk extension")]
    ChunkExtension,
    /// Chunk data is not followed by CRLF.
    #[error("chunk data not ended by CRLF")]
    ChunkEnd,
    /// A malformed trailer field, or one that would change framing or routing.
    #[error("invalid trailer field")]
    Trailer,
    /// More trailer bytes than allowed.
    #[error("trailer fields too large")]
    TrailerTooLarge,
    /// The body exceeds `max_body_size`.
    #[error("body too large")]
    TooLarge,
}

impl BodyError {
    /// The status for a refused request.
    pub fn status(self) -> u16 {
        match self {
            Self::TooLarge => 413,
            _ => 400,
        }
    }
}
