//! The state of a WebSocket connection: frames of the client become messages of the application and vice versa; the closing handshake;
//! timeouts.
//!
//! No I/O: the server passes the client's bytes in, [`MessageHandler`] is the application, frames for the client are appended to a buffer. Every wait
//! is limited: by `read_timeout` while the connection is open, by [`CLOSE_WAIT`] for either side's part of the closing handshake.
//!
//! Must never: send a frame after a close frame, take more from either side than the other has room for, or end the connection without
//! notifying the application.

#[cfg(test)]
mod tests;

use super::{
    Close, FrameDecoder, FrameEvent, Opcode, Role, WebSocketError, close_code, write_frame_head,
};

/// Milliseconds of the caller's clock, which never goes back.
type Millis = u64;

/// The limits of a connection: `settings.http.websocket`.
#[derive(Clone, Copy, Debug)]
pub struct SessionOptions {
    /// Longest message.
    pub max_message: u64,
    /// Milliseconds without a byte from the client; `None`: unlimited.
    pub read_timeout: Option<u64>,
    /// Milliseconds between two pings to a silent client; `None`: no pings.
    pub keepalive: Option<u64>,
}

/// Maximum time for either side to do its part of the closing handshake.
const CLOSE_WAIT: Millis = 5_000;

/// Frames buffered for a slow client: beyond this nothing more is taken from the application, or answered to the client.
const OUTPUT_BYTES: usize = 128 * 1024;

/// Reserved in the application's ring for control messages, so that a close has room after unread messages.
const CONTROL_ROOM: usize = 2 * (PIECE_HEAD + 125);

/// Bytes in front of each piece of a message (`spec/wire.md` §10).
const PIECE_HEAD: usize = 6;

/// A message of an application is sent as one frame up to this length, joined from the pieces in the ring: clients that do not support
/// fragments are common, and Unit's users have never received any.
const WHOLE_BYTES: usize = 1024 * 1024;

/// Message memory kept between two messages.
const KEPT_BYTES: usize = 16 * 1024;

/// A message is not cut into smaller pieces than this when room is short (`spec/wire.md` §10).
const MIN_PIECE: usize = 16_384 - PIECE_HEAD;

/// The next piece from an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// A piece of a message, or a control message.
    Piece {
        /// The kind of message.
        opcode: Opcode,
        /// Bytes of the piece.
        length: usize,
        /// The message ends with it.
        is_last: bool,
    },
    /// Nothing yet.
    Nothing,
    /// It has ended the exchange; an open connection is closed with this code.
    Ended(u16),
}

/// The application's end of the connection.
pub trait MessageHandler {
    /// Bytes that can be put, including heads of pieces. When that is less than `wanted`, the connection is woken once there are more.
    fn room(&self, wanted: usize) -> usize;
    /// Puts a piece; there is room for it.
    fn put(&mut self, opcode: Opcode, is_last: bool, bytes: &[u8]);
    /// Ends the messages to the application.
    fn finish(&mut self);
    /// The application's next piece.
    fn next(&mut self) -> Next;
    /// Appends the content of the piece that [`next`](Side::next) has returned to `out`, and consumes it.
    fn take(&mut self, out: &mut Vec<u8>);
}

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Messages go both ways.
    Open,
    /// The client has sent a close frame, and gets ours when the application has finished, or at this time.
    ClientClosed { until: Millis },
    /// We have sent a close frame; the client has until then to send its own.
    Closing { until: Millis },
    /// Nothing more will be sent or expected.
    Ended {
        /// The client may still be sending.
        linger: bool,
    },
}

/// Why [`WebSocketSession::receive`] has taken no more bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// The client has to send more.
    Input,
    /// The application, or the client, has to take buffered bytes.
    Room,
}

/// One WebSocket connection.
#[derive(Debug)]
pub struct WebSocketSession {
    options: SessionOptions,
    decoder: FrameDecoder,
    state: State,
    /// Payload of our answer to the client's close frame.
    answer: Vec<u8>,
    /// The close message that has not been delivered to the application.
    news: Option<Vec<u8>>,
    /// The application has ended the exchange, or got its close message.
    is_notified: bool,
    /// The collected part of the application's current message, which has not been sent.
    message: Vec<u8>,
    /// The opcode of its next frame; `None`: no message has begun.
    sending: Option<Opcode>,
    /// The application has sent a ping, and gets pongs.
    has_pinged: bool,
    heard: Millis,
    pinged: Millis,
    /// Set when the client has violated the protocol.
    fault: Option<WebSocketError>,
}

