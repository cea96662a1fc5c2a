//! One request and its response.

use ::tutti_worker::{ClientGone, Exchange, ResponseHeadError};

use crate::{
    TUTTI_AGAIN, TUTTI_FAULT, TUTTI_GONE, TUTTI_INVALID, TUTTI_OK, TUTTI_SYSTEM, TUTTI_TOO_LARGE,
    buffer_in, bytes_in, fields_in, guard, tutti_field,
};

/// A request that is being served.
#[derive(Debug)]
pub struct tutti_exchange(pub(crate) Exchange);

impl tutti_exchange {
    pub(crate) fn hand_out(exchange: Option<Exchange>) -> *mut tutti_exchange {
        exchange.map_or(std::ptr::null_mut(), |exchange| {
            Box::into_raw(Box::new(tutti_exchange(exchange)))
        })
    }
}

/// The number by which tutti_worker_attention names the exchange.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_exchange_slot(exchange: *const tutti_exchange) -> u32 {
    // SAFETY: by the contract of this function.
    let exchange = unsafe { exchange.as_ref() };
    exchange.map_or(u32::MAX, |exchange| guard(u32::MAX, || exchange.0.slot()))
}

/// True if the client has gone, or the request's time is up: what is written goes nowhere.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_exchange_is_gone(exchange: *const tutti_exchange) -> bool {
    // SAFETY: by the contract of this function.
    let exchange = unsafe { exchange.as_ref() };
    exchange.is_none_or(|exchange| guard(true, || exchange.0.is_client_gone()))
}

/// Reads from the body into `target`: how many bytes, 0 at its end. Waits for a body that is still coming; an event loop gets
/// TUTTI_AGAIN instead if `wait` is false. TUTTI_GONE: the client went away in the middle; TUTTI_SYSTEM: it cannot be read.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `length` bytes from `target` are writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_body_read(
    exchange: *mut tutti_exchange,
    target: *mut u8,
    length: usize,
    wait: bool,
) -> isize {
    // SAFETY: by the contract of this function.
    let exchange = unsafe { exchange.as_ref() };
    // SAFETY: by the contract of this function.
    let target = unsafe { buffer_in(target, length) };
    let (Some(exchange), Some(target)) = (exchange, target) else {
        return TUTTI_INVALID as isize;
    };
    guard(TUTTI_FAULT as isize, || {
        let read = match wait {
            true => exchange.0.body_read(target).map(Some),
            false => exchange.0.try_read_body(target),
        };
        match read {
            Ok(Some(count)) => count as isize,
            Ok(None) => TUTTI_AGAIN as isize,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => {
                TUTTI_GONE as isize
            }
            Err(_) => TUTTI_SYSTEM as isize,
        }
    })
}

/// Sets status and fields of the response, once, before anything is written: 200 to 599, or 101 to accept a WebSocket.
/// TUTTI_INVALID: a status or a field that may not be sent, or they were set before. TUTTI_TOO_LARGE: the fields take more than 64 KiB;
/// others can be set then.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `count` fields from `fields` are readable, with all they point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_response_start(
    exchange: *mut tutti_exchange,
    status: u16,
    fields: *const tutti_field,
    count: usize,
) -> i32 {
    // SAFETY: by the contract of this function.
    unsafe {
        send_fields(exchange, fields, count, |exchange, fields| {
            exchange.start(status, fields)
        })
    }
}

/// Sends an interim (1xx) response, at once and before tutti_response_start: 103 (Early Hints), say, with a field `Link`; 102 to
/// 199, as often as wanted. A client that does not take it (`settings.http.early_hints`) gets the response only. TUTTI_INVALID: a status or a
/// field that may not be sent, or the response has been started. TUTTI_TOO_LARGE: interim responses, the head and the trailer fields of a
/// response share 16 KiB. What fails sends nothing, and the response can go on.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `count` fields from `fields` are readable, with all they point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_response_interim(
    exchange: *mut tutti_exchange,
    status: u16,
    fields: *const tutti_field,
    count: usize,
) -> i32 {
    // SAFETY: by the contract of this function.
    unsafe {
        send_fields(exchange, fields, count, |exchange, fields| {
            exchange.interim(status, fields)
        })
    }
}

