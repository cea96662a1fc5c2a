//! TLS between the socket and HTTP: a channel that encrypts. Its beginning is [`handshake`](crate::handshake).
//!
//! rustls' interface without buffers is used directly: records are read into, and written from, the thread's own buffers, so that an
//! idle connection holds none, and a response that fits one is encrypted and sent in one call.
//!
//! Must never: panic or wait without a deadline on what a client sends; take plaintext from before the handshake's end.

pub(crate) mod channel;
pub(crate) mod session;