impl WebSocketSession {
    /// An open connection, whose handshake is done.
    pub fn new(options: SessionOptions, now: Millis) -> Self {
        Self {
            options,
            decoder: FrameDecoder::new(Role::Server, options.max_message),
            state: State::Open,
            answer: Vec::new(),
            fault: None,
            news: None,
            is_notified: false,
            message: Vec::new(),
            sending: None,
            has_pinged: false,
            heard: now,
            pinged: now,
        }
    }

    /// True if the client has sent its close frame, which has not been answered.
    pub fn has_client_closed(&self) -> bool {
        matches!(self.state, State::ClientClosed { .. })
    }

    /// Set when only the output remains to be sent; true if the client may still be sending.
    pub fn ended(&self) -> Option<bool> {
        match self.state {
            State::Ended { linger } => Some(linger),
            _ => None,
        }
    }

    /// Takes received bytes from `input`. `pending` bytes of output wait for the client.
    pub fn receive(
        &mut self,
        input: &mut Vec<u8>,
        side: &mut impl MessageHandler,
        out: &mut Vec<u8>,
        pending: usize,
        now: Millis,
    ) -> Wants {
        let before = out.len();
        let mut done = 0;
        let wants = loop {
            if matches!(self.state, State::ClientClosed { .. } | State::Ended { .. }) {
                // Bytes after a close frame are ignored (RFC 6455 §5.5.1).
                done = input.len();
                break Wants::Input;
            }
            if pending + (out.len() - before) > OUTPUT_BYTES {
                break Wants::Room;
            }
            let rest = input.get_mut(done..).unwrap_or_default();
            let room = self.data_room(side, rest.len());
            match self.decoder.decode(rest, room) {
                Ok((0, None))
                    if room == 0 && !rest.is_empty() && self.decoder.is_within_frame() =>
                {
                    break Wants::Room;
                }
                Ok((0, None)) => break Wants::Input,
                Ok((consumed, event)) => {
                    if let Some(event) = event {
                        self.event(&event, rest, side, out, now);
                    }
                    done += consumed;
                }
                Err(fault) => self.fail(fault, out),
            }
        };
        if done > 0 {
            self.heard = now;
            input.drain(..done);
        }
        wants
    }

    /// Bytes of a message that may be put to the application now, if `arrived` bytes are there: not too few at a time.
    fn data_room(&self, side: &impl MessageHandler, arrived: usize) -> usize {
        if self.state != State::Open || self.is_notified {
            return usize::MAX; // to be dropped
        }
        let least = arrived.min(MIN_PIECE);
        let kept = CONTROL_ROOM + PIECE_HEAD;
        let room = side.room(kept + least).saturating_sub(kept);
        if room >= least { room } else { 0 }
    }

    fn event(
        &mut self,
        event: &FrameEvent,
        bytes: &[u8],
        side: &mut impl MessageHandler,
        out: &mut Vec<u8>,
        now: Millis,
    ) {
        match event {
            FrameEvent::Data {
                kind,
                range,
                is_last,
            } => {
                if self.state == State::Open && !self.is_notified {
                    let piece = bytes.get(range.clone()).unwrap_or_default();
                    side.put(kind.opcode(), *is_last, piece);
                }
            }
            FrameEvent::Control { opcode, range } => {
                let payload = bytes.get(range.clone()).unwrap_or_default();
                match opcode {
                    Opcode::Ping if self.state == State::Open => {
                        frame(out, Opcode::Pong, true, payload);
                    }
                    Opcode::Pong => self.pong(payload, side),
                    Opcode::Close => self.client_closes(payload, out, now),
                    _ => {}
                }
            }
        }
    }

    /// A pong is passed to an application that has sent a ping, as long as that reads.
    fn pong(&mut self, payload: &[u8], side: &mut impl MessageHandler) {
        let is_wanted = self.has_pinged && self.state == State::Open && !self.is_notified;
        if is_wanted && side.room(0) >= CONTROL_ROOM {
            side.put(Opcode::Pong, true, payload);
        }
    }

