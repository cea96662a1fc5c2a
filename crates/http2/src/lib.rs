//! HTTP/2 (RFC 9113) for the server: the frames of a connection, its streams as channels of an exchange, and the order in which they are
//! served.
//!
//! [`driver`](self) is the task of a connection: it takes frames from the received bytes, starts the requests that have arrived together in
//! the order of their priority, and sends in one call whatever all streams have written meanwhile. `hub` has the state that the driver and
//! the streams share: windows, the output, header compression, and the streams that wait for room. Each request is given to the server as
//! an [`Http2Head`] and an [`Http2Stream`]. The server implements the trait [`Http2Connection`], and calls [`serve`].
//!
//! Must never: buffer more for a client than its windows and the configured buffers allow, end a stream normally whose response was cut
//! short, lose a request that no GOAWAY permits the client to send again, or wait for a client without a deadline.

#![forbid(unsafe_code)]

mod closed_streams;
mod driver;
mod fault;
mod frames;
mod head;
mod hub;
mod receiver;
mod server;
mod settings;
mod stream;
mod stream_state;
mod windows;

pub use driver::serve;
pub use fault::Http2Code;
pub use head::Http2Head;
pub use server::{Ending, Http2Connection, Http2Options, Http2Timeouts};
pub use stream::Http2Stream;
