//! Frames of the client (RFC 9113 §6): what each means, and which are wrong.
//!
//! Must never: accept more bytes of a body than its window has, or leave the decoder's table different from the client's.

use std::rc::Rc;

use tutti_config::model::Http2;
use tutti_http::http2::frame::{
    ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, FrameHead, GOAWAY, HAS_PRIORITY, HEADERS,
    PADDED, PING, PRIORITY, PRIORITY_UPDATE, PUSH_PROMISE, RST_STREAM, SETTINGS, WINDOW_UPDATE,
};
use tutti_http::http2::{HpackDecoder, SectionOutcome, read_request, read_trailers};
use tutti_http::{EarlyPriorities, Priority, Trailers};

use crate::closed_streams::Closing;
use crate::fault::{Fault, Http2Code};
use crate::frames::{FAREWELL_PING, without_padding};
use crate::head::Http2Head;
use crate::hub::Hub;
use crate::settings::{self, INITIAL_WINDOW, Setting};
use crate::stream_state::{StreamState, Upload};
use crate::windows::{ReceiveWindow, SendWindow};

/// Bytes of a header block in pieces; heads are limited to less by default, and the size that they decompress to is limited, too.
const MOST_BLOCK: usize = 64 * 1024;

/// Bytes of the deprecated priority in HEADERS and PRIORITY.
const PRIORITY_BYTES: usize = 5;

/// Heads that are kept for reuse.
const SPARE_HEADS: usize = 128;

const PROTOCOL_ERROR: Fault = Fault::Connection(Http2Code::PROTOCOL_ERROR);
const FRAME_SIZE_ERROR: Fault = Fault::Connection(Http2Code::FRAME_SIZE_ERROR);

/// Requests that have arrived and have not been started, with their streams.
pub(crate) type Arrived = Vec<(u32, Http2Head)>;

/// The receiving side of one connection.
pub(crate) struct Receiver {
    hub: Rc<Hub>,
    decoder: HpackDecoder,
    most_head_bytes: usize,
    max_streams: usize,
    /// The window of a new request's body.
    stream_window: u32,
    /// Bytes by which it is larger than in our SETTINGS, until the client has acknowledged these.
    excess: u32,
    /// The last stream that was opened.
    last: u32,
    /// Streams after the last one are ignored.
    is_refusing: bool,
    /// The beginning of a head whose rest has not arrived.
    begun: Option<Begun>,
    arrived: Arrived,
    /// A priority of those differs from the default.
    is_unordered: bool,
    spare: Vec<Http2Head>,
    /// Priorities of streams that have not been opened.
    early: EarlyPriorities,
    has_farewell: bool,
}

/// A head in several frames.
struct Begun {
    stream: u32,
    ends: bool,
    is_wrong: bool,
    block: Vec<u8>,
}

impl Receiver {
    pub(crate) fn new(hub: Rc<Hub>, options: &Http2, most_head_bytes: usize) -> Self {
        let stream_window = options.stream_window_size.max(INITIAL_WINDOW);
        Self {
            hub,
            decoder: HpackDecoder::default(),
            most_head_bytes,
            max_streams: options.max_concurrent_streams as usize,
            stream_window,
            excess: stream_window - options.stream_window_size,
            last: 0,
            is_refusing: false,
            begun: None,
            arrived: Vec::new(),
            is_unordered: false,
            spare: Vec::new(),
            early: EarlyPriorities::default(),
            has_farewell: false,
        }
    }

    /// The last stream that was opened.
    pub(crate) fn last(&self) -> u32 {
        self.last
    }

    /// Ignores streams after the last one, which a GOAWAY has named: the client opens them on another connection.
    pub(crate) fn refuse_new(&mut self) {
        self.is_refusing = true;
    }

    /// True while the rest of a head has not arrived.
    pub(crate) fn is_in_head(&self) -> bool {
        self.begun.is_some()
    }

    /// True, once, if the client has answered [`FAREWELL_PING`].
    pub(crate) fn take_farewell(&mut self) -> bool {
        std::mem::take(&mut self.has_farewell)
    }

    /// The requests that have arrived, in the order in which they are to be started.
    pub(crate) fn take_arrived(&mut self) -> Arrived {
        let mut arrived = std::mem::take(&mut self.arrived);
        if std::mem::take(&mut self.is_unordered) {
            let core = self.hub.core.borrow();
            arrived.sort_by_key(|(number, _)| {
                let stream = core.streams.get(number);
                stream.map_or_else(Priority::default, |stream| stream.priority)
            });
        }
        arrived
    }

