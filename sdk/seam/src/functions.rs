//! The functions that every C half calls while a request is served: those of `tutti_seam.h` that begin with `host_`.
//!
//! A host says by [`Serving`] what the pointer leads to that its C half holds, and gets the functions by [`host_functions`](crate::host_functions). None of
//! them may call into the language: the C half could leave by `longjmp`, over its frame.

use std::ffi::{c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tutti_worker::Level;
use tutti_worker::log::line;
use tutti_worker::{Exchange, page};

use crate::text;

/// The object that the C half holds a pointer to while it serves.
pub trait Serving {
    /// The exchange of the request; `None` where there is none.
    fn exchange(&mut self) -> Option<&mut Exchange>;
}

impl Serving for Exchange {
    fn exchange(&mut self) -> Option<&mut Exchange> {
        Some(self)
    }
}

/// Calls `act` with the object behind the pointer; `otherwise` where there is none, or on a panic.
///
/// # Safety
/// `serving` must be null, or point to an `S` that no other code uses while the call runs.
pub unsafe fn with<S, T>(
    serving: *mut c_void,
    otherwise: T,
    act: impl FnOnce(&mut S) -> Option<T>,
) -> T {
    // SAFETY: as the caller promises.
    let Some(serving) = (unsafe { serving.cast::<S>().as_mut() }) else {
        return otherwise;
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| act(serving)));
    outcome.ok().flatten().unwrap_or(otherwise)
}

/// As [`with`], with the exchange.
///
/// # Safety
/// As for [`with`].
unsafe fn with_exchange<S: Serving, T>(
    serving: *mut c_void,
    otherwise: T,
    act: impl FnOnce(&mut Exchange) -> T,
) -> T {
    // SAFETY: as the caller promises.
    unsafe {
        with(serving, otherwise, |serving: &mut S| {
            serving.exchange().map(act)
        })
    }
}

/// `host_write`: 0, or -1 when the client has gone.
///
/// # Safety
/// As for [`with`]; `data` points to `len` bytes.
pub unsafe fn write<S: Serving>(serving: *mut c_void, data: *const u8, len: usize) -> c_int {
    // SAFETY: as the caller promises.
    let bytes = unsafe { text::bytes(data, len) };
    // SAFETY: as the caller promises.
    unsafe {
        with_exchange::<S, _>(serving, -1, |exchange| {
            exchange.write(bytes).map_or(-1, |()| 0)
        })
    }
}

/// `host_flush`: 0, or -1 when the client has gone.
///
/// # Safety
/// As for [`with`].
pub unsafe fn flush<S: Serving>(serving: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        with_exchange::<S, _>(serving, -1, |exchange| {
            exchange.flush();
            -c_int::from(exchange.is_client_gone())
        })
    }
}

/// `host_finish`.
///
/// # Safety
/// As for [`with`].
pub unsafe fn finish<S: Serving>(serving: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { with_exchange::<S, _>(serving, (), Exchange::finish) }
}

/// `host_abort`.
///
/// # Safety
/// As for [`with`].
pub unsafe fn abort<S: Serving>(serving: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { with_exchange::<S, _>(serving, (), Exchange::abort) }
}

/// `host_answer_500`: the page of an error in place of an answer that has not been started, and its end.
///
/// # Safety
/// As for [`with`].
pub unsafe fn answer_500<S: Serving>(serving: *mut c_void) {
    // SAFETY: as the caller promises.
    unsafe { with_exchange::<S, _>(serving, (), |exchange| page::answer(exchange, 500)) }
}

/// `host_read`: bytes of the request's body from `offset` on; 0 at its end, -1 when it cannot be read.
///
/// # Safety
/// As for [`with`]; `buffer` points to `len` writable bytes that no other code uses while the call runs.
pub unsafe fn read<S: Serving>(
    serving: *mut c_void,
    offset: u64,
    buffer: *mut u8,
    len: usize,
) -> isize {
    // SAFETY: `len` writable bytes, as the caller promises.
    unsafe { std::ptr::write_bytes(buffer, 0, len) };
    // SAFETY: as above, and initialized now; no other code uses them.
    let buffer = unsafe { std::slice::from_raw_parts_mut(buffer, len) };
    // SAFETY: as the caller promises.
    unsafe {
        with_exchange::<S, _>(serving, -1, |exchange| {
            let read = exchange
                .body_seek(offset)
                .and_then(|()| exchange.body_read(buffer));
            read.map_or(-1, |count| isize::try_from(count).unwrap_or(-1))
        })
    }
}

/// `host_is_client_gone`: also 1 where there is no request.
///
/// # Safety
/// As for [`with`].
pub unsafe fn is_client_gone<S: Serving>(serving: *mut c_void) -> c_int {
    // SAFETY: as the caller promises.
    unsafe {
        with_exchange::<S, _>(serving, 1, |exchange| {
            c_int::from(exchange.is_client_gone())
        })
    }
}

/// `host_log`: a line of the daemon's log for each of the text's, at one of the levels `TUTTI_LOG_…`.
///
/// # Safety
/// `message` points to `len` bytes.
pub unsafe fn log(level: c_int, message: *const u8, len: usize) {
    let level = match level {
        1 => Level::Warn,
        2 => Level::Alert,
        _ => Level::Error,
    };
    // SAFETY: as the caller promises.
    line(level, "", unsafe { text::bytes(message, len) });
}

/// Defines the functions for C. `$serving` is the [`Serving`] whose pointer the C half holds: null, or valid and used by one thread
/// at a time, as the host's own header rules.
#[macro_export]
macro_rules! host_functions {
    ($serving:ty) => {
        #[unsafe(no_mangle)]
        extern "C" fn host_write(
            serving: *mut ::std::ffi::c_void,
            data: *const u8,
            len: usize,
        ) -> ::std::ffi::c_int {
            // SAFETY: the C half passes its pointer and living bytes (`tutti_seam.h`).
            unsafe { $crate::functions::write::<$serving>(serving, data, len) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn host_flush(serving: *mut ::std::ffi::c_void) -> ::std::ffi::c_int {
            // SAFETY: the C half passes its pointer.
            unsafe { $crate::functions::flush::<$serving>(serving) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn host_finish(serving: *mut ::std::ffi::c_void) {
            // SAFETY: the C half passes its pointer.
            unsafe { $crate::functions::finish::<$serving>(serving) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn host_abort(serving: *mut ::std::ffi::c_void) {
            // SAFETY: the C half passes its pointer.
            unsafe { $crate::functions::abort::<$serving>(serving) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn host_answer_500(serving: *mut ::std::ffi::c_void) {
            // SAFETY: the C half passes its pointer.
            unsafe { $crate::functions::answer_500::<$serving>(serving) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn host_read(
            serving: *mut ::std::ffi::c_void,
            offset: u64,
            buffer: *mut u8,
            len: usize,
        ) -> isize {
            // SAFETY: the C half passes its pointer, and room that is its own.
            unsafe { $crate::functions::read::<$serving>(serving, offset, buffer, len) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn host_is_client_gone(serving: *mut ::std::ffi::c_void) -> ::std::ffi::c_int {
            // SAFETY: the C half passes its pointer.
            unsafe { $crate::functions::is_client_gone::<$serving>(serving) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn host_log(level: ::std::ffi::c_int, message: *const u8, len: usize) {
            // SAFETY: the C half passes living bytes.
            unsafe { $crate::functions::log(level, message, len) }
        }
    };
}
