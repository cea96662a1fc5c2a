//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O: frames, settings, field sections.
//!
//! Bytes of a stream go in as they come, in any pieces; heads, data and faults come out. A request's fields are written down as a head
//! and judged by the code that judges HTTP/1's, as those of HTTP/2 are ([`compose`](crate::RequestHead::compose)). Only the static table of QPACK is used: a client is
//! told that there is no room for a dynamic one, so no stream waits for another, and a decoder keeps nothing.
//!
//! Must never: keep more than the limits it is given, whatever comes; read a dynamic reference as a field.

mod control;
mod error;
pub mod frame;
mod message;
mod qpack;
mod section;
mod settings;
mod table;
pub mod varint;

pub use control::{Control, Note, UniReader};
pub use error::{Code, Http3Error};
pub use message::{MessagePart, MessageReader};
pub use qpack::{DecodeError, decode};
pub use section::{Pseudo, Section, SectionError, encode_fields, encode_response};
pub use settings::{Http3Settings, write_settings};

/// The name of HTTP/3 when client and server agree to speak it (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
