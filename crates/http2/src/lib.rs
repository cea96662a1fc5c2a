//! HTTP/2 (RFC 9113) between the `h2` crate and the server: a stream as a connection's channel, and heads that only their own stream pays for.
//!
//! Called by the server's task of a connection, which moves bytes and makes a request of each stream. Must never: keep more for a client than
//! its windows and buffers allow, or end a stream whose response was cut short as if it were whole.

#![forbid(unsafe_code)]

mod heads;
mod stream;

pub use heads::Heads;
pub use stream::{Hub, Kind, Stream};
