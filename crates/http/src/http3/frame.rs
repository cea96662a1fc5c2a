//! The heads of frames (RFC 9114 §7).

use super::varint;

/// Content.
pub const DATA: u64 = 0x0;
/// A field section.
pub const HEADERS: u64 = 0x1;
/// Cancels a push.
pub const CANCEL_PUSH: u64 = 0x3;
/// Settings.
pub const SETTINGS: u64 = 0x4;
/// A push begins.
pub const PUSH_PROMISE: u64 = 0x5;
/// The last request that will be answered.
pub const GOAWAY: u64 = 0x7;
/// The limit of pushes.
pub const MAX_PUSH_ID: u64 = 0xd;
/// A changed priority of a request (RFC 9218 §7.2).
pub const PRIORITY_UPDATE: u64 = 0xf_0700;

/// Type and length of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Its type.
    pub kind: u64,
    /// Bytes of its payload.
    pub length: u64,
}

impl FrameHead {
    /// The head at the front of `bytes` and its length; `None` if it is incomplete.
    pub fn read(bytes: &[u8]) -> Option<(Self, usize)> {
        let (kind, first) = varint::read(bytes)?;
        let (length, second) = varint::read(bytes.get(first..)?)?;
        Some((Self { kind, length }, first + second))
    }

    /// Appends it.
    pub fn write(self, out: &mut Vec<u8>) {
        varint::write(self.kind, out);
        varint::write(self.length, out);
    }

    /// True for types that HTTP/2 has and HTTP/3 does not: they are forbidden (§7.2.8).
    pub fn is_of_http2(self) -> bool {
        matches!(self.kind, 0x2 | 0x6 | 0x8 | 0x9)
    }
}

/// Collects the head of a frame, whose bytes may arrive one at a time.
#[derive(Debug, Default)]
pub(super) struct HeadBuffer {
    /// A head has two integers of at most eight bytes.
    bytes: [u8; 16],
    length: usize,
}

impl HeadBuffer {
    /// Takes bytes from the front of `input` until a head is complete.
    pub(super) fn take(&mut self, input: &mut &[u8]) -> Option<FrameHead> {
        while let Some((byte, rest)) = input.split_first() {
            *input = rest;
            *self.bytes.get_mut(self.length)? = *byte;
            self.length += 1;
            let so_far = self.bytes.get(..self.length)?;
            if let Some((head, _)) = FrameHead::read(so_far) {
                self.length = 0;
                return Some(head);
            }
        }
        None
    }

    /// True between two frames.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_found_in_any_split() {
        for (kind, length) in [
            (0, 0),
            (1, 63),
            (0x21, 64),
            (varint::LARGEST, varint::LARGEST),
        ] {
            let head = FrameHead { kind, length };
            let mut bytes = Vec::new();
            head.write(&mut bytes);
            bytes.push(0xff);
            for step in 1..=bytes.len() {
                let mut buffer = HeadBuffer::default();
                let found = bytes
                    .chunks(step)
                    .find_map(|mut piece| buffer.take(&mut piece));
                assert_eq!(found, Some(head));
                assert!(buffer.is_empty());
            }
        }
    }
}
