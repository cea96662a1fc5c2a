//! One HTTP/3 request as the channel of an exchange: a response's head becomes HEADERS, its body DATA, and the client's DATA the request
//! body.
//!
//! The receive window is reopened as the body is read here, so a slow application slows its client. What the connection has no room for
//! waits here.
//!
//! Must never: end a stream normally whose response was cut short.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use quinn_proto::{ReadError, StreamId, WriteError};
use tutti_conn::output::{Gone, Output};
use tutti_conn::send_deadline::StreamShare;
use tutti_conn::socket::{BodyPart, ReadResult};
use tutti_http::http3::frame::{DATA, FrameHead, HEADERS};
use tutti_http::http3::{
    Code, Http3Error, MessagePart, MessageReader, Section, encode_fields, encode_response,
};
use tutti_http::{
    OutgoingHead, StreamFields, Trailers, is_field_name, is_field_value, status_has_body,
    stream_status,
};
use tutti_tls::HandshakeFacts;

use crate::fault::fault;
use crate::quic::Quic;

/// Bytes taken from QUIC at once.
const READ_BYTES: usize = 64 * 1024;

/// The first bytes of a body are sent together with the heads before them, up to this length: each write to QUIC costs memory and an entry
/// in its queue.
const MERGED_BYTES: usize = 4096;

/// The progress of the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The head has not been sent.
    Head,
    /// The body is being sent; `rest` bytes are not yet in a frame, if the length is known.
    Body { rest: Option<u64> },
    /// Everything that the client gets has been sent.
    Complete,
    /// The stream has been ended.
    Ended,
}

struct Sending {
    state: State,
    /// Heads and frame heads that wait for room, and the first bytes of the frame after them.
    held: Vec<u8>,
    /// Body bytes at the end of `held`.
    held_body: usize,
    /// Body bytes that remain in the current frame.
    frame: u64,
    /// The trailer fields of the response.
    trailers: Trailers,
}

struct Receiving {
    reader: MessageReader,
    /// Received frames that have not been parsed.
    raw: Bytes,
    /// Received content that has not been read.
    data: Bytes,
    /// The request is complete.
    has_ended: bool,
    /// The trailer fields of the request.
    trailers: Trailers,
}

/// A request in progress.
pub struct QuicStream {
    quic: Rc<Quic>,
    id: StreamId,
    kind: Kind,
    sending: RefCell<Sending>,
    receiving: RefCell<Receiving>,
    /// The error code sent if the response is incomplete.
    abort_code: Cell<Code>,
    /// A response of known length ends only with [`QuicStream::finish`]: trailers may follow.
    may_trail: Cell<bool>,
    /// Its share of the bytes that the client takes on the connection.
    share: StreamShare,
}

/// The kind of a request.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) is_head: bool,
    pub(crate) is_websocket: bool,
    /// Largest size of the trailers.
    pub(crate) most_trailers: usize,
}

/// The state of a request's stream after its head.
pub(crate) struct Read {
    pub(crate) reader: MessageReader,
    pub(crate) raw: Bytes,
    pub(crate) has_ended: bool,
}

impl QuicStream {
    pub(crate) fn new(quic: &Rc<Quic>, id: StreamId, kind: Kind, read: Read) -> Self {
        quic.open.set(quic.open.get() + 1);
        Self {
            quic: Rc::clone(quic),
            id,
            kind,
            sending: RefCell::new(Sending {
                state: State::Head,
                held: Vec::new(),
                held_body: 0,
                frame: 0,
                trailers: Trailers::default(),
            }),
            receiving: RefCell::new(Receiving {
                reader: read.reader,
                raw: read.raw,
                data: Bytes::new(),
                has_ended: read.has_ended,
                trailers: Trailers::default(),
            }),
            abort_code: Cell::new(Code::INTERNAL_ERROR),
            may_trail: Cell::new(false),
            share: StreamShare::new(quic.taken.get()),
        }
    }

