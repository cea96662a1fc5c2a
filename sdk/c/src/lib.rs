//! libtutti_worker: the C interface for programs that serve requests themselves.
//!
//! A program that Tutti runs as an application of type `external` is linked with this library (`include/tutti_worker.h`,
//! generated from here). Everything is `crates/worker`; here are only the C types, the checks of what C hands in, and the
//! catching of panics. What must never happen: a panic that unwinds into C.
//!
//! Ownership, for every function: what a function returns as a pointer to a struct belongs to the caller until the function
//! that is named for giving it back; bytes that it points the caller to belong to the exchange and are valid until it has
//! ended. NULL is accepted wherever a pointer is expected and answered like a failure.
//!
//! Threads: a `tutti_process` is used by one thread at a time. A `tutti_worker` and its exchanges belong to the thread that took
//! it, and to no other.

#![allow(non_camel_case_types, reason = "the names are C's")]

pub mod exchange;
pub mod message;
pub mod process;
pub mod request;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Bytes that belong to the library. Those of a request's texts are followed by a NUL that `length` does not count.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tutti_bytes {
    /// The first byte; never NULL.
    pub data: *const u8,
    /// The number of bytes.
    pub length: usize,
}

impl tutti_bytes {
    const EMPTY: tutti_bytes = tutti_bytes {
        data: c"".as_ptr().cast(),
        length: 0,
    };

    fn of(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self::EMPTY,
            _ => Self {
                data: bytes.as_ptr(),
                length: bytes.len(),
            },
        }
    }
}

/// A name and a value.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct tutti_field {
    /// The name.
    pub name: tutti_bytes,
    /// The value.
    pub value: tutti_bytes,
}

/// It worked.
pub const TUTTI_OK: i32 = 0;
/// The client has gone, or the request was given up: the response has no reader any more.
pub const TUTTI_GONE: i32 = -1;
/// Not now: attention tells when. Event loops only.
pub const TUTTI_AGAIN: i32 = -2;
/// An invalid argument (NULL, a status that does not exist, a field name that is no token), or a call in the wrong state (a second head).
pub const TUTTI_INVALID: i32 = -3;
/// The system refused: reading the body failed, or there is no such facility.
pub const TUTTI_SYSTEM: i32 = -4;
/// A fault of the library.
pub const TUTTI_FAULT: i32 = -5;
/// More fields than there is room for.
pub const TUTTI_TOO_LARGE: i32 = -6;

/// Runs the body of a function; a panic becomes `otherwise`, its text is on standard error.
fn guard<T>(otherwise: T, body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or(otherwise)
}

/// Bytes that the caller hands in; `None` for NULL with a length.
///
/// # Safety
/// `data` is NULL, or `length` bytes from it are readable and not changed during `'a`.
unsafe fn bytes_in<'a>(data: *const u8, length: usize) -> Option<&'a [u8]> {
    if length == 0 {
        return Some(&[]);
    }
    if data.is_null() || isize::try_from(length).is_err() {
        return None;
    }
    // SAFETY: not NULL, of a length that a slice may have; the rest is the contract of this function.
    Some(unsafe { std::slice::from_raw_parts(data, length) })
}

/// Fields that the caller hands in; `None` if they, a name or a value are NULL with a length.
///
/// # Safety
/// `fields` is NULL, or `count` of them are readable and not changed during `'a`, with all they point to.
unsafe fn fields_in<'a>(
    fields: *const tutti_field,
    count: usize,
) -> Option<Vec<(&'a [u8], &'a [u8])>> {
    if count == 0 {
        return Some(Vec::new());
    }
    let fits = count
        .checked_mul(size_of::<tutti_field>())
        .is_some_and(|length| isize::try_from(length).is_ok());
    if fields.is_null() || !fits {
        return None;
    }
    // SAFETY: not NULL, of a length that a slice may have; the rest is the contract of this function.
    let fields = unsafe { std::slice::from_raw_parts(fields, count) };
    // SAFETY: by the contract of this function.
    let bytes = |bytes: tutti_bytes| unsafe { bytes_in(bytes.data, bytes.length) };
    let pairs = fields.iter();
    pairs
        .map(|field| Some((bytes(field.name)?, bytes(field.value)?)))
        .collect()
}

/// A buffer that the caller hands in to be filled; `None` for NULL with a length.
///
/// # Safety
/// `data` is NULL, or `length` bytes from it are writable, initialised, and not used by any other code during `'a`.
unsafe fn buffer_in<'a>(data: *mut u8, length: usize) -> Option<&'a mut [u8]> {
    if length == 0 {
        return Some(&mut []);
    }
    if data.is_null() || isize::try_from(length).is_err() {
        return None;
    }
    // C may hand in memory that was never written.
    // SAFETY: `length` writable bytes, by the contract of this function.
    unsafe { std::ptr::write_bytes(data, 0, length) };
    // SAFETY: not NULL, of a length that a slice may have, initialised just now; the rest is the contract of this function.
    Some(unsafe { std::slice::from_raw_parts_mut(data, length) })
}