    /// Takes back the memory of that list.
    pub(crate) fn give_arrived(&mut self, arrived: Arrived) {
        self.arrived = arrived;
    }

    /// Takes back the memory of a head.
    pub(crate) fn give_head(&mut self, head: Http2Head) {
        if self.spare.len() < SPARE_HEADS {
            self.spare.push(head);
        }
    }

    /// Resets a stream, because of its client's error or because there are too many.
    pub(crate) fn reset(&self, stream: u32, reason: Http2Code) {
        let mut core = self.hub.core.borrow_mut();
        if core
            .streams
            .get(&stream)
            .is_some_and(|one| !one.is_closed())
        {
            core.reset(stream, reason);
        } else {
            core.write_reset(stream, reason);
            core.closed.note(stream, Closing::Reset);
        }
    }

    /// Checks the first frame (§3.4).
    pub(crate) fn first(&self, head: FrameHead) -> Result<(), Fault> {
        match head.kind == SETTINGS && head.flags & ACK == 0 {
            true => Ok(()),
            false => Err(PROTOCOL_ERROR),
        }
    }

    /// Processes a frame.
    pub(crate) fn frame(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let is_next = |begun: &Begun| head.kind == CONTINUATION && head.stream == begun.stream;
        if self.begun.as_ref().is_some_and(|begun| !is_next(begun)) {
            return Err(PROTOCOL_ERROR);
        }
        let is_of_connection = matches!(head.kind, SETTINGS | PING | GOAWAY | PRIORITY_UPDATE);
        let is_of_stream = matches!(
            head.kind,
            DATA | HEADERS | PRIORITY | RST_STREAM | CONTINUATION
        );
        if is_of_connection && head.stream != 0 || is_of_stream && head.stream == 0 {
            return Err(PROTOCOL_ERROR);
        }
        match head.kind {
            DATA => self.data(head, payload),
            HEADERS => self.headers(head, payload),
            CONTINUATION => self.continuation(head, payload),
            PRIORITY => self.priority(head.stream, payload),
            RST_STREAM => self.client_reset(head.stream, payload),
            SETTINGS => self.settings(head.flags, payload),
            PING => self.ping(head.flags, payload),
            GOAWAY if payload.len() < 8 => Err(FRAME_SIZE_ERROR),
            WINDOW_UPDATE => self.window_update(head.stream, payload),
            PRIORITY_UPDATE => self.priority_update(payload),
            PUSH_PROMISE => Err(PROTOCOL_ERROR),
            // GOAWAY: the client opens no further streams by itself. Unknown ones: §5.5.
            _ => Ok(()),
        }
    }

    fn headers(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let rest = without_padding(head.flags & PADDED != 0, payload).ok_or(PROTOCOL_ERROR)?;
        let mut is_wrong = false;
        let block = match head.flags & HAS_PRIORITY != 0 {
            false => rest,
            true => {
                let (priority, block) = rest
                    .split_first_chunk::<PRIORITY_BYTES>()
                    .ok_or(FRAME_SIZE_ERROR)?;
                is_wrong = depends_on(priority) == head.stream;
                block
            }
        };
        let ends = head.flags & END_STREAM != 0;
        if head.flags & END_HEADERS != 0 {
            return self.block(head.stream, ends, is_wrong, block);
        }
        self.begun = Some(Begun {
            stream: head.stream,
            ends,
            is_wrong,
            block: block.to_vec(),
        });
        Ok(())
    }

    fn continuation(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let mut begun = self.begun.take().ok_or(PROTOCOL_ERROR)?;
        begun.block.extend_from_slice(payload);
        if begun.block.len() > MOST_BLOCK {
            return Err(Fault::Connection(Http2Code::ENHANCE_YOUR_CALM));
        }
        if head.flags & END_HEADERS != 0 {
            return self.block(head.stream, begun.ends, begun.is_wrong, &begun.block);
        }
        self.begun = Some(begun);
        Ok(())
    }