    fn client_closes(&mut self, payload: &[u8], out: &mut Vec<u8>, now: Millis) {
        match Close::parse(payload) {
            Err(fault) => self.fail(fault, out),
            Ok(close) if self.state == State::Open => {
                // The received code (RFC 6455 §5.5.1); without one, 1000, as Unit's clients expect.
                self.answer = match close.code {
                    Some(_) => payload.to_vec(),
                    None => close_payload(close_code::NORMAL, ""),
                };
                self.notify(payload.to_vec());
                self.state = State::ClientClosed {
                    until: now.saturating_add(CLOSE_WAIT),
                };
            }
            // The answer to our close frame.
            Ok(_) => self.end(false),
        }
    }

    /// Returns the client's violation of the protocol, if any.
    pub fn fault(&self) -> Option<WebSocketError> {
        self.fault
    }

    /// Fails the connection after a violation: sends the reason, and does not wait for an answer (RFC 6455 §7.1.7).
    fn fail(&mut self, fault: WebSocketError, out: &mut Vec<u8>) {
        self.fault = Some(fault);
        if self.state == State::Open {
            let payload = close_payload(fault.close_code(), &fault.to_string());
            frame(out, Opcode::Close, true, &payload);
            self.notify(payload);
        }
        self.end(true);
    }

    /// Takes messages from the application, as long as the client takes them, and delivers its close message.
    pub fn collect(
        &mut self,
        side: &mut impl MessageHandler,
        out: &mut Vec<u8>,
        pending: usize,
        now: Millis,
    ) {
        let before = out.len();
        self.deliver(side);
        while self.ended().is_none() && pending + (out.len() - before) <= OUTPUT_BYTES {
            match side.next() {
                Next::Nothing => return,
                Next::Ended(code) => {
                    self.application_ended(code, out, now);
                    return;
                }
                Next::Piece {
                    opcode,
                    length,
                    is_last,
                } => self.piece(opcode, length, is_last, side, out, now),
            }
        }
    }

    fn piece(
        &mut self,
        opcode: Opcode,
        length: usize,
        is_last: bool,
        side: &mut impl MessageHandler,
        out: &mut Vec<u8>,
        now: Millis,
    ) {
        let start = out.len();
        if matches!(self.state, State::Closing { .. }) {
            // Too late; but the application must not wait for room.
            side.take(out);
            out.truncate(start);
            return;
        }
        match opcode {
            Opcode::Close => {
                side.take(out);
                let payload = out.split_off(start);
                self.application_closes(&payload, out, now);
            }
            Opcode::Ping | Opcode::Pong => {
                self.has_pinged |= opcode == Opcode::Ping;
                write_frame_head(out, opcode, true, length as u64);
                side.take(out);
            }
            _ if is_last && self.sending.is_none() => {
                write_frame_head(out, opcode, true, length as u64);
                side.take(out);
            }
            _ => {
                side.take(&mut self.message);
                self.send_collected(opcode, is_last, out);
            }
        }
    }

    /// Sends the collected part of a message, if the message ends there or no more of it is collected. It began with `opcode`.
    fn send_collected(&mut self, opcode: Opcode, is_last: bool, out: &mut Vec<u8>) {
        let opcode = *self.sending.get_or_insert(opcode);
        if !is_last && self.message.len() <= WHOLE_BYTES {
            return;
        }
        frame(out, opcode, is_last, &self.message);
        self.message.clear();
        self.message.shrink_to(KEPT_BYTES);
        self.sending = (!is_last).then_some(Opcode::Continuation);
    }

    fn application_closes(&mut self, payload: &[u8], out: &mut Vec<u8>, now: Millis) {
        if matches!(self.state, State::ClientClosed { .. }) {
            self.answer_close(out);
            return;
        }
        // A code that must not be sent is the application's error; the client gets 1011.
        let payload = match Close::parse(payload) {
            Ok(_) => payload.to_vec(),
            Err(_) => close_payload(close_code::INTERNAL_ERROR, "invalid close code"),
        };
        self.is_notified = true;
        self.close(&payload, out, now);
    }

