//! Texts and bytes that C passes.

use std::ffi::{CStr, c_char};

use crate::{Bytes, Field};

/// Takes over a text that C has allocated with malloc(); `None` for a null pointer.
///
/// # Safety
/// `text` must be null, or a string with a NUL at its end from malloc() that no other code uses.
pub unsafe fn take(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: not null, so a string with a NUL at its end, as the caller promises.
    let copy = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: from malloc(), ours, and not used again.
    unsafe { libc::free(text.cast()) };
    Some(copy)
}

/// The bytes that C passes for the length of a call.
///
/// # Safety
/// `data` must point to `len` bytes that live until the call returns.
pub unsafe fn bytes<'a>(data: *const u8, len: usize) -> &'a [u8] {
    Bytes::given(data, len).as_slice()
}

/// The fields that C passes for the length of a call.
///
/// # Safety
/// `fields` must point to `count` fields that live, with all that they point to, until the call returns.
pub unsafe fn fields<'a>(fields: *const Field, count: usize) -> &'a [Field] {
    if count == 0 {
        return &[];
    }
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(fields, count) }
}
