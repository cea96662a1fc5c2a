//! The numbers of HTTP/2's frames (RFC 9113 §4.1, §6), for code that inspects frames on their way to the library.

/// Bytes of a frame's head.
pub const HEAD_BYTES: usize = 9;

/// Types.
pub const DATA: u8 = 0;
/// See [`DATA`].
pub const HEADERS: u8 = 1;
/// See [`DATA`].
pub const RST_STREAM: u8 = 3;
/// See [`DATA`].
pub const GOAWAY: u8 = 7;
/// See [`DATA`].
pub const CONTINUATION: u8 = 9;

/// Flags.
pub const END_STREAM: u8 = 0x1;
/// See [`END_STREAM`].
pub const END_HEADERS: u8 = 0x4;
/// See [`END_STREAM`].
pub const PADDED: u8 = 0x8;
/// See [`END_STREAM`].
pub const PRIORITY: u8 = 0x20;
