//! Client connections below HTTP: bytes in, bytes out, and deadlines.
//!
//! Owns everything about a connection before a request is read from it: listeners and accepted connections, registered sockets, buffers,
//! output with the part that waits on disk, deadlines, counters. The server builds its connections from these parts.
//!
//! Depends on no request, route or configuration: limits and times are passed in. The head of a response on an HTTP/2 stream is passed
//! through the output unchanged, for the stream to send. The dependencies between files point one way.
//!
//! Must never: wait for a client without a deadline; keep a buffer for a connection that has no bytes; lose or reorder a byte of an output.

#![forbid(unsafe_code)]

pub mod accept;
pub mod address;
pub mod bandwidths;
pub mod buffer_space;
pub mod buffers;
pub mod client_hello;
pub mod clock;
pub mod connection_limits;
pub mod connections;
pub mod counters;
pub mod departure;
pub mod listener;
pub mod output;
pub mod pace;
pub mod pipe;
pub mod proxy_header;
pub mod response_buffers;
pub mod send_deadline;
pub mod sendfile;
pub mod socket;
pub mod tls;
pub mod transport;
pub mod udp;
