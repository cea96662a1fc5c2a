//! HTTP/2 (RFC 9113) between the `h2` crate and the server: the task of a connection, a stream as a connection's channel, and heads that only their
//! own stream pays for.
//!
//! The framing, the streams and the header compression are `h2`'s. What is ours: `driver` moves the bytes between the connection's socket and `h2`
//! ([`pipe`](tutti_conn::pipe)), counts frames of a client that ask for nothing ([`FloodGauge`](tutti_http::http2::FloodGauge)), and keeps a
//! request that is malformed from ending all the others (`heads`); each request goes to the server as a [`Http2Head`] and a [`Http2Stream`]. The server is
//! seen as a trait, [`Http2Connection`], and calls [`serve`].
//!
//! Must never: keep more for a client than its windows and buffers allow, end a stream whose response was cut short as if it were whole, lose a request
//! that a GOAWAY has not told the client to send again, or wait for a client without a deadline.

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
