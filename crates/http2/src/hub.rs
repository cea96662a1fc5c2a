//! The state that the task of a connection and its streams share, and the order in which streams are served.
//!
//! A stream writes its frames into the output of the connection while the client's windows and the output have room. A stream for which
//! there is no room waits, and is woken in the order of RFC 9218: by urgency; within one urgency those that are not incremental in the
//! order of their requests, then the incremental ones in turn, each for [`QUANTUM`].
//!
//! Must never: hold more than [`OUTPUT_BYTES`] of bodies that the client has not taken, or let a stream wait that is not woken when there is
//! room.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::Waker;

use rustc_hash::FxHashMap;
use tutti_conn::clock::Millis;
use tutti_conn::output::{Gone, Output};
use tutti_http::Priority;
use tutti_http::http2::HpackEncoder;
use tutti_http::http2::frame::{
    DATA, END_STREAM, FrameHead, MOST_PAYLOAD, RST_STREAM, WINDOW_UPDATE,
};
use tutti_tls::HandshakeFacts;

use crate::closed_streams::{ClosedStreams, Closing};
use crate::fault::Http2Code;
use crate::settings::INITIAL_WINDOW;
use crate::stream_state::StreamState;
use crate::windows::{ReceiveWindow, SendWindow};

/// Frames that wait for a slow client: beyond this, streams get no more room, and no more frames of the client are read.
pub(crate) const OUTPUT_BYTES: usize = 128 * 1024;

/// Bytes that an incremental stream sends before others of its urgency have their turn: a frame.
const QUANTUM: usize = MOST_PAYLOAD;

/// The state that the streams of one connection share.
pub(crate) struct Hub {
    /// The outcome of the TLS handshake; `None` without TLS.
    pub(crate) facts: Option<Rc<HandshakeFacts>>,
    /// Wakes the connection's task.
    pub(crate) waker: Waker,
    /// Streams whose exchange has not ended.
    pub(crate) open: Cell<usize>,
    /// Since when no stream has been open.
    pub(crate) idle_since: Cell<Option<Millis>>,
    /// Body bytes that fitted the client's windows. Frame heads are not counted: for a client that opens its windows byte by byte they
    /// would be most of it.
    pub(crate) taken: Cell<u64>,
    pub(crate) core: RefCell<Core>,
}

/// The part of it that changes with each frame.
pub(crate) struct Core {
    /// Frames that wait to be sent.
    pub(crate) output: Output,
    pub(crate) encoder: HpackEncoder,
    pub(crate) streams: FxHashMap<u32, StreamState>,
    pub(crate) closed: ClosedStreams,
    /// Streams that count as open.
    pub(crate) counted: usize,
    /// The bytes that the client may be sent on all streams together.
    pub(crate) window: SendWindow,
    /// The bytes that it may be sent on a new one.
    pub(crate) initial_window: u32,
    /// The bytes that it may send on all streams together.
    pub(crate) receive: ReceiveWindow,
    /// Streams that wait for room on the connection.
    blocked: Vec<Blocked>,
    /// More than one stream was woken for the room that there is.
    is_shared: bool,
    /// The connection's task runs, and will send what is written.
    pub(crate) is_driven: bool,
}

/// A stream that waits for room on the connection.
struct Blocked {
    stream: u32,
    rank: Rank,
    wanted: usize,
    waker: Waker,
}

/// The order of service: urgency, incremental ones last, the number of the stream unless it is incremental.
type Rank = (u8, bool, u32);

fn rank(stream: u32, priority: Priority) -> Rank {
    let number = if priority.is_incremental { 0 } else { stream };
    (priority.urgency, priority.is_incremental, number)
}

impl Hub {
    /// For a connection without streams.
    pub(crate) fn new(
        facts: Option<Rc<HandshakeFacts>>,
        waker: Waker,
        receive: ReceiveWindow,
    ) -> Self {
        Self {
            facts,
            waker,
            open: Cell::new(0),
            idle_since: Cell::new(None),
            taken: Cell::new(0),
            core: RefCell::new(Core {
                output: Output::default(),
                encoder: HpackEncoder::default(),
                streams: FxHashMap::default(),
                closed: ClosedStreams::default(),
                counted: 0,
                window: SendWindow::new(INITIAL_WINDOW),
                initial_window: INITIAL_WINDOW,
                receive,
                blocked: Vec::new(),
                is_shared: false,
                is_driven: false,
            }),
        }
    }