    /// Processes a whole header block. It is decoded in any case, to keep the table.
    fn block(
        &mut self,
        stream: u32,
        ends: bool,
        is_wrong: bool,
        block: &[u8],
    ) -> Result<(), Fault> {
        const COMPRESSION_ERROR: Fault = Fault::Connection(Http2Code::COMPRESSION_ERROR);
        if stream <= self.last {
            let trailers = read_trailers(&mut self.decoder, block, self.most_head_bytes)
                .map_err(|_| COMPRESSION_ERROR)?;
            return self.trailers(stream, ends, trailers.filter(|_| !is_wrong));
        }
        // §5.1.1: streams of clients have odd numbers.
        if stream.is_multiple_of(2) {
            return Err(PROTOCOL_ERROR);
        }
        let mut head = self.spare.pop().unwrap_or_default();
        let outcome = read_request(
            &mut self.decoder,
            block,
            self.most_head_bytes,
            &mut head.section,
        )
        .map_err(|_| COMPRESSION_ERROR)?;
        if self.is_refusing {
            return Ok(());
        }
        self.last = stream;
        if outcome == SectionOutcome::Malformed || is_wrong {
            return Err(Fault::Stream(stream, Http2Code::PROTOCOL_ERROR));
        }
        head.is_too_large = outcome == SectionOutcome::TooLarge;
        head.has_body = !ends;
        self.open(stream, head)
    }

    /// Opens a stream for a request, which is started when all that arrived with it has been read.
    fn open(&mut self, stream: u32, head: Http2Head) -> Result<(), Fault> {
        let declared = head.content_length();
        if !head.has_body && declared.is_some_and(|length| length > 0) {
            // §8.1.1
            return Err(Fault::Stream(stream, Http2Code::PROTOCOL_ERROR));
        }
        let mut core = self.hub.core.borrow_mut();
        if core.counted >= self.max_streams {
            return Err(Fault::Stream(stream, Http2Code::REFUSED_STREAM));
        }
        // Exchanges of streams that were reset take a while to end. A client that does not wait for that floods the server.
        if core.streams.len() >= 2 * self.max_streams {
            return Err(Fault::Stream(stream, Http2Code::ENHANCE_YOUR_CALM));
        }
        let early = self.early.take(stream.into());
        let priority = early.unwrap_or_else(|| head.priority());
        self.is_unordered |= priority != Priority::default();
        let upload = head.has_body.then(|| {
            Box::new(Upload {
                window: ReceiveWindow::new(self.stream_window),
                declared,
                arrived: 0,
                data: Vec::new(),
                read: 0,
                trailers: Trailers::default(),
            })
        });
        let window = SendWindow::new(core.initial_window);
        core.counted += 1;
        core.streams
            .insert(stream, StreamState::new(window, priority, upload));
        self.arrived.push((stream, head));
        Ok(())
    }

    fn trailers(
        &mut self,
        stream: u32,
        ends: bool,
        trailers: Option<Trailers>,
    ) -> Result<(), Fault> {
        let mut core = self.hub.core.borrow_mut();
        let Some(one) = core.streams.get_mut(&stream) else {
            return match core.closed.get(stream) {
                Some(Closing::Reset) => Ok(()),
                Some(Closing::Whole) => Err(Fault::Connection(Http2Code::STREAM_CLOSED)),
                // §5.1.1: an older stream that was never opened.
                None => Err(PROTOCOL_ERROR),
            };
        };
        if one.is_reset_here {
            return Ok(());
        }
        let Some(upload) = one.upload.as_mut().filter(|_| !one.is_reset) else {
            return Err(Fault::Stream(stream, Http2Code::STREAM_CLOSED));
        };
        if one.has_received_end {
            return Err(Fault::Stream(stream, Http2Code::STREAM_CLOSED));
        }
        let (true, Some(trailers)) = (ends, trailers) else {
            return Err(Fault::Stream(stream, Http2Code::PROTOCOL_ERROR));
        };
        upload.trailers = trailers;
        drop(core);
        self.end_upload(stream)
    }

    /// The client has sent the whole body.
    fn end_upload(&self, stream: u32) -> Result<(), Fault> {
        let mut core = self.hub.core.borrow_mut();
        let upload = core
            .streams
            .get(&stream)
            .and_then(|one| one.upload.as_ref());
        let is_short = upload.is_some_and(|upload| {
            upload
                .declared
                .is_some_and(|declared| declared != upload.arrived)
        });
        if is_short {
            // §8.1.1
            return Err(Fault::Stream(stream, Http2Code::PROTOCOL_ERROR));
        }
        core.end_stream(stream, |one| {
            one.has_received_end = true;
            if let Some(reader) = one.reader.take() {
                reader.wake();
            }
        });
        Ok(())
    }

