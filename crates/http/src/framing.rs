//! The framing of a response, and whether its connection is kept: one decision, made before the head is written.

use crate::method::Method;
use crate::version::Version;

/// The facts about the body when the head is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredBody {
    /// Its length: counted by the server, or declared by the application.
    Length(u64),
    /// It comes in pieces, end unknown.
    Unknown,
}

/// The facts for the decision.
#[derive(Clone, Copy, Debug)]
pub struct ResponseQuestion {
    /// The request's version.
    pub version: Version,
    /// The request's method.
    pub method: Method,
    /// The status to be sent.
    pub status: u16,
    /// The body.
    pub body: DeclaredBody,
    /// The connection may be reused: the client permits it ([`crate::MessageFacts::keep_alive`]) and the server does, too (no limit reached, no
    /// shutdown, the request's body read to its end).
    pub keep_alive: bool,
}

/// The rule by which the client determines the end of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFraming {
    /// At the end of the head; write no body, whatever the application produced.
    NoBody,
    /// After this many bytes.
    Length(u64),
    /// At the last chunk.
    Chunked,
    /// At the end of the connection; in HTTP/2 and 3, of the stream.
    UntilClose,
}

/// The `Connection` field to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionField {
    /// None: the version's default applies, or it has no such field (HTTP/2: RFC 9113 §8.2.2).
    Nothing,
    /// `close`.
    Close,
    /// `keep-alive`, which HTTP/1.0 clients need.
    KeepAlive,
}

impl ConnectionField {
    /// The field for a client of this version whose connection is kept or closed.
    pub const fn of(version: Version, keep_alive: bool) -> Self {
        match (version, keep_alive) {
            (Version::Http2 | Version::Http3, _) | (Version::Http11, true) => Self::Nothing,
            (Version::Http10, true) => Self::KeepAlive,
            (Version::Http10 | Version::Http11, false) => Self::Close,
        }
    }
}

/// The decision on the form of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponseDecision {
    /// The end of the body.
    pub framing: ResponseFraming,
    /// The `Content-Length` to write. With [`ResponseFraming::NoBody`] it is the length that `GET` would have had.
    pub content_length: Option<u64>,
    /// The `Connection` field to write.
    pub connection: ConnectionField,
    /// Keep the connection after the response; never set for HTTP/2 and 3, where it would apply to the stream. A body that is cut short
    /// closes it anyway.
    pub keep_alive: bool,
}

/// True if a response of this status can have a body (RFC 9110 §6.4.1).
pub const fn status_has_body(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 304)
}

/// True if a response of this status may be made with content. That of a 205 is always empty (RFC 9110 §15.3.6), but one that is received
/// is framed like others.
pub const fn status_may_have_content(status: u16) -> bool {
    status_has_body(status) && status != 205
}

/// Decides framing and persistence of a final response (RFC 9112 §6 and §9.3).
///
/// Interim responses (1xx) have no framing, and no effect on the connection.
pub fn frame_response(question: &ResponseQuestion) -> ResponseDecision {
    let declared = match question.body {
        DeclaredBody::Length(length) => Some(length),
        DeclaredBody::Unknown => None,
    };
    let (framing, content_length) = match question.status {
        100..=199 => {
            return ResponseDecision {
                framing: ResponseFraming::NoBody,
                content_length: None,
                connection: ConnectionField::Nothing,
                keep_alive: question.keep_alive && question.version < Version::Http2,
            };
        }
        204 => (ResponseFraming::NoBody, None),
        205 => (ResponseFraming::NoBody, Some(0)), // RFC 9110 §15.3.6
        304 => (
            ResponseFraming::NoBody,
            declared.filter(|&length| length > 0),
        ),
        _ if question.method == Method::Head => (ResponseFraming::NoBody, declared),
        _ => match declared {
            Some(length) => (ResponseFraming::Length(length), Some(length)),
            None if question.version == Version::Http11 => (ResponseFraming::Chunked, None),
            None => (ResponseFraming::UntilClose, None),
        },
    };
    let keep_alive = question.keep_alive
        && framing != ResponseFraming::UntilClose
        && question.version < Version::Http2;
    ResponseDecision {
        framing,
        content_length,
        connection: ConnectionField::of(question.version, keep_alive),
        keep_alive,
    }
}
