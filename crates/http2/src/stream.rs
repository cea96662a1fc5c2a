//! One stream of HTTP/2 as a connection's channel: a response's head becomes HEADERS, the bytes behind it DATA, and DATA of the client a body.
//!
//! The window of what a client sends is given back as it is taken from here, so a slow application slows its client; what goes out waits
//! here until the client's window has room for it, and not in `h2`.
//!
//! Must never: end a stream whose response was cut short as if it were whole.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::header::CONTENT_LENGTH;
use tutti_http::{OutgoingHead, Trailers, status_has_body, stream_head};
use tutti_tls::HandshakeFacts;

use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, HeadForm, Output, StreamHead};
use tutti_conn::socket::{BodyPart, ReadResult};

/// The state that the streams of one connection share.
pub(crate) struct Hub {
    /// The outcome of that connection's handshake, if its bytes are encrypted.
    pub(crate) facts: Option<Rc<HandshakeFacts>>,
    /// Wakes the connection's task.
    pub(crate) waker: Waker,
    /// Streams that have not ended.
    pub(crate) open: Cell<usize>,
    /// Since when there has been none.
    pub(crate) idle_since: Cell<Option<Millis>>,
    /// Bytes of bodies that the client's windows have had room for. Heads of frames are not counted: they would be most of it for a client
    /// that opens its windows by a byte.
    taken: Cell<u64>,
    /// Bytes of bodies that `h2` has been given since it last had written down all it had.
    given: Cell<usize>,
    /// Who waits until it has.
    waiting: RefCell<Vec<Waker>>,
}

/// With more than this for a client that does not read, `h2` is given nothing more by any stream of its connection: there may be a
/// hundred, and each could leave 64 KiB there.
const GIVEN_BYTES: usize = 256 * 1024;

impl Hub {
    /// For a connection that has no stream yet.
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

    /// `h2` has been given so many bytes of a body.
    fn note_given(&self, bytes: usize) {
        self.given.set(self.given.get() + bytes);
        self.taken.set(self.taken.get() + bytes as u64);
    }

    /// `h2` has written down all it had: it may be given more.
    pub(crate) fn note_written(&self) {
        self.given.set(0);
        self.waiting.take().into_iter().for_each(Waker::wake);
    }

    /// Wakes this when `h2` may be given more.
    fn wait(&self, waker: &Waker) {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|one| one.will_wake(waker)) {
            waiting.push(waker.clone());
        }
    }

    /// `h2` has as much as it may.
    fn is_full(&self) -> bool {
        self.given.get() >= GIVEN_BYTES
    }
}

/// Where the response is.
enum Sending {
    /// Its head has not come.
    Head(SendResponse<Bytes>),
    /// Its body goes out; `rest` of it is still to come, where that is known.
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
    /// The trailer fields behind the response's body.
    trailers: RefCell<Trailers>,
    /// The reason that a client is given whose response is not whole.
    abort_reason: Cell<Reason>,
    /// A response of known length does not end before [`Http2Stream::finish`]: trailers may follow.
    may_trail: Cell<bool>,
    /// Bytes the client had taken on the connection when this stream last had its part of them counted.
    counted: Cell<u64>,
}

struct Receiving {
    body: RecvStream,
    /// Bytes that have come and have not been taken.
    data: Bytes,
    /// The trailer fields behind the body.
    trailers: Trailers,
}

/// Facts about a request before its head is written down.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    /// It asks for a head alone.
    pub(crate) is_head: bool,
    /// It becomes a WebSocket.
    pub(crate) is_websocket: bool,
}

impl Http2Stream {
    /// For a request that has come.
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

    /// The response's body may be followed by trailer fields; known before its head is sent.
    pub fn expect_trailers(&self) {
        self.may_trail.set(true);
    }

    /// A response that is not whole ends for this reason.
    pub fn abort_with(&self, reason: Reason) {
        self.abort_reason.set(reason);
    }

    /// These follow the response's body.
    pub fn set_trailers(&self, trailers: Trailers) {
        self.trailers.replace(trailers);
    }

    /// Returns the outcome of its connection's handshake, if its bytes are encrypted.
    pub fn facts(&self) -> Option<&Rc<HandshakeFacts>> {
        self.hub.facts.as_ref()
    }

    /// This stream's part of what the client has taken on its connection since this was last asked for: one that takes from its other
    /// streams first is not slow.
    pub fn taken_beside(&self) -> u64 {
        let streams = self.hub.open.get().max(1) as u64;
        let part = (self.hub.taken.get() - self.counted.get()) / streams;
        self.counted.set(self.counted.get() + part * streams);
        part
    }

    /// Polls for bytes of the request's body.
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
        // Fails only for more than was received.
        let _ = body.flow_control().release_capacity(taken.len());
        Poll::Ready(Ok(ReadResult::Bytes(taken.len())))
    }

    /// Sends what the client's windows allow; true if nothing is left in `output`.
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
                    if self.hub.is_full() {
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
                // Nothing follows: a body that HEAD does not get, or more than was declared.
                Sending::Ended => output.discard(),
            }
        }
        Ok(true)
    }

    /// The head as this stream can send it.
    pub fn head(&self, head: &OutgoingHead) -> StreamHead {
        StreamHead {
            form: stream_head(head, self.is_websocket).map(HeadForm::Http2),
            bytes: head.fields.lines().len(),
        }
    }

    /// Sends a head. Returns the state that follows, unless it is an interim one.
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

    /// Sends some of `output`: ready when something has gone out, or nothing is left.
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

    /// Sends what is in `output` and then `body`; what does not go out is kept in `output`.
    pub fn send_body(&self, output: &mut Output, body: &BodyPart<'_>) -> Result<(), Gone> {
        if self.try_send(output)? {
            // The usual case: copied once, into what `h2` keeps.
            if let Sending::Body { stream, rest } = &mut *self.sending.borrow_mut()
                && !body.is_empty()
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

    /// Ready when the client has given the stream up; wakes the task when it does.
    pub fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match &mut *self.sending.borrow_mut() {
            Sending::Head(respond) => respond.poll_reset(cx).map(|_| ()),
            Sending::Body { stream, .. } => stream.poll_reset(cx).map(|_| ()),
            Sending::Ended => Poll::Pending,
        }
    }

    /// The response is whole: ends the stream.
    pub fn finish(&self) {
        let mut sending = self.sending.borrow_mut();
        match &mut *sending {
            Sending::Body {
                stream,
                rest: None | Some(0),
            } => {
                // Either fails if the stream is gone.
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

    /// The response is not whole, and the client is told so.
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

/// Room in the client's windows for as much as `wanted`.
fn room(stream: &mut SendStream<Bytes>, wanted: usize) -> usize {
    stream.reserve_capacity(wanted);
    stream.capacity()
}

/// Sends what there is room for; the number of bytes.
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
