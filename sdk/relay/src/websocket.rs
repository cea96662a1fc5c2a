//! A WebSocket: messages of the wire on one side, frames of the program's connection on the other.
//!
//! Both directions go on side by side. Must never: wait with one direction for the other, or drop what the program sent before
//! its own close.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::time::{Instant, Sleep};
use tutti_event_loop::unless_gone;
use tutti_http::websocket::{
    FrameDecoder, FrameEvent, FrameHead, MessageKind, Opcode as Frame, Role, apply_mask,
    close_code, handshake,
};
use tutti_worker::{Exchange, Incoming, Message, MessageOpcode};

use crate::connection::{Pool, RelayConnection};
use crate::error::RelayError;
use crate::feed::Transfer;
use crate::http::{pass_on, receive_head, send};

/// The code of a close that was none: the client has vanished.
const ABNORMAL: [u8; 2] = close_code::ABNORMAL.to_be_bytes();
/// Longest message of a program.
const LONGEST_MESSAGE: u64 = 64 * 1024 * 1024;
/// The longest silence in both directions once one side has closed.
const QUIET_LIMIT: Duration = Duration::from_secs(5);
/// The longest time that a program may go on talking after the client's close.
const CLOSE_LIMIT: Duration = Duration::from_secs(30);

pub(super) async fn relay(pool: &Pool, exchange: &Exchange) -> Result<(), RelayError> {
    // Never a kept connection: nothing of a handshake may be sent twice.
    let mut connection = pool.open().await.map_err(RelayError::Connect)?;
    let key = key()?;
    send(exchange, &mut connection, Some(&key)).await?;
    let mut line = Transfer::new(connection);
    receive_head(exchange, &mut line).await?;
    let view = line.connection.answer();
    if view.status() != 101 {
        return pass_on(exchange, &mut line).await.map(|_| ());
    }
    let accept = view.get_all(b"sec-websocket-accept").next();
    if accept != Some(handshake::accept(&key).as_slice()) {
        return Err(RelayError::WebSocket(
            "its `Sec-WebSocket-Accept` does not fit the key".to_owned(),
        ));
    }
    exchange
        .start(101, view.forwarded())
        .map_err(RelayError::Unusable)?;
    exchange.flush();
    let length = view.length();
    line.connection.consume(length);
    let mut socket = Socket {
        exchange,
        connection: line.connection,
        decoder: FrameDecoder::new(Role::Client, LONGEST_MESSAGE),
        partial: Vec::new(),
        to_client: None,
        to_program: Outbound::default(),
        has_client_closed: false,
        has_program_closed: false,
        closing: None,
    };
    let outcome = unless_gone(exchange, |context| socket.poll(context)).await?;
    let rest = socket.to_client.take();
    match outcome? {
        End::Closed => Ok(()),
        // Neither the rest of a message nor a close inside one could be distinguished from the other.
        End::GivenUp if rest.is_some_and(|message| message.is_begun) => Err(RelayError::WebSocket(
            "did not close after its client had".to_owned(),
        )),
        End::GivenUp => {
            let _ = exchange.try_send(MessageOpcode::Close, &[]);
            Ok(())
        }
    }
}

/// The end of both directions.
enum End {
    Closed,
    /// One side has closed, and nothing more came of the other.
    GivenUp,
}

/// A message on its way to the client.
struct Passing {
    opcode: MessageOpcode,
    bytes: Vec<u8>,
    sent: usize,
    is_begun: bool,
}

/// Frames on their way to the program.
#[derive(Default)]
struct Outbound {
    bytes: Vec<u8>,
    sent: usize,
    /// Why it takes no more. What it said before that is still to be read.
    fault: Option<io::Error>,
}

/// The time after the first close.
struct Closing {
    timer: Pin<Box<Sleep>>,
    end: Instant,
}

struct Socket<'a> {
    exchange: &'a Exchange,
    connection: Box<RelayConnection>,
    decoder: FrameDecoder,
    /// The program's message as far as it has come.
    partial: Vec<u8>,
    to_client: Option<Passing>,
    to_program: Outbound,
    has_client_closed: bool,
    has_program_closed: bool,
    closing: Option<Closing>,
}

