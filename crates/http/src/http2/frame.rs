//! Frames of HTTP/2 (RFC 9113 §4.1, §6): their numbers, and their heads.

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 9;

/// The largest payload that every peer accepts (§4.2).
pub const MOST_PAYLOAD: usize = 16 * 1024;

/// Types.
pub const DATA: u8 = 0;
/// See [`DATA`].
pub const HEADERS: u8 = 1;
/// See [`DATA`].
pub const PRIORITY: u8 = 2;
/// See [`DATA`].
pub const RST_STREAM: u8 = 3;
/// See [`DATA`].
pub const SETTINGS: u8 = 4;
/// See [`DATA`].
pub const PUSH_PROMISE: u8 = 5;
/// See [`DATA`].
pub const PING: u8 = 6;
/// See [`DATA`].
pub const GOAWAY: u8 = 7;
/// See [`DATA`].
pub const WINDOW_UPDATE: u8 = 8;
/// See [`DATA`].
pub const CONTINUATION: u8 = 9;
/// RFC 9218 §7.1.
pub const PRIORITY_UPDATE: u8 = 0x10;

/// Flags.
pub const END_STREAM: u8 = 0x1;
/// The flag of an answered SETTINGS or PING.
pub const ACK: u8 = 0x1;
/// See [`END_STREAM`].
pub const END_HEADERS: u8 = 0x4;
/// See [`END_STREAM`].
pub const PADDED: u8 = 0x8;
/// HEADERS has a priority of RFC 7540, which has no meaning any more.
pub const HAS_PRIORITY: u8 = 0x20;

/// The head of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Bytes of the payload.
    pub length: usize,
    /// Its type.
    pub kind: u8,
    /// See [`END_STREAM`].
    pub flags: u8,
    /// Its stream; 0 is the connection.
    pub stream: u32,
}

impl FrameHead {
    /// Reads the head of a frame.
    pub fn read(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [high, middle, low, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, high, middle, low]) as usize,
            kind,
            flags,
            // The first bit is reserved.
            stream: u32::from_be_bytes(stream) & 0x7fff_ffff,
        }
    }

    /// Writes it.
    pub fn bytes(self) -> [u8; HEAD_BYTES] {
        debug_assert!(self.length < 1 << 24, "a length has 24 bits");
        let [_, high, middle, low] = (self.length as u32).to_be_bytes();
        let [a, b, c, d] = self.stream.to_be_bytes();
        [high, middle, low, self.kind, self.flags, a, b, c, d]
    }
}
