//! One request and its response in a slot: writing, cancelling, reading, credit.
//!
//! Every value that a worker wrote is loaded once and checked against the router's own counters.

use super::{NO_OWNER, PRIVATE_DIED, PRIVATE_HEAD_READ, PRIVATE_WEBSOCKET, Private, Segment};
use crate::idle::notify_sleeper;
use crate::layout::{
    END_ABORTED, END_COMPLETE, HEAD_CAPACITY, HEAD_IN_RING, HEAD_INLINE, HEAD_NONE, MODE_LOOP,
    PLACE_INLINE, PLACE_SPOOL, REQUEST_CAPACITY, RESPONSE_CAPACITY, STREAM_CAPACITY, SlotControl,
};
use crate::message::{HEAD_LENGTH, MessageOpcode, Piece, PieceHead};
use crate::request::{BodyRef, TooLarge, WireRequestHead, encode_into};
use crate::response::{INTERIM_PREFIX, ResponseFields, WireResponseHead};
use crate::ring::{WANTS_DATA, WANTS_ROOM, filled, nudge, waits_for_data};
use crate::shared::Region;
use crate::span::RawSpan;
use crate::state::{SlotKind, SlotState};
use crate::sync::{Ordering, fence};
use crate::{SlotId, Violation};

/// The result of cancelling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// It had not begun and never will.
    Cancelled,
    /// This worker has begun it.
    Running(u32),
    /// No worker has it, or will: it is finished, was cancelled before, or was never queued.
    Released,
}

/// The part of a response body that can be read.
#[derive(Clone, Copy, Debug)]
pub struct Readable<'a> {
    /// The bytes, in order; either may be empty.
    pub spans: [RawSpan<'a>; 2],
    /// These bytes complete the response.
    pub finished: bool,
    /// No more bytes follow, and the response is incomplete: the worker aborted it or died.
    pub aborted: bool,
}

impl Readable<'_> {
    /// Number of bytes in both spans.
    pub fn len(&self) -> usize {
        self.spans.iter().map(|span| span.len).sum()
    }

    /// True if there is nothing to read now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Appends the bytes to `target`.
    pub fn copy_to(&self, target: &mut Vec<u8>) {
        for span in &self.spans {
            span.copy_to(target);
        }
    }
}

/// `Begun` or `Done`, once the worker's words belong to this request.
fn progress(control: &SlotControl) -> Option<SlotKind> {
    let state = SlotState::unpack(control.state.load(Ordering::Acquire))?;
    matches!(state.kind, SlotKind::Begun | SlotKind::Done).then_some(state.kind)
}

impl Segment {
    fn parts(&self, slot: SlotId) -> Option<(&SlotControl, &Private)> {
        Some((self.shared.slot(slot.0)?, self.slots.get(slot.0)?))
    }

    fn reset(&self, slot: SlotId, is_websocket: bool) {
        let Some((control, private)) = self.parts(slot) else {
            return;
        };
        debug_assert_ne!(
            private.owner.load(Ordering::Relaxed),
            NO_OWNER,
            "a request is written into slot {}, which is free",
            slot.0
        );
        let kept = private.flags.load(Ordering::Relaxed)
            & !(PRIVATE_DIED | PRIVATE_HEAD_READ | PRIVATE_WEBSOCKET);
        let upgrade = if is_websocket { PRIVATE_WEBSOCKET } else { 0 };
        private.flags.store(kept | upgrade, Ordering::Relaxed);
        private.interims_read.store(0, Ordering::Relaxed);
        private.requeues.store(0, Ordering::Relaxed);
        private.response_consumed.store(0, Ordering::Relaxed);
        private.stream_written.store(0, Ordering::Relaxed);
        let router = &control.router;
        router.client_gone.store(0, Ordering::Relaxed);
        router.response_consumed.store(0, Ordering::Relaxed);
        router.stream_written.store(0, Ordering::Relaxed);
        router.stream_finished.store(0, Ordering::Relaxed);
        router.router_waits.store(0, Ordering::Relaxed);
    }

