//! Tracks the frames of a stream that is passed through.
//!
//! A tunnel does not decode messages, but a close frame of its own may only come between two frames. Must never: take a stream that is
//! within a frame, or that is not WebSocket at all, for one between frames.

use super::{FrameHead, MAX_HEAD_BYTES, Opcode};

/// Bits that extensions use: their meaning is defined by the two endpoints.
const RESERVED_BITS: u8 = 0x70;

/// The frames of one direction, as far as they have been passed through.
#[derive(Debug, Default)]
pub struct PassedFrames {
    /// The bytes of an incomplete head.
    head: Vec<u8>,
    /// Remaining bytes of the current frame's payload.
    left: u64,
    has_closed: bool,
    /// The bytes are not valid frames.
    is_lost: bool,
}

impl PassedFrames {
    /// Notes bytes that are passed through.
    pub fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.is_lost {
            if self.left > 0 {
                let here = usize::try_from(self.left)
                    .unwrap_or(usize::MAX)
                    .min(bytes.len());
                self.left -= here as u64;
                bytes = bytes.get(here..).unwrap_or_default();
            } else if let Some((first, rest)) = bytes.split_first() {
                self.head_byte(*first);
                bytes = rest;
            }
        }
    }

    fn head_byte(&mut self, byte: u8) {
        let byte = match self.head.is_empty() {
            true => byte & !RESERVED_BITS,
            false => byte,
        };
        self.head.push(byte);
        debug_assert!(self.head.len() <= MAX_HEAD_BYTES, "a head has an end");
        match FrameHead::parse(&self.head) {
            Ok(None) => {}
            Ok(Some((frame, _))) => {
                self.left = frame.length;
                self.has_closed |= frame.opcode == Opcode::Close;
                self.head.clear();
            }
            Err(_) => self.is_lost = true,
        }
    }

    /// True if a frame may be added: the last one is complete, and was not a close frame.
    pub fn may_add(&self) -> bool {
        !self.is_lost && !self.has_closed && self.left == 0 && self.head.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(opcode: Opcode, length: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        let head = FrameHead {
            is_final: true,
            opcode,
            length: length as u64,
            mask: None,
        };
        head.write(&mut bytes);
        bytes.resize(bytes.len() + length, b'x');
        bytes
    }

    #[test]
    fn a_frame_may_be_added_between_frames_only() {
        for length in [0, 1, 125, 126, 70_000] {
            let bytes = frame(Opcode::Binary, length);
            let mut passed = PassedFrames::default();
            for (at, byte) in bytes.iter().enumerate() {
                assert_eq!(passed.may_add(), at == 0, "{length}: byte {at}");
                passed.pass(&[*byte]);
            }
            assert!(passed.may_add(), "{length}");
            passed.pass(&[bytes.clone(), bytes].concat());
            assert!(passed.may_add(), "{length}, in one piece");
        }
    }

    #[test]
    fn nothing_is_added_after_a_close_or_outside_of_websocket() {
        let mut passed = PassedFrames::default();
        passed.pass(&frame(Opcode::Close, 2));
        assert!(!passed.may_add());
        let mut passed = PassedFrames::default();
        passed.pass(b"SSH-2.0-OpenSSH\r\n");
        assert!(!passed.may_add());
    }

    #[test]
    fn bits_of_extensions_are_accepted() {
        let mut bytes = frame(Opcode::Text, 3);
        if let Some(first) = bytes.first_mut() {
            *first |= 0x40;
        }
        let mut passed = PassedFrames::default();
        passed.pass(&bytes);
        assert!(passed.may_add());
    }
}