    fn application_ended(&mut self, code: u16, out: &mut Vec<u8>, now: Millis) {
        self.is_notified = true;
        self.news = None;
        match self.state {
            State::Open => {
                // A message that was cut short is not a normal end.
                let code = match code {
                    close_code::NORMAL if self.sending.is_some() => close_code::INTERNAL_ERROR,
                    code => code,
                };
                self.close(&close_payload(code, ""), out, now);
            }
            State::ClientClosed { .. } => self.answer_close(out),
            State::Closing { .. } | State::Ended { .. } => {}
        }
    }

    /// Sends our close frame first.
    fn close(&mut self, payload: &[u8], out: &mut Vec<u8>, now: Millis) {
        frame(out, Opcode::Close, true, payload);
        self.state = State::Closing {
            until: now.saturating_add(CLOSE_WAIT),
        };
    }

    /// Answers the client's close frame, which ends the connection.
    fn answer_close(&mut self, out: &mut Vec<u8>) {
        let answer = std::mem::take(&mut self.answer);
        frame(out, Opcode::Close, true, &answer);
        self.end(false);
    }

    fn end(&mut self, linger: bool) {
        self.state = State::Ended { linger };
    }

    /// Closes the connection: the server stops, or the application does.
    pub fn dismiss(&mut self, code: u16, reason: &str, out: &mut Vec<u8>, now: Millis) {
        if self.state == State::Open {
            let payload = close_payload(code, reason);
            self.notify(payload.clone());
            self.close(&payload, out, now);
        }
    }

    /// The client has disconnected: the application gets 1006 (RFC 6455 §7.1.5).
    pub fn client_gone(&mut self, side: &mut impl MessageHandler) {
        if matches!(self.state, State::Open) {
            self.notify(close_code::ABNORMAL.to_be_bytes().to_vec());
        }
        self.deliver(side);
        self.end(false);
    }

    /// Sets the close message for the application, once.
    fn notify(&mut self, payload: Vec<u8>) {
        if !self.is_notified && self.news.is_none() {
            self.news = Some(payload);
        }
    }

    /// Delivers the pending close message to the application, if it has room.
    pub fn deliver(&mut self, side: &mut impl MessageHandler) {
        let Some(payload) = &self.news else {
            return;
        };
        let wanted = PIECE_HEAD + payload.len();
        if side.room(wanted) >= wanted {
            side.put(Opcode::Close, true, payload);
            side.finish();
            self.news = None;
            self.is_notified = true;
        }
    }

    /// Sends pings and gives up a silent client; returns the time of the next call. `reads`: the client's bytes are being read, so its
    /// silence counts.
    pub fn tick(&mut self, reads: bool, out: &mut Vec<u8>, now: Millis) -> Millis {
        match self.state {
            State::Open => {
                if !reads {
                    self.heard = now;
                }
                let SessionOptions {
                    read_timeout,
                    keepalive,
                    ..
                } = self.options;
                let limit = after(self.heard, read_timeout);
                if limit <= now {
                    self.fault = Some(WebSocketError::Silent);
                    let payload = close_payload(
                        WebSocketError::Silent.close_code(),
                        &WebSocketError::Silent.to_string(),
                    );
                    self.notify(close_code::ABNORMAL.to_be_bytes().to_vec());
                    self.close(&payload, out, now);
                    return now.saturating_add(CLOSE_WAIT);
                }
                let ping = after(self.heard.max(self.pinged), keepalive);
                if ping <= now {
                    frame(out, Opcode::Ping, true, b"");
                    self.pinged = now;
                }
                limit.min(after(self.heard.max(self.pinged), keepalive))
            }
            State::ClientClosed { until } if until <= now => {
                self.answer_close(out);
                now
            }
            State::Closing { until } if until <= now => {
                self.end(false);
                now
            }
            State::ClientClosed { until } | State::Closing { until } => until,
            State::Ended { .. } => now,
        }
    }
}

/// The time `wait` after `since`; never without one.
fn after(since: Millis, wait: Option<Millis>) -> Millis {
    wait.map_or(Millis::MAX, |wait| since.saturating_add(wait))
}

fn frame(out: &mut Vec<u8>, opcode: Opcode, is_final: bool, payload: &[u8]) {
    write_frame_head(out, opcode, is_final, payload.len() as u64);
    out.extend_from_slice(payload);
}

fn close_payload(code: u16, reason: &str) -> Vec<u8> {
    let mut payload = Vec::new();
    Close {
        code: Some(code),
        reason,
    }
    .write(&mut payload);
    payload
}
