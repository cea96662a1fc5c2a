//! WebSocket messages on the rings of a slot: the head of each piece, `spec/wire.md` §10.
//!
//! Frames are parsed once, in the router; messages cross the segment, in pieces that fit the ring.

use crate::span::RawSpan;

/// Bytes in front of each piece.
pub const HEAD_LENGTH: usize = 6;
/// Most bytes of a piece: it is published whole, so it must fit a ring of 65,536 bytes with its head.
pub const MAX_PIECE: usize = 65_536 - HEAD_LENGTH;
/// Most bytes of a close, ping or pong (RFC 6455 §5.5).
pub const MAX_CONTROL: usize = 125;
/// A producer waits until this much, or the rest of the message, fits, so that pieces are not tiny.
pub const MIN_PIECE: usize = 16_384 - HEAD_LENGTH;

/// The kind of a message; the numbers of RFC 6455 §11.8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageOpcode {
    /// UTF-8.
    Text = 1,
    /// Bytes.
    Binary = 2,
    /// The end: empty, or a code and a reason.
    Close = 8,
    /// Requires a pong.
    Ping = 9,
    /// The answer to a ping, or a keep-alive.
    Pong = 10,
}

impl MessageOpcode {
    /// The opcode of this number.
    pub fn of(number: u8) -> Option<Self> {
        Some(match number {
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// True if it concerns the connection: short, and permitted between the pieces of another message.
    pub fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// The head of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceHead {
    /// The kind of the message.
    pub opcode: MessageOpcode,
    /// True if the message ends with this piece.
    pub is_last: bool,
    /// Bytes that follow.
    pub length: usize,
}

impl PieceHead {
    /// Encodes it for a ring.
    pub fn encode(self) -> [u8; HEAD_LENGTH] {
        debug_assert!(
            self.length <= MAX_PIECE,
            "{} bytes are not a valid piece",
            self.length
        );
        let [a, b, c, d] = (self.length as u32).to_le_bytes();
        [a, b, c, d, self.opcode as u8, u8::from(self.is_last)]
    }

    /// Decodes a head; `None` if it is invalid.
    pub fn decode(bytes: [u8; HEAD_LENGTH]) -> Option<Self> {
        let [a, b, c, d, opcode, flags] = bytes;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        let opcode = MessageOpcode::of(opcode)?;
        let is_last = match flags {
            0 => false,
            1 => true,
            _ => return None,
        };
        let is_control = opcode.is_control();
        if length > MAX_PIECE || (is_control && (length > MAX_CONTROL || !is_last)) {
            return None;
        }
        Some(Self {
            opcode,
            is_last,
            length,
        })
    }

    /// Returns the number of the `rest` bytes of a message to send now, with `room` in the ring; `None`: wait for more room.
    pub(crate) fn fit(rest: usize, room: usize) -> Option<usize> {
        let room = room.checked_sub(HEAD_LENGTH)?;
        (room >= rest.min(MIN_PIECE)).then(|| rest.min(room).min(MAX_PIECE))
    }
}

/// A piece of a message that a worker sent, where it lies in the ring.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Its kind.
    pub head: PieceHead,
    /// Its bytes, in order; either may be empty.
    pub spans: [RawSpan<'a>; 2],
}

impl Piece<'_> {
    /// Appends the bytes to `target`.
    pub fn copy_to(&self, target: &mut Vec<u8>) {
        for span in &self.spans {
            span.copy_to(target);
        }
    }

    /// Bytes to consume after reading the piece: head and content.
    pub fn consumed(&self) -> usize {
        HEAD_LENGTH + self.head.length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_stable_and_checked() {
        let head = PieceHead {
            opcode: MessageOpcode::Binary,
            is_last: true,
            length: 0x1234,
        };
        assert_eq!(head.encode(), [0x34, 0x12, 0, 0, 2, 1]);
        assert_eq!(PieceHead::decode(head.encode()), Some(head));
        for bad in [
            [0, 0, 0, 0, 3, 1],
            [0, 0, 0, 0, 1, 2],
            [0, 0, 1, 0, 1, 1],
            [126, 0, 0, 0, 8, 1],
            [1, 0, 0, 0, 9, 0],
        ] {
            assert_eq!(PieceHead::decode(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn pieces_are_whole_or_large() {
        assert_eq!(PieceHead::fit(10, 16), Some(10));
        assert_eq!(PieceHead::fit(10, 15), None);
        assert_eq!(PieceHead::fit(0, 6), Some(0));
        assert_eq!(PieceHead::fit(1 << 20, 16_384), Some(MIN_PIECE));
        assert_eq!(PieceHead::fit(1 << 20, 16_383), None);
        assert_eq!(PieceHead::fit(1 << 20, 65_536), Some(MAX_PIECE));
    }
}
