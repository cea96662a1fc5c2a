//! Faults of a client, with their codes (RFC 9114 §8.1, RFC 9204 §6).

/// An error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u64);

impl Code {
    /// No error: an orderly end of the connection or the stream.
    pub const NO_ERROR: Self = Self(0x100);
    /// A protocol violation without a more specific code.
    pub const GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// An internal error of the server.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// A stream of a type that this side may not open, or a duplicate of a unique one.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A critical stream was closed.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame that is not permitted here.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A malformed frame.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// Excessive load.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// An invalid or repeated identifier.
    pub const ID_ERROR: Self = Self(0x108);
    /// Invalid settings.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not begin with settings.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not processed: it may be sent again.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request or its response was cancelled.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The stream ended before the request did.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// The message is malformed.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// A field section cannot be read.
    pub const DECOMPRESSION_FAILED: Self = Self(0x200);
    /// An error in the stream of the client's encoder.
    pub const ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// An error in the stream of the client's decoder.
    pub const DECODER_STREAM_ERROR: Self = Self(0x202);
}

/// A fault, and what must end because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3Error {
    /// The connection.
    Connection(Code, &'static str),
    /// The stream alone.
    Stream(Code),
    /// The head is too large: it can be answered.
    HeadTooLarge,
}
