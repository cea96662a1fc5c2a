//! The state of one QUIC connection that its driver and its streams share.
//!
//! Cells and `RefCell`s are borrowed for the length of a call only, never over an `await`.

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

/// Who waits for something of a stream.
#[derive(Default)]
pub(crate) struct Waits {
    /// For bytes of the client.
    pub(crate) read: Option<Waker>,
    /// For room.
    pub(crate) write: Option<Waker>,
    /// For the client to give it up.
    pub(crate) gone: Option<Waker>,
}

/// The connection.
pub(crate) struct Quic {
    pub(crate) state: RefCell<Connection>,
    /// Wakes the driver.
    pub(crate) waker: RefCell<Waker>,
    waits: RefCell<FxHashMap<StreamId, Waits>>,
    /// Ends of answers that are whole and wait for room: trailers.
    tails: RefCell<FxHashMap<StreamId, Bytes>>,
    /// The outcome of the handshake.
    pub(crate) facts: OnceCell<Rc<HandshakeFacts>>,
    /// Requests under way.
    pub(crate) open: Cell<usize>,
    /// Since when there has been none.
    pub(crate) idle_since: Cell<Option<Millis>>,
    /// Bytes of answers that the client's windows, and what is kept for it, have had room for.
    pub(crate) taken: Cell<u64>,
    /// It is lost, or being closed.
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

    /// Has the driver look: there is something to send.
    pub(crate) fn wake(&self) {
        self.waker.borrow().wake_by_ref();
    }

    /// Changes who waits for a stream.
    pub(crate) fn wait(&self, stream: StreamId, change: impl FnOnce(&mut Waits)) {
        change(self.waits.borrow_mut().entry(stream).or_default());
    }

    /// Wakes those whom `choose` takes out of the waits of a stream.
    pub(crate) fn notify(
        &self,
        stream: StreamId,
        choose: impl FnOnce(&mut Waits) -> [Option<Waker>; 2],
    ) {
        let chosen = self.waits.borrow_mut().get_mut(&stream).map(choose);
        chosen.into_iter().flatten().flatten().for_each(Waker::wake);
    }

    /// Forgets who waits for a stream.
    pub(crate) fn forget(&self, stream: StreamId) {
        self.waits.borrow_mut().remove(&stream);
    }

    /// It is over: whoever waits for a stream finds out.
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

    /// Closes the connection and tells the client why.
    pub(crate) fn close(&self, code: Code, reason: &'static str) {
        if !self.has_ended.get() {
            let reason = Bytes::from_static(reason.as_bytes());
            self.state.borrow_mut().close(now(), number(code), reason);
            self.end();
        }
    }

    /// Ends what has to end because of a fault.
    pub(crate) fn fail(&self, stream: StreamId, fault: Http3Error) {
        match fault {
            Http3Error::Connection(code, reason) => self.close(code, reason),
            Http3Error::Stream(code) => self.give_up(stream, code),
            Http3Error::HeadTooLarge => self.give_up(stream, Code::EXCESSIVE_LOAD),
        }
    }

    /// Ends a stream both ways.
    pub(crate) fn give_up(&self, stream: StreamId, code: Code) {
        let mut state = self.state.borrow_mut();
        // Either fails if it has ended that way.
        let _ = state.recv_stream(stream).stop(number(code));
        if stream.dir() == Dir::Bi {
            let _ = state.send_stream(stream).reset(number(code));
        }
        drop(state);
        self.wake();
    }

    /// The client has done something without use, of this cost; too much of it ends the connection.
    pub(crate) fn spend(&self, cost: i64) -> Result<(), Flood> {
        self.charge(|allowance| allowance.spend(cost))
    }

    /// The client has given a stream up.
    pub(crate) fn note_reset(&self) -> Result<(), Flood> {
        self.charge(Allowance::reset)
    }

    /// True if the client has given up as many streams as it may.
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

    /// So many bytes of an answer have had room.
    pub(crate) fn note_taken(&self, bytes: usize) {
        self.taken.set(self.taken.get() + bytes as u64);
        self.allowance.borrow_mut().sent(bytes);
        self.wake();
    }

    /// Sends the end of an answer, and with it the stream's, now or when there is room.
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
            // The client has given it up, and QUIC counts it as open until it has been reset.
            false => self.give_up(stream, Code::REQUEST_CANCELLED),
        }
    }

    /// The client does not read the response any further: its end does not wait for room.
    pub(crate) fn give_up_end(&self, stream: StreamId) {
        let tail = self.tails.borrow_mut().remove(&stream);
        if tail.is_some() {
            self.give_up(stream, Code::REQUEST_CANCELLED);
        }
    }

    /// The client has the whole response: asks it not to send the rest of its request (RFC 9114 §4.1).
    ///
    /// It is not asked together with the response: a client that cannot send any more may fail before it reads what has come.
    /// Until then the stream's window bounds what comes of the request, and the limit of streams bounds how many wait for this.
    pub(crate) fn stop_listening(&self, stream: StreamId) {
        let mut state = self.state.borrow_mut();
        let mut receiving = state.recv_stream(stream);
        let Ok(mut chunks) = receiving.read(true) else {
            // The request has been read to its end, or given up.
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

    /// There is room on a stream: goes on with its end, if it is there.
    pub(crate) fn go_on_with_end(&self, stream: StreamId) {
        let tail = self.tails.borrow_mut().remove(&stream);
        if let Some(tail) = tail {
            self.end_with(stream, tail);
        }
    }
}

/// A code as QUIC has it.
pub(crate) fn number(code: Code) -> VarInt {
    VarInt::from_u64(code.0).unwrap_or_default()
}
