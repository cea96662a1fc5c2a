//! Methods of an exchange that do not wait, for event loops, and the messages of a WebSocket.

use std::io;

use super::exchange::{ClientGone, Exchange};
use crate::layout::RESPONSE_CAPACITY;
use crate::message::{HEAD_LENGTH, MessageOpcode, PieceHead};
use crate::request::BodyRef;
use crate::ring::{WANTS_DATA, WANTS_ROOM, ask, wait_until};

/// A message from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// Text; the router has checked that it is UTF-8.
    Text(Vec<u8>),
    /// Bytes.
    Binary(Vec<u8>),
    /// The client closes: empty, or two bytes of code (big-endian) and a reason in UTF-8.
    Close(Vec<u8>),
    /// The answer to the worker's ping.
    Pong(Vec<u8>),
}

/// The result of a check for a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// This.
    Message(Message),
    /// None yet; attention reports the next.
    Nothing,
    /// There will be no more: the client has closed, or disconnected.
    Over,
}

impl Exchange {
    /// The slot it is in, by which [`drain_attention`](super::Worker::drain_attention) names it. It belongs to another exchange once this
    /// one has ended.
    pub fn slot(&self) -> u32 {
        self.slot
    }

    /// Writes as much to the body as there is room for, and returns how much; 0 when there is none: attention reports when there is.
    /// Without `start` before, the response is a 200 without fields.
    pub fn try_write(&self, bytes: &[u8]) -> Result<usize, ClientGone> {
        self.begin_writing()?;
        if bytes.is_empty() {
            return Ok(0);
        }
        let has_room = self.room() > 0 || !self.ask_for_room(1)?;
        if !has_room {
            return Ok(0);
        }
        let now = bytes.get(..self.room().min(bytes.len())).unwrap_or(bytes);
        self.put(now)?;
        if self.unannounced() >= u64::from(RESPONSE_CAPACITY) / 2 {
            self.flush();
        }
        Ok(now.len())
    }

    /// Reads the available part of the body: `Some(0)` at its end, `None` when nothing has arrived yet: attention reports more.
    ///
    /// Errors: `ConnectionAborted` when the client disconnected before the end, and errors of reading the spool file.
    pub fn try_read_body(&self, target: &mut [u8]) -> io::Result<Option<usize>> {
        if let Some(control) = self.control()
            && !self.is_ended()
            && matches!(self.request().body(), BodyRef::Stream { .. })
            && !self.request().is_websocket()
            && !self.has_stream_news(control)
            && ask(&control.worker_waits.0, WANTS_DATA, || {
                self.has_stream_news(control)
            })
        {
            // The client may be waiting for 100 (Continue), or for the available part of the response.
            if self.is_unread() || self.unannounced() > 0 {
                self.signal();
            }
            return Ok(None);
        }
        self.body_read(target).map(Some)
    }

    /// Asks for attention when data of a streamed body may have arrived. False when there is some already.
    pub fn ask_for_data(&self) -> bool {
        if self.is_detached.get() {
            // Its thread sleeps on the slot itself, and asks then.
            return self
                .control()
                .is_some_and(|control| !self.has_stream_news(control));
        }
        self.control().is_some_and(|control| {
            ask(&control.worker_waits.0, WANTS_DATA, || {
                self.has_stream_news(control)
            })
        })
    }

    /// Sends the next piece of a message to a WebSocket's client, after `start(101, …)`: returns how many of `rest` were sent; the message
    /// is complete when nothing is left. `None` when there is no room: attention reports when there is.
    ///
    /// Close, ping and pong may not exceed 125 bytes.
    pub fn try_send(
        &self,
        opcode: MessageOpcode,
        rest: &[u8],
    ) -> Result<Option<usize>, ClientGone> {
        self.try_send_part(opcode, rest, true)
    }

    /// As [`try_send`](Self::try_send), for a message that may continue after `rest`: it ends here only if `ends`. All parts have the
    /// opcode of the message.
    pub fn try_send_part(
        &self,
        opcode: MessageOpcode,
        rest: &[u8],
        ends: bool,
    ) -> Result<Option<usize>, ClientGone> {
        if self.is_ended() || self.is_client_gone() {
            return Err(ClientGone);
        }
        let Some(count) = self.message_room(rest.len()) else {
            return match self.ask_for_room(HEAD_LENGTH + rest.len())? {
                true => Ok(None),
                false => self.try_send_part(opcode, rest, ends),
            };
        };
        let head = PieceHead {
            opcode,
            is_last: ends && count == rest.len(),
            length: count,
        };
        self.put(&head.encode())?;
        self.put(rest.get(..count).unwrap_or_default())?;
        self.flush();
        Ok(Some(count))
    }