    /// Writes a request into an allocated slot. [`TooLarge`]: encode it into the spool instead
    /// (`request::encode`, [`Segment::write_request_spooled`]), or put just the body there.
    pub fn write_request(
        &self,
        slot: SlotId,
        head: &WireRequestHead<'_>,
        body: &BodyRef<'_>,
    ) -> Result<(), TooLarge> {
        let (Some((control, _)), Some(region)) = (
            self.parts(slot),
            self.shared.region(slot.0, Region::Request),
        ) else {
            return Err(TooLarge { length: 0 });
        };
        let length = encode_into(region, head, body)?;
        debug_assert!(length <= REQUEST_CAPACITY, "a request longer than its area");
        self.reset(slot, head.websocket);
        control
            .router
            .request_place
            .store(PLACE_INLINE, Ordering::Relaxed);
        control
            .router
            .request_length
            .store(length, Ordering::Relaxed);
        Ok(())
    }

    /// Declares that the request's record is in the spool file.
    pub fn write_request_spooled(
        &self,
        slot: SlotId,
        head: &WireRequestHead<'_>,
        offset: u64,
        length: u32,
    ) {
        let Some((control, _)) = self.parts(slot) else {
            return;
        };
        self.reset(slot, head.websocket);
        let router = &control.router;
        router.request_place.store(PLACE_SPOOL, Ordering::Relaxed);
        router.spool_offset.store(offset, Ordering::Relaxed);
        router.request_length.store(length, Ordering::Relaxed);
    }

    /// Withdraws a request if no worker has claimed it.
    pub fn cancel(&self, slot: SlotId) -> CancelOutcome {
        let Some(word) = self.state_word(slot.0) else {
            return CancelOutcome::Released;
        };
        let mut current = word.load(Ordering::Acquire);
        // A queued state changes at most once per claim or requeue; a worker that keeps changing it is not waited for.
        for _ in 0..16 {
            let Some(state) = SlotState::unpack(current) else {
                break;
            };
            match state.kind {
                SlotKind::Free | SlotKind::Done | SlotKind::Cancelled => {
                    return CancelOutcome::Released;
                }
                SlotKind::Taken | SlotKind::Begun => return self.running(slot, state),
                SlotKind::Queued => {
                    let cancelled = SlotState::of(SlotKind::Cancelled, state.ticket).pack();
                    match word.compare_exchange(
                        current,
                        cancelled,
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    ) {
                        Ok(_) => return CancelOutcome::Cancelled,
                        Err(found) => current = found,
                    }
                }
            }
        }
        CancelOutcome::Running(u32::MAX)
    }

    fn running(&self, slot: SlotId, state: SlotState) -> CancelOutcome {
        if self.has_died(slot) {
            CancelOutcome::Released
        } else {
            CancelOutcome::Running(u32::from(state.worker))
        }
    }

    fn has_died(&self, slot: SlotId) -> bool {
        self.has_flag(slot, PRIVATE_DIED)
    }

    fn has_flag(&self, slot: SlotId, flag: u32) -> bool {
        self.slots
            .get(slot.0)
            .is_some_and(|private| private.flags.load(Ordering::Acquire) & flag != 0)
    }

    /// True if no worker will use the slot any more.
    pub fn is_released(&self, slot: SlotId) -> bool {
        self.has_died(slot)
            || self
                .state_word(slot.0)
                .and_then(|word| SlotState::unpack(word.load(Ordering::Acquire)))
                .is_some_and(|state| {
                    matches!(
                        state.kind,
                        SlotKind::Free | SlotKind::Done | SlotKind::Cancelled
                    )
                })
    }

    /// The slot's state, which workers may have falsified.
    pub fn state(&self, slot: SlotId) -> Option<SlotState> {
        SlotState::unpack(self.state_word(slot.0)?.load(Ordering::Acquire))
    }

