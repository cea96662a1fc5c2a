//! The faults of a peer.

use super::close_code;

/// A peer's fault; the connection is failed with [`WebSocketError::close_code`] (RFC 6455 §7.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WebSocketError {
    /// A reserved bit is set though no extension was negotiated (§5.2).
    #[error("a reserved bit is set")]
    ReservedBit,
    /// An unknown opcode (§5.2).
    #[error("unknown opcode")]
    Opcode,
    /// A fragmented control frame (§5.5).
    #[error("a fragmented control frame")]
    FragmentedControl,
    /// A control frame of more than 125 bytes (§5.5).
    #[error("a control frame of more than 125 bytes")]
    LongControl,
    /// A client's frame without mask, or a server's with one (§5.1).
    #[error("masked where it must not be, or the reverse")]
    Mask,
    /// A continuation with nothing to continue (§5.4).
    #[error("a continuation of no message")]
    Continuation,
    /// A new message before the end of the last (§5.4).
    #[error("a message within a message")]
    Interleaved,
    /// A close frame whose payload is one byte, or whose code must not be sent (§5.5.1, §7.4).
    #[error("an invalid close code")]
    CloseCode,
    /// Text, or the reason of a close frame, that is not UTF-8 (§8.1).
    #[error("text that is not UTF-8")]
    NotUtf8,
    /// A length whose most significant bit is set (§5.2).
    #[error("a frame of 2^63 bytes or more")]
    Length,
    /// A message longer than allowed (§10.4).
    #[error("a message longer than `max_frame_size`")]
    TooLong,
    /// No byte arrived for as long as a connection may be silent.
    #[error("nothing received for `read_timeout`")]
    Silent,
}

impl WebSocketError {
    /// The status the connection is closed with (§7.4.1).
    pub fn close_code(self) -> u16 {
        match self {
            Self::NotUtf8 => close_code::INVALID_DATA,
            Self::TooLong => close_code::TOO_BIG,
            Self::Silent => close_code::GOING_AWAY,
            _ => close_code::PROTOCOL_ERROR,
        }
    }

    /// True if it is not an error of the peer, but a limit of the configuration.
    pub fn is_limit(self) -> bool {
        matches!(self, Self::TooLong | Self::Silent)
    }
}