    fn data(&mut self, head: FrameHead, payload: &[u8]) -> Result<(), Fault> {
        let stream = head.stream;
        let bytes = without_padding(head.flags & PADDED != 0, payload).ok_or(PROTOCOL_ERROR)?;
        if stream > self.last && !self.is_refusing {
            return Err(PROTOCOL_ERROR);
        }
        let mut core = self.hub.core.borrow_mut();
        core.receive
            .take(payload.len())
            .ok_or(Fault::Connection(Http2Code::FLOW_CONTROL_ERROR))?;
        if stream > self.last {
            // It is ignored, but counts for the connection (§6.8).
            core.give_back(payload.len());
            return Ok(());
        }
        let one = core.streams.get_mut(&stream);
        let open = one.filter(|one| !one.is_reset && !one.has_received_end);
        let Some(one) = open else {
            core.give_back(payload.len());
            let is_ignored = match core.streams.get(&stream) {
                Some(one) => one.is_reset_here,
                None => core.closed.get(stream) == Some(Closing::Reset),
            };
            return match is_ignored {
                true => Ok(()),
                false => Err(Fault::Stream(stream, Http2Code::STREAM_CLOSED)),
            };
        };
        let Some(upload) = &mut one.upload else {
            return Err(Fault::Stream(stream, Http2Code::STREAM_CLOSED));
        };
        upload.arrived = upload.arrived.saturating_add(bytes.len() as u64);
        let is_permitted = upload.window.take(payload.len()).is_some();
        let is_too_long = upload.declared.is_some_and(|most| upload.arrived > most);
        if !is_permitted || is_too_long {
            core.give_back(payload.len());
            let reason = match is_permitted {
                true => Http2Code::PROTOCOL_ERROR,
                false => Http2Code::FLOW_CONTROL_ERROR,
            };
            return Err(Fault::Stream(stream, reason));
        }
        upload.data.extend_from_slice(bytes);
        let padding = payload.len() - bytes.len();
        let update = upload.window.give_back(padding);
        if let Some(reader) = one.reader.take() {
            reader.wake();
        }
        let ends = head.flags & END_STREAM != 0;
        if let Some(increment) = update.filter(|_| !ends) {
            core.write_window_update(stream, increment);
        }
        core.give_back(padding);
        drop(core);
        match ends {
            true => self.end_upload(stream),
            false => Ok(()),
        }
    }

    /// PRIORITY, which has no meaning any more, but must be well-formed (§6.3).
    fn priority(&self, stream: u32, payload: &[u8]) -> Result<(), Fault> {
        let reason = match payload.first_chunk::<PRIORITY_BYTES>() {
            Some(priority) if payload.len() == PRIORITY_BYTES => {
                if depends_on(priority) != stream {
                    return Ok(());
                }
                Http2Code::PROTOCOL_ERROR
            }
            _ => Http2Code::FRAME_SIZE_ERROR,
        };
        // A stream that was never opened cannot be reset.
        match stream > self.last {
            true => Err(Fault::Connection(reason)),
            false => Err(Fault::Stream(stream, reason)),
        }
    }

    fn client_reset(&mut self, stream: u32, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 4 {
            return Err(FRAME_SIZE_ERROR);
        }
        if stream > self.last && !self.is_refusing {
            return Err(PROTOCOL_ERROR);
        }
        let mut core = self.hub.core.borrow_mut();
        core.end_stream(stream, |one| one.is_reset = true);
        Ok(())
    }

    fn settings(&mut self, flags: u8, payload: &[u8]) -> Result<(), Fault> {
        if flags & ACK != 0 {
            if !payload.is_empty() {
                return Err(FRAME_SIZE_ERROR);
            }
            self.shrink_windows();
            return Ok(());
        }
        let mut core = self.hub.core.borrow_mut();
        let core = &mut *core;
        let mut is_exceeded = false;
        settings::read(payload, |setting| match setting {
            Setting::TableSize(size) => core.encoder.permit(size),
            Setting::InitialWindow(size) => {
                let change = i64::from(size) - i64::from(core.initial_window);
                core.initial_window = size;
                for stream in core.streams.values_mut() {
                    is_exceeded |= stream.window.add(change).is_none();
                }
                core.wake_writers();
            }
        })?;
        if is_exceeded {
            return Err(Fault::Connection(Http2Code::FLOW_CONTROL_ERROR));
        }
        core.write_frame(SETTINGS, ACK, 0, &[]);
        Ok(())
    }

