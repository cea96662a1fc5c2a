//! The limits of a parser; the timeouts of `settings.http` belong to the server.

use crate::path::PathRules;

/// Limits on the cost of one message before it is refused.
///
/// The first five are `settings.http` options of the same name; the others are fixed, far above what any real client sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageLimits {
    /// Longest single line of a head (request line or field) in bytes; default 8192. A longer request line is answered 414,
    /// a longer field 431.
    pub large_header_buffer_size: usize,
    /// A whole head may take this many times [`Self::large_header_buffer_size`]; default 4, so 32 KiB. More is answered 431.
    pub large_header_buffers: usize,
    /// Drop fields whose name has a byte outside `[A-Za-z0-9-]`; default true. When false, every RFC 9110 token is kept.
    pub discard_unsafe_fields: bool,
    /// Largest request body in bytes; default 8 MiB. More is answered 413.
    pub max_body_size: u64,
    /// Most fields in one head; default 1024. More is answered 431.
    pub max_fields: usize,
    /// Bytes of chunk extensions in one body; default 16 KiB. They have no meaning here, so only abuse has more (400).
    pub max_chunk_extension_bytes: u32,
    /// Bytes of trailer fields after a chunked body; default 8192. More is answered 400: the head was not too large, so a client cannot
    /// retry with less.
    pub max_trailer_bytes: u32,
    /// The accepted paths; `None`: the path of the target is used unchanged, by a server that has no paths of its own.
    pub paths: Option<PathRules>,
}

impl MessageLimits {
    /// Limits for the responses of an application's program: the size of the body is unlimited, the head must fit the transport.
    pub fn of_a_program() -> Self {
        Self {
            large_header_buffer_size: 64 * 1024,
            large_header_buffers: 1,
            discard_unsafe_fields: false,
            max_body_size: u64::MAX,
            ..Self::default()
        }
    }

    /// Largest head in bytes.
    pub fn max_head_bytes(&self) -> usize {
        self.large_header_buffer_size
            .saturating_mul(self.large_header_buffers)
    }
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            large_header_buffer_size: 8192,
            large_header_buffers: 4,
            discard_unsafe_fields: true,
            max_body_size: 8 * 1024 * 1024,
            max_fields: 1024,
            max_chunk_extension_bytes: 16 * 1024,
            max_trailer_bytes: 8192,
            paths: Some(PathRules::default()),
        }
    }
}
