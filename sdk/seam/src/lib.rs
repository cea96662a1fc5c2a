//! The structures that cross between the halves of a language host that is C below and Rust above: those of `include/tutti_seam.h`.
//!
//! Owns how a request looks to the C half, `PATH_INFO` included, and the functions that every C half calls. Perl's and Ruby's hosts use
//! it. What must never happen: bytes that are read after their request has ended; the code that makes a [`Bytes`] answers for their life.

pub mod functions;
mod request;
pub mod taken_over;
pub mod text;

pub use request::Memory;

/// Bytes that the other half borrows until the request ends.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Bytes {
    data: *const u8,
    len: usize,
}

impl Bytes {
    /// Borrows `bytes`; the maker answers for their life.
    pub const fn new(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// Bytes as C passes them.
    pub const fn given(data: *const u8, len: usize) -> Self {
        Self { data, len }
    }

    /// The bytes, for as long as their maker has said.
    pub const fn as_slice<'a>(&self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: made by `new` from a slice that lives until the request ends, or by the C half from memory that lives as long as
        // the call it is passed in.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

// SAFETY: bytes that are only read; the code that sends them answers for their life, as their maker does.
unsafe impl Send for Bytes {}

/// A header field (`tutti_field`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct Field {
    name: Bytes,
    value: Bytes,
}

impl Field {
    /// Borrows both; the maker answers for their life.
    pub const fn new(name: &[u8], value: &[u8]) -> Self {
        Self {
            name: Bytes::new(name),
            value: Bytes::new(value),
        }
    }

    /// Its name.
    pub const fn name(&self) -> &[u8] {
        self.name.as_slice()
    }

    /// Its value.
    pub const fn value(&self) -> &[u8] {
        self.value.as_slice()
    }

    /// True if it can be sent: the name is a token (RFC 9110 section 5.6.2), the value has no line break and no NUL.
    pub fn is_sound(&self) -> bool {
        tutti_worker::is_valid_field(self.name(), self.value())
    }
}

/// A request (`tutti_request`).
#[repr(C)]
#[derive(Debug)]
pub struct RawRequest {
    /// Method, as sent.
    pub method: Bytes,
    /// Target, as the client asked for it.
    pub target: Bytes,
    /// The path that was routed, decoded.
    pub path: Bytes,
    /// The same, encoded.
    pub encoded_path: Bytes,
    /// Query, without its question mark.
    pub query: Bytes,
    /// `HTTP/1.1`.
    pub protocol: Bytes,
    /// `http` or `https`.
    pub scheme: Bytes,
    /// Address of the client.
    pub remote_address: Bytes,
    /// Host that was asked for, else the address that was connected to.
    pub server_name: Bytes,
    /// The user that the server has authenticated; empty when there is none.
    pub user: Bytes,
    /// Port of the client.
    pub remote_port: u16,
    /// Port that was connected to.
    pub server_port: u16,
    /// 0 none, 1 inline, 2 spool, 3 stream.
    pub body: u32,
    /// 1 for a handshake of WebSocket.
    pub is_websocket: u32,
    /// -1: not known.
    pub content_length: i64,
    /// The body, where it lies in the slot.
    pub inline_body: Bytes,
    /// Its fields.
    pub fields: *const Field,
    /// The number of them.
    pub field_count: usize,
}