    /// The client knows our SETTINGS: windows may be smaller than the initial one now.
    fn shrink_windows(&mut self) {
        let excess = std::mem::take(&mut self.excess);
        if excess > 0 {
            self.stream_window -= excess;
            let mut core = self.hub.core.borrow_mut();
            let uploads = core.streams.values_mut();
            for upload in uploads.filter_map(|stream| stream.upload.as_mut()) {
                upload.window.shrink(excess);
            }
        }
    }

    fn ping(&mut self, flags: u8, payload: &[u8]) -> Result<(), Fault> {
        if payload.len() != 8 {
            return Err(FRAME_SIZE_ERROR);
        }
        if flags & ACK == 0 {
            let mut core = self.hub.core.borrow_mut();
            core.write_frame(PING, ACK, 0, payload);
        } else {
            self.has_farewell |= payload == FAREWELL_PING;
        }
        Ok(())
    }

    fn window_update(&mut self, stream: u32, payload: &[u8]) -> Result<(), Fault> {
        let increment = <[u8; 4]>::try_from(payload).map_err(|_| FRAME_SIZE_ERROR)?;
        let increment = i64::from(u32::from_be_bytes(increment) & 0x7fff_ffff);
        let mut core = self.hub.core.borrow_mut();
        if stream == 0 {
            if increment == 0 {
                return Err(PROTOCOL_ERROR);
            }
            let added = core.window.add(increment);
            return added.ok_or(Fault::Connection(Http2Code::FLOW_CONTROL_ERROR));
        }
        if stream > self.last && !self.is_refusing {
            return Err(PROTOCOL_ERROR);
        }
        let Some(one) = core.streams.get_mut(&stream) else {
            return Ok(());
        };
        if increment == 0 {
            return Err(Fault::Stream(stream, Http2Code::PROTOCOL_ERROR));
        }
        let added = one.window.add(increment);
        if let Some(writer) = one.writer.take() {
            writer.wake();
        }
        added.ok_or(Fault::Stream(stream, Http2Code::FLOW_CONTROL_ERROR))
    }

    /// PRIORITY_UPDATE (RFC 9218 §7.1).
    fn priority_update(&mut self, payload: &[u8]) -> Result<(), Fault> {
        let (stream, value) = payload.split_first_chunk::<4>().ok_or(FRAME_SIZE_ERROR)?;
        let stream = u32::from_be_bytes(*stream) & 0x7fff_ffff;
        if stream.is_multiple_of(2) {
            // The connection, or a push, of which there is none.
            return Err(PROTOCOL_ERROR);
        }
        let priority = Priority::parse(value);
        if stream <= self.last {
            self.is_unordered = true;
            let mut core = self.hub.core.borrow_mut();
            core.set_priority(stream, priority);
            return Ok(());
        }
        self.early.note(stream.into(), priority);
        Ok(())
    }
}