    /// When the worker reports to have taken the request: [`crate::now_us`]. `None` if it does not report it, or has not taken it.
    pub fn begun_us(&self, slot: SlotId) -> Option<u64> {
        let (control, _) = self.parts(slot)?;
        progress(control)?;
        let begun = control.worker.begun_us.load(Ordering::Relaxed);
        (begun != 0).then_some(begun)
    }

    /// The next interim response of the worker.
    fn interim_head(
        &self,
        slot: SlotId,
        control: &SlotControl,
        private: &Private,
    ) -> Result<Option<WireResponseHead>, Violation> {
        let sent = control.worker.interims_length.load(Ordering::Acquire);
        let start = private.interims_read.load(Ordering::Relaxed);
        if sent == start {
            return Ok(None);
        }
        // If the count is beyond the area or has decreased, the prefix read is invalid, or not that of a new response.
        let fields = start + INTERIM_PREFIX as u32;
        if sent > HEAD_CAPACITY || fields > sent {
            return Err(Violation::Head);
        }
        let prefix = self.head_bytes(slot, start, INTERIM_PREFIX as u32)?;
        let prefix = prefix.try_into().map_err(|_| Violation::Head)?;
        let (status, length) = WireResponseHead::parse_interim(prefix)?;
        if length > sent - fields {
            return Err(Violation::Head);
        }
        let head = WireResponseHead::interim(status, self.head_bytes(slot, fields, length)?)?;
        debug_assert!(fields + length <= HEAD_CAPACITY, "beyond the head area");
        private
            .interims_read
            .store(fields + length, Ordering::Relaxed);
        Ok(Some(head))
    }

    /// A copy of bytes of the head area.
    fn head_bytes(&self, slot: SlotId, start: u32, length: u32) -> Result<Vec<u8>, Violation> {
        let mut bytes = Vec::new();
        self.shared
            .region(slot.0, Region::Head)
            .and_then(|region| region.span(start as usize, length as usize))
            .ok_or(Violation::Head)?
            .copy_to(&mut bytes);
        Ok(bytes)
    }

    /// The trailer fields of a complete response; none if the worker has set none.
    pub fn response_trailers(&self, slot: SlotId) -> Result<ResponseFields, Violation> {
        let (control, _) = self.parts(slot).ok_or(Violation::Slot)?;
        let worker = &control.worker;
        if progress(control) != Some(SlotKind::Done) {
            return Ok(ResponseFields::default());
        }
        let length = worker.trailers_length.load(Ordering::Relaxed);
        if length == 0 {
            return Ok(ResponseFields::default());
        }
        let head = match worker.head_place.load(Ordering::Relaxed) {
            HEAD_INLINE => worker.head_length.load(Ordering::Relaxed),
            _ => 0,
        };
        let interims = worker.interims_length.load(Ordering::Relaxed);
        let start = interims.checked_add(head).ok_or(Violation::Head)?;
        ResponseFields::parse(self.head_bytes(slot, start, length)?)
    }

