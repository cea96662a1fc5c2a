//! HTTP/2 (RFC 9113) between the `h2` crate and the server: the task of a connection, streams as channels of an exchange, and the screening
//! of request heads.
//!
//! `h2` does the framing, the streams and the header compression. This crate adds the rest: `driver` moves bytes between the connection's
//! socket and `h2` ([`pipe`](tutti_conn::pipe)) and counts useless frames ([`FloodGauge`](tutti_http::http2::FloodGauge)); `heads` keeps a
//! malformed request from ending the whole connection. Each request is given to the server as a [`Http2Head`] and a [`Http2Stream`]. The server
//! implements the trait [`Http2Connection`], and calls [`serve`].
//!
//! Must never: buffer more for a client than its windows and the configured buffers allow, end a stream normally whose response was cut
//! short, lose a request that no GOAWAY permits the client to send again, or wait for a client without a deadline.

#![forbid(unsafe_code)]

mod driver;
mod head;
mod heads;
mod server;
mod stream;

pub use driver::serve;
pub use head::Http2Head;
pub use server::{Ending, Http2Connection, Http2Options, Http2Timeouts};
pub use stream::Http2Stream;
