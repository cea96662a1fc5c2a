//! The task of an HTTP/2 connection: bytes in and out, new streams, deadlines, its end.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use h2::server::{Builder, Connection as Streams, Handshake, SendResponse};
use h2::{Reason, RecvStream};
use http::{Method, Request};
use tutti_config::model::Http2;
use tutti_conn::pipe::{Face, Pipe};
use tutti_http::Version;
use tutti_http::http2::{FloodGauge, Opening, PREFACE};
use tutti_http2::{Heads, Hub, Kind, Stream};
use tutti_pool::Level;

use crate::connection::Connection;
use crate::stream_task::{self, Asked};
use crate::waiting::{self, Ending};
use tutti_conn::buffers::BUFFER_BYTES;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_conn::socket::Received;
use tutti_snapshot::Timeouts;

/// Looks at everything in a row, before other connections of the thread get a turn.
const TURNS: u32 = 16;

/// How long a client that has been told to go, and has nothing under way, may take to say that it has heard.
const FAREWELL: Millis = 5_000;

/// Response bytes that `h2` holds for one stream at most. What does not fit its client's window waits outside of it.
const STREAM_BUFFER: usize = 64 * 1024;

/// Serves a connection whose first bytes, as far as they have come, are `input`; returns when it has ended.
pub(crate) async fn serve(connection: Connection, input: Vec<u8>, options: Http2) {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    connection.set_active();
    let facts = connection.channel.facts().cloned();
    let hub = Rc::new(Hub::new(facts, waker));
    let mut driver = Driver::new(&connection, hub, input, options);
    let ending = poll_fn(|cx| driver.poll(cx)).await;
    driver.give_back();
    drop(driver);
    match ending {
        Ending::Linger => waiting::linger(&connection).await,
        Ending::Abort => {}
        _ => connection.channel.close(),
    }
}

/// Says what is wrong with a connection whose client has agreed to speak HTTP/2 by ALPN and does not (RFC 9113 §3.4).
const NO_BEGINNING: &str = "it does not begin with HTTP/2's preface and SETTINGS";

/// The state of `h2`.
enum State {
    /// The preface and the client's settings are awaited.
    Opening(Handshake<Face, Bytes>),
    Open(Streams<Face, Bytes>),
    /// The bytes in the pipe go out, then the connection ends.
    Closing,
}

struct Driver<'c> {
    connection: &'c Connection,
    hub: Rc<Hub>,
    pipe: Rc<RefCell<Pipe>>,
    gauge: FloodGauge,
    heads: Heads,
    state: State,
    timeouts: Timeouts,
    /// When the connection was begun.
    opened: Millis,
    /// The client has been told to go.
    is_leaving: bool,
}

impl<'c> Driver<'c> {
    fn new(connection: &'c Connection, hub: Rc<Hub>, mut input: Vec<u8>, options: Http2) -> Self {
        let snapshot = connection.local.snapshot_of(&connection.listener);
        let now = now_millis();
        let mut gauge = FloodGauge::new(PREFACE.len(), now);
        // A first read is far from being a flood.
        let _ = gauge.received(&input, now);
        let mut heads = Heads::new(PREFACE.len());
        heads.pass(&mut input);
        let pipe = Rc::new(RefCell::new(Pipe::new(input)));
        let list_size = u32::try_from(snapshot.limits.max_head_bytes()).unwrap_or(u32::MAX);
        let handshake = Builder::new()
            .max_concurrent_streams(options.max_concurrent_streams)
            .initial_window_size(options.stream_window_size)
            .initial_connection_window_size(options.connection_window_size)
            .max_header_list_size(list_size)
            .max_send_buffer_size(STREAM_BUFFER)
            .enable_connect_protocol()
            .handshake(Face(Rc::clone(&pipe)));
        Self {
            connection,
            hub,
            pipe,
            gauge,
            heads,
            state: State::Opening(handshake),
            timeouts: snapshot.timeouts,
            opened: now,
            is_leaving: false,
        }
    }

    fn give_back(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        let buffers = &self.connection.local.buffers;
        buffers.give(pipe.take_input());
        buffers.give(std::mem::take(&mut pipe.output).bytes);
    }

