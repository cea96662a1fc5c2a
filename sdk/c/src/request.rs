//! Reading a request.

use ::tutti_worker::WireRequestView;

use crate::exchange::tutti_exchange;
use crate::{bytes_in, guard, tutti_bytes, tutti_field};

/// A text of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tutti_text {
    /// `GET`.
    TUTTI_METHOD = 0,
    /// As received: `/a%20b?c`.
    TUTTI_TARGET = 1,
    /// Decoded and normalised: `/a b`.
    TUTTI_PATH = 2,
    /// The part after the question mark.
    TUTTI_QUERY = 3,
    /// `http` or `https`.
    TUTTI_SCHEME = 4,
    /// The client's address, without port.
    TUTTI_REMOTE_ADDRESS = 5,
    /// The address the request came in at, without port.
    TUTTI_LOCAL_ADDRESS = 6,
    /// The host the client asked for, without port, in lower case.
    TUTTI_SERVER_NAME = 7,
    /// The last part of `applications/NAME/TARGET`.
    TUTTI_TARGET_NAME = 8,
    /// The user that `authenticate` has found.
    TUTTI_USER = 9,
}

/// A number of a request.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tutti_number {
    /// 0 for HTTP/1.0, 1 for HTTP/1.1, 2 for HTTP/2, 3 for HTTP/3.
    TUTTI_VERSION_MINOR = 0,
    /// 1 on an encrypted connection.
    TUTTI_TLS = 1,
    /// The client's port; 0 on UNIX sockets.
    TUTTI_REMOTE_PORT = 2,
    /// The port the request came in at; 0 on UNIX sockets.
    TUTTI_LOCAL_PORT = 3,
    /// The body's length; -1 where it is not known.
    TUTTI_CONTENT_LENGTH = 4,
    /// The number of fields.
    TUTTI_FIELDS = 5,
    /// 1 if it opens a WebSocket.
    TUTTI_WEBSOCKET = 6,
}

/// # Safety
/// `exchange` is NULL or live, and this thread's.
unsafe fn view<'a>(exchange: *const tutti_exchange) -> Option<WireRequestView<'a>> {
    // SAFETY: by the contract of this function.
    let exchange = unsafe { exchange.as_ref() }?;
    Some(exchange.0.request())
}

/// A text of the request, followed by a NUL; empty where there is none, and for a `what` (of tutti_text) that does not exist.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_request_text(
    exchange: *const tutti_exchange,
    what: u32,
) -> tutti_bytes {
    // SAFETY: by the contract of this function.
    let Some(request) = (unsafe { view(exchange) }) else {
        return tutti_bytes::EMPTY;
    };
    guard(tutti_bytes::EMPTY, || {
        let texts = [
            WireRequestView::method,
            WireRequestView::target,
            WireRequestView::path,
            WireRequestView::query,
            WireRequestView::scheme,
            WireRequestView::remote_address,
            WireRequestView::local_address,
            WireRequestView::server_name,
            WireRequestView::target_name,
            WireRequestView::user,
        ];
        match texts.get(what as usize) {
            Some(text) => tutti_bytes::of(text(&request)),
            None => tutti_bytes::EMPTY,
        }
    })
}

/// A number of the request; -1 for a `what` (of tutti_number) that does not exist.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_request_number(exchange: *const tutti_exchange, what: u32) -> i64 {
    // SAFETY: by the contract of this function.
    let Some(request) = (unsafe { view(exchange) }) else {
        return -1;
    };
    guard(-1, || match what {
        0 => request.version_minor().into(),
        1 => request.tls().into(),
        2 => request.remote_port().into(),
        3 => request.local_port().into(),
        4 => request
            .content_length()
            .and_then(|length| i64::try_from(length).ok())
            .unwrap_or(-1),
        5 => request.field_count() as i64,
        6 => request.is_websocket().into(),
        _ => -1,
    })
}

/// Field number `index`, in order, from 0; name and value are followed by a NUL. False when there is no such field.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `field` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_request_field(
    exchange: *const tutti_exchange,
    index: usize,
    field: *mut tutti_field,
) -> bool {
    // SAFETY: by the contract of this function.
    let request = unsafe { view(exchange) };
    // SAFETY: by the contract of this function.
    let (Some(request), Some(target)) = (request, unsafe { field.as_mut() }) else {
        return false;
    };
    let found = guard(None, || request.fields().nth(index));
    if let Some((name, value)) = found {
        *target = tutti_field {
            name: tutti_bytes::of(name),
            value: tutti_bytes::of(value),
        };
    }
    found.is_some()
}

/// The value of the first field of that name, in any case, followed by a NUL; false when there is none.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `length` bytes from `name` are readable; `value` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_request_find(
    exchange: *const tutti_exchange,
    name: *const u8,
    length: usize,
    value: *mut tutti_bytes,
) -> bool {
    // SAFETY: by the contract of this function.
    let request = unsafe { view(exchange) };
    // SAFETY: by the contract of this function.
    let name = unsafe { bytes_in(name, length) };
    // SAFETY: by the contract of this function.
    let (Some(request), Some(name), Some(target)) = (request, name, unsafe { value.as_mut() })
    else {
        return false;
    };
    let found = guard(None, || request.field(name));
    if let Some(value) = found {
        *target = tutti_bytes::of(value);
    }
    found.is_some()
}