    /// Has the connection's task send what was written, unless it is running anyway.
    pub(crate) fn note_written(&self, core: &Core) {
        if !core.is_driven {
            self.waker.wake_by_ref();
        }
    }

    /// Has the connection's task wake other streams if there is room: a stream that was woken for it does not use it.
    pub(crate) fn note_unused(&self, core: &Core) {
        if core.has_blocked() && core.room() > 0 {
            self.note_written(core);
        }
    }
}

impl Core {
    /// Appends a frame.
    pub(crate) fn write_frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        let head = FrameHead {
            length: payload.len(),
            kind,
            flags,
            stream,
        };
        self.output.bytes.extend_from_slice(&head.bytes());
        self.output.bytes.extend_from_slice(payload);
    }

    /// Appends RST_STREAM.
    pub(crate) fn write_reset(&mut self, stream: u32, reason: Http2Code) {
        self.write_frame(RST_STREAM, 0, stream, &reason.0.to_be_bytes());
    }

    /// Appends WINDOW_UPDATE.
    pub(crate) fn write_window_update(&mut self, stream: u32, increment: u32) {
        self.write_frame(WINDOW_UPDATE, 0, stream, &increment.to_be_bytes());
    }

    /// Gives received bytes back to the window of the connection.
    pub(crate) fn give_back(&mut self, bytes: usize) {
        if let Some(increment) = self.receive.give_back(bytes) {
            self.write_window_update(0, increment);
        }
    }

    /// Resets a stream, if it has not ended.
    pub(crate) fn reset(&mut self, stream: u32, reason: Http2Code) {
        if self
            .streams
            .get(&stream)
            .is_some_and(|one| !one.is_closed())
        {
            self.write_reset(stream, reason);
            self.end_stream(stream, |one| {
                one.is_reset = true;
                one.is_reset_here = true;
            });
        }
    }

    /// Changes the state of a stream to one that may be closed, and wakes its tasks if it was reset.
    pub(crate) fn end_stream(&mut self, stream: u32, change: impl FnOnce(&mut StreamState)) {
        if let Some(one) = self.streams.get_mut(&stream) {
            change(one);
            if one.is_closed() && std::mem::replace(&mut one.is_counted, false) {
                self.counted -= 1;
            }
            if one.is_reset {
                one.wake_all();
                self.forget_blocked(stream, true);
            }
        }
    }

    /// Ends all streams, because the connection ends.
    pub(crate) fn end_all(&mut self) {
        for stream in self.streams.values_mut() {
            stream.is_reset = true;
            stream.wake_all();
        }
        self.blocked
            .drain(..)
            .for_each(|blocked| blocked.waker.wake());
    }

    /// Removes a stream whose exchange has ended, in whatever state it is.
    pub(crate) fn remove(&mut self, stream: u32) {
        let Some(one) = self.streams.remove(&stream) else {
            return;
        };
        self.forget_blocked(stream, false);
        let mut closing = match one.is_reset_here {
            true => Closing::Reset,
            false => Closing::Whole,
        };
        if !one.is_closed() {
            // The rest of the request is not wanted (§8.1), or the response is incomplete.
            let reason = match one.has_sent_end {
                true => Http2Code::NO_ERROR,
                false => Http2Code::CANCEL,
            };
            self.write_reset(stream, reason);
            closing = Closing::Reset;
        }
        if one.is_counted {
            self.counted -= 1;
        }
        self.closed.note(stream, closing);
        let unread = one.upload.map_or(0, |upload| upload.unread());
        if unread > 0 {
            self.give_back(unread);
        }
    }

    /// Bytes of bodies for which the connection has room.
    fn room(&self) -> usize {
        let room = OUTPUT_BYTES.saturating_sub(self.output.pending().len());
        room.min(self.window.room())
    }

    /// True if the output takes no more.
    pub(crate) fn is_full(&self) -> bool {
        self.output.pending().len() >= OUTPUT_BYTES
    }

    /// Bytes that this stream may send now.
    pub(crate) fn room_for(&self, stream: u32) -> Result<usize, Gone> {
        let one = self.streams.get(&stream).ok_or(Gone::Closed)?;
        if one.is_reset {
            return Err(Gone::Closed);
        }
        let mut room = self.room().min(one.window.room());
        if !self.blocked.is_empty() {
            let own = rank(stream, one.priority);
            if self.blocked.iter().any(|other| other.rank < own) {
                return Ok(0);
            }
        }
        if one.priority.is_incremental {
            let urgency = one.priority.urgency;
            let has_peer = self.blocked.iter().any(|other| other.rank.0 == urgency);
            if self.is_shared || has_peer {
                room = room.min(QUANTUM.saturating_sub(one.turn));
            }
        }
        Ok(room)
    }

    /// Notes that a stream has sent `bytes` of its body, for which there was room.
    fn note_sent(&mut self, stream: u32, bytes: usize, ends: bool) {
        self.window.take(bytes);
        self.end_stream(stream, |one| {
            one.window.take(bytes);
            one.turn = one.turn.saturating_add(bytes);
            one.has_sent_end |= ends;
        });
    }

    /// Appends as much of `bytes` as DATA as there is room for; returns their number. `rest` are the bytes after which the stream ends.
    pub(crate) fn send_data(
        &mut self,
        stream: u32,
        bytes: &[u8],
        rest: Option<u64>,
    ) -> Result<usize, Gone> {
        let room = self.room_for(stream)?;
        let bytes = bytes.get(..room).unwrap_or(bytes);
        let ends = !bytes.is_empty() && rest == Some(bytes.len() as u64);
        let mut left = bytes.len();
        for piece in bytes.chunks(MOST_PAYLOAD) {
            left -= piece.len();
            let flags = if ends && left == 0 { END_STREAM } else { 0 };
            self.write_frame(DATA, flags, stream, piece);
        }
        self.note_sent(stream, bytes.len(), ends);
        Ok(bytes.len())
    }

    /// Appends a body that fits one frame and the room, which `write` appends.
    pub(crate) fn send_whole(
        &mut self,
        stream: u32,
        length: usize,
        ends: bool,
        write: impl FnOnce(&mut Vec<u8>),
    ) {
        debug_assert!(length <= MOST_PAYLOAD, "one frame");
        let flags = if ends { END_STREAM } else { 0 };
        let head = FrameHead {
            length,
            kind: DATA,
            flags,
            stream,
        };
        self.output.bytes.extend_from_slice(&head.bytes());
        let before = self.output.bytes.len();
        write(&mut self.output.bytes);
        assert_eq!(self.output.bytes.len() - before, length, "as announced");
        self.note_sent(stream, length, ends);
    }

    /// Registers a stream that wants to send `wanted` bytes and found no room on the connection. True if there is room, but not for this
    /// one: the connection's task must choose.
    pub(crate) fn wait(&mut self, stream: u32, wanted: usize, waker: &Waker) -> bool {
        let has_room = self.room() > 0;
        let Some(one) = self.streams.get_mut(&stream) else {
            return false;
        };
        one.turn = 0;
        let rank = rank(stream, one.priority);
        match self.blocked.iter_mut().find(|other| other.stream == stream) {
            Some(known) => {
                known.waker.clone_from(waker);
                known.rank = rank;
                known.wanted = wanted;
            }
            None => self.blocked.push(Blocked {
                stream,
                rank,
                wanted,
                waker: waker.clone(),
            }),
        }
        has_room
    }

    /// Wakes the streams that wait, in their order, for the room that there is.
    pub(crate) fn wake_blocked(&mut self) {
        let mut room = self.room();
        if self.blocked.is_empty() || room == 0 {
            return;
        }
        self.blocked.sort_by_key(|blocked| blocked.rank);
        let mut count = 0;
        for blocked in &self.blocked {
            if room == 0 {
                break;
            }
            let (_, is_incremental, _) = blocked.rank;
            let most = if is_incremental { QUANTUM } else { room };
            room -= blocked.wanted.min(most).min(room);
            count += 1;
        }
        self.is_shared = count > 1;
        self.blocked
            .drain(..count)
            .for_each(|blocked| blocked.waker.wake());
    }

    /// Wakes the streams that wait for their own windows, in their order: the first ones get the room of the connection.
    pub(crate) fn wake_writers(&mut self) {
        let waiting = self.streams.iter_mut().filter_map(|(number, one)| {
            let order = (rank(*number, one.priority), *number);
            one.writer.take().map(|writer| (order, writer))
        });
        let mut waiting: Vec<_> = waiting.collect();
        waiting.sort_by_key(|(order, _)| *order);
        waiting.into_iter().for_each(|(_, writer)| writer.wake());
    }

    fn forget_blocked(&mut self, stream: u32, wakes: bool) {
        if let Some(place) = self.blocked.iter().position(|one| one.stream == stream) {
            let blocked = self.blocked.remove(place);
            if wakes {
                blocked.waker.wake();
            }
        }
    }

    /// True if streams wait for room.
    pub(crate) fn has_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// Changes the priority of a stream.
    pub(crate) fn set_priority(&mut self, stream: u32, priority: Priority) {
        if let Some(one) = self.streams.get_mut(&stream) {
            one.priority = priority;
            let found = self.blocked.iter_mut().find(|one| one.stream == stream);
            if let Some(blocked) = found {
                blocked.rank = rank(stream, priority);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Wake};

    use tutti_conn::pace::{Bandwidth, Pace};
    use tutti_http::{FieldLines, OutgoingHead};

    use super::*;
    use crate::stream::{Http2Stream, Kind};

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// A stream with the beginning of a response in its output, which waits for room on the connection.
    fn waiting(hub: &Rc<Hub>, number: u32, waker: &Arc<Count>) -> (Http2Stream, Output) {
        let window = SendWindow::new(INITIAL_WINDOW);
        let state = StreamState::new(window, Priority::default(), None);
        hub.core.borrow_mut().streams.insert(number, state);
        hub.core.borrow_mut().counted += 1;
        let kind = Kind {
            is_head: false,
            is_websocket: false,
        };
        let stream = Http2Stream::new(hub, number, kind);
        let (status, fields) = (200, FieldLines::new());
        let mut output = Output::default();
        output.push_head(OutgoingHead { status, fields });
        output.bytes.extend_from_slice(b"body");
        let waker = Arc::clone(waker).into();
        let mut cx = Context::from_waker(&waker);
        // The head needs no room.
        assert!(stream.poll_send(&mut output, &mut cx).is_pending());
        (stream, output)
    }

    /// Two streams wait for room, and the first, which is woken for it, cannot use it any more after `change`.
    fn does_not_hold_up(change: impl FnOnce(&mut Output, &mut Core)) {
        let (connection, woken) = (Arc::<Count>::default(), Arc::<Count>::default());
        let receive = ReceiveWindow::new(INITIAL_WINDOW);
        let hub = Rc::new(Hub::new(None, Arc::clone(&connection).into(), receive));
        hub.core.borrow_mut().window = SendWindow::new(0);
        let (first, mut output) = waiting(&hub, 1, &woken);
        let (_second, _output) = waiting(&hub, 3, &woken);
        let mut core = hub.core.borrow_mut();
        core.window = SendWindow::new(4);
        core.wake_blocked();
        assert_eq!(woken.0.load(Ordering::Relaxed), 1);
        change(&mut output, &mut core);
        drop(core);
        let before = connection.0.load(Ordering::Relaxed);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(first.poll_send(&mut output, &mut cx).is_pending());
        assert!(connection.0.load(Ordering::Relaxed) > before);
        hub.core.borrow_mut().wake_blocked();
        assert_eq!(woken.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_stream_whose_window_was_closed_does_not_hold_up_others() {
        does_not_hold_up(|_, core| {
            let first = core.streams.get_mut(&1).unwrap();
            first.window = SendWindow::new(0);
        });
    }

    #[tokio::test]
    async fn a_stream_that_has_used_up_its_bandwidth_does_not_hold_up_others() {
        does_not_hold_up(|output, _| {
            let bandwidth = Arc::new(Bandwidth::new(1));
            let mut pace = Pace::new(&[bandwidth], None);
            pace.as_deref_mut().unwrap().take(1024);
            output.set_pace(pace);
        });
    }
}