/// Sets the trailer fields, between tutti_response_start and tutti_exchange_finish, with which they leave; a second call
/// replaces those of the first. They reach clients of HTTP/2 and 3, and those of HTTP/1.1 that say `TE: trailers` if the head had no
/// `Content-Length`; the head must name them in a field `Trailer`, unless the client has HTTP/2 or 3 and there is no `Content-Length`. Fields
/// that are to be known before the body (framing, authentication, cookies; RFC 9110, section 6.5.1) reach no client. TUTTI_INVALID: a field
/// that may not be sent, or the response has not been started. TUTTI_TOO_LARGE: they share 16 KiB with the head and what went before
/// it. What fails leaves those that were set before.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `count` fields from `fields` are readable, with all they point to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_response_trailers(
    exchange: *mut tutti_exchange,
    fields: *const tutti_field,
    count: usize,
) -> i32 {
    // SAFETY: by the contract of this function.
    unsafe {
        send_fields(exchange, fields, count, |exchange, fields| {
            exchange.trailers(fields)
        })
    }
}

/// Hands the caller's fields to `send`.
///
/// # Safety
/// As for the functions that the caller knows.
unsafe fn send_fields<'a>(
    exchange: *mut tutti_exchange,
    fields: *const tutti_field,
    count: usize,
    send: impl FnOnce(&Exchange, Vec<(&'a [u8], &'a [u8])>) -> Result<(), ResponseHeadError>,
) -> i32 {
    // SAFETY: by the contract of this function.
    let Some(exchange) = (unsafe { exchange.as_ref() }) else {
        return TUTTI_INVALID;
    };
    guard(TUTTI_FAULT, || {
        // SAFETY: by the contract of this function.
        let Some(fields) = (unsafe { fields_in(fields, count) }) else {
            return TUTTI_INVALID;
        };
        match send(&exchange.0, fields) {
            Ok(()) => TUTTI_OK,
            Err(ResponseHeadError::TooLarge(_)) => TUTTI_TOO_LARGE,
            Err(_) => TUTTI_INVALID,
        }
    })
}

/// Adds to the response's body: how many bytes were taken. With `wait` all of them; without, as many as there is room
/// for, and TUTTI_AGAIN when there is none. TUTTI_GONE: the response has no reader any more.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `length` bytes from `data` are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_response_write(
    exchange: *mut tutti_exchange,
    data: *const u8,
    length: usize,
    wait: bool,
) -> isize {
    // SAFETY: by the contract of this function.
    let exchange = unsafe { exchange.as_ref() };
    // SAFETY: by the contract of this function.
    let data = unsafe { bytes_in(data, length) };
    let (Some(exchange), Some(data)) = (exchange, data) else {
        return TUTTI_INVALID as isize;
    };
    guard(TUTTI_FAULT as isize, || {
        let written = match wait {
            true => exchange.0.write(data).map(|()| data.len()),
            false => exchange.0.try_write(data),
        };
        match written {
            Ok(0) if !data.is_empty() => TUTTI_AGAIN as isize,
            Ok(count) => count as isize,
            Err(ClientGone) => TUTTI_GONE as isize,
        }
    })
}

/// Sends what there is of the response, the head first.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_response_flush(exchange: *mut tutti_exchange) {
    // SAFETY: by the contract of this function.
    if let Some(exchange) = unsafe { exchange.as_ref() } {
        guard((), || exchange.0.flush());
    }
}

/// Completes the response (a 200 without fields if none was started) and ends the exchange.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended, and is not used again; nor is what it pointed to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_exchange_finish(exchange: *mut tutti_exchange) {
    if !exchange.is_null() {
        // SAFETY: from `Box::into_raw` and not used again, by the contract of this function.
        let mut exchange = unsafe { Box::from_raw(exchange) };
        guard((), move || exchange.0.finish());
    }
}

/// Gives the request up and ends the exchange: the client gets a 502, or sees that the response is not whole.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended, and is not used again; nor is what it pointed to.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_exchange_abort(exchange: *mut tutti_exchange) {
    if !exchange.is_null() {
        // SAFETY: from `Box::into_raw` and not used again, by the contract of this function.
        let mut exchange = unsafe { Box::from_raw(exchange) };
        guard((), move || exchange.0.abort());
    }
}