impl Socket<'_> {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<End, RelayError>> {
        let mut has_moved = false;
        let from_program = self.poll_from_program(context, &mut has_moved)?;
        let from_client = self.poll_from_client(context, &mut has_moved)?;
        if from_program.is_ready() && from_client.is_ready() {
            return Poll::Ready(Ok(End::Closed));
        }
        if !self.has_client_closed && !self.has_program_closed {
            return Poll::Pending;
        }
        let now = Instant::now();
        let closing = self.closing.get_or_insert_with(|| Closing {
            timer: Box::pin(tokio::time::sleep(QUIET_LIMIT)),
            end: now + CLOSE_LIMIT,
        });
        if has_moved {
            let until = closing.end.min(now + QUIET_LIMIT);
            closing.timer.as_mut().reset(until);
        }
        closing
            .timer
            .as_mut()
            .poll(context)
            .map(|()| Ok(End::GivenUp))
    }

    /// Passes to the client all that the program says, until its close is there.
    fn poll_from_program(
        &mut self,
        context: &mut Context<'_>,
        has_moved: &mut bool,
    ) -> Poll<Result<(), RelayError>> {
        loop {
            if let Some(passing) = &mut self.to_client {
                loop {
                    let rest = passing.bytes.get(passing.sent..).unwrap_or_default();
                    match self.exchange.try_send(passing.opcode, rest) {
                        Ok(None) => return Poll::Pending,
                        Ok(Some(count)) => {
                            *has_moved = true;
                            passing.is_begun = true;
                            passing.sent += count;
                            if count == rest.len() {
                                break;
                            }
                        }
                        Err(tutti_worker::ClientGone) => {
                            return Poll::Ready(Err(RelayError::ClientGone));
                        }
                    }
                }
                self.to_client = None;
            }
            if self.has_program_closed {
                return Poll::Ready(Ok(()));
            }
            match self.decode()? {
                Some((opcode, bytes)) => {
                    self.has_program_closed = opcode == MessageOpcode::Close;
                    if self.has_program_closed && !self.has_client_closed {
                        self.to_program.push(Frame::Close, bytes.clone())?;
                    }
                    self.to_client = Some(Passing {
                        opcode,
                        bytes,
                        sent: 0,
                        is_begun: false,
                    });
                }
                None => {
                    let received = std::task::ready!(self.connection.poll_receive(context));
                    if received.map_err(RelayError::Receive)? == 0 {
                        self.program_left()?;
                    }
                    *has_moved = true;
                }
            }
        }
    }

    /// The program closed the connection without a close: well enough after the client's.
    fn program_left(&mut self) -> Result<(), RelayError> {
        if !self.has_client_closed {
            return Err(match self.to_program.fault.take() {
                Some(error) => RelayError::Send(error),
                None => RelayError::Left,
            });
        }
        self.has_program_closed = true;
        self.to_client = Some(Passing {
            opcode: MessageOpcode::Close,
            bytes: Vec::new(),
            sent: 0,
            is_begun: false,
        });
        Ok(())
    }

    /// Passes to the program all that the client says, until one of them has closed.
    fn poll_from_client(
        &mut self,
        context: &mut Context<'_>,
        has_moved: &mut bool,
    ) -> Poll<Result<(), RelayError>> {
        loop {
            if self.to_program.fault.is_none() {
                std::task::ready!(
                    self.to_program
                        .poll(&mut self.connection, context, has_moved)
                );
            }
            if self.has_client_closed || self.has_program_closed {
                return Poll::Ready(Ok(()));
            }
            if self.to_program.fault.is_some() {
                // Its last messages, or the end of the connection, are about to be read.
                return Poll::Pending;
            }
            let (frame, bytes) = match self.exchange.try_next_message() {
                Incoming::Message(Message::Text(bytes)) => (Frame::Text, bytes),
                Incoming::Message(Message::Binary(bytes)) => (Frame::Binary, bytes),
                Incoming::Message(Message::Pong(bytes)) => (Frame::Pong, bytes),
                // No frame has this code (RFC 6455 §7.4.1): for the program a client that vanishes is the end of the connection.
                Incoming::Message(Message::Close(bytes)) if bytes.starts_with(&ABNORMAL) => {
                    return Poll::Ready(Err(RelayError::ClientGone));
                }
                Incoming::Message(Message::Close(bytes)) => (Frame::Close, bytes),
                Incoming::Nothing => return Poll::Pending,
                Incoming::Over => return Poll::Ready(Err(RelayError::ClientGone)),
            };
            self.has_client_closed = frame == Frame::Close;
            self.to_program.push(frame, bytes)?;
        }
    }

    /// The next message that the program has sent whole.
    fn decode(&mut self) -> Result<Option<(MessageOpcode, Vec<u8>)>, RelayError> {
        loop {
            let (consumed, event) = self
                .decoder
                .decode(&mut self.connection.received, usize::MAX)
                .map_err(|fault| RelayError::WebSocket(fault.to_string()))?;
            let message = match event {
                None => None,
                Some(FrameEvent::Control { opcode, range }) => {
                    let bytes = self.connection.received.get(range).unwrap_or_default();
                    let opcode = match opcode {
                        Frame::Close => MessageOpcode::Close,
                        Frame::Ping => MessageOpcode::Ping,
                        _ => MessageOpcode::Pong,
                    };
                    Some((opcode, bytes.to_vec()))
                }
                Some(FrameEvent::Data {
                    kind,
                    range,
                    is_last,
                }) => {
                    let bytes = self.connection.received.get(range).unwrap_or_default();
                    self.partial.extend_from_slice(bytes);
                    let opcode = match kind {
                        MessageKind::Text => MessageOpcode::Text,
                        MessageKind::Binary => MessageOpcode::Binary,
                    };
                    is_last.then(|| (opcode, std::mem::take(&mut self.partial)))
                }
            };
            self.connection.consume(consumed);
            if message.is_some() || consumed == 0 {
                return Ok(message);
            }
        }
    }
}

