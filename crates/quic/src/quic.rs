//! The state of one QUIC connection that its driver and its streams share.
//!
//! Cells and `RefCell`s are borrowed within a call only, never across an `await`.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use bytes::Bytes;
use quinn_proto::{Connection, Dir, ReadError, StreamId, VarInt};
use rustc_hash::FxHashMap;
use tutti_conn::clock::Millis;
use tutti_http::http3::{Code, Http3Error};
use tutti_http::{Allowance, Flood};
use tutti_tls::HandshakeFacts;

use crate::environment::{now, now_millis};

/// The tasks that wait for a stream.
#[derive(Default)]
pub(crate) struct Waits {
    /// Waits for bytes from the client.
    pub(crate) read: Option<Waker>,
    /// Waits for room to send.
    pub(crate) write: Option<Waker>,
    /// Waits for the client to reset the stream.
    pub(crate) gone: Option<Waker>,
}

/// The connection.
pub(crate) struct Quic {
    pub(crate) state: RefCell<Connection>,
    /// Wakes the driver.
    pub(crate) waker: RefCell<Waker>,
    waits: RefCell<FxHashMap<StreamId, Waits>>,
    /// Complete ends of responses (trailers) that wait for room.
    tails: RefCell<FxHashMap<StreamId, Bytes>>,
    /// The outcome of the handshake.
    pub(crate) facts: OnceCell<Rc<HandshakeFacts>>,
    /// Number of open requests.
    pub(crate) open: Cell<usize>,
    /// Since when no request has been open.
    pub(crate) idle_since: Cell<Option<Millis>>,
    /// Response bytes that fitted the client's windows and the send buffer.
    pub(crate) taken: Cell<u64>,
    /// The connection is lost or being closed.
    pub(crate) has_ended: Cell<bool>,
    allowance: RefCell<Allowance>,
}

impl Quic {
    pub(crate) fn new(state: Connection, waker: Waker) -> Self {
        Self {
            state: RefCell::new(state),
            waker: RefCell::new(waker),
            waits: RefCell::default(),
            tails: RefCell::default(),
            facts: OnceCell::new(),
            open: Cell::new(0),
            idle_since: Cell::new(None),
            taken: Cell::new(0),
            has_ended: Cell::new(false),
            allowance: RefCell::new(Allowance::new(now_millis())),
        }
    }

    /// Wakes the driver: there is something to send.
    pub(crate) fn wake(&self) {
        self.waker.borrow().wake_by_ref();
    }

    /// Changes the tasks that wait for a stream.
    pub(crate) fn wait(&self, stream: StreamId, change: impl FnOnce(&mut Waits)) {
        change(self.waits.borrow_mut().entry(stream).or_default());
    }

    /// Wakes the tasks that `choose` takes out.
    pub(crate) fn notify(
        &self,
        stream: StreamId,
        choose: impl FnOnce(&mut Waits) -> [Option<Waker>; 2],
    ) {
        let chosen = self.waits.borrow_mut().get_mut(&stream).map(choose);
        chosen.into_iter().flatten().flatten().for_each(Waker::wake);
    }

