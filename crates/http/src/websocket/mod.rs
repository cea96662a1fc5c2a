//! WebSocket (RFC 6455): the handshake's fields, frames, messages, and the state of a connection.
//!
//! Pure like the rest of this crate: [`FrameDecoder`] is given what arrived and unmasks it in place, so that a message's bytes are copied
//! once, from the receive buffer to where they are going. [`handshake`](handshake::check) judges a request, [`write_frame_head`] is the way
//! out. [`WebSocketSession`] has the close handshake and the timeouts; `server` moves the bytes.
//!
//! Must never happen: a byte of a message that has not been checked being handed on (text is UTF-8 as far as it has come), two
//! messages mixed, or memory that grows with what a client announces.
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
