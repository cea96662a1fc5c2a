//! One HTTP/2 stream as the channel of an exchange: a response's head becomes HEADERS, its body DATA, and the client's DATA the request
//! body.
//!
//! The receive window is reopened as the body is read here, so a slow application slows its client. What the client's window has no room
//! for waits here, not in the connection's output.
//!
//! Must never: end a stream normally whose response was cut short.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use tutti_conn::output::{Gone, Output};
use tutti_conn::send_deadline::StreamShare;
use tutti_conn::socket::{BodyPart, ReadResult};
use tutti_http::http2::frame::{DATA, END_STREAM, MOST_PAYLOAD};
use tutti_http::{OutgoingHead, StreamFields, Trailers, status_has_body, stream_status};
use tutti_tls::HandshakeFacts;

use crate::fault::Http2Code;
use crate::frames;
use crate::hub::{Core, Hub};
use crate::stream_state::keep;

/// The progress of the response.
#[derive(Clone, Copy)]
enum Sending {
    /// The head has not been sent.
    Head,
    /// The body is being sent; `rest` is what remains, if the length is known.
    Body { rest: Option<u64> },
    /// The stream has ended.
    Ended,
}

/// A stream of an HTTP/2 connection.
pub struct Http2Stream {
    hub: Rc<Hub>,
    number: u32,
    kind: Kind,
    sending: Cell<Sending>,
    /// The trailer fields of the response.
    trailers: RefCell<Trailers>,
    /// The error code sent if the response is incomplete.
    abort_reason: Cell<Http2Code>,
    /// A response of known length ends only with [`Http2Stream::finish`]: trailers may follow.
    may_trail: Cell<bool>,
    /// Its share of the bytes that the client takes on the connection.
    share: StreamShare,
}

/// The kind of a request.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// HEAD.
    pub(crate) is_head: bool,
    /// An extended CONNECT for WebSocket.
    pub(crate) is_websocket: bool,
}

impl Http2Stream {
    /// For a received request.
    pub(crate) fn new(hub: &Rc<Hub>, number: u32, kind: Kind) -> Self {
        hub.open.set(hub.open.get() + 1);
        Self {
            hub: Rc::clone(hub),
            number,
            kind,
            sending: Cell::new(Sending::Head),
            trailers: RefCell::default(),
            abort_reason: Cell::new(Http2Code::INTERNAL_ERROR),
            may_trail: Cell::new(false),
            share: StreamShare::new(hub.taken.get()),
        }
    }

    /// The trailer fields of a request whose body has ended.
    pub fn received_trailers(&self) -> Trailers {
        let core = self.hub.core.borrow();
        let upload = core.streams.get(&self.number).map(|one| &one.upload);
        match upload {
            Some(Some(upload)) => upload.trailers.clone(),
            _ => Trailers::default(),
        }
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
    pub fn abort_with(&self, reason: Http2Code) {
        self.abort_reason.set(reason);
    }

    /// Sets the trailer fields of the response.
    pub fn set_trailers(&self, trailers: Trailers) {
        self.trailers.replace(trailers);
    }

    /// Returns the outcome of the TLS handshake; `None` without TLS.
    pub fn facts(&self) -> Option<&Rc<HandshakeFacts>> {
        self.hub.facts.as_ref()
    }

    /// Returns this stream's share of the bytes that the client has taken on its connection since the last call: a client that reads its
    /// other streams first is not slow.
    pub fn taken_beside(&self) -> u64 {
        self.share.next(self.hub.taken.get(), self.hub.open.get())
    }

    /// Polls for bytes of the request body.
    pub fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        let mut core = self.hub.core.borrow_mut();
        let core = &mut *core;
        let Some(stream) = core.streams.get_mut(&self.number) else {
            return Poll::Ready(Err(Gone::Closed));
        };
        if stream.is_reset {
            return Poll::Ready(Err(Gone::Closed));
        }
        let Some(upload) = &mut stream.upload else {
            return Poll::Ready(Ok(ReadResult::End));
        };
        if upload.unread() == 0 {
            if stream.has_received_end {
                return Poll::Ready(Ok(ReadResult::End));
            }
            keep(&mut stream.reader, cx.waker());
            return Poll::Pending;
        }
        let count = upload.read(buffer);
        // After the last frame, the client needs no window of this stream.
        let update = match stream.has_received_end {
            true => None,
            false => upload.window.give_back(count),
        };
        let before = core.output.bytes.len();
        if let Some(increment) = update {
            core.write_window_update(self.number, increment);
        }
        core.give_back(count);
        if core.output.bytes.len() > before {
            self.hub.note_written(core);
        }
        Poll::Ready(Ok(ReadResult::Bytes(count)))
    }

