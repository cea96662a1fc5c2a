//! One HTTP/2 stream as the channel of an exchange: a response's head becomes HEADERS, its body DATA, and the client's DATA the request
//! body.
//!
//! The receive window is reopened as the body is read here, so a slow application slows its client. What the client's window has no room
//! for waits here, not in `h2`.
//!
//! Must never: end a stream normally whose response was cut short.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, HeadForm, Output, StreamHead};
use tutti_conn::socket::{BodyPart, ReadResult};
use tutti_http::{OutgoingHead, Trailers, status_has_body, stream_head};
use tutti_tls::HandshakeFacts;

/// The state that the streams of one connection share.
pub(crate) struct Hub {
    /// The outcome of the TLS handshake; `None` without TLS.
    pub(crate) facts: Option<Rc<HandshakeFacts>>,
    /// Wakes the connection's task.
    pub(crate) waker: Waker,
    /// Streams that have not ended.
    pub(crate) open: Cell<usize>,
    /// Since when no stream has been open.
    pub(crate) idle_since: Cell<Option<Millis>>,
    /// Body bytes that fitted the client's windows. Frame heads are not counted: for a client that opens its windows byte by byte they
    /// would be most of it.
    taken: Cell<u64>,
    /// Body bytes passed to `h2` since it last wrote out everything.
    given: Cell<usize>,
    /// Streams that wait until it has.
    waiting: RefCell<Vec<Waker>>,
}

/// When `h2` holds more than this for a client that does not read, no stream of the connection passes it more: there may be a hundred
/// streams, and each could leave 64 KiB there.
const GIVEN_BYTES: usize = 256 * 1024;

impl Hub {
    /// For a connection without streams.
    pub(crate) fn new(facts: Option<Rc<HandshakeFacts>>, waker: Waker) -> Self {
        Self {
            facts,
            waker,
            open: Cell::new(0),
            idle_since: Cell::new(None),
            taken: Cell::new(0),
            given: Cell::new(0),
            waiting: RefCell::default(),
        }
    }

    /// Counts the body bytes that were given to `h2`.
    fn note_given(&self, bytes: usize) {
        self.given.set(self.given.get() + bytes);
        self.taken.set(self.taken.get() + bytes as u64);
    }

    /// Notes that `h2` has written out everything: streams may continue.
    pub(crate) fn note_written(&self) {
        self.given.set(0);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Registers a waker for when `h2` accepts more.
    fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|one| one.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// True if `h2` must not be given more.
    fn is_full(&self) -> bool {
        self.given.get() >= GIVEN_BYTES
    }
}

/// The progress of the response.
enum Sending {
    /// The head has not been sent.
    Head(SendResponse<Bytes>),
    /// The body is being sent; `rest` is what remains, if the length is known.
    Body {
        stream: SendStream<Bytes>,
        rest: Option<u64>,
    },
    /// The stream has ended.
    Ended,
}

/// A stream of an HTTP/2 connection.
pub struct Http2Stream {
    hub: Rc<Hub>,
    /// The request was HEAD.
    is_head: bool,
    /// The request was an extended CONNECT.
    is_websocket: bool,
    sending: RefCell<Sending>,
    receiving: RefCell<Receiving>,
    /// The trailer fields of the response.
    trailers: RefCell<Trailers>,
    /// The error code sent if the response is incomplete.
    abort_reason: Cell<Reason>,
    /// A response of known length ends only with [`Http2Stream::finish`]: trailers may follow.
    may_trail: Cell<bool>,
    /// Bytes that the client had taken on the connection when [`Stream::taken_beside`] was last called.
    counted: Cell<u64>,
}

struct Receiving {
    body: RecvStream,
    /// Received bytes that have not been read.
    data: Bytes,
    /// The trailer fields of the request.
    trailers: Trailers,
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
    pub(crate) fn new(
        hub: &Rc<Hub>,
        kind: Kind,
        body: RecvStream,
        respond: SendResponse<Bytes>,
    ) -> Self {
        hub.open.set(hub.open.get() + 1);
        Self {
            hub: Rc::clone(hub),
            is_head: kind.is_head,
            is_websocket: kind.is_websocket,
            sending: RefCell::new(Sending::Head(respond)),
            receiving: RefCell::new(Receiving {
                body,
                data: Bytes::new(),
                trailers: Trailers::default(),
            }),
            trailers: RefCell::default(),
            abort_reason: Cell::new(Reason::INTERNAL_ERROR),
            may_trail: Cell::new(false),
            counted: Cell::new(hub.taken.get()),
        }
    }

