//! TLS between a socket and the bytes of a connection.
//!
//! The unbuffered interface of rustls is used: records are read into, and written from, the thread's own buffers, so that an idle
//! connection holds none, and a response that fits one is encrypted and sent in one call.
//!
//! Must never: panic on, or wait without a deadline for, bytes of a client; accept plaintext from before the handshake's end.

mod handshake;
mod session;
mod socket;

pub use handshake::HandshakeError;
pub use session::TlsRecords;
pub use socket::TlsSocket;
