//! Connections: accepts, encrypts and counts them, and reads them in their protocol. Each request on one becomes an exchange, which the
//! pipeline answers.

pub(crate) mod accept;
pub(crate) mod connection_task;
mod counted;
pub(crate) mod datagram_endpoint;
mod datagram_session;
mod datagram_socket;
mod handshake;
mod http1;
mod http2;
pub(crate) mod http3;
mod passthrough;
mod proxy_header;
mod stream_info;
mod stream_task;

pub(crate) use counted::{Counted, TcpConnection};