    /// Sets the body's length as the head declares it. An empty body is never read, so bytes that have arrived are checked now.
    ///
    /// # Errors
    /// There are more bytes than declared, and the stream has been reset.
    pub fn expect(&self, content_length: Option<u64>) -> Result<(), Gone> {
        let mut receiving = self.receiving.borrow_mut();
        receiving.reader.expect(content_length);
        if content_length == Some(0)
            && let Err(fault) = self.read_frames(&mut receiving)
        {
            drop(receiving);
            self.quic.fail(self.id, fault);
            return Err(Gone::Closed);
        }
        Ok(())
    }

    /// The trailer fields of a request whose body has ended.
    pub fn received_trailers(&self) -> Trailers {
        self.receiving.borrow().trailers.clone()
    }

    /// Announces, before the head is sent, that trailer fields may follow the response's body.
    pub fn expect_trailers(&self) {
        self.may_trail.set(true);
    }

    /// Returns the status with which a response of this one is sent; `None` if the protocol cannot express it.
    pub fn sent_status(&self, status: u16) -> Option<u16> {
        stream_status(status, self.kind.is_websocket)
    }

    /// Sets the error code for an incomplete response.
    pub fn abort_with(&self, code: Code) {
        self.abort_code.set(code);
    }

    /// Sets the trailer fields of the response.
    pub fn set_trailers(&self, trailers: Trailers) {
        self.sending.borrow_mut().trailers = trailers;
    }

    /// Returns the outcome of the TLS handshake.
    pub fn facts(&self) -> Option<&Rc<HandshakeFacts>> {
        self.quic.facts.get()
    }

    /// Returns this stream's share of the bytes that the client has taken on its connection since the last call.
    pub fn taken_beside(&self) -> u64 {
        self.share.next(self.quic.taken.get(), self.quic.open.get())
    }

