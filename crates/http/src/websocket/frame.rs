//! One frame's head (RFC 6455 §5.2), read and written.

use super::fault::WebSocketError;

/// Longest payload of a control frame (§5.5).
pub const MAX_CONTROL_BYTES: usize = 125;

/// Longest head: two bytes, eight of length, four of mask.
pub const MAX_HEAD_BYTES: usize = 14;

/// The kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// More of the message that was begun.
    Continuation,
    /// A text message begins.
    Text,
    /// A binary message begins.
    Binary,
    /// The closing handshake.
    Close,
    /// Asks for a pong.
    Ping,
    /// Answers a ping, or is a keep-alive.
    Pong,
}

impl Opcode {
    /// The opcode with these four bits, if they are valid.
    pub fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            0x0 => Self::Continuation,
            0x1 => Self::Text,
            0x2 => Self::Binary,
            0x8 => Self::Close,
            0x9 => Self::Ping,
            0xa => Self::Pong,
            _ => return None,
        })
    }

    /// Its four bits.
    pub fn bits(self) -> u8 {
        match self {
            Self::Continuation => 0x0,
            Self::Text => 0x1,
            Self::Binary => 0x2,
            Self::Close => 0x8,
            Self::Ping => 0x9,
            Self::Pong => 0xa,
        }
    }

    /// True if it is permitted between the frames of a message.
    pub fn is_control(self) -> bool {
        self.bits() & 0x8 != 0
    }
}

/// A frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// The last, or only, frame of its message.
    pub is_final: bool,
    /// Its kind.
    pub opcode: Opcode,
    /// Bytes of payload.
    pub length: u64,
    /// The masking key, if it is masked.
    pub mask: Option<[u8; 4]>,
}

impl FrameHead {
    /// Reads a head and says how long it is; `None` if its end has not come. What its first bytes show to be wrong is found before the
    /// rest is there. Longer forms of a length than needed are accepted: they have one meaning, and simple clients send them.
    ///
    /// # Errors
    /// The [`WebSocketError`]s of single heads.
    pub fn parse(bytes: &[u8]) -> Result<Option<(Self, usize)>, WebSocketError> {
        let Some(&first) = bytes.first() else {
            return Ok(None);
        };
        if first & 0x70 != 0 {
            return Err(WebSocketError::ReservedBit);
        }
        let opcode = Opcode::from_bits(first & 0x0f).ok_or(WebSocketError::Opcode)?;
        let is_final = first & 0x80 != 0;
        if opcode.is_control() && !is_final {
            return Err(WebSocketError::FragmentedControl);
        }
        let Some(&second) = bytes.get(1) else {
            return Ok(None);
        };
        let short = second & 0x7f;
        if opcode.is_control() && usize::from(short) > MAX_CONTROL_BYTES {
            return Err(WebSocketError::LongControl);
        }
        let rest = bytes.get(2..).unwrap_or_default();
        let (length, rest) = match short {
            126 => match rest.split_first_chunk::<2>() {
                Some((length, rest)) => (u64::from(u16::from_be_bytes(*length)), rest),
                None => return Ok(None),
            },
            127 => match rest.split_first_chunk::<8>() {
                Some((length, rest)) => (u64::from_be_bytes(*length), rest),
                None => return Ok(None),
            },
            short => (u64::from(short), rest),
        };
        if length > i64::MAX as u64 {
            return Err(WebSocketError::Length);
        }
        let (mask, rest) = if second & 0x80 == 0 {
            (None, rest)
        } else {
            match rest.split_first_chunk::<4>() {
                Some((mask, rest)) => (Some(*mask), rest),
                None => return Ok(None),
            }
        };
        let head = Self {
            is_final,
            opcode,
            length,
            mask,
        };
        Ok(Some((head, bytes.len() - rest.len())))
    }

    /// Appends the head, its length in the shortest form.
    pub fn write(&self, out: &mut Vec<u8>) {
        let masked = if self.mask.is_some() { 0x80 } else { 0 };
        out.push(u8::from(self.is_final) << 7 | self.opcode.bits());
        match self.length {
            short @ 0..=125 => out.push(masked | short as u8),
            126..=0xffff => {
                out.push(masked | 126);
                out.extend_from_slice(&(self.length as u16).to_be_bytes());
            }
            _ => {
                out.push(masked | 127);
                out.extend_from_slice(&self.length.to_be_bytes());
            }
        }
        out.extend_from_slice(self.mask.as_ref().map_or(&[], |mask| mask.as_slice()));
    }
}

/// Appends the head of a server's frame: servers do not mask.
pub fn write_frame_head(out: &mut Vec<u8>, opcode: Opcode, is_final: bool, length: u64) {
    FrameHead {
        is_final,
        opcode,
        length,
        mask: None,
    }
    .write(out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_written_shortest_and_read_in_any_piece() {
        for (length, head) in [
            (0, 2),
            (125, 2),
            (126, 4),
            (127, 4),
            (128, 4),
            (65_535, 4),
            (65_536, 10),
            (i64::MAX as u64, 10),
        ] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let frame = FrameHead {
                    is_final: true,
                    opcode: Opcode::Binary,
                    length,
                    mask,
                };
                let mut bytes = Vec::new();
                frame.write(&mut bytes);
                let end = head + mask.map_or(0, |_| 4);
                assert_eq!(bytes.len(), end);
                for part in 0..end {
                    assert_eq!(FrameHead::parse(&bytes[..part]), Ok(None));
                }
                bytes.push(9);
                assert_eq!(FrameHead::parse(&bytes), Ok(Some((frame, end))));
            }
        }
    }

    #[test]
    fn the_example_frames_of_the_rfc() {
        // §5.7.
        let masked = FrameHead::parse(b"\x81\x85\x37\xfa\x21\x3d\x7f\x9f\x4d\x51\x58");
        let expected = FrameHead {
            is_final: true,
            opcode: Opcode::Text,
            length: 5,
            mask: Some([0x37, 0xfa, 0x21, 0x3d]),
        };
        assert_eq!(masked, Ok(Some((expected, 6))));
        let long = FrameHead::parse(b"\x82\x7f\0\0\0\0\0\x01\0\0").unwrap();
        assert_eq!(
            long.map(|(head, length)| (head.length, length)),
            Some((65_536, 10))
        );
    }

    #[test]
    fn errors_are_found_as_early_as_possible() {
        for (bytes, fault) in [
            (&b"\xc1"[..], WebSocketError::ReservedBit),
            (b"\xa1", WebSocketError::ReservedBit),
            (b"\x91", WebSocketError::ReservedBit),
            (b"\x83", WebSocketError::Opcode),
            (b"\x87", WebSocketError::Opcode),
            (b"\x8b", WebSocketError::Opcode),
            (b"\x8f", WebSocketError::Opcode),
            (b"\x09", WebSocketError::FragmentedControl),
            (b"\x08", WebSocketError::FragmentedControl),
            (b"\x89\xfe", WebSocketError::LongControl),
            (b"\x8a\x7f", WebSocketError::LongControl),
            // Issue 10: every encoding of a length that is too long is refused.
            (b"\x82\xff\x80\0\0\0\0\0\0\0", WebSocketError::Length),
        ] {
            assert_eq!(FrameHead::parse(bytes), Err(fault), "{bytes:02x?}");
        }
    }
}
