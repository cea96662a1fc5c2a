//! The task of an HTTP/2 connection: bytes in and out, new streams, deadlines, its end.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use tutti_config::model::Http2;
use tutti_conn::buffers::BUFFER_BYTES;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::output::Gone;
use tutti_conn::socket::ReadResult;
use tutti_http::http2::frame::{
    CONTINUATION, FrameHead, GOAWAY, HEAD_BYTES, HEADERS, MOST_PAYLOAD, PING, WINDOW_UPDATE,
};
use tutti_http::http2::{FloodGauge, PREFACE, Preface};

use crate::fault::{Fault, Http2Code};
use crate::frames::FAREWELL_PING;
use crate::hub::Hub;
use crate::receiver::Receiver;
use crate::server::{Ending, Http2Connection, Http2Timeouts};
use crate::settings;
use crate::stream::Http2Stream;
use crate::windows::ReceiveWindow;

/// Rounds of work in a row before other connections of the thread get a turn.
const TURNS: u32 = 16;

/// Maximum time for a client without open streams to close after a GOAWAY.
const FAREWELL: Millis = 5_000;

/// No stream has a larger number.
const LAST_STREAM: u32 = 0x7fff_ffff;

/// Serves a connection whose first bytes are `input`; returns when no more requests come over it.
pub async fn serve(connection: &impl Http2Connection, input: Vec<u8>, options: Http2) -> Ending {
    let waker = poll_fn(|cx| Poll::Ready(cx.waker().clone())).await;
    connection.set_active(true);
    let receive = ReceiveWindow::new(options.connection_window_size);
    let hub = Rc::new(Hub::new(connection.facts(), waker, receive));
    let mut driver = Driver::new(connection, hub, input, options);
    let ending = poll_fn(|cx| driver.poll(cx)).await;
    driver.give_back();
    ending
}

const FLOOD: &str = "too many frames without effect";

/// Logged for a client that negotiated HTTP/2 by ALPN and does not speak it (RFC 9113 §3.4).
const NO_BEGINNING: &str = "it does not begin with HTTP/2's preface and SETTINGS";

/// The state of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for the preface.
    Preface,
    /// Waits for the client's SETTINGS.
    Settings,
    Open,
    /// The connection ends when everything that was written has been sent.
    Closing,
}

/// The progress of the connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// A GOAWAY that permits further requests has been sent, and [`FAREWELL_PING`].
    Announced,
    /// The client has answered: no further requests come.
    Final,
}

struct Driver<'c, C> {
    connection: &'c C,
    hub: Rc<Hub>,
    /// Received bytes; those before `position` have been processed.
    input: Vec<u8>,
    position: usize,
    /// No bytes follow.
    has_ended: bool,
    /// The output is full, so that frames wait in the input.
    is_stalled: bool,
    gauge: FloodGauge,
    receiver: Receiver,
    state: State,
    timeouts: Http2Timeouts,
    /// When the connection began.
    opened: Millis,
    leaving: Leaving,
}

impl<'c, C: Http2Connection> Driver<'c, C> {
    fn new(connection: &'c C, hub: Rc<Hub>, input: Vec<u8>, options: Http2) -> Self {
        let terms = connection.terms();
        let now = now_millis();
        let mut core = hub.core.borrow_mut();
        core.output.bytes = connection.buffers().take();
        settings::write(&options, terms.most_head_bytes, &mut core.output.bytes);
        let more = options
            .connection_window_size
            .saturating_sub(settings::INITIAL_WINDOW);
        if more > 0 {
            core.write_frame(WINDOW_UPDATE, 0, 0, &more.to_be_bytes());
        }
        drop(core);
        Self {
            connection,
            receiver: Receiver::new(Rc::clone(&hub), &options, terms.most_head_bytes),
            hub,
            input,
            position: 0,
            has_ended: false,
            is_stalled: false,
            gauge: FloodGauge::new(now),
            state: State::Preface,
            timeouts: terms.timeouts,
            opened: now,
            leaving: Leaving::No,
        }
    }

    fn give_back(&mut self) {
        let mut core = self.hub.core.borrow_mut();
        core.end_all();
        let buffers = self.connection.buffers();
        buffers.give(std::mem::take(&mut self.input));
        buffers.give(std::mem::take(&mut core.output).bytes);
    }