    /// Polls for bytes of the request body.
    pub fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        let mut receiving = self.receiving.borrow_mut();
        loop {
            if !receiving.data.is_empty() {
                let room = buffer.capacity() - buffer.len();
                let count = room.min(receiving.data.len());
                let taken = receiving.data.split_to(count);
                buffer.extend_from_slice(&taken);
                return Poll::Ready(Ok(ReadResult::Bytes(taken.len())));
            }
            if let Err(fault) = self.read_frames(&mut receiving) {
                drop(receiving);
                self.quic.fail(self.id, fault);
                return Poll::Ready(Err(Gone::Closed));
            }
            if !receiving.data.is_empty() {
                continue;
            }
            if receiving.has_ended {
                return Poll::Ready(Ok(ReadResult::End));
            }
            match self.take_bytes(&mut receiving) {
                Ok(true) => {}
                Ok(false) => {
                    let waker = cx.waker().clone();
                    self.quic.wait(self.id, |waits| waits.read = Some(waker));
                    return Poll::Pending;
                }
                Err(gone) => return Poll::Ready(Err(gone)),
            }
        }
    }

    /// Parses frames until there is content, or no more bytes.
    fn read_frames(&self, receiving: &mut Receiving) -> Result<(), Http3Error> {
        while receiving.data.is_empty() && !receiving.raw.is_empty() {
            let raw = receiving.raw.clone();
            let mut rest = &raw[..];
            let part = receiving.reader.next(&mut rest);
            let idle = receiving.reader.take_idle_frames();
            if idle > 0 && self.quic.spend(idle.into()).is_err() {
                return Err(Http3Error::Stream(Code::EXCESSIVE_LOAD));
            }
            match part? {
                Some(MessagePart::Data(data)) => receiving.data = raw.slice_ref(data),
                Some(MessagePart::Trailers(block)) => {
                    let trailers = Section::of_trailers(&block, self.kind.most_trailers);
                    receiving.trailers = trailers.map_err(fault)?;
                }
                Some(MessagePart::Head(_)) | None => {}
            }
            receiving.raw = raw.slice_ref(rest);
        }
        if receiving.has_ended && receiving.raw.is_empty() && receiving.data.is_empty() {
            receiving.reader.finish()?;
        }
        Ok(())
    }

    /// Takes bytes from QUIC; false if none have arrived.
    fn take_bytes(&self, receiving: &mut Receiving) -> Result<bool, Gone> {
        if self.quic.has_ended.get() {
            return Err(Gone::Closed);
        }
        let mut state = self.quic.state.borrow_mut();
        let mut stream = state.recv_stream(self.id);
        let Ok(mut chunks) = stream.read(true) else {
            return Err(Gone::Closed);
        };
        let outcome = match chunks.next(READ_BYTES) {
            Ok(Some(chunk)) => {
                receiving.raw = chunk.bytes;
                Ok(true)
            }
            Ok(None) => {
                receiving.has_ended = true;
                Ok(true)
            }
            Err(ReadError::Blocked) => Ok(false),
            Err(ReadError::Reset(_)) => Err(Gone::Closed),
        };
        if chunks.finalize().should_transmit() {
            drop(state);
            self.quic.wake();
        }
        outcome
    }

    /// True if all of `output` has been sent, and nothing is buffered here.
    pub fn has_sent(&self, output: &Output) -> bool {
        output.is_empty() && self.sending.borrow().held.is_empty()
    }

    /// Sends what there is room for; true if nothing is left in `output`.
    ///
    /// # Errors
    /// The client has reset the stream, or the connection has ended.
    pub fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        let mut sending = self.sending.borrow_mut();
        loop {
            if output.is_empty() {
                return self.send_held(&mut sending);
            }
            if output.is_paused() {
                self.send_held(&mut sending)?;
                return Ok(false);
            }
            if sending.held.len() >= MERGED_BYTES && !self.send_held(&mut sending)? {
                return Ok(false);
            }
            if sending.frame > 0 {
                let is_going_on = match sending.held.is_empty() {
                    true => self.send_piece(&mut sending, output)?,
                    false => {
                        sending.take_along(output)?;
                        sending.frame == 0 || self.send_held(&mut sending)?
                    }
                };
                if !is_going_on {
                    return Ok(false);
                }
                continue;
            }
            match (sending.state, output.take_head()) {
                (State::Head, Some(head)) => {
                    self.begin(&mut sending, &head)?;
                    output.keep_spent(head);
                }
                // A response begins with its only head.
                (State::Head, None) | (State::Body { .. }, Some(_)) => return Err(Gone::Closed),
                (State::Body { rest: Some(0) }, None) => sending.state = State::Complete,
                (State::Body { rest }, None) => {
                    let length = rest.unwrap_or(output.front()?.len() as u64);
                    let rest = rest.map(|_| 0);
                    sending.state = State::Body { rest };
                    sending.begin_frame(DATA, length);
                    sending.frame = length;
                }
                // Nothing may follow: the body of a response to HEAD, or more than was declared.
                (State::Complete | State::Ended, _) => output.discard(),
            }
        }
    }

    /// Sends bytes of the current frame; false if there is no room.
    fn send_piece(&self, sending: &mut Sending, output: &mut Output) -> Result<bool, Gone> {
        let sent = self.write(sending.next_piece(output, usize::MAX)?)?;
        sending.frame -= sent as u64;
        output.advance(sent);
        self.quic.note_taken(sent);
        Ok(sent > 0)
    }

    /// Sends the buffered bytes; true if all have been sent.
    fn send_held(&self, sending: &mut Sending) -> Result<bool, Gone> {
        if sending.held.is_empty() {
            return Ok(true);
        }
        if self.quic.has_ended.get() {
            return Err(Gone::Closed);
        }
        let heads = sending.held.len() - sending.held_body;
        let mut held = [Bytes::from(std::mem::take(&mut sending.held))];
        let mut written = 0;
        let mut state = self.quic.state.borrow_mut();
        // QUIC reports new room only after a write that did not fit.
        while !held[0].is_empty() {
            match state.send_stream(self.id).write_chunks(&mut held) {
                Ok(more) => written += more.bytes,
                Err(WriteError::Blocked) => break,
                Err(_) => return Err(Gone::Closed),
            }
        }
        drop(state);
        let [rest] = held;
        sending.held_body = sending.held_body.min(rest.len());
        sending.held = rest.into();
        if written > 0 {
            self.quic.note_taken(written.saturating_sub(heads));
        }
        Ok(sending.held.is_empty())
    }

    /// Writes bytes to QUIC; returns how many it accepted.
    fn write(&self, bytes: &[u8]) -> Result<usize, Gone> {
        if self.quic.has_ended.get() {
            return Err(Gone::Closed);
        }
        let mut state = self.quic.state.borrow_mut();
        match state.send_stream(self.id).write(bytes) {
            Ok(count) => Ok(count),
            Err(WriteError::Blocked) => Ok(0),
            Err(_) => Err(Gone::Closed),
        }
    }

    /// Begins the response with its head.
    fn begin(&self, sending: &mut Sending, head: &OutgoingHead) -> Result<(), Gone> {
        let is_websocket = self.kind.is_websocket;
        let status = self.sent_status(head.status).ok_or(Gone::Closed)?;
        let mut fields = StreamFields::of(head, is_websocket);
        let valid = fields
            .by_ref()
            .filter(|(name, value)| is_field_name(name) && is_field_value(value));
        let section = encode_response(status, valid);
        sending.begin_frame(HEADERS, section.len() as u64);
        sending.held.extend_from_slice(&section);
        if status < 200 {
            return Ok(());
        }
        let declared = fields.content_length();
        let is_empty = declared == Some(0) && !self.may_trail.get();
        let is_over = self.kind.is_head || !status_has_body(status) || is_empty;
        sending.state = match is_over {
            true => State::Complete,
            false => State::Body { rest: declared },
        };
        Ok(())
    }

    /// Sends some of `output`: ready when bytes have gone out, or nothing is left.
    pub fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let before = output.len();
        if self.try_send(output)? || output.len() < before {
            return Poll::Ready(Ok(()));
        }
        let waker = cx.waker().clone();
        self.quic.wait(self.id, |waits| waits.write = Some(waker));
        Poll::Pending
    }

    /// Sends `output`, then `body`; what does not go out is kept in `output`.
    ///
    /// # Errors
    /// The client has reset the stream, or the connection has ended.
    pub fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        body.append_to(&mut output.bytes);
        self.try_send(output).map(|_| ())
    }

    /// Ready when the client has reset the stream; wakes the task then.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.quic.has_ended.get() {
            return Poll::Ready(());
        }
        if self.sending.borrow().state == State::Ended {
            return Poll::Pending;
        }
        let mut state = self.quic.state.borrow_mut();
        match state.send_stream(self.id).stopped() {
            Ok(None) => {
                let waker = cx.waker().clone();
                self.quic.wait(self.id, |waits| waits.gone = Some(waker));
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Ends the stream after a complete response.
    pub fn finish(&self) {
        let mut sending = self.sending.borrow_mut();
        let is_whole = match sending.state {
            State::Ended => return,
            State::Complete => true,
            State::Body { rest } => rest.is_none_or(|rest| rest == 0) && sending.frame == 0,
            State::Head => false,
        };
        if !is_whole {
            drop(sending);
            return self.abort();
        }
        if !sending.trailers.is_empty() && sending.state != State::Complete {
            let trailers = std::mem::take(&mut sending.trailers);
            let section = encode_fields(trailers.fields());
            sending.begin_frame(HEADERS, section.len() as u64);
            sending.held.extend_from_slice(&section);
        }
        sending.state = State::Ended;
        sending.held_body = 0;
        let tail = Bytes::from(std::mem::take(&mut sending.held));
        drop(sending);
        if !self.quic.has_ended.get() {
            self.quic.end_with(self.id, tail);
        }
    }

    /// Resets the stream, because the response is incomplete.
    pub fn abort(&self) {
        let before = std::mem::replace(&mut self.sending.borrow_mut().state, State::Ended);
        if before != State::Ended && !self.quic.has_ended.get() {
            self.quic.give_up(self.id, self.abort_code.get());
        }
    }
}

impl Sending {
    fn begin_frame(&mut self, kind: u64, length: u64) {
        FrameHead { kind, length }.write(&mut self.held);
    }

    /// The next bytes of the frame, at most `most`.
    fn next_piece<'o>(&self, output: &'o mut Output, most: usize) -> Result<&'o [u8], Gone> {
        let frame = usize::try_from(self.frame).unwrap_or(usize::MAX);
        let is_paced = output.is_paced();
        let front = output.front()?;
        match front.get(..front.len().min(frame).min(most)) {
            Some(piece) if is_paced => Ok(piece),
            // A head within a body.
            None | Some([]) => Err(Gone::Closed),
            Some(piece) => Ok(piece),
        }
    }

    /// Appends the first bytes of the frame to the buffered ones, as many as are sent together.
    fn take_along(&mut self, output: &mut Output) -> Result<(), Gone> {
        let piece = self.next_piece(output, MERGED_BYTES - self.held.len())?;
        self.held.extend_from_slice(piece);
        let count = piece.len();
        self.held_body += count;
        self.frame -= count as u64;
        output.advance(count);
        Ok(())
    }
}

