//! The task of an HTTP/2 connection: bytes in and out, new streams, deadlines, its end.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::{Builder, Connection as Streams, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use tutti_config::model::Http2;
use tutti_conn::buffers::BUFFER_BYTES;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_conn::pipe::{Face, Pipe};
use tutti_conn::socket::ReadResult;
use tutti_http::http2::{FloodGauge, Misuse, PREFACE};

use crate::head::Http2Head;
use crate::heads::Heads;
use crate::server::{Ending, Http2Connection, Http2Timeouts};
use crate::stream::{Http2Stream, Hub};

/// Rounds of work in a row before other connections of the thread get a turn.
const TURNS: u32 = 16;

/// Maximum time for a client without open streams to close after a GOAWAY.
const FAREWELL: Millis = 5_000;

/// Response bytes that `h2` buffers for one stream at most. What the client's window has no room for waits outside `h2`.
const STREAM_BUFFER: usize = 64 * 1024;

/// Serves a connection whose first bytes are `input`; returns when no more requests come over it.
pub async fn serve(connection: &impl Http2Connection, input: Vec<u8>, options: Http2) -> Ending {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    connection.set_active(true);
    let hub = Rc::new(Hub::new(connection.facts(), waker));
    let mut driver = Driver::new(connection, hub, input, options);
    let ending = poll_fn(|cx| driver.poll(cx)).await;
    driver.give_back();
    ending
}

/// Logged for a client that negotiated HTTP/2 by ALPN and does not speak it (RFC 9113 §3.4).
const NO_BEGINNING: &str = "it does not begin with HTTP/2's preface and SETTINGS";

/// The state of `h2`.
enum State {
    /// Waits for the preface and the client's settings.
    Opening(Handshake<Face, Bytes>),
    Open(Streams<Face, Bytes>),
    /// The bytes in the pipe go out, then the connection ends.
    Closing,
}

struct Driver<'c, C> {
    connection: &'c C,
    hub: Rc<Hub>,
    pipe: Rc<RefCell<Pipe>>,
    gauge: FloodGauge,
    heads: Heads,
    state: State,
    timeouts: Http2Timeouts,
    /// When the connection began.
    opened: Millis,
    /// GOAWAY has been sent.
    is_leaving: bool,
}

impl<'c, C: Http2Connection> Driver<'c, C> {
    fn new(connection: &'c C, hub: Rc<Hub>, mut input: Vec<u8>, options: Http2) -> Self {
        let terms = connection.terms();
        let now = now_millis();
        let mut gauge = FloodGauge::new(PREFACE.len(), now);
        // A single read cannot be a flood.
        let received = gauge.received(&input, now);
        let mut heads = Heads::new(PREFACE.len());
        heads.pass(&mut input);
        let pipe = Rc::new(RefCell::new(Pipe::new(input)));
        let list_size = u32::try_from(terms.most_head_bytes).unwrap_or(u32::MAX);
        let handshake = Builder::new()
            .max_concurrent_streams(options.max_concurrent_streams)
            .initial_window_size(options.stream_window_size)
            .initial_connection_window_size(options.connection_window_size)
            .max_header_list_size(list_size)
            .max_send_buffer_size(STREAM_BUFFER)
            .enable_connect_protocol()
            .handshake(Face(Rc::clone(&pipe)));
        let mut driver = Self {
            connection,
            hub,
            pipe,
            gauge,
            heads,
            state: State::Opening(handshake),
            timeouts: terms.timeouts,
            opened: now,
            is_leaving: false,
        };
        if received == Err(Misuse::FrameSize) {
            driver.refuse(Misuse::FrameSize);
        }
        driver
    }

    fn give_back(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        let buffers = self.connection.buffers();
        buffers.give(pipe.take_input());
        buffers.give(std::mem::take(&mut pipe.output).bytes);
    }