    /// Forgets the tasks that wait for a stream.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.waits.borrow_mut().remove(&stream);
    }

    /// Marks the connection as ended and wakes all waiting tasks.
    pub(crate) fn end(&self) {
        self.has_ended.set(true);
        self.tails.borrow_mut().clear();
        let waits = std::mem::take(&mut *self.waits.borrow_mut());
        for waits in waits.into_values() {
            let all = [waits.read, waits.write, waits.gone];
            all.into_iter().flatten().for_each(Waker::wake);
        }
        self.wake();
    }

    /// Closes the connection with this code and reason.
    pub(crate) fn close(&self, code: Code, reason: &'static str) {
        if !self.has_ended.get() {
            let reason = Bytes::from_static(reason.as_bytes());
            self.state.borrow_mut().close(now(), number(code), reason);
            self.end();
        }
    }

    /// Ends the stream or the connection after an error.
    pub(crate) fn fail(&self, stream: StreamId, fault: Http3Error) {
        match fault {
            Http3Error::Connection(code, reason) => self.close(code, reason),
            Http3Error::Stream(code) => self.give_up(stream, code),
            Http3Error::HeadTooLarge => self.give_up(stream, Code::EXCESSIVE_LOAD),
        }
    }

    /// Resets a stream in both directions.
    pub(crate) fn give_up(&self, stream: StreamId, code: Code) {
        let mut state = self.state.borrow_mut();
        // Either fails if that direction has ended.
        let _ = state.recv_stream(stream).stop(number(code));
        if stream.dir() == Dir::Bi {
            let _ = state.send_stream(stream).reset(number(code));
        }
        drop(state);
        self.wake();
    }

    /// Counts useless work that the client has caused, of this cost; too much of it ends the connection.
    pub(crate) fn spend(&self, cost: i64) -> Result<(), Flood> {
        self.charge(|allowance| allowance.spend(cost))
    }

    /// Counts a stream that the client has reset.
    pub(crate) fn note_reset(&self) -> Result<(), Flood> {
        self.charge(Allowance::reset)
    }

    /// True if the client has reset as many streams as it may.
    pub(crate) fn is_worn_out(&self) -> bool {
        self.allowance.borrow().is_worn_out()
    }

    fn charge(&self, spend: impl FnOnce(&mut Allowance) -> Result<(), Flood>) -> Result<(), Flood> {
        let mut allowance = self.allowance.borrow_mut();
        allowance.pass(now_millis());
        let outcome = spend(&mut allowance);
        drop(allowance);
        if outcome.is_err() {
            self.close(Code::EXCESSIVE_LOAD, "too much that asks for nothing");
        }
        outcome
    }

    /// Counts response bytes for which there was room.
    pub(crate) fn note_taken(&self, bytes: usize) {
        self.taken.set(self.taken.get() + bytes as u64);
        self.allowance.borrow_mut().sent(bytes);
        self.wake();
    }

    /// Sends the end of a response and finishes the stream, now or when there is room.
    pub(crate) fn end_with(&self, stream: StreamId, mut tail: Bytes) {
        let mut state = self.state.borrow_mut();
        let mut sending = state.send_stream(stream);
        while !tail.is_empty() {
            match sending.write(&tail) {
                Ok(count) => drop(tail.split_to(count)),
                Err(quinn_proto::WriteError::Blocked) => {
                    self.tails.borrow_mut().insert(stream, tail);
                    return;
                }
                // The stream cannot be finished either.
                Err(_) => break,
            }
        }
        let is_finished = sending.finish().is_ok();
        drop(state);
        match is_finished {
            true => self.wake(),
            // The client has stopped it, and QUIC counts it as open until it is reset.
            false => self.give_up(stream, Code::REQUEST_CANCELLED),
        }
    }

    /// Discards the end of a response that the client does not read any further.
    pub(crate) fn give_up_end(&self, stream: StreamId) {
        let tail = self.tails.borrow_mut().remove(&stream);
        if tail.is_some() {
            self.give_up(stream, Code::REQUEST_CANCELLED);
        }
    }

    /// Called when the client has acknowledged the whole response: asks it not to send the rest of its request (RFC 9114 §4.1).
    ///
    /// It is not asked earlier: a client that cannot write any more may fail before it reads the response. Until then the stream's window
    /// limits what arrives of the request, and the limit of streams limits how many wait for this.
    pub(crate) fn stop_listening(&self, stream: StreamId) {
        let mut state = self.state.borrow_mut();
        let mut receiving = state.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else {
            // The request has been read to its end, or reset.
            return;
        };
        let is_over = loop {
            match chunks.next(usize::MAX) {
                Ok(Some(_)) => {}
                Ok(None) | Err(ReadError::Reset(_)) => break true,
                Err(ReadError::Blocked) => break false,
            }
        };
        drop(chunks);
        if !is_over {
            let _ = receiving.stop(number(Code::NO_ERROR));
        }
    }

    /// Called when a stream has room: sends its end, if that is waiting.
    pub(crate) fn resume_end(&self, stream: StreamId) {
        let tail = self.tails.borrow_mut().remove(&stream);
        if let Some(tail) = tail {
            self.end_with(stream, tail);
        }
    }
}

/// Converts a code.
pub(crate) fn number(code: Code) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or_default()
}
