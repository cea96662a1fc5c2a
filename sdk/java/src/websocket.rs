//! A WebSocket as Jetty reads and writes it, in frames; the transport has messages.
//!
//! Called by [`ffi`](crate::ffi), from one thread for each direction. Must never happen: a frame behind a close frame, or half a message that
//! passes for a whole one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tutti_http::websocket::{
    FrameDecoder, FrameEvent, FrameHead, MAX_CONTROL_BYTES, MAX_HEAD_BYTES, MessageKind,
    Opcode as Frame, Role, close_code,
};
use tutti_worker::{ClientGone, Detached, Exchange, Incoming, Message, MessageOpcode};

/// The code of a connection that broke off; no frame has it (RFC 6455 section 7.4.1).
const ABNORMAL: [u8; 2] = close_code::ABNORMAL.to_be_bytes();

/// A client's frames are masked (RFC 6455 section 5.3); with this mask the payload stays as it is.
const MASK: [u8; 4] = [0; 4];

/// The state of one connection, in both directions.
#[derive(Debug)]
pub(crate) struct WebSocket {
    outgoing: Mutex<Outgoing>,
    closing: Mutex<Closing>,
}

/// The frames that Jetty writes.
#[derive(Debug)]
struct Outgoing {
    decoder: FrameDecoder,
    /// The beginning of a frame's head, or of a control frame.
    begun: Vec<u8>,
}

/// The state of the closing handshake.
#[derive(Debug, Default)]
struct Closing {
    /// Payload of the close frame that was sent. With it the exchange has ended: the server sees to the rest of the handshake.
    sent: Option<Vec<u8>>,
    /// Jetty has been given a close frame.
    is_told: bool,
}

/// The outcome of a look for a frame.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Received {
    Frame(Vec<u8>),
    Nothing,
    /// Nothing will come any more.
    Over,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic in one call leaves nothing half done that another relies on.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WebSocket {
    pub(crate) fn new() -> Self {
        Self {
            outgoing: Mutex::new(Outgoing {
                // An application may send without end, and Java's memory bounds what it can collect.
                decoder: FrameDecoder::new(Role::Client, u64::MAX),
                begun: Vec::new(),
            }),
            closing: Mutex::default(),
        }
    }

    /// The next frame from the client, if it is whole.
    pub(crate) fn receive(&self, exchange: &Detached) -> Received {
        let (opcode, bytes) = match exchange.with(Exchange::try_next_message) {
            Incoming::Nothing => return Received::Nothing,
            Incoming::Message(Message::Text(bytes)) => (Frame::Text, bytes),
            Incoming::Message(Message::Binary(bytes)) => (Frame::Binary, bytes),
            Incoming::Message(Message::Pong(bytes)) => (Frame::Pong, bytes),
            Incoming::Message(Message::Close(bytes)) if bytes.starts_with(&ABNORMAL) => {
                return Received::Over;
            }
            Incoming::Message(Message::Close(bytes)) => {
                lock(&self.closing).is_told = true;
                (Frame::Close, bytes)
            }
            Incoming::Over => {
                let mut closing = lock(&self.closing);
                // The client's answer to our close frame is for the server, so this is in its place.
                let sent = closing.sent.clone().filter(|_| !closing.is_told);
                let Some(bytes) = sent else {
                    return Received::Over;
                };
                closing.is_told = true;
                (Frame::Close, bytes)
            }
        };
        let mut frame = Vec::with_capacity(bytes.len() + MAX_HEAD_BYTES);
        FrameHead {
            is_final: true,
            opcode,
            length: bytes.len() as u64,
            mask: Some(MASK),
        }
        .write(&mut frame);
        frame.extend_from_slice(&bytes);
        Received::Frame(frame)
    }

    /// Sends of the frames that Jetty writes what there is room for; how many bytes that was. With a close frame the exchange ends.
    ///
    /// # Errors
    /// The client has gone, or a message comes behind a close frame.
    pub(crate) fn send(&self, exchange: &Detached, bytes: &[u8]) -> Result<usize, ClientGone> {
        let mut outgoing = lock(&self.outgoing);
        let Outgoing { decoder, begun } = &mut *outgoing;
        let before = begun.len();
        begun.extend_from_slice(bytes);
        let mut done = 0;
        while done < begun.len() {
            let rest = begun.get_mut(done..).unwrap_or_default();
            // Room for a control frame is enough for a beginning, which has no room of its own.
            let least = rest.len().max(MAX_CONTROL_BYTES);
            let Some(room) = self.room(exchange, least) else {
                begun.truncate(done.max(before));
                break;
            };
            // Jetty's frames are sound.
            let (consumed, event) = decoder.decode(rest, room).map_err(|_| ClientGone)?;
            match event {
                Some(FrameEvent::Data {
                    kind,
                    range,
                    is_last,
                }) => {
                    let opcode = match kind {
                        MessageKind::Text => MessageOpcode::Text,
                        MessageKind::Binary => MessageOpcode::Binary,
                    };
                    let part = rest.get(range).unwrap_or_default();
                    exchange.with(|exchange| exchange.try_send_part(opcode, part, is_last))?;
                }
                Some(FrameEvent::Control { opcode, range }) => {
                    let payload = rest.get(range).unwrap_or_default();
                    self.control(exchange, opcode, payload)?;
                }
                None if consumed == 0 => break,
                None => {}
            }
            done += consumed;
        }
        let taken = begun.len().saturating_sub(before);
        begun.drain(..done);
        Ok(taken)
    }

    /// Room for a part of a message; `None`: there is too little. Nothing is held up behind a close frame.
    fn room(&self, exchange: &Detached, least: usize) -> Option<usize> {
        if exchange.with(|exchange| exchange.is_ended() || exchange.is_client_gone()) {
            return Some(usize::MAX);
        }
        exchange.with(|exchange| exchange.message_room(least))
    }

    fn control(
        &self,
        exchange: &Detached,
        opcode: Frame,
        payload: &[u8],
    ) -> Result<(), ClientGone> {
        let opcode = match opcode {
            Frame::Close => {
                self.close(exchange, payload);
                return Ok(());
            }
            Frame::Ping => MessageOpcode::Ping,
            // The server answers a client's pings itself; this one is unasked for.
            _ => MessageOpcode::Pong,
        };
        exchange.with(|exchange| exchange.try_send(opcode, payload))?;
        Ok(())
    }

    /// Sends a close frame, unless one was, and ends the exchange: the server waits for the client's answer.
    fn close(&self, exchange: &Detached, payload: &[u8]) {
        let mut closing = lock(&self.closing);
        if closing.sent.is_some() {
            return;
        }
        closing.sent = Some(payload.to_vec());
        drop(closing);
        // A client that has gone gets no frame; one that does not read notices the end of its connection.
        let _ = exchange.with(|exchange| exchange.try_send(MessageOpcode::Close, payload));
        exchange.finish();
    }
}
