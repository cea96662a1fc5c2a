//! The requests that this process has, and the worker that takes them: one for each process, in its main thread.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use tutti_http::{RequestFraming, ResponseHead};
use tutti_relay::head::{each_field, framing, write_client};
use tutti_relay::line::{LEAVE, LEFT, RELAY};
use tutti_sys::seqpacket;
use tutti_worker::Level;
use tutti_worker::log::line;
use tutti_worker::{BodyRef, Exchange, Process, StartError, Worker};

use crate::response::{ResponseError, ResponseParser, State};

/// Bytes of a body given to Node.js at once: as much as it reads from a socket at once.
const PIECE: usize = 64 * 1024;

/// Longest message of the worker.
const LONGEST_WORD: usize = 64;

/// The kind of a request's body. JavaScript knows these numbers (channel.js).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    None = 0,
    /// All of it can be read.
    There = 1,
    /// It comes while it is read.
    Coming = 2,
}

/// The answer to a reader of a request's body.
pub(crate) enum Piece<'a> {
    Bytes(&'a [u8]),
    Later,
    End,
    Gone,
}

/// A request that was taken.
pub(crate) struct Taken {
    pub(crate) slot: u32,
    pub(crate) body: Body,
}

#[derive(Debug)]
struct Open {
    exchange: Exchange,
    answer: ResponseParser,
}

/// The worker and its requests.
#[derive(Debug)]
pub(crate) struct Requests {
    process: Process,
    worker: Worker,
    /// To the worker that watches over us.
    watcher: OwnedFd,
    /// By slot.
    open: Vec<Option<Open>>,
    is_asleep: bool,
    /// The last word to the watcher, once nothing is open.
    farewell: Option<&'static [u8]>,
    has_left: bool,
    head: ResponseHead,
    piece: Vec<u8>,
    /// The last request's text, for JavaScript.
    pub(crate) text: Vec<u8>,
}

impl Requests {
    /// Takes this process's place in the server.
    pub(crate) fn attach() -> Result<Self, StartError> {
        let failed = |error: io::Error| StartError::new("taking the place in the server", error);
        let missing = || failed(io::ErrorKind::NotFound.into());
        let mut process = Process::from_environment()?.ok_or_else(missing)?;
        let watcher = process.control().ok_or_else(missing)?;
        let watcher = watcher.try_clone_to_owned().map_err(failed)?;
        seqpacket::set_nonblocking(watcher.as_fd()).map_err(failed)?;
        let unstarted = process.take_worker().ok_or_else(missing)?;
        let worker = unstarted.into_worker();
        Ok(Self {
            process,
            worker,
            watcher,
            open: Vec::new(),
            is_asleep: false,
            farewell: None,
            has_left: false,
            head: ResponseHead::new(),
            piece: Vec::new(),
            text: Vec::new(),
        })
    }

    /// The descriptors to watch: the worker's event, and the way to the watcher.
    pub(crate) fn descriptors(&self) -> Option<(RawFd, RawFd)> {
        let event = self.worker.event_fd()?.as_raw_fd();
        Some((event, self.watcher.as_raw_fd()))
    }

