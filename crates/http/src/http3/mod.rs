//! HTTP/3 (RFC 9114) and QPACK (RFC 9204) without I/O: frames, settings, field sections.
//!
//! Bytes of a stream go in, in any pieces; heads, data and faults come out. A request's fields are written as a head and checked by the
//! same code as HTTP/1's, like those of HTTP/2 ([`compose`](crate::RequestHead::compose)). Only the static table of QPACK is used: the
//! settings permit no dynamic one, so no stream waits for another, and a decoder keeps no state.
//!
//! Must never: keep more than the given limits, for any input; take a dynamic reference for a field.

mod control;
mod error;
pub mod frame;
mod message;
mod qpack;
mod section;
mod settings;
mod table;
pub mod varint;

pub use crate::section::Section;
pub use control::{Control, Note, UniReader};
pub use error::{Code, Http3Error};
pub use message::{MessagePart, MessageReader};
pub use qpack::{DecodeError, decode};
pub use section::{SectionError, encode_fields, encode_response};
pub use settings::{Http3Settings, write_settings};

/// The ALPN name of HTTP/3 (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
