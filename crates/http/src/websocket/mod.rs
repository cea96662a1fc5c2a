//! WebSocket (RFC 6455): the handshake's fields, frames, messages, and the state of a connection.
//!
//! Pure like the rest of this crate: [`FrameDecoder`] unmasks received bytes in place, so that a message's bytes are copied once, from the
//! receive buffer to their destination. [`handshake`](handshake::check) checks a request, [`write_frame_head`] encodes. [`WebSocketSession`] has the
//! close handshake and the timeouts; `server` moves the bytes.
//!
//! Must never happen: an unchecked byte of a message is passed on (text is UTF-8 as far as it has arrived), two messages are mixed, or
//! memory grows with what a client announces.
//!
//! No extension is negotiated: one that needs the reserved bits is never accepted, so a set bit is a fault.

#[cfg(test)]
mod client_frame;
mod close;
pub mod close_code;
mod decoder;
mod fault;
mod frame;
mod frames;
pub mod handshake;
mod mask;
mod session;
mod utf8;

pub use close::Close;
pub use decoder::{FrameDecoder, FrameEvent, MessageKind, Role};
pub use fault::WebSocketError;
pub use frame::{FrameHead, MAX_CONTROL_BYTES, MAX_HEAD_BYTES, Opcode, write_frame_head};
pub use frames::PassedFrames;
pub use mask::apply_mask;
pub use session::{MessageHandler, Next, SessionOptions, Wants, WebSocketSession};
pub use utf8::Utf8;