    /// Moves what can be moved, until the connection has ended or has to wait.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        for _ in 0..TURNS {
            let now = now_millis();
            if self.has_sent() {
                self.connection.note_all_taken();
            }
            // While `h2` has not taken what there is, nobody listens to the client.
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
        self.connection.channel.has_sent(&pipe.output)
    }

    /// Takes from the client what `h2` can take; true if something came.
    fn receive(&mut self, cx: &mut Context<'_>, now: Millis) -> Result<bool, Gone> {
        let mut pipe = self.pipe.borrow_mut();
        if !pipe.is_drained() || pipe.has_ended || matches!(self.state, State::Closing) {
            return Ok(false);
        }
        let local = &self.connection.local;
        let input = pipe.refill();
        if input.capacity() < BUFFER_BYTES {
            *input = local.buffers.take();
        }
        match self.connection.channel.poll_receive(input, cx) {
            Poll::Ready(Ok(Received::Bytes(_))) => {}
            Poll::Ready(Ok(_)) => {
                pipe.has_ended = true;
                return Ok(true);
            }
            Poll::Ready(Err(gone)) => return Err(gone),
            Poll::Pending => {
                local.buffers.give(std::mem::take(input));
                return Ok(false);
            }
        }
        let is_flood = self.gauge.received(input, now).is_err();
        self.heads.pass(input);
        if is_flood {
            drop(pipe);
            self.refuse();
        }
        Ok(true)
    }

    /// The client, for the log.
    fn peer(&self) -> String {
        let peer = self.connection.peer.address();
        peer.map_or_else(|| "a unix socket".to_owned(), |peer| peer.ip().to_string())
    }

    /// The client does what only harms: the connection ends.
    fn refuse(&mut self) {
        let peer = self.peer();
        self.connection.local.complain(
            Level::Warn,
            &format!("HTTP/2 connection from {peer} closed: too many frames that ask for nothing"),
        );
        self.end(Reason::ENHANCE_YOUR_CALM);
    }

    /// The client has agreed to speak HTTP/2, and does not: it is told, which `h2` does not do.
    fn refuse_beginning(&mut self) {
        self.pipe
            .borrow_mut()
            .output
            .bytes
            .extend_from_slice(&goaway(Reason::PROTOCOL_ERROR, NO_BEGINNING));
        let peer = self.peer();
        self.connection.local.mention(
            Level::Info,
            &format!("HTTP/2 connection from {peer} closed: {NO_BEGINNING}"),
        );
    }

    /// Ends the connection now.
    fn end(&mut self, reason: Reason) {
        match &mut self.state {
            State::Open(streams) => streams.abrupt_shutdown(reason),
            _ => self.state = State::Closing,
        }
    }

    /// Tells the client to go, once, if the connection is to end.
    fn leave_if_due(&mut self) {
        if !self.is_leaving && self.connection.is_ending() {
            self.leave();
        }
    }

    /// Tells the client to go. What it has asked for, and what is on its way, is answered (RFC 9113 §6.8).
    fn leave(&mut self) {
        if let State::Open(streams) = &mut self.state {
            streams.graceful_shutdown();
            self.is_leaving = true;
        }
    }

    /// Lets `h2` work, and begins with what it has found.
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
                            self.refuse_beginning();
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

    /// Hands to the client what it takes; true if `h2` waited for room and there is some now.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<bool, Gone> {
        let mut pipe = self.pipe.borrow_mut();
        let channel = &self.connection.channel;
        while !channel.has_sent(&pipe.output) {
            let before = pipe.output.pending().len();
            match channel.poll_send(&mut pipe.output, cx) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => break,
            }
            let sent = before - pipe.output.pending().len();
            self.gauge.sent(sent);
            self.connection.note_taken(sent as u64);
        }
        let has_room = pipe.is_blocked && channel.has_sent(&pipe.output);
        if has_room {
            pipe.is_blocked = false;
        }
        Ok(has_room)
    }

    /// Nothing moves: has it waited too long, and how long may it wait?
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
                FAREWELL.min(self.timeouts.header_read)
            } else {
                self.timeouts.header_read
            };
            let limit = since.saturating_add(patience);
            if limit <= now {
                return Poll::Ready(Ending::Close);
            }
            deadline = deadline.min(limit);
        }
        if hub.open.get() > 0 {
            hub.idle_since.set(None);
            connection.set_active();
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
                connection.count_idle();
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

    /// Keeps no buffer that is empty.
    fn let_go(&mut self) {
        let mut pipe = self.pipe.borrow_mut();
        let output = std::mem::take(&mut pipe.output);
        self.connection.local.buffers.give(output.bytes);
    }
}

/// Begins with a request.
fn begin(
    base: &Connection,
    hub: &Rc<Hub>,
    request: Request<RecvStream>,
    respond: SendResponse<Bytes>,
    cx: &Context<'_>,
) {
    let (parts, body) = request.into_parts();
    let protocol = parts.extensions.get::<h2::ext::Protocol>();
    let is_websocket = protocol.is_some_and(|protocol| protocol.as_str() == "websocket");
    let kind = Kind {
        is_head: parts.method == Method::HEAD,
        is_websocket,
    };
    let asked = Asked {
        has_body: !body.is_end_stream(),
        is_websocket,
        is_unknown: protocol.is_some() && !is_websocket,
    };
    let stream = Stream::new(hub, kind, body, respond);
    let connection = base.for_stream(stream.into(), cx.waker().clone());
    hub.idle_since.set(None);
    stream_task::begin(connection, &asked, |head, input, limits, writing| {
        let authority = parts.uri.authority().map(|authority| authority.as_str());
        let path = parts.uri.path_and_query().map(|path| path.as_str());
        let opening = Opening {
            method: parts.method.as_str().as_bytes(),
            target: path.or(authority).unwrap_or_default().as_bytes(),
            authority: authority.map(str::as_bytes),
            has_body: writing.has_body,
            websocket: writing.websocket,
            version: Version::Http2,
        };
        let fields = || {
            let fields = parts.headers.iter();
            fields.map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()))
        };
        head.compose(input, &opening, fields, limits)
    });
}

/// A GOAWAY frame before any stream (RFC 9113 §4.1, §6.8).
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
