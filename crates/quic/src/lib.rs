//! HTTP/3 (RFC 9114) on a listen thread: requests over QUIC, each a stream that the server takes for a connection's channel.
//!
//! QUIC is `quinn-proto`'s, which does no I/O; frames and field sections are [`tutti_http::http3`]'s. This crate owns what is between them and the server:
//! [`QuicEndpoint`] takes datagrams from a listen thread's own UDP socket and gives them to their connections, a driver does what a connection's
//! events ask for, and a [`QuicStream`] is a request's way in and its answer's way out. `ids` makes connection ids by which the kernel finds
//! thread and process again. The server is seen as two traits, [`QuicServer`] and [`QuicConnection`].
//!
//! Must never: send a client whose address is not known to be its own more than QUIC allows; keep more for a client than its windows;
//! begin with a request that the client has been told to send again; begin with one that changes something before the handshake is complete;
//! wait for a client without a deadline.

#![forbid(unsafe_code)]

mod deadlines;
mod driver;
mod endpoint;
mod environment;
mod fault;
mod ids;
mod ports;
mod quic;
mod server;
mod shared;
mod stream;
#[cfg(test)]
mod tests;

pub use endpoint::QuicEndpoint;
pub use ports::{Datagrams, Ports, Spoken, promised};
pub use server::{QuicConnection, QuicOptions, QuicServer, QuicTimeouts, RequestTraits};
pub use stream::QuicStream;