    /// Moves bytes until the connection has ended or has to wait.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        for _ in 0..TURNS {
            let now = now_millis();
            if self.has_sent() {
                self.connection.note_all_taken();
            }
            // Until `h2` has taken all input, nothing more is read from the client.
            let had_input = !self.pipe.borrow().is_drained();
            let received = match self.receive(cx, now) {
                Ok(received) => received,
                Err(_) => return Poll::Ready(Ending::Abort),
            };
            self.leave_if_due();
            self.drive(cx);
            if !self.pipe.borrow().is_blocked {
                self.hub.note_written();
            }
            let has_room = match self.send(cx) {
                Ok(has_room) => has_room,
                Err(_) => return Poll::Ready(Ending::Abort),
            };
            if matches!(self.state, State::Closing) && self.has_sent() {
                return Poll::Ready(Ending::Linger);
            }
            let listens = had_input && self.pipe.borrow().is_drained();
            if !received && !has_room && !listens {
                return self.settle(now);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// True if the client has taken everything.
    fn has_sent(&self) -> bool {
        let pipe = self.pipe.borrow();
        self.connection.has_sent(&pipe.output)
    }

    /// Reads as much from the client as `h2` can take; true if bytes arrived.
    fn receive(&mut self, cx: &mut Context<'_>, now: Millis) -> Result<bool, Gone> {
        let mut pipe = self.pipe.borrow_mut();
        if !pipe.is_drained() || pipe.has_ended || matches!(self.state, State::Closing) {
            return Ok(false);
        }
        let buffers = self.connection.buffers();
        let input = pipe.refill();
        if input.capacity() < BUFFER_BYTES {
            *input = buffers.take();
        }
        match self.connection.poll_receive(input, cx) {
            Poll::Ready(Ok(ReadResult::Bytes(_))) => {}
            Poll::Ready(Ok(_)) => {
                pipe.has_ended = true;
                return Ok(true);
            }
            Poll::Ready(Err(gone)) => return Err(gone),
            Poll::Pending => {
                buffers.give(std::mem::take(input));
                return Ok(false);
            }
        }
        let received = self.gauge.received(input, now);
        self.heads.pass(input);
        drop(pipe);
        match received {
            Err(misuse) => self.refuse(misuse),
            Ok(()) if self.gauge.is_worn_out() && !self.is_leaving => self.leave(),
            Ok(()) => {}
        }
        Ok(true)
    }

    /// Closes the connection because of the client's frames.
    fn refuse(&mut self, misuse: Misuse) {
        match misuse {
            Misuse::Flood => {
                self.connection.log_abuse("too many frames without effect");
                self.end(Reason::ENHANCE_YOUR_CALM);
            }
            Misuse::FrameSize => {
                // `h2` would send a GOAWAY of its own.
                let input = self.pipe.borrow_mut().take_input();
                self.connection.buffers().give(input);
                self.send_goaway(Reason::FRAME_SIZE_ERROR, "a GOAWAY frame is too short");
                self.state = State::Closing;
            }
        }
    }

    /// Sends a GOAWAY frame in place of `h2`, and logs the reason.
    fn send_goaway(&self, reason: Reason, why: &'static str) {
        let mut pipe = self.pipe.borrow_mut();
        pipe.output.bytes.extend_from_slice(&goaway(reason, why));
        drop(pipe);
        self.connection.log_client_error(why);
    }

    /// Ends the connection now.
    fn end(&mut self, reason: Reason) {
        match &mut self.state {
            State::Open(streams) => streams.abrupt_shutdown(reason),
            _ => self.state = State::Closing,
        }
    }

    /// Sends GOAWAY, once, if the connection is to end.
    fn leave_if_due(&mut self) {
        if !self.is_leaving && self.connection.is_ending() {
            self.leave();
        }
    }

    /// Sends GOAWAY. Open streams, and requests on their way, are still answered (RFC 9113 §6.8).
    fn leave(&mut self) {
        if let State::Open(streams) = &mut self.state {
            streams.graceful_shutdown();
            self.is_leaving = true;
        }
    }

    /// Lets `h2` work, and starts the requests that it has found.
    fn drive(&mut self, cx: &mut Context<'_>) {
        loop {
            match &mut self.state {
                State::Opening(handshake) => match Pin::new(handshake).poll(cx) {
                    Poll::Ready(Ok(streams)) => {
                        self.state = State::Open(streams);
                        self.leave_if_due();
                    }
                    Poll::Ready(Err(error)) => {
                        if error.reason() == Some(Reason::PROTOCOL_ERROR) {
                            // The client negotiated HTTP/2 and does not speak it; `h2` sends no GOAWAY for that.
                            self.send_goaway(Reason::PROTOCOL_ERROR, NO_BEGINNING);
                        }
                        self.state = State::Closing;
                    }
                    Poll::Pending => return,
                },
                State::Open(streams) => match streams.poll_accept(cx) {
                    Poll::Ready(Some(Ok((request, respond)))) => {
                        begin(self.connection, &self.hub, request, respond, cx);
                    }
                    Poll::Ready(_) => self.state = State::Closing,
                    Poll::Pending => return,
                },
                State::Closing => return,
            }
        }
    }

    /// Sends to the client; true if `h2` waited for room and there is some now.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<bool, Gone> {
        let mut pipe = self.pipe.borrow_mut();
        let connection = self.connection;
        while !connection.has_sent(&pipe.output) {
            let before = pipe.output.pending().len();
            match connection.poll_send(&mut pipe.output, cx) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => break,
            }
            let sent = before - pipe.output.pending().len();
            self.gauge.sent(sent);
            connection.note_taken(sent as u64);
        }
        let has_room = pipe.is_blocked && connection.has_sent(&pipe.output);
        if has_room {
            pipe.is_blocked = false;
        }
        Ok(has_room)
    }

    /// Called when nothing moves: checks the deadlines and sets the next one.
    fn settle(&mut self, now: Millis) -> Poll<Ending> {
        let hub = Rc::clone(&self.hub);
        let connection = self.connection;
        let mut deadline = NEVER;
        if !self.has_sent() {
            deadline = connection.owes(self.timeouts.send);
            if deadline <= now {
                return Poll::Ready(Ending::Close);
            }
        } else {
            self.let_go();
        }
        let head_since = match self.state {
            State::Opening(_) => Some(self.opened),
            _ => self.gauge.head_since(),
        };
        if let Some(since) = head_since {
            let patience = if connection.is_ending() {
                FAREWELL.min(self.timeouts.head)
            } else {
                self.timeouts.head
            };
            let limit = since.saturating_add(patience);
            if limit <= now {
                return Poll::Ready(Ending::Close);
            }
            deadline = deadline.min(limit);
        }
        if hub.open.get() > 0 {
            hub.idle_since.set(None);
            connection.set_active(true);
        } else if matches!(self.state, State::Open(_)) {
            let patience = if self.is_leaving {
                FAREWELL
            } else {
                self.timeouts.idle
            };
            let since = hub.idle_since.get().unwrap_or(now);
            hub.idle_since.set(Some(since));
            let limit = since.saturating_add(patience);
            if limit > now {
                connection.set_active(false);
                deadline = deadline.min(limit);
            } else if self.is_leaving {
                return Poll::Ready(Ending::Close);
            } else {
                self.leave();
                hub.idle_since.set(None);
                hub.waker.wake_by_ref();
            }
        }
        connection.set_deadline(deadline);
        Poll::Pending
    }

    /// Frees empty buffers.
    fn let_go(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        let output = std::mem::take(&mut pipe.output);
        self.connection.buffers().give(output.bytes);
    }
}

/// Starts a request.
fn begin(
    connection: &impl Http2Connection,
    hub: &Rc<Hub>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    cx: &Context<'_>,
) {
    let (parts, body) = request.into_parts();
    let head = Http2Head::new(parts, !body.is_end_stream());
    let stream = Http2Stream::new(hub, head.kind(), body, respond);
    hub.idle_since.set(None);
    connection.begin(&head, stream, cx.waker());
}

/// A GOAWAY frame sent before any stream (RFC 9113 §4.1, §6.8).
fn goaway(reason: Reason, message: &str) -> Vec<u8> {
    const TYPE: u8 = 7;
    let length = u32::try_from(8 + message.len()).unwrap_or_default();
    let mut frame = length.to_be_bytes().get(1..).unwrap_or_default().to_vec();
    // No flags, stream 0, last stream 0.
    frame.extend_from_slice(&[TYPE, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    frame.extend_from_slice(&u32::from(reason).to_be_bytes());
    frame.extend_from_slice(message.as_bytes());
    frame
}
