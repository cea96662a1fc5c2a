//! Heads of HTTP/1, 2 and 3, body framing and limits: pure state machines, no I/O.
//!
//! This crate defines the *meaning* of bytes on an HTTP/1 connection: where a head ends, what its fields imply for the body and the
//! connection, where the body ends, and how a response is framed. `server` (clients), `control` (the API socket) and the proxy (upstreams)
//! own the bytes themselves: they read into a buffer, pass a slice in, and get spans of that slice back, so nothing is copied and nothing
//! is allocated for a keep-alive request.
//!
//! Must never happen: two readers of the same bytes disagree about the end of a message. So whatever RFC 9112 permits to repair is refused
//! instead (`tests/smuggling.rs` is the table), every refusal closes the connection, and no input may cause a panic (`fuzz/`).
//!
//! | To… | use |
//! |---|---|
//! | read a request head | [`RequestHead::parse`], then [`RequestHead::view`] |
//! | read a request or response body | [`BodyDecoder`] |
//! | decide how a response is framed | [`frame_response`] |
//! | hold fields that are to be sent | [`FieldLines`] |
//! | write a response head | [`OutgoingHead`] |
//! | read a response head | [`ResponseHead::parse`], then [`ResponseHead::view`] |
//! | pass a request on | [`PerConnection`], [`edits`], [`write_request_line`] |
//! | speak WebSocket | [`websocket`] |
//! | read and write heads of HTTP/2 | [`http2`] |
//! | read and write streams of HTTP/3 | [`http3`] |

#![forbid(unsafe_code)]

mod allowance;
mod body;
mod chunked;
mod date;
mod decoded;
pub mod edits;
mod error;
mod error_page;
mod field;
mod field_code;
mod field_lines;
mod forward;
mod framing;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
mod fuzzing_chunked;
#[cfg(any(test, fuzzing, feature = "fuzzing"))]
mod fuzzing_http3;
mod head;
mod host;
pub mod http2;
pub mod http3;
mod huffman;
mod known_fields;
mod limits;
mod method;
mod outgoing;
mod path;
mod priority;
#[cfg(test)]
mod properties;
mod section;
mod status;
mod stream_head;
mod token;
mod trailers;
mod version;
pub mod websocket;

pub use allowance::{Allowance, Flood};
pub use body::{BodyDecoder, BodyLength};
pub use chunked::{ChunkedDecoder, LAST_CHUNK, chunk_head, write_chunk_head};
pub use date::{format_date, parse_date};
pub use decoded::Decoded;
pub use error::{BodyError, HeadError};
pub use error_page::{ERROR_PAGE_TYPE, write_error_page};
pub use field::{FieldRef, Fields, cookie_pairs, list_members, media_type};
pub use field_lines::{FieldLines, NO_FIELDS};
pub use forward::{
    PerConnection, RequestFraming, write_field, write_request_framing, write_request_line,
};
pub use framing::{
    ConnectionField, DeclaredBody, ResponseDecision, ResponseFraming, ResponseQuestion,
    frame_response, status_has_body, status_may_have_content,
};
pub use head::request::{MessageFacts, RequestHead, RequestView, TargetForm};
pub use head::response::{CGI_STATUS_LINE, ResponseHead, ResponseView};
pub use head::{BufferSpan, Progress};
pub use host::{port_or_default, split_port};
pub use known_fields::Known;
pub use limits::MessageLimits;
pub use method::{Method, is_idempotent, is_safe};
pub use outgoing::OutgoingHead;
pub use path::{
    OwnedPath, PathError, PathRules, RequestPath, SlashPolicy, encode, encode_argument,
    encode_path, encode_written, folder_location,
};
pub use priority::{EarlyPriorities, Priority};
pub use section::Section;
pub use status::reason_phrase;
pub use stream_head::{StreamFields, stream_status};
pub use token::{InvalidField, is_field_name, is_field_value};
pub use trailers::{Trailers, may_trail};
pub use version::Version;