impl Drop for QuicStream {
    fn drop(&mut self) {
        self.abort();
        self.quic.forget(self.id);
        let open = self.quic.open.get().saturating_sub(1);
        self.quic.open.set(open);
        if open == 0 {
            // The connection may be idle now, or may end.
            self.quic.wake();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn sending(held: usize, frame: u64) -> Sending {
        Sending {
            state: State::Body { rest: Some(0) },
            held: vec![b'h'; held],
            held_body: 0,
            frame,
            trailers: Trailers::default(),
        }
    }

    #[test]
    fn a_piece_is_never_longer_than_its_frame_nor_than_the_output() {
        let mut output = Output::new(vec![b'x'; 100]);
        for (frame, most, length) in [
            (10, usize::MAX, 10),
            (1000, usize::MAX, 100),
            (50, 7, 7),
            (u64::MAX, 200, 100),
        ] {
            let piece = sending(0, frame)
                .next_piece(&mut output, most)
                .unwrap()
                .len();
            assert_eq!(piece, length, "{frame} {most}");
        }
        // A head where body bytes are expected.
        let mut empty = Output::new(Vec::new());
        assert_eq!(sending(0, 10).next_piece(&mut empty, 10), Err(Gone::Closed));
    }

    #[test]
    fn the_first_bytes_of_a_frame_go_along_with_its_head_up_to_a_bound() {
        let mut output = Output::new(vec![b'x'; 10_000]);
        let mut small = sending(30, 5);
        small.take_along(&mut output).unwrap();
        assert_eq!((small.held.len(), small.held_body, small.frame), (35, 5, 0));
        assert_eq!(output.len(), 9_995);
        let mut large = sending(30, 9_995);
        large.take_along(&mut output).unwrap();
        let along = MERGED_BYTES - 30;
        assert_eq!((large.held.len(), large.held_body), (MERGED_BYTES, along));
        assert_eq!(large.frame, 9_995 - along as u64);
        assert_eq!(
            output.len(),
            large.frame,
            "what is left of the frame is left of the body"
        );
    }

    #[test]
    fn a_frame_begins_with_its_kind_and_length() {
        let mut sending = sending(0, 0);
        sending.begin_frame(DATA, 5);
        sending.begin_frame(HEADERS, 0x4000);
        // RFC 9114 §7.1, with the lengths of RFC 9000 §16.
        assert_eq!(sending.held, [0, 5, 1, 0x80, 0, 0x40, 0]);
    }
}
