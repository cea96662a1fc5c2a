//! One request being served: reading it in place, writing the response.

use std::cell::{Cell, RefCell};
use std::io;
use std::sync::Arc;

use super::core::Core;
use crate::layout::{
    END_ABORTED, END_COMPLETE, HEAD_CAPACITY, HEAD_IN_RING, HEAD_INLINE, HEAD_NONE, PLACE_INLINE,
    RESPONSE_CAPACITY, STREAM_CAPACITY, SlotControl,
};
use crate::request::{BodyRef, WireRequestView};
use crate::response::{ResponseHeadError, encode_into, measure};
use crate::ring::{filled, wait_until};
use crate::shared::Region;
use crate::span::SpanMut;
use crate::state::{SlotKind, SlotState};
use crate::sync::{Ordering, fence};

/// The response is not needed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("client has gone")]
pub struct ClientGone;

/// A request with its response. Every method but `finish` takes `&self`, so that parts of the request can be borrowed while the response is
/// written.
///
/// Dropping it without `finish` or `abort` aborts it in a process that survives (event loops, threads); otherwise the router finds the
/// request when the process dies (502 either way).
#[derive(Debug)]
pub struct Exchange {
    pub(super) core: Arc<Core>,
    pub(super) slot: u32,
    ticket: u64,
    /// The record, if it came through the spool.
    spooled: Option<Vec<u8>>,
    length: u32,
    ended: Cell<bool>,
    /// It is one of those that its worker counts as open.
    pub(super) counted: Cell<bool>,
    /// It has left its worker, which serves other requests meanwhile.
    pub(super) is_detached: Cell<bool>,
    /// Where the head is, once there is one. The router sees it from the first `publish` on: a head that it saw before, by chance, would be
    /// sent without the length of the body, and would be all that the client gets should the worker die.
    pub(super) head_place: Cell<u32>,
    /// Bytes of interim responses before it, in the head area.
    pub(super) interims: Cell<usize>,
    /// A caller knows that not all that goes around the head has fitted.
    pub(super) is_overflow_known: Cell<bool>,
    /// Bytes put in the response ring.
    written: Cell<u64>,
    /// Bytes that have been published to the router.
    signalled: Cell<u64>,
    /// Bytes known to have been consumed by the router.
    consumed: Cell<u64>,
    /// Bytes of the body that have been read.
    pub(super) position: Cell<u64>,
    /// The beginning of an incomplete message.
    pub(super) partial: RefCell<Vec<u8>>,
}

impl Exchange {
    /// Takes a claimed slot. `None`: there is nothing to serve (the client disconnected, or the record is unreadable); the slot is
    /// released.
    pub(super) fn begin(core: Arc<Core>, slot: u32, ticket: u64) -> Option<Self> {
        let mut exchange = Self {
            core,
            slot,
            ticket,
            spooled: None,
            length: 0,
            ended: Cell::new(false),
            counted: Cell::new(false),
            is_detached: Cell::new(false),
            head_place: Cell::new(HEAD_NONE),
            interims: Cell::new(0),
            is_overflow_known: Cell::new(false),
            written: Cell::new(0),
            signalled: Cell::new(0),
            consumed: Cell::new(0),
            position: Cell::new(0),
            partial: RefCell::new(Vec::new()),
        };
        let control = exchange.control()?;
        let worker = &control.worker;
        worker.response_written.store(0, Ordering::Relaxed);
        worker.stream_consumed.store(0, Ordering::Relaxed);
        worker.head_place.store(HEAD_NONE, Ordering::Relaxed);
        worker.end.store(0, Ordering::Relaxed);
        worker.interims_length.store(0, Ordering::Relaxed);
        worker.trailers_length.store(0, Ordering::Relaxed);
        worker.begun_us.store(crate::now_us(), Ordering::Relaxed);
        let waits = control.worker_waits.0.word();
        if waits.load(Ordering::Relaxed) != 0 {
            waits.store(0, Ordering::Relaxed);
        }
        let router = &control.router;
        let place = router.request_place.load(Ordering::Relaxed);
        let offset = router.spool_offset.load(Ordering::Relaxed);
        let length = router.request_length.load(Ordering::Relaxed);
        exchange.length = length;
        if place != PLACE_INLINE {
            exchange.spooled = exchange.read_record(offset, length).ok();
        }
        if exchange.view().is_none() || exchange.is_client_gone() {
            exchange.abort();
            return None;
        }
        exchange.set_state(SlotKind::Begun);
        if exchange.core.is_loop.load(Ordering::Relaxed) {
            exchange.core.count(1);
            exchange.counted.set(true);
        }
        Some(exchange)
    }