    /// Moves bytes until the connection has ended or has to wait.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        self.hub.core.borrow_mut().is_driven = true;
        let polled = self.work(cx);
        self.hub.core.borrow_mut().is_driven = false;
        polled
    }

    fn work(&mut self, cx: &mut Context<'_>) -> Poll<Ending> {
        for _ in 0..TURNS {
            let now = now_millis();
            if self.has_sent() {
                self.connection.note_all_taken();
            }
            let received = match self.receive(cx) {
                Ok(received) => received,
                Err(_) => return Poll::Ready(Ending::Abort),
            };
            self.leave_if_due();
            if received || self.is_stalled {
                self.drive(now);
            }
            self.close_if_done();
            if self.send(cx).is_err() {
                return Poll::Ready(Ending::Abort);
            }
            if self.state == State::Closing && self.has_sent() {
                return Poll::Ready(Ending::Linger);
            }
            let mut core = self.hub.core.borrow_mut();
            core.wake_blocked();
            let may_continue = self.is_stalled && !core.is_full();
            drop(core);
            if !received && !may_continue {
                return self.settle(now);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// True if the client has taken everything.
    fn has_sent(&self) -> bool {
        let core = self.hub.core.borrow();
        self.connection.has_sent(&core.output)
    }

    /// Reads from the client, unless the output is full; true if bytes arrived, or it sends no more.
    fn receive(&mut self, cx: &mut Context<'_>) -> Result<bool, Gone> {
        if self.is_stalled || self.has_ended || self.state == State::Closing {
            return Ok(false);
        }
        if self.state == State::Preface && self.input.len() > self.position {
            // Bytes that came before this task began.
            if Preface::of(&self.input) != Preface::Part {
                return Ok(true);
            }
        }
        let buffers = self.connection.buffers();
        if self.position > 0 {
            self.input.drain(..self.position);
            self.position = 0;
        }
        if self.input.capacity() == 0 {
            self.input = buffers.take();
        } else if self.input.capacity() - self.input.len() < BUFFER_BYTES / 2 {
            self.input.reserve(BUFFER_BYTES);
        }
        match self.connection.poll_receive(&mut self.input, cx) {
            Poll::Ready(Ok(ReadResult::Bytes(_))) => Ok(true),
            Poll::Ready(Ok(_)) => {
                self.has_ended = true;
                Ok(true)
            }
            Poll::Ready(Err(gone)) => Err(gone),
            Poll::Pending => {
                if self.input.is_empty() {
                    buffers.give(std::mem::take(&mut self.input));
                }
                Ok(false)
            }
        }
    }

    /// Takes frames from the input, and starts the requests in it.
    fn drive(&mut self, now: Millis) {
        self.prepare_output();
        self.gauge.pass(now);
        let input = std::mem::take(&mut self.input);
        self.is_stalled = false;
        while self.state != State::Closing {
            if self.hub.core.borrow().is_full() {
                self.is_stalled = true;
                break;
            }
            let rest = input.get(self.position..).unwrap_or_default();
            match self.next(rest, now) {
                Ok(0) => break,
                Ok(length) => self.position += length,
                Err(fault) => self.note_fault(fault),
            }
        }
        if self.position >= input.len() || self.state == State::Closing {
            self.position = 0;
            self.connection.buffers().give(input);
        } else {
            self.input = input;
        }
        if self.state == State::Closing {
            return;
        }
        self.start_requests();
        if self.gauge.is_worn_out() && self.leaving == Leaving::No {
            self.leave();
        }
        if self.has_ended && !self.is_stalled {
            // As for every client that closes its connection: what is in progress is given up.
            self.hub.core.borrow_mut().end_all();
            self.state = State::Closing;
        }
    }

    /// Gives the output a buffer, before many streams write into it.
    fn prepare_output(&self) {
        let mut core = self.hub.core.borrow_mut();
        if core.output.bytes.capacity() == 0 {
            core.output.bytes = self.connection.buffers().take_large();
        }
    }

    /// Processes what is at the beginning of `rest`; returns its length, or 0 if it is incomplete.
    fn next(&mut self, rest: &[u8], now: Millis) -> Result<usize, Fault> {
        if self.state == State::Preface {
            return match Preface::of(rest) {
                Preface::Whole => {
                    self.state = State::Settings;
                    Ok(PREFACE.len())
                }
                Preface::Part => Ok(0),
                Preface::Other => Err(Fault::Connection(Http2Code::PROTOCOL_ERROR)),
            };
        }
        let Some((head, payload)) = rest.split_first_chunk::<HEAD_BYTES>() else {
            return Ok(0);
        };
        let head = FrameHead::read(head);
        if head.length > MOST_PAYLOAD {
            return Err(Fault::Connection(Http2Code::FRAME_SIZE_ERROR));
        }
        let is_of_head = matches!(head.kind, HEADERS | CONTINUATION);
        let Some(payload) = payload.get(..head.length) else {
            if is_of_head {
                self.gauge.note_incomplete_head(now);
            }
            return Ok(0);
        };
        self.gauge.frame(head)?;
        if self.state == State::Settings {
            self.receiver.first(head)?;
            self.state = State::Open;
        }
        let outcome = self.receiver.frame(head, payload);
        if self.receiver.is_in_head() {
            self.gauge.note_incomplete_head(now);
        }
        if head.kind == PING && self.receiver.take_farewell() && self.leaving == Leaving::Announced
        {
            self.send_goaway(self.receiver.last(), Http2Code::NO_ERROR, "");
            self.receiver.refuse_new();
            self.leaving = Leaving::Final;
        }
        outcome
            .map(|()| HEAD_BYTES + head.length)
            .or_else(|fault| match fault {
                Fault::Stream(stream, reason) => {
                    self.reset(stream, reason)?;
                    Ok(HEAD_BYTES + head.length)
                }
                fault => Err(fault),
            })
    }

    /// Resets a stream because of its client's error, or refuses it.
    fn reset(&mut self, stream: u32, reason: Http2Code) -> Result<(), Fault> {
        if reason != Http2Code::REFUSED_STREAM {
            self.gauge.note_error()?;
        }
        self.receiver.reset(stream, reason);
        Ok(())
    }

    /// Ends the connection because of its client's frames.
    fn note_fault(&mut self, fault: Fault) {
        match fault {
            Fault::Flood => {
                self.connection.log_abuse(FLOOD);
                self.end(Http2Code::ENHANCE_YOUR_CALM, FLOOD);
            }
            Fault::Connection(code) if matches!(self.state, State::Preface | State::Settings) => {
                self.connection.log_client_error(NO_BEGINNING);
                self.end(code, NO_BEGINNING);
            }
            Fault::Connection(code) => self.end(code, ""),
            // Handled where it occurs.
            Fault::Stream(..) => {}
        }
    }

    /// Starts the requests that have arrived, in the order of their priority.
    fn start_requests(&mut self) {
        let mut arrived = self.receiver.take_arrived();
        for (number, head) in arrived.drain(..) {
            // Also one that its client has reset meanwhile: the log has a line for each request.
            let stream = Http2Stream::new(&self.hub, number, head.kind());
            self.hub.idle_since.set(None);
            self.connection.begin(&head, stream);
            self.receiver.give_head(head);
        }
        self.receiver.give_arrived(arrived);
    }

    /// Appends GOAWAY, with a text for the client's developers.
    fn send_goaway(&self, last: u32, code: Http2Code, text: &str) {
        let payload = [
            &last.to_be_bytes()[..],
            &code.0.to_be_bytes(),
            text.as_bytes(),
        ]
        .concat();
        self.hub
            .core
            .borrow_mut()
            .write_frame(GOAWAY, 0, 0, &payload);
    }

    /// Ends the connection now.
    fn end(&mut self, code: Http2Code, text: &str) {
        self.send_goaway(self.receiver.last(), code, text);
        self.hub.core.borrow_mut().end_all();
        self.state = State::Closing;
    }

    /// Sends GOAWAY, once, if the connection is to end.
    fn leave_if_due(&mut self) {
        if self.leaving == Leaving::No && self.connection.is_ending() {
            self.leave();
        }
    }

    /// Sends GOAWAY. Open streams, and requests on their way, are still answered (RFC 9113 §6.8).
    fn leave(&mut self) {
        if self.state == State::Open {
            self.prepare_output();
            self.send_goaway(LAST_STREAM, Http2Code::NO_ERROR, "");
            self.hub
                .core
                .borrow_mut()
                .write_frame(PING, 0, 0, &FAREWELL_PING);
            self.leaving = Leaving::Announced;
        }
    }

    /// Ends the connection when its last response has been written.
    fn close_if_done(&mut self) {
        let is_done = self.leaving == Leaving::Final && self.hub.core.borrow().streams.is_empty();
        if is_done {
            self.state = State::Closing;
        }
    }

    /// Sends to the client.
    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Gone> {
        let mut core = self.hub.core.borrow_mut();
        let connection = self.connection;
        while !connection.has_sent(&core.output) {
            let before = core.output.pending().len();
            match connection.poll_send(&mut core.output, cx) {
                Poll::Ready(sent) => sent?,
                Poll::Pending => break,
            }
            let sent = before - core.output.pending().len();
            self.gauge.sent(sent);
            connection.note_taken(sent as u64);
        }
        Ok(())
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
            State::Preface | State::Settings => Some(self.opened),
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
        } else if self.state == State::Open {
            let is_leaving = self.leaving != Leaving::No;
            let patience = if is_leaving {
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
            } else if is_leaving {
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

    /// Frees the empty output.
    fn let_go(&mut self) {
        let mut core = self.hub.core.borrow_mut();
        let output = std::mem::take(&mut core.output);
        self.connection.buffers().give(output.bytes);
    }
}
