//! The data that both halves of the host know (`csrc/tutti.h`).

use std::{
    ffi::{c_char, c_int, c_void},
    slice,
};

use crate::script::Script;

/// Bytes that the other half borrows until the request ends.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bytes {
    pub(crate) data: *const u8,
    pub(crate) len: usize,
}

impl Bytes {
    /// Borrows `bytes`; the maker answers for their life.
    #[must_use]
    pub(crate) const fn new(bytes: &[u8]) -> Self {
        Self {
            data: bytes.as_ptr(),
            len: bytes.len(),
        }
    }

    /// The bytes.
    #[must_use]
    pub(crate) const fn as_slice<'a>(&self) -> &'a [u8] {
        // SAFETY: made by `new` from a slice that lives until the request ends, or by the C half from memory that lives as long as the
        // call it is passed in.
        unsafe { slice::from_raw_parts(self.data, self.len) }
    }

    /// No bytes.
    #[must_use]
    pub(crate) const fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// `tutti_variable`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Variable {
    /// Name of the `$_SERVER` entry.
    pub name: Bytes,
    /// Its value.
    pub value: Bytes,
    /// Permanent string of the name, or null.
    pub key: *mut c_void,
    /// Permanent string of the value, or null.
    pub constant: *mut c_void,
}

/// A header field, name and value (`tutti_field`).
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PhpField {
    pub(crate) name: Bytes,
    pub(crate) value: Bytes,
}

impl PhpField {
    /// Borrows both; the maker answers for their life.
    pub(crate) const fn new(name: &[u8], value: &[u8]) -> Self {
        Self {
            name: Bytes::new(name),
            value: Bytes::new(value),
        }
    }

    /// Field name, as the script spelled it.
    #[must_use]
    pub const fn name(&self) -> &[u8] {
        self.name.as_slice()
    }

    /// Field value, without space around it.
    #[must_use]
    pub const fn value(&self) -> &[u8] {
        self.value.as_slice()
    }
}

/// `tutti_script`.
#[repr(C)]
pub(crate) struct ScriptFile {
    file: *const c_char,
    len: usize,
    directory: *const c_char,
    directory_number: u64,
    directory_look: u64,
    root_len: usize,
}

impl ScriptFile {
    /// Borrows the script; the maker answers for its life.
    pub(crate) fn new(script: &Script) -> Self {
        Self {
            file: script.file.as_ptr(),
            len: script.file.count_bytes(),
            directory: script.directory.path.as_ptr(),
            directory_number: script.directory.number,
            directory_look: script.directory.look.get(),
            root_len: script.directory.root_len,
        }
    }
}

/// `tutti_request`.
#[repr(C)]
pub(crate) struct Request {
    /// NUL-terminated, as all strings here.
    pub method: *const c_char,
    /// Target as sent.
    pub target: *const c_char,
    /// Query, not null.
    pub query: *const c_char,
    /// Script.
    pub script: ScriptFile,
    /// Or null.
    pub content_type: *const c_char,
    /// Or null.
    pub cookie: *const c_char,
    /// Or null.
    pub authorization: *const c_char,
    /// Zero when unknown, as in FPM.
    pub content_length: i64,
    /// 1000 or 1001.
    pub protocol: c_int,
    /// Not 0 when there is, or may be, a body.
    pub has_body: c_int,
    /// Seconds since the epoch.
    pub time: f64,
}
