//! Messages of a WebSocket, after tutti_response_start with 101.

use ::tutti_worker::{ClientGone, Incoming, Message, MessageOpcode};

use crate::exchange::tutti_exchange;
use crate::{
    TUTTI_AGAIN, TUTTI_FAULT, TUTTI_GONE, TUTTI_INVALID, TUTTI_OK, bytes_in, guard, tutti_bytes,
};

/// The kind of a message: the numbers of RFC 6455.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum tutti_opcode {
    /// UTF-8, checked by the server.
    TUTTI_MESSAGE_TEXT = 1,
    /// Bytes.
    TUTTI_MESSAGE_BINARY = 2,
    /// Empty, or two bytes of code (big-endian) and a reason in UTF-8.
    TUTTI_MESSAGE_CLOSE = 8,
    /// The server answers the client's itself.
    TUTTI_MESSAGE_PING = 9,
    /// The answer to a ping of the program's.
    TUTTI_MESSAGE_PONG = 10,
}

/// A message from the client.
#[derive(Debug)]
pub struct tutti_message {
    opcode: u8,
    bytes: Vec<u8>,
}

/// The client's next message, in `*message`, to be given back by tutti_message_free. Waits for it; without `wait` TUTTI_AGAIN says
/// that none is whole yet. TUTTI_GONE: there will be none any more; finish or abort the exchange.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `message` is NULL or writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_message_next(
    exchange: *mut tutti_exchange,
    wait: bool,
    message: *mut *mut tutti_message,
) -> i32 {
    // SAFETY: by the contract of this function.
    let exchange = unsafe { exchange.as_ref() };
    // SAFETY: by the contract of this function.
    let target = unsafe { message.as_mut() };
    let (Some(exchange), Some(target)) = (exchange, target) else {
        return TUTTI_INVALID;
    };
    *target = std::ptr::null_mut();
    let incoming = guard(None, || {
        Some(match wait {
            true => exchange
                .0
                .next_message()
                .map_or(Incoming::Over, Incoming::Message),
            false => exchange.0.try_next_message(),
        })
    });
    let (opcode, bytes) = match incoming {
        None => return TUTTI_FAULT,
        Some(Incoming::Nothing) => return TUTTI_AGAIN,
        Some(Incoming::Over) => return TUTTI_GONE,
        Some(Incoming::Message(message)) => match message {
            Message::Text(bytes) => (MessageOpcode::Text, bytes),
            Message::Binary(bytes) => (MessageOpcode::Binary, bytes),
            Message::Close(bytes) => (MessageOpcode::Close, bytes),
            Message::Pong(bytes) => (MessageOpcode::Pong, bytes),
        },
    };
    *target = Box::into_raw(Box::new(tutti_message {
        opcode: opcode as u8,
        bytes,
    }));
    TUTTI_OK
}

/// The kind of the message (tutti_opcode); 0 for NULL.
///
/// # Safety
/// `message` is NULL or from tutti_message_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_message_opcode(message: *const tutti_message) -> u32 {
    // SAFETY: by the contract of this function.
    let message = unsafe { message.as_ref() };
    message.map_or(0, |message| u32::from(message.opcode))
}

/// Its bytes; valid until tutti_message_free.
///
/// # Safety
/// `message` is NULL or from tutti_message_next.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_message_bytes(message: *const tutti_message) -> tutti_bytes {
    // SAFETY: by the contract of this function.
    let message = unsafe { message.as_ref() };
    message.map_or(tutti_bytes::EMPTY, |message| {
        tutti_bytes::of(&message.bytes)
    })
}

/// Gives a message back.
///
/// # Safety
/// `message` is NULL or from tutti_message_next, and not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_message_free(message: *mut tutti_message) {
    if !message.is_null() {
        // SAFETY: from `Box::into_raw` and not used again, by the contract of this function.
        drop(unsafe { Box::from_raw(message) });
    }
}

/// Sends a message to the client: how many bytes of it went. With `wait` all of them. Without, a part may go, and
/// TUTTI_AGAIN says that nothing did: call again with the rest, and with nothing else until all of it went. A close, ping or
/// pong has at most 125 bytes. TUTTI_GONE: the message has no reader any more.
///
/// # Safety
/// `exchange` is NULL or this thread's and has not ended; `length` bytes from `data` are readable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tutti_message_send(
    exchange: *mut tutti_exchange,
    opcode: u32,
    data: *const u8,
    length: usize,
    wait: bool,
) -> isize {
    // SAFETY: by the contract of this function.
    let exchange = unsafe { exchange.as_ref() };
    // SAFETY: by the contract of this function.
    let data = unsafe { bytes_in(data, length) };
    let opcode = u8::try_from(opcode).ok().and_then(MessageOpcode::of);
    let (Some(exchange), Some(data), Some(opcode)) = (exchange, data, opcode) else {
        return TUTTI_INVALID as isize;
    };
    if opcode.is_control() && data.len() > 125 {
        return TUTTI_INVALID as isize;
    }
    guard(TUTTI_FAULT as isize, || {
        let sent = match wait {
            true => exchange
                .0
                .send_message(opcode, data)
                .map(|()| Some(data.len())),
            false => exchange.0.try_send(opcode, data),
        };
        match sent {
            Ok(Some(count)) => count as isize,
            Ok(None) => TUTTI_AGAIN as isize,
            Err(ClientGone) => TUTTI_GONE as isize,
        }
    })
}