    /// Sends what the client's windows have room for; true if nothing is left in `output`.
    pub fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        if output.is_empty() {
            return Ok(true);
        }
        let mut core = self.hub.core.borrow_mut();
        let before = core.output.bytes.len();
        let outcome = self.send(&mut core, output);
        if core.output.bytes.len() > before {
            self.hub.note_written(&core);
        }
        outcome
    }

    fn send(&self, core: &mut Core, output: &mut Output) -> Result<bool, Gone> {
        while !output.is_empty() {
            match self.sending.get() {
                Sending::Head => {
                    let head = output.take_head().ok_or(Gone::Closed)?;
                    self.begin(core, &head)?;
                    output.keep_spent(head);
                }
                // A response has one head.
                Sending::Body { .. } if output.take_head().is_some() => return Err(Gone::Closed),
                Sending::Body { rest } => {
                    if output.is_paused() {
                        return Ok(false);
                    }
                    let end = rest.filter(|_| !self.may_trail.get());
                    let sent = core.send_data(self.number, output.front()?, end)?;
                    if sent == 0 {
                        return Ok(false);
                    }
                    output.advance(sent);
                    self.note_sent(rest, sent);
                }
                // Nothing may follow: the body of a response to HEAD, or more than was declared.
                Sending::Ended => output.discard(),
            }
        }
        Ok(true)
    }

    /// Notes the progress of a body.
    fn note_sent(&self, rest: Option<u64>, sent: usize) {
        let hub = &self.hub;
        hub.taken.set(hub.taken.get() + sent as u64);
        let rest = rest.map(|rest| rest.saturating_sub(sent as u64));
        self.sending.set(match rest {
            Some(0) if !self.may_trail.get() => Sending::Ended,
            rest => Sending::Body { rest },
        });
    }

    /// Sends a head, interim or not.
    fn begin(&self, core: &mut Core, head: &OutgoingHead) -> Result<(), Gone> {
        let is_websocket = self.kind.is_websocket;
        let status = self.sent_status(head.status).ok_or(Gone::Closed)?;
        let stream = core.streams.get(&self.number);
        if stream.is_none_or(|one| one.is_reset) {
            return Err(Gone::Closed);
        }
        let is_interim = status < 200;
        let mut fields = StreamFields::of(head, is_websocket);
        let mut ends = false;
        frames::write_section(core, self.number, |encoder, out| {
            encoder.write_head(status, &mut fields, out);
            let is_empty = fields.content_length() == Some(0) && !self.may_trail.get();
            ends = !is_interim && (self.kind.is_head || !status_has_body(status) || is_empty);
            ends
        });
        if ends {
            core.end_stream(self.number, |one| one.has_sent_end = true);
            self.sending.set(Sending::Ended);
        } else if !is_interim {
            let rest = fields.content_length();
            self.sending.set(Sending::Body { rest });
        }
        Ok(())
    }

    /// Sends some of `output`: ready when bytes have gone out, or nothing is left.
    pub fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        let before = output.len();
        if self.try_send(output)? || output.len() < before {
            return Poll::Ready(Ok(()));
        }
        if output.is_paused() {
            self.pass_room_on();
            return output.poll_pace(cx).map(Ok);
        }
        let mut core = self.hub.core.borrow_mut();
        let core = &mut *core;
        let Some(stream) = core.streams.get_mut(&self.number) else {
            return Poll::Ready(Err(Gone::Closed));
        };
        if stream.window.room() == 0 {
            keep(&mut stream.writer, cx.waker());
            self.hub.note_unused(core);
        } else {
            let wanted = usize::try_from(output.len()).unwrap_or(usize::MAX);
            if core.wait(self.number, wanted, cx.waker()) {
                self.hub.note_written(core);
            }
        }
        Poll::Pending
    }

    /// Called when the response may not be sent now: another stream may use the room for which this one was woken.
    pub fn pass_room_on(&self) {
        self.hub.note_unused(&self.hub.core.borrow());
    }

    /// Sends `output`, then `body`; what does not go out is kept in `output`.
    pub fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        let length = body.len();
        if self.try_send(output)?
            && let Sending::Body { rest } = self.sending.get()
            && (1..=MOST_PAYLOAD).contains(&length)
            && !output.is_paced()
        {
            // The usual case: one copy, into the connection's output.
            let mut core = self.hub.core.borrow_mut();
            let core = &mut *core;
            if core.room_for(self.number)? >= length {
                let ends = rest == Some(length as u64) && !self.may_trail.get();
                core.send_whole(self.number, length, ends, |bytes| body.append_to(bytes));
                self.note_sent(rest, length);
                self.hub.note_written(core);
                return Ok(());
            }
        }
        body.append_to(&mut output.bytes);
        self.try_send(output).map(|_| ())
    }

    /// Ready when the client has reset the stream; wakes the task then.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut core = self.hub.core.borrow_mut();
        match core.streams.get_mut(&self.number) {
            Some(stream) if !stream.is_reset => {
                keep(&mut stream.watcher, cx.waker());
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }

    /// Ends the stream after a complete response.
    pub fn finish(&self) {
        match self.sending.get() {
            Sending::Body {
                rest: None | Some(0),
            } => {
                self.sending.set(Sending::Ended);
                let mut core = self.hub.core.borrow_mut();
                let core = &mut *core;
                // Otherwise it has been reset.
                if core
                    .streams
                    .get(&self.number)
                    .is_some_and(|one| !one.is_reset)
                {
                    let trailers = self.trailers.borrow();
                    match trailers.is_empty() {
                        true => core.write_frame(DATA, END_STREAM, self.number, &[]),
                        false => frames::write_section(core, self.number, |encoder, out| {
                            encoder.write_trailers(trailers.fields(), out);
                            true
                        }),
                    }
                    core.end_stream(self.number, |one| one.has_sent_end = true);
                    self.hub.note_written(core);
                }
            }
            _ => self.abort(),
        }
    }

    /// Resets the stream, because the response is incomplete.
    pub fn abort(&self) {
        if !matches!(self.sending.get(), Sending::Ended) {
            let mut core = self.hub.core.borrow_mut();
            core.reset(self.number, self.abort_reason.get());
            self.hub.note_written(&core);
        }
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        let open = self.hub.open.get().saturating_sub(1);
        self.hub.open.set(open);
        let mut core = self.hub.core.borrow_mut();
        core.remove(self.number);
        // The connection may be idle now, may end, or has room for another stream.
        if open == 0 || core.has_blocked() || !core.output.is_empty() {
            self.hub.note_written(&core);
        }
    }
}
