//! Status codes of RFC 6455 §7.4.1 and of IANA's registry that the server itself uses.

/// Done.
pub const NORMAL: u16 = 1000;
/// The server stops, or the page is left.
pub const GOING_AWAY: u16 = 1001;
/// The peer broke the protocol.
pub const PROTOCOL_ERROR: u16 = 1002;
/// Never sent: the connection ended without a close frame.
pub const ABNORMAL: u16 = 1006;
/// Text that is not UTF-8.
pub const INVALID_DATA: u16 = 1007;
/// A message that is too long.
pub const TOO_BIG: u16 = 1009;
/// An error on the server.
pub const INTERNAL_ERROR: u16 = 1011;
/// The application is restarted: connect again.
pub const SERVICE_RESTART: u16 = 1012;
