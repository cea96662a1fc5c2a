//! Client connections below HTTP: bytes in, bytes out, and until when.
//!
//! Owns everything that a connection is before anybody reads a request from it: listeners and what they accept, watched sockets, buffers,
//! output with the part of it that waits on disk, deadlines, counters. The server builds its connections from these parts.
//!
//! Sees no request, no route and no configuration: limits and times are handed in. The head of a response on a stream of HTTP/2 is carried
//! in the output as it is, for the stream to send. Inside, arrows between the files point one way.
//!
//! Must never: wait for a client without a deadline; keep a buffer for a connection that has no bytes; lose or reorder a byte of an output.

#![forbid(unsafe_code)]

pub mod accept;
pub mod address;
pub mod buffer_space;
pub mod buffers;
pub mod clock;
pub mod connection_limits;
pub mod connections;
pub mod counters;
pub mod departure;
pub mod listener;
pub mod output;
pub mod pipe;
pub mod proxy_header;
pub mod response_buffers;
pub mod send_deadline;
pub mod sendfile;
pub mod socket;
pub mod tls;
pub mod transport;
pub mod udp;
