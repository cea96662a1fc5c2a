//! The structures that cross between the halves: those of `csrc/tutti.h`.

/// Bytes that the other half borrows until the request ends.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    data: *const u8,
    len: usize,
}

impl Bytes {
    /// Borrows `bytes`; the maker answers for their life.
    pub(crate) const fn new(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The state as C passes it.
    pub(crate) const fn given(data: *const u8, len: usize) -> Self {
        Self { data, len }
    }

    pub(crate) const fn as_slice<'a>(&self) -> &'a [u8] {
        if self.len == 0 {
            return &[];
        }
        // SAFETY: made by `new` from a slice that lives until the request ends, or by the C half from memory that lives as long as
        // the call it is passed in.
        unsafe { std::slice::from_raw_parts(self.data, self.len) }
    }
}

// SAFETY: bytes that are only read; whoever sends a bytes answers for their life, as its maker does.
unsafe impl Send for Bytes {}

/// A header field (`tutti_field`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    name: Bytes,
    value: Bytes,
}

impl Field {
    /// Borrows both; the maker answers for their life.
    pub(crate) const fn new(name: &[u8], value: &[u8]) -> Self {
        Self {
            name: Bytes::new(name),
            value: Bytes::new(value),
        }
    }

    pub(crate) const fn name(&self) -> &[u8] {
        self.name.as_slice()
    }

    pub(crate) const fn value(&self) -> &[u8] {
        self.value.as_slice()
    }
}

/// `tutti_request`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawRequest {
    pub(crate) method: Bytes,
    pub(crate) target: Bytes,
    pub(crate) path: Bytes,
    pub(crate) query: Bytes,
    pub(crate) protocol: Bytes,
    pub(crate) scheme: Bytes,
    pub(crate) remote_address: Bytes,
    pub(crate) server_name: Bytes,
    pub(crate) remote_port: u16,
    pub(crate) server_port: u16,
    /// 0 none, 1 inline, 2 spool, 3 stream.
    pub(crate) body: u32,
    pub(crate) content_length: i64,
    pub(crate) inline_body: Bytes,
    pub(crate) fields: *const Field,
    pub(crate) field_count: usize,
}
