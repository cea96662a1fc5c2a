//! HTTP/3 (RFC 9114) on a listen thread: requests over QUIC, each stream a channel of an exchange.
//!
//! `quinn-proto` implements QUIC without I/O; [`tutti_http::http3`] encodes frames and field sections. This crate is between them and the
//! server: [`QuicEndpoint`] receives datagrams from a listen thread's UDP socket and passes them to their connections, a driver handles a
//! connection's events, and a [`QuicStream`] carries a request and its response. `ids` makes connection ids from which the kernel finds thread
//! and process. The server implements two traits, [`QuicServer`] and [`QuicConnection`].
//!
//! Must never: send more than QUIC allows to an address that is not proven; buffer more for a client than its windows; start a request that
//! GOAWAY permits the client to send again; start a request that changes something before the handshake is complete; wait for a client
//! without a deadline.

#![forbid(unsafe_code)]

mod deadlines;
mod driver;
mod endpoint;
mod environment;
mod fault;
mod ids;
mod ports;
mod priorities;
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
