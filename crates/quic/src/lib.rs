//! HTTP/3 (RFC 9114) on a listen thread: requests over QUIC, each stream a channel of an exchange.
//!
//! `quinn-proto` implements QUIC without I/O; [`tutti_http::http3`] encodes frames and field sections. This crate is between them and the
//! server: [`Endpoint`] receives datagrams from a listen thread's UDP socket and passes them to their connections, a driver handles a
//! connection's events, and a [`Stream`] carries a request and its response. `ids` makes connection ids from which the kernel finds thread
//! and process. The server implements two traits, [`Server`] and [`Connection`].
//!
//! Must never: send more than QUIC allows to an address that is not proven; buffer more for a client than its windows; start a request that
//! GOAWAY permits the client to send again; start a request that changes something before the handshake is complete; wait for a client
//! without a deadline.

#![forbid(unsafe_code)]

mod deadlines;
mod driver;
mod endpoint;
mod fault;
mod ids;
mod outside;
mod ports;
mod quic;
mod server;
mod shared;
mod stream;
#[cfg(test)]
mod tests;

pub use endpoint::Endpoint;
pub use ports::{Datagrams, Ports, Spoken, promised};
pub use server::{Connection, Manner, Server, Terms, Timeouts};
pub use stream::Stream;