    /// The trailer fields of a request whose body has ended.
    pub fn received_trailers(&self) -> Trailers {
        self.receiving.borrow().trailers.clone()
    }

    /// Announces, before the head is sent, that trailer fields may follow the response's body.
    pub fn expect_trailers(&self) {
        self.may_trail.set(true);
    }

    /// Sets the error code for an incomplete response.
    pub fn abort_with(&self, reason: Reason) {
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
        let streams = self.hub.open.get().max(1) as u64;
        let part = (self.hub.taken.get() - self.counted.get()) / streams;
        self.counted.set(self.counted.get() + part * streams);
        part
    }

    /// Polls for bytes of the request body.
    pub fn poll_receive(
        &self,
        buffer: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<ReadResult, Gone>> {
        let mut receiving = self.receiving.borrow_mut();
        let Receiving {
            body,
            data,
            trailers,
        } = &mut *receiving;
        while data.is_empty() {
            match body.poll_data(cx) {
                Poll::Ready(Some(Ok(bytes))) => *data = bytes,
                Poll::Ready(Some(Err(_))) => return Poll::Ready(Err(Gone::Closed)),
                Poll::Ready(None) => {
                    return match body.poll_trailers(cx) {
                        Poll::Ready(Ok(fields)) => {
                            if let Some(fields) = fields {
                                *trailers = Trailers::of_map(&fields);
                            }
                            Poll::Ready(Ok(ReadResult::End))
                        }
                        Poll::Ready(Err(_)) => Poll::Ready(Err(Gone::Closed)),
                        Poll::Pending => Poll::Pending,
                    };
                }
                Poll::Pending => return Poll::Pending,
            }
        }
        let room = buffer.capacity() - buffer.len();
        let taken = data.split_to(room.min(data.len()));
        buffer.extend_from_slice(&taken);
        // Fails only for more bytes than were received.
        let _ = body.flow_control().release_capacity(taken.len());
        Poll::Ready(Ok(ReadResult::Bytes(taken.len())))
    }

    /// Sends what the client's windows have room for; true if nothing is left in `output`.
    pub fn try_send(&self, output: &mut Output) -> Result<bool, Gone> {
        let mut sending = self.sending.borrow_mut();
        while !output.is_empty() {
            match &mut *sending {
                Sending::Head(respond) => {
                    let head = output.take_head().ok_or(Gone::Closed)?;
                    if let Some(next) = self.begin(respond, head)? {
                        *sending = next;
                    }
                }
                // A response has one head.
                Sending::Body { .. } if output.take_head().is_some() => return Err(Gone::Closed),
                Sending::Body { stream, rest } => {
                    if self.hub.is_full() || output.is_paused() {
                        return Ok(false);
                    }
                    let sent = send_data(stream, rest, &self.may_trail, output.front()?)?;
                    self.hub.note_given(sent);
                    if sent == 0 {
                        return Ok(false);
                    }
                    output.advance(sent);
                    if *rest == Some(0) && !self.may_trail.get() {
                        *sending = Sending::Ended;
                    }
                }
                // Nothing may follow: the body of a response to HEAD, or more than was declared.
                Sending::Ended => output.discard(),
            }
        }
        Ok(true)
    }

    /// Converts the head for this stream.
    pub fn head(&self, head: &OutgoingHead) -> StreamHead {
        StreamHead {
            form: stream_head(head, self.is_websocket).map(HeadForm::Http2),
            bytes: head.fields.lines().len(),
        }
    }

    /// Sends a head. Returns the next state, unless the head is interim.
    fn begin(
        &self,
        respond: &mut SendResponse<Bytes>,
        head: StreamHead,
    ) -> Result<Option<Sending>, Gone> {
        let Some(HeadForm::Http2(response)) = head.form else {
            return Err(Gone::Closed);
        };
        let status = response.status();
        if status.is_informational() {
            respond
                .send_informational(response)
                .map_err(|_| Gone::Closed)?;
            return Ok(None);
        }
        let declared = response.headers().get(CONTENT_LENGTH);
        let declared = declared.and_then(|value| value.to_str().ok()?.parse().ok());
        let is_empty = declared == Some(0) && !self.may_trail.get();
        let is_over = self.is_head || !status_has_body(status.as_u16()) || is_empty;
        let stream = respond
            .send_response(response, is_over)
            .map_err(|_| Gone::Closed)?;
        Ok(Some(if is_over {
            Sending::Ended
        } else {
            Sending::Body {
                stream,
                rest: declared,
            }
        }))
    }

    /// Sends some of `output`: ready when bytes have gone out, or nothing is left.
    pub fn poll_send(&self, output: &mut Output, cx: &mut Context<'_>) -> Poll<Result<(), Gone>> {
        loop {
            let before = output.len();
            if self.try_send(output)? || output.len() < before {
                return Poll::Ready(Ok(()));
            }
            if self.hub.is_full() {
                self.hub.wait(cx.waker());
                return Poll::Pending;
            }
            let Sending::Body { stream, .. } = &mut *self.sending.borrow_mut() else {
                return Poll::Ready(Err(Gone::Closed));
            };
            match stream.poll_capacity(cx) {
                Poll::Ready(Some(Ok(_))) => {}
                Poll::Ready(_) => return Poll::Ready(Err(Gone::Closed)),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Sends `output`, then `body`; what does not go out is kept in `output`.
    pub fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        if self.try_send(output)? {
            // The usual case: one copy, into the buffer that `h2` keeps.
            if let Sending::Body { stream, rest } = &mut *self.sending.borrow_mut()
                && !body.is_empty()
                && !output.is_paced()
                && !self.hub.is_full()
                && room(stream, body.len()) >= body.len()
            {
                let mut data = Vec::with_capacity(body.len());
                body.append_to(&mut data);
                self.hub.note_given(data.len());
                return send_whole(stream, rest, &self.may_trail, data.into());
            }
        }
        body.append_to(&mut output.bytes);
        self.try_send(output).map(|_| ())
    }

    /// Ready when the client has reset the stream; wakes the task then.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.sending.borrow_mut() {
            Sending::Head(respond) => respond.poll_reset(cx).map(|_| ()),
            Sending::Body { stream, .. } => stream.poll_reset(cx).map(|_| ()),
            Sending::Ended => Poll::Pending,
        }
    }

    /// Ends the stream after a complete response.
    pub fn finish(&self) {
        let mut sending = self.sending.borrow_mut();
        match &mut *sending {
            Sending::Body {
                stream,
                rest: None | Some(0),
            } => {
                // Either fails if the stream has been reset.
                let trailers = self.trailers.borrow().to_map();
                let _ = match trailers {
                    Some(trailers) => stream.send_trailers(trailers),
                    None => stream.send_data(Bytes::new(), true),
                };
                *sending = Sending::Ended;
            }
            _ => {
                drop(sending);
                self.abort();
            }
        }
    }

    /// Resets the stream, because the response is incomplete.
    pub fn abort(&self) {
        let reason = self.abort_reason.get();
        match &mut *self.sending.borrow_mut() {
            Sending::Head(respond) => respond.send_reset(reason),
            Sending::Body { stream, .. } => stream.send_reset(reason),
            Sending::Ended => {}
        }
    }
}

impl Drop for Http2Stream {
    fn drop(&mut self) {
        let open = self.hub.open.get().saturating_sub(1);
        self.hub.open.set(open);
        if open == 0 {
            // The connection may be idle now, or may end.
            self.hub.waker.wake_by_ref();
        }
    }
}

/// Returns the room in the client's windows, up to `wanted`.
fn room(stream: &mut SendStream<Bytes>, wanted: usize) -> usize {
    stream.reserve_capacity(wanted);
    stream.capacity()
}

/// Sends what there is room for; returns the number of bytes.
fn send_data(
    stream: &mut SendStream<Bytes>,
    rest: &mut Option<u64>,
    may_trail: &Cell<bool>,
    bytes: &[u8],
) -> Result<usize, Gone> {
    let count = room(stream, bytes.len()).min(bytes.len());
    if count > 0 {
        let data = Bytes::copy_from_slice(bytes.get(..count).unwrap_or_default());
        send_whole(stream, rest, may_trail, data)?;
    }
    Ok(count)
}

fn send_whole(
    stream: &mut SendStream<Bytes>,
    rest: &mut Option<u64>,
    may_trail: &Cell<bool>,
    data: Bytes,
) -> Result<(), Gone> {
    let is_last = match rest {
        None => false,
        Some(rest) => {
            *rest = rest.saturating_sub(data.len() as u64);
            *rest == 0 && !may_trail.get()
        }
    };
    stream.send_data(data, is_last).map_err(|_| Gone::Closed)
}
