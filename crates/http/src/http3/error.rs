//! Faults of a client, with the number that tells it (RFC 9114 §8.1, RFC 9204 §6).

/// The number of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u64);

impl Code {
    /// No error: the connection or the stream ends in good order.
    pub const NO_ERROR: Self = Self(0x100);
    /// The rules are broken in a way that has no number of its own.
    pub const GENERAL_PROTOCOL_ERROR: Self = Self(0x101);
    /// It is the server's fault.
    pub const INTERNAL_ERROR: Self = Self(0x102);
    /// A stream of a kind that this side may not open, or a second one of which there is one.
    pub const STREAM_CREATION_ERROR: Self = Self(0x103);
    /// A stream ended that has to stay open.
    pub const CLOSED_CRITICAL_STREAM: Self = Self(0x104);
    /// A frame where it may not be.
    pub const FRAME_UNEXPECTED: Self = Self(0x105);
    /// A frame that is not what its kind has to be.
    pub const FRAME_ERROR: Self = Self(0x106);
    /// The client makes work without asking for anything.
    pub const EXCESSIVE_LOAD: Self = Self(0x107);
    /// A number that may not be, or a second time.
    pub const ID_ERROR: Self = Self(0x108);
    /// Settings that may not be.
    pub const SETTINGS_ERROR: Self = Self(0x109);
    /// The control stream does not begin with settings.
    pub const MISSING_SETTINGS: Self = Self(0x10a);
    /// The request was not looked at: it may be sent again.
    pub const REQUEST_REJECTED: Self = Self(0x10b);
    /// The request, or its answer, is not wanted any more.
    pub const REQUEST_CANCELLED: Self = Self(0x10c);
    /// The stream ended before the request did.
    pub const REQUEST_INCOMPLETE: Self = Self(0x10d);
    /// The message is malformed.
    pub const MESSAGE_ERROR: Self = Self(0x10e);
    /// A field section cannot be read.
    pub const DECOMPRESSION_FAILED: Self = Self(0x200);
    /// The stream of the client's encoder says what it may not.
    pub const ENCODER_STREAM_ERROR: Self = Self(0x201);
    /// The stream of the client's decoder says what it may not.
    pub const DECODER_STREAM_ERROR: Self = Self(0x202);
}

/// A fault, and what has to end because of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Http3Error {
    /// The connection.
    Connection(Code, &'static str),
    /// The stream alone.
    Stream(Code),
    /// The head is larger than it may be: the client can be answered.
    HeadTooLarge,
}
