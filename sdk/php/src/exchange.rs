//! The seam between PHP and the server: one request, its body and its response.
//!
//! `serve` speaks only to this trait. The worker's `PhpRequest` implements it for production, the test driver for tests. Nothing here
//! may call into PHP: a bailout (`longjmp`) must never cross a Rust frame.

use std::io;

pub use crate::abi::PhpField;

/// The client has gone, or the response has no reader any more. PHP sees `connection_aborted()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestAborted;

/// One request being served. The byte slices stay valid and unchanged until the exchange is finished: not longer.
pub trait PhpRequest {
    /// Request method, as sent.
    fn method(&self) -> &[u8];
    /// Request target as sent: path and query, undecoded.
    fn target(&self) -> &[u8];
    /// Path, decoded and normalised; begins with a slash.
    fn path(&self) -> &[u8];
    /// Query without the question mark; empty when there is none.
    fn query(&self) -> &[u8];
    /// Minor version of HTTP/1; 2 stands for HTTP/2, 3 for HTTP/3.
    fn protocol(&self) -> HttpProtocol;
    /// The request came over TLS, or a trusted proxy says so.
    fn is_tls(&self) -> bool;
    /// Address of the client, without port.
    fn remote_address(&self) -> &[u8];
    /// Port of the client; 0 for Unix sockets.
    fn remote_port(&self) -> u16;
    /// Address the connection was accepted on.
    fn local_address(&self) -> &[u8];
    /// Port the connection was accepted on; 0 for Unix sockets.
    fn local_port(&self) -> u16;
    /// Name from the `Host` field, without port.
    fn server_name(&self) -> &[u8];
    /// TARGET in `applications/NAME/TARGET`; empty for none.
    fn target_name(&self) -> &[u8];
    /// The user that the server has authenticated; empty when there is none.
    fn user(&self) -> &[u8];
    /// Length of the body, if it is known.
    fn content_length(&self) -> Option<u64>;
    /// There is a body, or may be one.
    fn has_body(&self) -> bool;
    /// Header fields in order, as sent.
    fn visit_fields(&self, visit: &mut dyn FnMut(&[u8], &[u8]));

    /// Reads the next part of the body; 0 is its end.
    ///
    /// # Errors
    /// When the client went before it had sent all.
    fn body_read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Sends the head. Called once, before any write.
    fn start(&mut self, status: u16, fields: &[PhpField]);
    /// Sends a part of the body.
    fn write(&mut self, data: &[u8]) -> Result<(), RequestAborted>;
    /// Hands what is written to the client now.
    fn flush(&mut self) -> Result<(), RequestAborted>;
    /// Ends the response.
    fn finish(&mut self);
    /// The response has no reader any more.
    fn is_client_gone(&self) -> bool;
}

/// HTTP version of the request, for `SERVER_PROTOCOL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpProtocol {
    /// HTTP/1.0
    Http10,
    /// HTTP/1.1
    Http11,
    /// HTTP/2
    Http2,
    /// HTTP/3
    Http3,
}

impl HttpProtocol {
    /// As `SERVER_PROTOCOL` spells it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Http10 => "HTTP/1.0",
            Self::Http11 => "HTTP/1.1",
            Self::Http2 => "HTTP/2.0",
            Self::Http3 => "HTTP/3.0",
        }
    }
}