    /// Returns the number of the `rest` bytes of a message that can be sent now; `None`: it has to wait for room.
    pub fn message_room(&self, rest: usize) -> Option<usize> {
        PieceHead::fit(rest, self.room()).or_else(|| {
            // The known room is refreshed only when there seems to be none.
            self.refresh();
            PieceHead::fit(rest, self.room())
        })
    }

    /// Sends a whole message, waiting for room.
    pub fn send_message(&self, opcode: MessageOpcode, bytes: &[u8]) -> Result<(), ClientGone> {
        let mut rest = bytes;
        loop {
            match self.try_send(opcode, rest)? {
                Some(count) if count == rest.len() => return Ok(()),
                Some(count) => rest = rest.get(count..).unwrap_or_default(),
                None => {
                    let control = self.control().ok_or(ClientGone)?;
                    let has_room = || self.has_room_for(rest.len());
                    wait_until(&control.worker_waits.0, has_room, || {});
                }
            }
        }
    }

    /// True if a piece of a message with this many bytes left can be sent, or the client is gone.
    pub(super) fn has_room_for(&self, rest: usize) -> bool {
        self.message_room(rest).is_some() || self.is_client_gone()
    }

    /// The next message of a WebSocket's client, if it is whole.
    pub fn try_next_message(&self) -> Incoming {
        loop {
            let Some(control) = self.control().filter(|_| !self.is_ended()) else {
                return Incoming::Over;
            };
            let (amount, is_over) = self.stream_amount(control);
            if amount == 0 {
                if is_over || self.is_client_gone() {
                    return Incoming::Over;
                }
                if self.ask_for_data() {
                    return Incoming::Nothing;
                }
                continue;
            }
            let mut head = [0; HEAD_LENGTH];
            let head = match self.stream_copy(0, &mut head) {
                true => PieceHead::decode(head),
                false => None,
            };
            // The router writes whole pieces, unless it is broken.
            let Some(head) = head.filter(|head| HEAD_LENGTH + head.length <= amount) else {
                return Incoming::Over;
            };
            if let Some(message) = self.take_piece(head) {
                return Incoming::Message(message);
            }
        }
    }

    /// Waits for the next message of a WebSocket's client; `None` when there will be none.
    pub fn next_message(&self) -> Option<Message> {
        loop {
            match self.try_next_message() {
                Incoming::Message(message) => return Some(message),
                Incoming::Over => return None,
                Incoming::Nothing => {
                    let control = self.control()?;
                    wait_until(
                        &control.worker_waits.0,
                        || self.has_stream_news(control),
                        || {},
                    );
                }
            }
        }
    }

    fn take_piece(&self, head: PieceHead) -> Option<Message> {
        let control = self.control()?;
        let mut partial = self.partial.borrow_mut();
        // A control message may come between the pieces of another.
        let mut bytes = match head.opcode.is_control() {
            true => Vec::new(),
            false => std::mem::take(&mut *partial),
        };
        let start = bytes.len();
        bytes.resize(start + head.length, 0);
        self.stream_copy(HEAD_LENGTH, bytes.get_mut(start..).unwrap_or_default());
        let whole = HEAD_LENGTH + head.length;
        self.stream_release(control, whole);
        self.position.set(self.position.get() + whole as u64);
        if !head.is_last {
            *partial = bytes;
            return None;
        }
        match head.opcode {
            MessageOpcode::Text => Some(Message::Text(bytes)),
            MessageOpcode::Binary => Some(Message::Binary(bytes)),
            MessageOpcode::Close => Some(Message::Close(bytes)),
            MessageOpcode::Pong => Some(Message::Pong(bytes)),
            // The router answers these itself.
            MessageOpcode::Ping => None,
        }
    }

    /// Asks for attention when there is room for `wanted` bytes of a piece or body. False when there is already.
    fn ask_for_room(&self, wanted: usize) -> Result<bool, ClientGone> {
        let control = self.control().ok_or(ClientGone)?;
        let has_room = || {
            self.refresh();
            let enough = wanted.min(HEAD_LENGTH + crate::message::MIN_PIECE);
            self.room() >= enough || self.is_client_gone()
        };
        self.publish();
        let must_wait = match self.is_detached.get() {
            true => !has_room(),
            false => ask(&control.worker_waits.0, WANTS_ROOM, has_room),
        };
        if !must_wait {
            return match self.is_client_gone() {
                true => Err(ClientGone),
                false => Ok(false),
            };
        }
        if self.unannounced() > 0 {
            self.signal();
        }
        Ok(true)
    }
}