    /// Takes requests from now on.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.worker.enter_loop(self.process.concurrency())?;
        self.worker.ready();
        self.process.ready();
        Ok(())
    }

    /// Takes none any more, and has them relayed once those it has are answered.
    pub(crate) fn relay(&mut self) {
        self.worker.hand_over();
        self.farewell.get_or_insert(RELAY);
    }

    /// Tells the watcher when nothing is left to do. True if that has been done now: the loop need not call any more.
    pub(crate) fn takes_leave(&mut self) -> bool {
        if self.has_left || self.worker.open() > 0 {
            return false;
        }
        if self.worker.must_stop() {
            self.worker.stop_taking();
            self.farewell = Some(LEFT);
        }
        let Some(word) = self.farewell else {
            return false;
        };
        // Without a watcher we are about to end.
        let _ = seqpacket::send(self.watcher.as_fd(), word, &[]);
        self.has_left = true;
        true
    }

    /// Hears what the watcher says.
    pub(crate) fn listen(&mut self) {
        let mut word = [0; LONGEST_WORD];
        while let Ok(Some(message)) = seqpacket::receive(self.watcher.as_fd(), &mut word) {
            if word.get(..message.len) == Some(LEAVE) {
                Process::stop();
            }
        }
    }

    /// The slots with news.
    pub(crate) fn news(&self) -> Vec<u32> {
        let mut slots = Vec::new();
        self.worker.drain_attention(|slot| slots.push(slot));
        slots
    }

    /// The next request, if one waits and may be taken; its text is in `text`.
    pub(crate) fn take(&mut self) -> Option<Taken> {
        let exchange = self.worker.try_next()?;
        let slot = exchange.slot();
        let body = describe(&exchange, &mut self.text);
        let place = slot as usize;
        if self.open.len() <= place {
            self.open.resize_with(place + 1, || None);
        }
        if let Some(open) = self.open.get_mut(place) {
            *open = Some(Open {
                exchange,
                answer: ResponseParser::default(),
            });
        }
        Some(Taken { slot, body })
    }

    /// True if the loop may sleep: the event will become readable. To be called right before.
    pub(crate) fn may_sleep(&mut self) -> bool {
        self.is_asleep = self.worker.prepare_sleep();
        self.is_asleep
    }

    /// To be called after the loop may have slept.
    pub(crate) fn wake(&mut self) {
        if std::mem::take(&mut self.is_asleep) {
            self.worker.woken();
        }
    }

    /// Makes the event unreadable again.
    pub(crate) fn clear_event(&self) {
        self.worker.clear_event();
    }

    /// The bytes that were written of an answer, for more to be appended.
    pub(crate) fn written(&mut self, slot: u32) -> Option<&mut Vec<u8>> {
        self.at(slot).map(|open| &mut open.answer.written)
    }

    /// Passes on what was written. A whole answer ends the request if `ends` says so.
    pub(crate) fn pass_on(&mut self, slot: u32, ends: bool) -> State {
        let place = self.open.get_mut(slot as usize);
        let Some(open) = place.and_then(Option::as_mut) else {
            return State::Gone;
        };
        match open.answer.pass_on(&open.exchange, &mut self.head) {
            Ok(State::Whole) if ends => self.finish(slot),
            Ok(State::Whole) => {
                open.exchange.flush();
                State::Whole
            }
            Ok(State::Gone) => {
                self.abort(slot);
                State::Gone
            }
            Ok(state) => state,
            Err(fault) => self.fail(slot, &fault),
        }
    }

    /// Ends a request whose answer is whole. `Gone` if more was written than that: its connection is of no use any more.
    pub(crate) fn finish(&mut self, slot: u32) -> State {
        let Some(mut open) = self.remove(slot) else {
            return State::Gone;
        };
        open.exchange.finish();
        match open.answer.has_more() {
            true => State::Gone,
            false => State::Whole,
        }
    }

    /// The application has closed the connection.
    pub(crate) fn end(&mut self, slot: u32) -> State {
        let Some(open) = self.at(slot) else {
            return State::Gone;
        };
        match open.answer.end() {
            Ok(()) => self.finish(slot),
            Err(fault) => self.fail(slot, &fault),
        }
    }

    /// Gives a request up: 502, or an answer that is broken off, unless it is whole.
    pub(crate) fn abort(&mut self, slot: u32) {
        match self.remove(slot) {
            Some(mut open) if open.answer.is_whole() => open.exchange.finish(),
            Some(mut open) => open.exchange.abort(),
            None => {}
        }
    }

    pub(crate) fn is_gone(&self, slot: u32) -> bool {
        let open = self.open.get(slot as usize).and_then(Option::as_ref);
        open.is_none_or(|open| open.exchange.is_client_gone())
    }

    /// Reads from a request's body.
    pub(crate) fn read(&mut self, slot: u32) -> Piece<'_> {
        let open = self.open.get(slot as usize).and_then(Option::as_ref);
        let Some(open) = open else {
            return Piece::Gone;
        };
        self.piece.resize(PIECE, 0);
        match open.exchange.try_read_body(&mut self.piece) {
            Ok(None) => Piece::Later,
            Ok(Some(0)) => Piece::End,
            Ok(Some(count)) => Piece::Bytes(self.piece.get(..count).unwrap_or_default()),
            Err(_) => Piece::Gone,
        }
    }

    fn at(&mut self, slot: u32) -> Option<&mut Open> {
        self.open.get_mut(slot as usize).and_then(Option::as_mut)
    }

    fn remove(&mut self, slot: u32) -> Option<Open> {
        self.open.get_mut(slot as usize).and_then(Option::take)
    }

    fn fail(&mut self, slot: u32, fault: &ResponseError) -> State {
        if let Some(open) = self.at(slot) {
            let is_gone = open.exchange.is_client_gone();
            let request = open.exchange.request();
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let (method, target) = (text(request.method()), text(request.target()));
            if !is_gone {
                line(
                    Level::Error,
                    "",
                    format!("{method} {target}: {fault}").as_bytes(),
                );
            }
        }
        self.abort(slot);
        State::Gone
    }
}

/// Writes a request's text: names and values of its fields, then the client, target and method, with NUL between; none of them can have one.
fn describe(exchange: &Exchange, text: &mut Vec<u8>) -> Body {
    let request = exchange.request();
    let (framing, body) = match request.body() {
        _ if request.is_websocket() => (RequestFraming::None, Body::None),
        BodyRef::None => (framing(&request), Body::None),
        BodyRef::Inline(_) | BodyRef::Spool { .. } => (framing(&request), Body::There),
        BodyRef::Stream { .. } => (framing(&request), Body::Coming),
    };
    text.clear();
    let hides_client = true;
    each_field(&request, framing, None, hides_client, |name, value| {
        for part in [name, value] {
            text.extend_from_slice(part);
            text.push(0);
        }
    });
    write_client(text, &request);
    for part in [request.target(), request.method()] {
        text.push(0);
        text.extend_from_slice(part);
    }
    body
}