/// The stream that a deprecated priority depends on.
fn depends_on(priority: &[u8; PRIORITY_BYTES]) -> u32 {
    let [a, b, c, d, _] = *priority;
    u32::from_be_bytes([a, b, c, d]) & 0x7fff_ffff
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::task::{Wake, Waker};

    use super::*;

    const OPTIONS: Http2 = Http2 {
        max_concurrent_streams: 2,
        stream_window_size: 16_384,
        connection_window_size: 65_535,
    };

    /// GET / of http, without an authority.
    const GET: &[u8] = b"\x82\x84\x86";

    fn receiver() -> Receiver {
        let window = ReceiveWindow::new(OPTIONS.connection_window_size);
        let hub = Rc::new(Hub::new(None, Waker::noop().clone(), window));
        Receiver::new(hub, &OPTIONS, 8_192)
    }

    fn frame(
        receiver: &mut Receiver,
        (kind, flags, stream): (u8, u8, u32),
        payload: &[u8],
    ) -> Result<(), Fault> {
        let head = FrameHead {
            length: payload.len(),
            kind,
            flags,
            stream,
        };
        receiver.frame(head, payload)
    }

    /// The bytes that the receiver has written.
    fn written(receiver: &Receiver) -> Vec<u8> {
        let mut core = receiver.hub.core.borrow_mut();
        std::mem::take(&mut core.output).bytes
    }

    const WHOLE: u8 = END_HEADERS | END_STREAM;

    #[test]
    fn bodies_of_streams_after_the_last_count_for_the_connection() {
        let mut receiver = receiver();
        receiver.refuse_new();
        let piece = [0; 16_384];
        for _ in 0..2 {
            assert_eq!(frame(&mut receiver, (DATA, 0, 1), &piece), Ok(()));
        }
        assert!(frame(&mut receiver, (DATA, 0, 1), &piece).is_ok());
        // Half of the window: WINDOW_UPDATE of the connection.
        let update = [&b"\0\0\x04\x08\0\0\0\0\0"[..], &32_768_u32.to_be_bytes()].concat();
        assert_eq!(written(&receiver), update);
    }

    #[test]
    fn frames_that_end_the_connection() {
        type Case<'a> = ((u8, u8, u32), &'a [u8], Http2Code);
        let cases: &[Case<'_>] = &[
            ((DATA, 0, 0), b"x", Http2Code::PROTOCOL_ERROR),
            ((DATA, 0, 3), b"x", Http2Code::PROTOCOL_ERROR),
            ((DATA, PADDED, 1), b"\x02x", Http2Code::PROTOCOL_ERROR),
            ((HEADERS, WHOLE, 0), GET, Http2Code::PROTOCOL_ERROR),
            ((HEADERS, WHOLE, 2), GET, Http2Code::PROTOCOL_ERROR),
            ((HEADERS, WHOLE, 3), b"\x80", Http2Code::COMPRESSION_ERROR),
            (
                (HEADERS, WHOLE | HAS_PRIORITY, 3),
                b"\0",
                Http2Code::FRAME_SIZE_ERROR,
            ),
            (
                (CONTINUATION, END_HEADERS, 1),
                GET,
                Http2Code::PROTOCOL_ERROR,
            ),
            ((PRIORITY, 0, 9), b"\0\0\0\x09\0", Http2Code::PROTOCOL_ERROR),
            ((RST_STREAM, 0, 1), b"\0", Http2Code::FRAME_SIZE_ERROR),
            ((RST_STREAM, 0, 3), b"\0\0\0\0", Http2Code::PROTOCOL_ERROR),
            ((SETTINGS, 0, 1), b"", Http2Code::PROTOCOL_ERROR),
            ((SETTINGS, ACK, 0), b"x", Http2Code::FRAME_SIZE_ERROR),
            ((PUSH_PROMISE, 0, 1), b"", Http2Code::PROTOCOL_ERROR),
            ((PING, 0, 0), b"1234567", Http2Code::FRAME_SIZE_ERROR),
            ((GOAWAY, 0, 0), b"1234567", Http2Code::FRAME_SIZE_ERROR),
            (
                (WINDOW_UPDATE, 0, 0),
                b"\0\0\0\0",
                Http2Code::PROTOCOL_ERROR,
            ),
            (
                (WINDOW_UPDATE, 0, 0),
                b"\x7f\xff\xff\xff",
                Http2Code::FLOW_CONTROL_ERROR,
            ),
            (
                (WINDOW_UPDATE, 0, 3),
                b"\0\0\0\x01",
                Http2Code::PROTOCOL_ERROR,
            ),
            (
                (WINDOW_UPDATE, 0, 1),
                b"\0\0\0",
                Http2Code::FRAME_SIZE_ERROR,
            ),
            (
                (PRIORITY_UPDATE, 0, 1),
                b"\0\0\0\x01",
                Http2Code::PROTOCOL_ERROR,
            ),
            (
                (PRIORITY_UPDATE, 0, 0),
                b"\0\0\0\x02",
                Http2Code::PROTOCOL_ERROR,
            ),
            (
                (PRIORITY_UPDATE, 0, 0),
                b"\0\0\0",
                Http2Code::FRAME_SIZE_ERROR,
            ),
        ];
        for (head, payload, reason) in cases {
            let mut receiver = receiver();
            frame(&mut receiver, (HEADERS, END_HEADERS, 1), GET).unwrap();
            let outcome = frame(&mut receiver, *head, payload);
            assert_eq!(outcome, Err(Fault::Connection(*reason)), "{head:?}");
        }
        // Nothing may come between the frames of a head.
        let mut receiver = receiver();
        frame(&mut receiver, (HEADERS, 0, 1), GET).unwrap();
        let outcome = frame(&mut receiver, (PING, 0, 0), b"12345678");
        assert_eq!(outcome, Err(PROTOCOL_ERROR));
    }

    #[test]
    fn frames_that_reset_their_stream() {
        type Case<'a> = ((u8, u8, u32), &'a [u8], Http2Code);
        let cases: &[Case<'_>] = &[
            ((HEADERS, END_HEADERS, 1), b"", Http2Code::PROTOCOL_ERROR),
            ((HEADERS, WHOLE, 1), GET, Http2Code::PROTOCOL_ERROR),
            ((HEADERS, WHOLE, 5), b"\x82", Http2Code::PROTOCOL_ERROR),
            ((HEADERS, WHOLE, 5), GET, Http2Code::REFUSED_STREAM),
            ((DATA, END_STREAM, 3), b"", Http2Code::STREAM_CLOSED),
            ((HEADERS, WHOLE, 3), b"", Http2Code::STREAM_CLOSED),
            ((PRIORITY, 0, 1), b"\0\0\0\x01\0", Http2Code::PROTOCOL_ERROR),
            ((PRIORITY, 0, 1), b"\0\0\0\x01", Http2Code::FRAME_SIZE_ERROR),
            (
                (WINDOW_UPDATE, 0, 1),
                b"\0\0\0\0",
                Http2Code::PROTOCOL_ERROR,
            ),
            (
                (WINDOW_UPDATE, 0, 1),
                b"\x7f\xff\xff\xff",
                Http2Code::FLOW_CONTROL_ERROR,
            ),
        ];
        for (head, payload, reason) in cases {
            let mut receiver = receiver();
            frame(&mut receiver, (HEADERS, END_HEADERS, 1), GET).unwrap();
            frame(&mut receiver, (HEADERS, WHOLE, 3), GET).unwrap();
            let outcome = frame(&mut receiver, *head, payload);
            assert_eq!(outcome, Err(Fault::Stream(head.2, *reason)), "{head:?}");
        }
    }

    #[test]
    fn bodies_keep_to_their_windows_and_lengths() {
        let declared = b"\x83\x84\x86\x0f\x0d\x015".as_slice();
        let mut one = receiver();
        frame(&mut one, (HEADERS, END_HEADERS, 1), declared).unwrap();
        assert_eq!(frame(&mut one, (DATA, 0, 1), b"1234"), Ok(()));
        let wrong = Err(Fault::Stream(1, Http2Code::PROTOCOL_ERROR));
        assert_eq!(frame(&mut one, (DATA, END_STREAM, 1), b""), wrong);
        let mut one = receiver();
        frame(&mut one, (HEADERS, END_HEADERS, 1), declared).unwrap();
        assert_eq!(frame(&mut one, (DATA, 0, 1), b"123456"), wrong);
        // A length without a body.
        assert_eq!(frame(&mut receiver(), (HEADERS, WHOLE, 1), declared), wrong);
        // The initial window, until the client knows ours.
        for (knows, most) in [(false, 65_535), (true, 16_384)] {
            let mut one = receiver();
            if knows {
                frame(&mut one, (SETTINGS, ACK, 0), b"").unwrap();
            }
            frame(&mut one, (HEADERS, END_HEADERS, 1), GET).unwrap();
            let mut sent = 0;
            while sent + 1_000 <= most {
                frame(&mut one, (DATA, 0, 1), &[0; 1_000]).unwrap();
                sent += 1_000;
            }
            let outcome = frame(&mut one, (DATA, 0, 1), &[0; 1_000]);
            let expected = match knows {
                true => Fault::Stream(1, Http2Code::FLOW_CONTROL_ERROR),
                false => Fault::Connection(Http2Code::FLOW_CONTROL_ERROR),
            };
            assert_eq!(outcome, Err(expected), "{knows}");
        }
    }

    #[test]
    fn frames_that_were_on_their_way_at_a_reset_are_ignored() {
        let mut receiver = receiver();
        frame(&mut receiver, (HEADERS, END_HEADERS, 1), GET).unwrap();
        receiver.reset(1, Http2Code::CANCEL);
        // While the exchange ends, and when it has ended.
        for _ in 0..2 {
            assert_eq!(frame(&mut receiver, (DATA, 0, 1), b"data"), Ok(()));
            assert_eq!(frame(&mut receiver, (HEADERS, WHOLE, 1), b""), Ok(()));
            assert_eq!(
                frame(&mut receiver, (WINDOW_UPDATE, 0, 1), &[0, 0, 0, 1]),
                Ok(())
            );
            assert_eq!(frame(&mut receiver, (RST_STREAM, 0, 1), &[0; 4]), Ok(()));
            receiver.hub.core.borrow_mut().remove(1);
        }
        // Streams that were skipped are another matter.
        frame(&mut receiver, (HEADERS, WHOLE, 7), GET).unwrap();
        let skipped = frame(&mut receiver, (HEADERS, WHOLE, 5), GET);
        assert_eq!(skipped, Err(PROTOCOL_ERROR));
    }

    #[test]
    fn a_request_that_is_taken_back_does_not_count_and_its_exchange_does() {
        let mut receiver = receiver();
        for number in 0..4 {
            let stream = 2 * number + 1;
            frame(&mut receiver, (HEADERS, WHOLE, stream), GET).unwrap();
            frame(&mut receiver, (RST_STREAM, 0, stream), &[0; 4]).unwrap();
            assert_eq!(receiver.hub.core.borrow().counted, 0);
        }
        assert_eq!(receiver.take_arrived().len(), 4, "for the log");
        let refused = frame(&mut receiver, (HEADERS, WHOLE, 9), GET);
        assert_eq!(refused, Err(Fault::Stream(9, Http2Code::ENHANCE_YOUR_CALM)));
        receiver.hub.core.borrow_mut().remove(1);
        assert_eq!(frame(&mut receiver, (HEADERS, WHOLE, 11), GET), Ok(()));
        let outcome = frame(&mut receiver, (DATA, 0, 1), b"x");
        let closed = Fault::Stream(1, Http2Code::STREAM_CLOSED);
        assert_eq!(outcome, Err(closed));
    }

    #[test]
    fn settings_and_pings_are_acknowledged() {
        let mut receiver = receiver();
        frame(&mut receiver, (SETTINGS, 0, 0), b"\0\x04\0\0\0\x01").unwrap();
        frame(&mut receiver, (PING, 0, 0), b"12345678").unwrap();
        frame(&mut receiver, (PING, ACK, 0), b"12345678").unwrap();
        assert!(!receiver.take_farewell());
        frame(&mut receiver, (PING, ACK, 0), &FAREWELL_PING).unwrap();
        assert!(receiver.take_farewell() && !receiver.take_farewell());
        let expected = b"\0\0\0\x04\x01\0\0\0\0\0\0\x08\x06\x01\0\0\0\x0012345678";
        assert_eq!(written(&receiver), expected);
        assert_eq!(receiver.hub.core.borrow().initial_window, 1);
    }

    /// Notes the number of its stream when it is woken.
    struct Noting(u32, Arc<Mutex<Vec<u32>>>);

    impl Wake for Noting {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0);
        }
    }

    #[test]
    fn streams_whose_windows_open_together_are_woken_in_their_order() {
        let mut receiver = receiver();
        let woken = Arc::<Mutex<Vec<u32>>>::default();
        let mut expected = Vec::new();
        for stream in (1..100).step_by(2) {
            let priority = Priority {
                urgency: (stream % 3) as u8,
                is_incremental: stream % 5 == 0,
            };
            let mut state = StreamState::new(SendWindow::new(0), priority, None);
            state.writer = Some(Arc::new(Noting(stream, Arc::clone(&woken))).into());
            let mut core = receiver.hub.core.borrow_mut();
            core.streams.insert(stream, state);
            expected.push((priority.urgency, priority.is_incremental, stream));
        }
        frame(&mut receiver, (SETTINGS, 0, 0), b"\0\x04\0\x01\0\0").unwrap();
        expected.sort();
        let expected: Vec<u32> = expected.into_iter().map(|(.., stream)| stream).collect();
        assert_eq!(*woken.lock().unwrap(), expected);
    }

    #[test]
    fn the_priority_of_a_stream_to_come_counts() {
        let mut receiver = receiver();
        frame(&mut receiver, (PRIORITY_UPDATE, 0, 0), b"\0\0\0\x03u=1").unwrap();
        frame(&mut receiver, (HEADERS, WHOLE, 3), GET).unwrap();
        let urgency = |receiver: &Receiver, stream| {
            let core = receiver.hub.core.borrow();
            core.streams[&stream].priority.urgency
        };
        assert_eq!(urgency(&receiver, 3), 1);
        frame(&mut receiver, (PRIORITY_UPDATE, 0, 0), b"\0\0\0\x03u=7").unwrap();
        assert_eq!(urgency(&receiver, 3), 7);
    }
}