    /// The response head, once, when the worker has sent it; `None` before. Interim responses come first.
    pub fn response_head(&self, slot: SlotId) -> Result<Option<WireResponseHead>, Violation> {
        let (control, private) = self.parts(slot).ok_or(Violation::Slot)?;
        if progress(control).is_none() {
            return Ok(None);
        }
        let worker = &control.worker;
        // Read before the interim responses: one that is added between the two reads precedes this head, too.
        let place = worker.head_place.load(Ordering::Acquire);
        if let Some(interim) = self.interim_head(slot, control, private)? {
            return Ok(Some(interim));
        }
        if place == HEAD_NONE || private.flags.load(Ordering::Relaxed) & PRIVATE_HEAD_READ != 0 {
            return Ok(None);
        }
        let length = worker.head_length.load(Ordering::Relaxed);
        let count = worker.head_fields.load(Ordering::Relaxed);
        let status = worker.status.load(Ordering::Relaxed);
        let (region, start, capacity) = match place {
            HEAD_INLINE => {
                let start = private.interims_read.load(Ordering::Relaxed);
                (Region::Head, start, HEAD_CAPACITY)
            }
            HEAD_IN_RING => (Region::Response, 0, RESPONSE_CAPACITY),
            _ => return Err(Violation::Head),
        };
        if length > capacity {
            return Err(Violation::Head);
        }
        if place == HEAD_IN_RING {
            let written = worker.response_written.load(Ordering::Acquire);
            if written < u64::from(length) {
                return Err(Violation::Ring);
            }
        }
        let mut bytes = Vec::new();
        self.shared
            .region(slot.0, region)
            .and_then(|region| region.span(start as usize, length as usize))
            .ok_or(Violation::Head)?
            .copy_to(&mut bytes);
        let may_upgrade = private.flags.load(Ordering::Relaxed) & PRIVATE_WEBSOCKET != 0;
        let head = WireResponseHead::parse(status, count, bytes, may_upgrade)?;
        private.flags.fetch_or(PRIVATE_HEAD_READ, Ordering::Relaxed);
        if place == HEAD_IN_RING {
            self.response_consume(slot, length as usize);
        }
        Ok(Some(head))
    }

    /// True if [`response_head`](Self::response_head) has returned the head.
    pub fn is_head_taken(&self, slot: SlotId) -> bool {
        self.has_flag(slot, PRIVATE_HEAD_READ)
    }

