//! The structures that cross between the halves: those of `csrc/tutti.h`.

/// Bytes that the other half borrows until the request ends.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    data: *const u8,
    len: usize,
}

impl Span {
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

// SAFETY: bytes that are only read; whoever sends a span answers for their life, as its maker does.
unsafe impl Send for Span {}

/// A header field (`tutti_field`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    name: Span,
    value: Span,
}

impl Field {
    /// Borrows both; the maker answers for their life.
    pub(crate) const fn new(name: &[u8], value: &[u8]) -> Self {
        Self {
            name: Span::new(name),
            value: Span::new(value),
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
    pub(crate) method: Span,
    pub(crate) target: Span,
    pub(crate) path: Span,
    pub(crate) query: Span,
    pub(crate) protocol: Span,
    pub(crate) scheme: Span,
    pub(crate) remote_address: Span,
    pub(crate) server_name: Span,
    pub(crate) remote_port: u16,
    pub(crate) server_port: u16,
    /// 0 none, 1 inline, 2 spool, 3 stream.
    pub(crate) body: u32,
    pub(crate) content_length: i64,
    pub(crate) inline_body: Span,
    pub(crate) fields: *const Field,
    pub(crate) field_count: usize,
}