impl Outbound {
    /// Adds a frame, masked as a client's are.
    fn push(&mut self, opcode: Frame, mut bytes: Vec<u8>) -> Result<(), RelayError> {
        let mask = random()?;
        FrameHead {
            is_final: true,
            opcode,
            length: bytes.len() as u64,
            mask: Some(mask),
        }
        .write(&mut self.bytes);
        apply_mask(&mut bytes, mask, 0);
        self.bytes.append(&mut bytes);
        Ok(())
    }

    /// Writes what there is, as far as the program takes it.
    fn poll(
        &mut self,
        connection: &mut RelayConnection,
        context: &mut Context<'_>,
        has_moved: &mut bool,
    ) -> Poll<()> {
        loop {
            let rest = self.bytes.get(self.sent..).unwrap_or_default();
            if rest.is_empty() || self.fault.is_some() {
                self.bytes.clear();
                self.sent = 0;
                return Poll::Ready(());
            }
            match std::task::ready!(connection.poll_write(context, rest)) {
                Ok(0) => self.fault = Some(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) => self.fault = Some(error),
            }
            *has_moved = true;
        }
    }
}

fn random<const N: usize>() -> Result<[u8; N], RelayError> {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|error| RelayError::WebSocket(format!("no random numbers: {error}")))?;
    Ok(bytes)
}

/// The base64 of 16 random bytes: 22 digits, the last with four bits of zero, and the filling.
fn key() -> Result<[u8; 24], RelayError> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let random: [u8; 22] = random()?;
    let mut key = [b'='; 24];
    for (index, (place, byte)) in key.iter_mut().zip(random).enumerate() {
        let mask = if index == 21 { 0x30 } else { 0x3f };
        *place = DIGITS
            .get(usize::from(byte & mask))
            .copied()
            .unwrap_or(b'A');
    }
    Ok(key)
}