    /// Returns the part of the body that can be read now. Bytes and end are hidden until the head has been taken: so a caller that asks for
    /// the head first misses nothing if it arrives between the two calls.
    pub fn response_ready(&self, slot: SlotId) -> Result<Readable<'_>, Violation> {
        let (control, private) = self.parts(slot).ok_or(Violation::Slot)?;
        let worker = &control.worker;
        // The state comes first: when it is Done, the other words are final.
        let Some(kind) = progress(control) else {
            return Ok(Readable {
                spans: [RawSpan::EMPTY; 2],
                finished: false,
                aborted: self.has_died(slot),
            });
        };
        let is_done = kind == SlotKind::Done;
        let flags = private.flags.load(Ordering::Acquire);
        let died = flags & PRIVATE_DIED != 0;
        let end = worker.end.load(Ordering::Acquire);
        let written = worker.response_written.load(Ordering::Acquire);
        let consumed = private.response_consumed.load(Ordering::Relaxed);
        let amount = filled(written, consumed, RESPONSE_CAPACITY).ok_or(Violation::Ring)?;
        let has_head = flags & PRIVATE_HEAD_READ != 0;
        let shows_end = has_head || worker.head_place.load(Ordering::Acquire) == HEAD_NONE;
        let over = (is_done || died) && shows_end;
        let mut readable = Readable {
            spans: [RawSpan::EMPTY; 2],
            finished: over && end == END_COMPLETE,
            aborted: over && end != END_COMPLETE,
        };
        if has_head {
            let start = consumed as u32 & (RESPONSE_CAPACITY - 1);
            let first = amount.min(RESPONSE_CAPACITY - start);
            let region = self
                .shared
                .region(slot.0, Region::Response)
                .ok_or(Violation::Slot)?;
            let span = |from: u32, length: u32| {
                region
                    .span(from as usize, length as usize)
                    .ok_or(Violation::Ring)
            };
            readable.spans = [span(start, first)?, span(0, amount - first)?];
            debug_assert_eq!(readable.len(), amount as usize, "spans of what is there");
        } else if readable.finished {
            return Err(Violation::Head);
        }
        Ok(readable)
    }

    /// Releases `count` readable bytes to the worker, and wakes it if it waits for room.
    pub fn response_consume(&self, slot: SlotId, count: usize) {
        let Some((control, private)) = self.parts(slot) else {
            return;
        };
        debug_assert!(count <= RESPONSE_CAPACITY as usize, "more than was there");
        let count = (count as u64).min(u64::from(RESPONSE_CAPACITY));
        let consumed = private.response_consumed.load(Ordering::Relaxed) + count;
        private.response_consumed.store(consumed, Ordering::Relaxed);
        control
            .router
            .response_consumed
            .store(consumed, Ordering::Release);
        let end = control.worker.end.load(Ordering::Relaxed);
        if end != END_COMPLETE && end != END_ABORTED {
            self.notify(slot, control, WANTS_ROOM);
        }
    }

    /// Notifies the worker if it waits for this.
    fn notify(&self, slot: SlotId, control: &SlotControl, what: u32) {
        if nudge(&control.worker_waits.0, what) {
            self.attend(slot);
        }
    }

    /// Free bytes of the stream ring; when that is less than `wanted`, the slot completes once there are more.
    fn stream_room(&self, control: &SlotControl, private: &Private, wanted: usize) -> usize {
        let written = private.stream_written.load(Ordering::Relaxed);
        let room = || {
            let begun = progress(control).is_some();
            let consumed = match begun {
                true => control.worker.stream_consumed.load(Ordering::Acquire),
                false => 0,
            };
            // Invalid counters mean no room: the request stalls until its deadline.
            filled(written, consumed, STREAM_CAPACITY).map_or(0, |amount| STREAM_CAPACITY - amount)
        };
        let free = room() as usize;
        if free >= wanted {
            return free;
        }
        control.router.router_waits.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        room() as usize
    }

    /// Puts bytes in the stream ring, which has room for them.
    fn stream_put(&self, slot: SlotId, private: &Private, bytes: &[u8]) -> bool {
        let Some(region) = self.shared.region(slot.0, Region::Stream) else {
            return false;
        };
        debug_assert!(
            bytes.len() <= STREAM_CAPACITY as usize,
            "more than the ring"
        );
        let written = private.stream_written.load(Ordering::Relaxed);
        let start = written as usize & (STREAM_CAPACITY as usize - 1);
        let (first, second) = bytes.split_at(bytes.len().min(STREAM_CAPACITY as usize - start));
        let fits = region.write(start, first) && region.write(0, second);
        private
            .stream_written
            .store(written + bytes.len() as u64, Ordering::Relaxed);
        fits
    }

    /// Publishes the bytes in the stream ring.
    fn stream_publish(&self, slot: SlotId, control: &SlotControl, private: &Private) {
        let written = private.stream_written.load(Ordering::Relaxed);
        control
            .router
            .stream_written
            .store(written, Ordering::Release);
        self.notify(slot, control, WANTS_DATA);
    }

    /// Writes a part of a streamed request body; returns how much was accepted. When that is less than all, the slot completes once there
    /// is room again.
    pub fn request_stream_write(&self, slot: SlotId, bytes: &[u8]) -> usize {
        let Some((control, private)) = self.parts(slot) else {
            return 0;
        };
        let free = self.stream_room(control, private, bytes.len());
        let now = bytes.get(..free.min(bytes.len())).unwrap_or_default();
        if now.is_empty() || !self.stream_put(slot, private, now) {
            return 0;
        }
        self.stream_publish(slot, control, private);
        now.len()
    }

    /// Bytes of pieces, heads included, that can be sent to the worker now; when that is less than `wanted`, the slot completes once there
    /// are more.
    pub fn message_room(&self, slot: SlotId, wanted: usize) -> usize {
        self.parts(slot).map_or(0, |(control, private)| {
            self.stream_room(control, private, wanted)
        })
    }

    /// Sends the worker the next piece of a WebSocket message, of which `rest` has not been sent; returns how much was sent. `is_end`: the
    /// message ends with `rest`. `None` when there is no room now: the slot completes when there is.
    pub fn message_write(
        &self,
        slot: SlotId,
        opcode: MessageOpcode,
        rest: &[u8],
        is_end: bool,
    ) -> Option<usize> {
        let (control, private) = self.parts(slot)?;
        let wanted = HEAD_LENGTH + rest.len().min(crate::message::MIN_PIECE);
        let room = self.stream_room(control, private, wanted);
        let count = PieceHead::fit(rest.len(), room)?;
        debug_assert!(HEAD_LENGTH + count <= room, "a piece is published whole");
        let head = PieceHead {
            opcode,
            is_last: is_end && count == rest.len(),
            length: count,
        };
        let piece = rest.get(..count)?;
        let fits =
            self.stream_put(slot, private, &head.encode()) && self.stream_put(slot, private, piece);
        self.stream_publish(slot, control, private);
        fits.then_some(count)
    }

    /// The next piece of a WebSocket message from the worker, after the 101; consume it with [`response_consume`](Self::response_consume)
    /// and [`Piece::consumed`].
    pub fn message_read(&self, slot: SlotId) -> Result<Option<Piece<'_>>, Violation> {
        let readable = self.response_ready(slot)?;
        let available = readable.len();
        if available == 0 {
            return Ok(None);
        }
        let [first, second] = readable.spans;
        let mut bytes = Vec::with_capacity(HEAD_LENGTH);
        first.truncated(HEAD_LENGTH).copy_to(&mut bytes);
        second
            .truncated(HEAD_LENGTH - bytes.len())
            .copy_to(&mut bytes);
        let head = bytes
            .try_into()
            .ok()
            .and_then(PieceHead::decode)
            .filter(|head| HEAD_LENGTH + head.length <= available)
            .ok_or(Violation::Message)?;
        let first_content = first.skip(HEAD_LENGTH).truncated(head.length);
        let second_content = second
            .skip(HEAD_LENGTH.saturating_sub(first.len))
            .truncated(head.length - first_content.len);
        debug_assert_eq!(
            first_content.len + second_content.len,
            head.length,
            "a piece is read whole"
        );
        Ok(Some(Piece {
            head,
            spans: [first_content, second_content],
        }))
    }

    /// True if the worker waits for more of a streamed request body. The slot completes when it begins to wait for the first byte.
    pub fn request_stream_wanted(&self, slot: SlotId) -> bool {
        self.parts(slot).is_some_and(|(control, private)| {
            if progress(control) != Some(SlotKind::Begun)
                || !waits_for_data(&control.worker_waits.0)
            {
                return false;
            }
            // A worker that sleeps with a full response ring waits for room in that.
            let written = control.worker.response_written.load(Ordering::Acquire);
            let consumed = private.response_consumed.load(Ordering::Relaxed);
            filled(written, consumed, RESPONSE_CAPACITY) != Some(RESPONSE_CAPACITY)
        })
    }

    /// Declares that the streamed request body is complete.
    pub fn request_stream_finish(&self, slot: SlotId) {
        if let Some((control, _)) = self.parts(slot) {
            control.router.stream_finished.store(1, Ordering::Release);
            self.notify(slot, control, WANTS_DATA);
        }
    }

    /// Declares that the response is not needed any more: the worker's writes fail from now on.
    pub fn client_gone(&self, slot: SlotId) {
        if let Some((control, _)) = self.parts(slot) {
            control.router.client_gone.store(1, Ordering::Release);
            // An event loop is notified whether it asked or not.
            let _ = nudge(&control.worker_waits.0, WANTS_DATA | WANTS_ROOM);
            self.attend(slot);
        }
    }

    /// Notifies the worker that has a slot of news in it, if it has an event loop.
    fn attend(&self, slot: SlotId) {
        let Some(state) = self.state(slot) else {
            return;
        };
        let worker = u32::from(state.worker);
        if !matches!(state.kind, SlotKind::Taken | SlotKind::Begun) {
            return;
        }
        let (Some(entry), Some(attention)) =
            (self.shared.worker(worker), self.shared.attention(worker))
        else {
            return;
        };
        if entry.report.wake_mode.load(Ordering::Relaxed) == MODE_LOOP && attention.mark(slot.0) {
            notify_sleeper(&entry.wake.0, || self.ring(worker));
        }
    }
}