    fn read_record(&self, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length as usize];
        let mut filled = 0;
        while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match self.read_spool(rest, offset + filled as u64)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        Ok(bytes)
    }

    fn read_spool(&self, target: &mut [u8], offset: u64) -> io::Result<usize> {
        let spool = self
            .core
            .descriptors
            .spool
            .as_ref()
            .ok_or_else(|| io::Error::other("worker has no spool file"))?;
        loop {
            match rustix::io::pread(spool, &mut *target, offset) {
                Err(rustix::io::Errno::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    pub(super) fn control(&self) -> Option<&SlotControl> {
        self.core.shared.slot(self.slot)
    }

    fn set_state(&self, kind: SlotKind) {
        if let Some(control) = self.control() {
            let state = SlotState::held(kind, self.core.id as u16, self.ticket);
            control.state.store(state.pack(), Ordering::Release);
        }
    }

    fn view(&self) -> Option<WireRequestView<'_>> {
        let bytes = match &self.spooled {
            Some(bytes) => bytes.as_slice(),
            None => self
                .core
                .shared
                .region(self.slot, Region::Request)?
                .borrow(0, self.length as usize)?,
        };
        WireRequestView::parse(bytes)
    }

    /// The request. Empty once the exchange has ended, because the slot may belong to another request.
    pub fn request(&self) -> WireRequestView<'_> {
        let view = if self.ended.get() { None } else { self.view() };
        view.unwrap_or(WireRequestView::EMPTY)
    }

    /// The number of the request in this application, for logs.
    pub fn ticket(&self) -> u64 {
        self.ticket
    }

    /// Reads from the body; 0 at its end. Waits for streamed bodies. A WebSocket handshake has none. Errors: `ConnectionAborted` when the client
    /// disconnected in the middle of a streamed body, and those of reading the spool file.
    pub fn body_read(&self, target: &mut [u8]) -> io::Result<usize> {
        if self.ended.get() || target.is_empty() {
            return Ok(0);
        }
        let position = self.position.get();
        let count = match self.request().body() {
            BodyRef::None => 0,
            BodyRef::Inline(bytes) => {
                let start = usize::try_from(position).unwrap_or(usize::MAX);
                let rest = bytes.get(start..).unwrap_or_default();
                let count = rest.len().min(target.len());
                for (to, from) in target.iter_mut().zip(rest) {
                    *to = *from;
                }
                count
            }
            BodyRef::Spool { offset, len } => {
                let rest = usize::try_from(len.saturating_sub(position)).unwrap_or(usize::MAX);
                let count = rest.min(target.len());
                let target = target.get_mut(..count).unwrap_or_default();
                if target.is_empty() {
                    0
                } else {
                    self.read_spool(target, offset.saturating_add(position))?
                }
            }
            // The body consists of messages, and there are none before the handshake is accepted: no reason to wait while it may be
            // refused.
            BodyRef::Stream { .. } if self.request().is_websocket() => 0,
            BodyRef::Stream { .. } => self.stream_read(target)?,
        };
        self.position.set(position + count as u64);
        Ok(count)
    }

    /// The whole body at once, where it lies in the slot.
    pub fn body_inline(&self) -> Option<&[u8]> {
        match self.request().body() {
            BodyRef::None => Some(&[]),
            BodyRef::Inline(bytes) => Some(bytes),
            _ => None,
        }
    }

    /// Reads the body from its beginning again. Error `Unsupported`: a streamed body that has been read from.
    pub fn body_rewind(&self) -> io::Result<()> {
        if matches!(self.request().body(), BodyRef::Stream { .. }) && self.position.get() > 0 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.position.set(0);
        Ok(())
    }

    /// Reads the body from byte `position` on next. Errors: `Unsupported` where a streamed body would have to go back or skip.
    pub fn body_seek(&self, position: u64) -> io::Result<()> {
        if matches!(self.request().body(), BodyRef::Stream { .. })
            && self.position.get() != position
        {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.position.set(position);
        Ok(())
    }

    /// True if there is something to see of a streamed body: bytes, its end, or that it will never come.
    pub(super) fn has_stream_news(&self, control: &SlotControl) -> bool {
        let router = &control.router;
        router.stream_written.load(Ordering::Acquire) != self.position.get()
            || router.stream_finished.load(Ordering::Acquire) != 0
            || self.is_client_gone()
    }

    /// True if nothing has been read from the body.
    pub(super) fn is_unread(&self) -> bool {
        self.position.get() == 0
    }

    fn stream_read(&self, target: &mut [u8]) -> io::Result<usize> {
        let Some(control) = self.control() else {
            return Ok(0);
        };
        if !self.has_stream_news(control) {
            self.publish();
            wait_until(
                &control.worker_waits.0,
                || self.has_stream_news(control),
                || self.signal(),
            );
        }
        let (amount, is_whole) = self.stream_amount(control);
        if amount == 0 {
            return match is_whole {
                true => Ok(0),
                false => Err(io::ErrorKind::ConnectionAborted.into()),
            };
        }
        let count = amount.min(target.len());
        if !self.stream_copy(0, target.get_mut(..count).unwrap_or_default()) {
            return Ok(0);
        }
        self.stream_release(control, count);
        Ok(count)
    }

    /// Bytes of a streamed body that are there, and whether no more will come.
    pub(super) fn stream_amount(&self, control: &SlotControl) -> (usize, bool) {
        let router = &control.router;
        let is_whole = router.stream_finished.load(Ordering::Acquire) != 0;
        let written = router.stream_written.load(Ordering::Acquire);
        let amount = filled(written, self.position.get(), STREAM_CAPACITY).unwrap_or(0);
        (amount as usize, is_whole)
    }

    /// Copies bytes of a streamed body that are there, `skip` behind those that were read.
    pub(super) fn stream_copy(&self, skip: usize, target: &mut [u8]) -> bool {
        let Some(region) = self.core.shared.region(self.slot, Region::Stream) else {
            return false;
        };
        let start = (self.position.get() as usize + skip) & (STREAM_CAPACITY as usize - 1);
        let (first, second) =
            target.split_at_mut(target.len().min(STREAM_CAPACITY as usize - start));
        region.read(start, first) && region.read(0, second)
    }

    /// Gives `count` bytes of the stream ring, which have been copied, back to the router.
    pub(super) fn stream_release(&self, control: &SlotControl, count: usize) {
        debug_assert!(!self.ended.get(), "the slot is the router's");
        debug_assert!(count <= STREAM_CAPACITY as usize, "more than the ring");
        control
            .worker
            .stream_consumed
            .store(self.position.get() + count as u64, Ordering::Release);
        fence(Ordering::SeqCst);
        let waits = &control.router.router_waits;
        if waits.load(Ordering::Relaxed) != 0 && waits.swap(0, Ordering::AcqRel) != 0 {
            self.signal();
        }
    }

    /// True if the client has disconnected (or the request was given up): the response goes nowhere.
    pub fn is_client_gone(&self) -> bool {
        self.control()
            .is_none_or(|control| control.router.client_gone.load(Ordering::Relaxed) != 0)
    }

    /// True if the head has been sent.
    pub fn is_started(&self) -> bool {
        self.ended.get() || self.head_place.get() != HEAD_NONE
    }

    /// True if `finish` or `abort` was called.
    pub fn is_ended(&self) -> bool {
        self.ended.get()
    }

    /// Sets status and fields. They are sent with the first flush, or with the end.
    pub fn start<'f, I>(&self, status: u16, fields: I) -> Result<(), ResponseHeadError>
    where
        I: IntoIterator<Item = (&'f [u8], &'f [u8])>,
        I::IntoIter: Clone,
    {
        if self.is_started() {
            return Err(ResponseHeadError::Started);
        }
        let is_upgrade = status == 101 && self.request().is_websocket();
        if !(200..=599).contains(&status) && !is_upgrade {
            return Err(ResponseHeadError::Status(status));
        }
        let fields = fields.into_iter();
        let (length, count) = measure(fields.clone())?;
        let too_large = ResponseHeadError::TooLarge(length);
        let control = self.control().ok_or(too_large)?;
        let place = if self.interims.get() + length <= HEAD_CAPACITY as usize {
            if !self.encode_at(self.interims.get(), fields) {
                return Err(too_large);
            }
            HEAD_INLINE
        } else {
            if length > RESPONSE_CAPACITY as usize {
                return Err(too_large);
            }
            let mut bytes = vec![0; length];
            let ring = self.core.shared.region(self.slot, Region::Response);
            if !encode_into(SpanMut::from_slice(&mut bytes), 0, fields)
                || !ring.is_some_and(|ring| ring.write(0, &bytes))
            {
                return Err(too_large);
            }
            self.written.set(length as u64);
            HEAD_IN_RING
        };
        let worker = &control.worker;
        worker.status.store(u32::from(status), Ordering::Relaxed);
        worker.head_fields.store(count, Ordering::Relaxed);
        worker.head_length.store(length as u32, Ordering::Relaxed);
        self.head_place.set(place);
        Ok(())
    }

    /// Writes to the body. Waits while the ring is full. The router is notified when the ring is half full, at `flush` and at the end.
    /// Without `start` before, the response is a 200 without fields.
    pub fn write(&self, bytes: &[u8]) -> Result<(), ClientGone> {
        self.begin_writing()?;
        let mut rest = bytes;
        while !rest.is_empty() {
            let free = self.room();
            if free == 0 {
                self.wait_for_room()?;
                continue;
            }
            let (now, later) = rest.split_at(rest.len().min(free));
            self.put(now)?;
            rest = later;
            if self.unannounced() >= u64::from(RESPONSE_CAPACITY) / 2 {
                self.flush();
            }
        }
        Ok(())
    }

    pub(super) fn begin_writing(&self) -> Result<(), ClientGone> {
        if self.ended.get() || self.is_client_gone() {
            return Err(ClientGone);
        }
        if !self.is_started() {
            self.start(200, std::iter::empty())
                .map_err(|_| ClientGone)?;
        }
        Ok(())
    }

    /// Bytes in the ring that have not been published to the router.
    pub(super) fn unannounced(&self) -> u64 {
        debug_assert!(self.written.get() >= self.signalled.get());
        self.written.get() - self.signalled.get()
    }

    /// Free bytes of the response ring, which can be written without waiting; reads the router's counter only when there seem to be none.
    pub fn room(&self) -> usize {
        let free = |consumed| {
            filled(self.written.get(), consumed, RESPONSE_CAPACITY)
                .map_or(0, |amount| RESPONSE_CAPACITY - amount)
        };
        let known = free(self.consumed.get());
        if known > 0 {
            return known as usize;
        }
        self.refresh();
        free(self.consumed.get()) as usize
    }

    /// Reads how far the router has consumed the response ring.
    pub(super) fn refresh(&self) {
        if let Some(control) = self.control() {
            let consumed = control.router.response_consumed.load(Ordering::Acquire);
            self.consumed.set(consumed);
        }
    }

    pub(super) fn put(&self, bytes: &[u8]) -> Result<(), ClientGone> {
        debug_assert!(!self.ended.get(), "the slot is the router's");
        let written = self.written.get() + bytes.len() as u64;
        debug_assert!(
            filled(written, self.consumed.get(), RESPONSE_CAPACITY).is_some(),
            "bytes that the router has not read are written over"
        );
        let ring = self
            .core
            .shared
            .region(self.slot, Region::Response)
            .ok_or(ClientGone)?;
        let start = self.written.get() as usize & (RESPONSE_CAPACITY as usize - 1);
        let until_end = RESPONSE_CAPACITY as usize - start;
        let (first, second) = bytes.split_at(bytes.len().min(until_end));
        if !ring.write(start, first) || !ring.write(0, second) {
            return Err(ClientGone);
        }
        self.written.set(written);
        Ok(())
    }

    fn wait_for_room(&self) -> Result<(), ClientGone> {
        let control = self.control().ok_or(ClientGone)?;
        self.publish();
        wait_until(
            &control.worker_waits.0,
            || self.room() > 0 || self.is_client_gone(),
            || self.signal(),
        );
        if self.is_client_gone() {
            return Err(ClientGone);
        }
        Ok(())
    }

    /// Publishes the head and the bytes in the ring.
    pub(super) fn publish(&self) {
        debug_assert!(!self.ended.get(), "the slot is the router's");
        if let Some(control) = self.control() {
            let worker = &control.worker;
            worker
                .response_written
                .store(self.written.get(), Ordering::Release);
            worker
                .head_place
                .store(self.head_place.get(), Ordering::Release);
        }
    }

    /// Notifies the router of everything in the ring: bytes that it did not see now would never be reported again.
    pub(super) fn signal(&self) {
        self.publish();
        self.signalled.set(self.written.get());
        if let Some(control) = self.control() {
            let thread = control.router.thread.load(Ordering::Relaxed);
            self.core.complete(self.slot, thread);
        }
    }

    /// Sends what there is, the head first.
    pub fn flush(&self) {
        if self.ended.get() {
            return;
        }
        if !self.is_started() && self.start(200, std::iter::empty()).is_err() {
            return;
        }
        self.signal();
    }

    /// Completes the response. The slot returns to the router; user code may continue.
    pub fn finish(&mut self) {
        if self.ended.get() {
            return;
        }
        if !self.is_started() && self.start(200, std::iter::empty()).is_err() {
            self.abort();
            return;
        }
        self.end(END_COMPLETE);
    }

    /// Aborts the response: the router answers 502, or cuts short what it is sending.
    pub fn abort(&mut self) {
        if !self.ended.get() {
            self.end(END_ABORTED);
        }
    }

    /// Leaves the request, of which user code has seen nothing, to another worker, which gets it once this process has ended: that must
    /// happen soon. False, and the exchange continues: part of the response was sent or part of a streamed body was read, or the client has
    /// gone.
    #[must_use]
    pub fn leave_to_others(&mut self) -> bool {
        let has_begun = self.is_started() || self.interims.get() > 0;
        if has_begun || self.is_client_gone() || self.body_rewind().is_err() {
            return false;
        }
        debug_assert_eq!(self.head_place.get(), HEAD_NONE);
        self.ended.set(true);
        self.set_state(SlotKind::Taken);
        if self.counted.replace(false) {
            self.core.count(-1);
        }
        true
    }

    /// Ends a response that has ended, as a worker may that runs wild: the slot may belong to another request by now.
    #[cfg(simulated)]
    pub fn end_again(&self) {
        let Some(control) = self.control() else {
            return;
        };
        let thread = control.router.thread.load(Ordering::Relaxed);
        self.set_state(SlotKind::Done);
        self.core.complete(self.slot, thread);
    }

    fn end(&self, how: u32) {
        debug_assert!(matches!(how, END_COMPLETE | END_ABORTED));
        self.publish();
        self.ended.set(true);
        let Some(control) = self.control() else {
            return;
        };
        control.worker.end.store(how, Ordering::Release);
        let thread = control.router.thread.load(Ordering::Relaxed);
        if let Some(entry) = self.core.entry()
            && !self.core.is_loop.load(Ordering::Relaxed)
            && !self.is_detached.get()
        {
            entry.report.current.store(0, Ordering::Relaxed);
        }
        // From here on the slot belongs to the router.
        self.set_state(SlotKind::Done);
        self.core.complete(self.slot, thread);
        if self.counted.replace(false) {
            self.core.count(-1);
        }
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        // A blocking worker that drops one is dying; in a process that survives, the exchange must be ended here.
        if self.core.lives_on.load(Ordering::Relaxed) {
            self.abort();
        }
    }
}
