//! A worker that writes arbitrary data, and the oracle that checks the router's side of the segment.
//!
//! The input is a program: calls of the router's interface, honest steps of a worker, and random writes anywhere in the segment, in any
//! order. These hold whatever the worker does: no panic; a slot is never allocated twice; a completion is only reported for a slot in use
//! by that thread; spans stay inside the ring and are no longer than it; counts stay within the layout; and once every worker is reported
//! dead, every slot is freed.

use std::collections::BTreeSet;

use crate::layout::{
    HEAD_CAPACITY, HEADER_LENGTH, Layout, RESPONSE_CAPACITY, RESPONSE_OFFSET, SLOT_STRIDE,
    STREAM_CAPACITY,
};
use crate::message::{MAX_PIECE, MessageOpcode};
use crate::request::{BodyRef, WireRequestHead};
use crate::router::Segment;
use crate::shared::Region;
use crate::sync::Ordering;
use crate::{SlotId, SlotKind, SlotState};

const LAYOUT: Layout = Layout {
    slots: 6,
    workers: 3,
    threads: 2,
};
/// Longest program: enough for any order of calls, short enough for many runs a second.
const MAX_STEPS: usize = 400;

/// Reads the program.
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }

    fn below(&mut self, most: u32) -> Option<u32> {
        Some(u32::from(self.byte()?) % most)
    }
}

struct Oracle {
    segment: Segment,
    /// Allocated slots: slot, thread.
    used: BTreeSet<(u32, u32)>,
    /// Slots written since they were allocated.
    written: BTreeSet<u32>,
    /// Slots freed while a worker had them.
    leaving: BTreeSet<u32>,
}

/// Runs one program.
///
/// # Panics
/// If an invariant is broken.
pub fn run(data: &[u8]) {
    let Ok(segment) = Segment::create("hostile", &LAYOUT) else {
        return;
    };
    let mut oracle = Oracle {
        segment,
        used: BTreeSet::new(),
        written: BTreeSet::new(),
        leaving: BTreeSet::new(),
    };
    let mut input = Input(data);
    for _ in 0..MAX_STEPS {
        if oracle.step(&mut input).is_none() {
            break;
        }
    }
    oracle.settle();
}

impl Oracle {
    /// One step; `None` when the program is over.
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        let slot = SlotId(input.below(LAYOUT.slots)?);
        match input.byte()? % 17 {
            0 => self.allocate(input.below(LAYOUT.threads)?),
            1 => self.write(slot, input),
            2 if self.written.remove(&slot.0) => {
                self.segment.submit(slot);
            }
            3 => {
                self.segment.cancel(slot);
            }
            4 => self.free(slot),
            5 => self.drain(input.below(LAYOUT.threads)?),
            6 => self.read(slot),
            7 => {
                let most = RESPONSE_CAPACITY as usize + 1;
                self.segment
                    .response_consume(slot, input.word()? as usize % most);
            }
            8 => {
                let count = self.segment.request_stream_write(slot, &[7; 70_000]);
                assert!(count <= STREAM_CAPACITY as usize);
                self.segment.request_stream_finish(slot);
            }
            9 => self.end_worker(input.below(LAYOUT.workers)?),
            10 => {
                self.segment.wake_stalled();
                assert!(self.segment.queue_len() <= LAYOUT.slots);
                assert!(self.segment.idle_count() <= LAYOUT.workers);
                assert!(self.segment.searching_count() <= LAYOUT.workers);
                self.segment.oldest_queued();
                self.segment.trim(1);
            }
            11 => {
                let worker = input.below(LAYOUT.workers)?;
                self.segment.worker_started(worker, 1);
                let current = self.segment.worker_snapshot(worker).current;
                assert!(current.is_none_or(|slot| slot.0 < LAYOUT.slots));
                self.segment.ask_worker_to_quit(worker);
            }
            12 => {
                let thread = input.below(LAYOUT.threads)?;
                let _ = self.segment.set_sleeping(thread);
                self.segment.clear_sleeping(thread);
            }
            13 => self.serve(input)?,
            14 => self.forge(slot, input)?,
            15 => self.converse(slot),
            _ => self.scribble(input)?,
        }
        Some(())
    }

    /// Messages of a WebSocket: a ring with arbitrary content yields a piece that lies within it, or a violation.
    fn converse(&self, slot: SlotId) {
        let sent = self
            .segment
            .message_write(slot, MessageOpcode::Binary, &[7; 70_000], true);
        assert!(sent.is_none_or(|count| count <= MAX_PIECE));
        if let Ok(Some(piece)) = self.segment.message_read(slot) {
            assert_eq!(
                piece.spans.iter().map(|span| span.len).sum::<usize>(),
                piece.head.length
            );
            assert!(piece.consumed() <= RESPONSE_CAPACITY as usize);
            piece.copy_to(&mut Vec::new());
            self.segment.response_consume(slot, piece.consumed());
        }
        self.segment.client_gone(slot);
    }

    fn thread_of(&self, slot: SlotId) -> Option<u32> {
        self.used
            .iter()
            .find(|(used, _)| *used == slot.0)
            .map(|(_, thread)| *thread)
    }

    fn allocate(&mut self, thread: u32) {
        if let Some(slot) = self.segment.allocate(thread) {
            assert!(slot.0 < LAYOUT.slots);
            assert!(self.thread_of(slot).is_none(), "slot was given out twice");
            self.used.insert((slot.0, thread));
        } else {
            assert_eq!(self.used.len(), LAYOUT.slots as usize, "a slot is lost");
        }
    }

    fn write(&mut self, slot: SlotId, input: &mut Input<'_>) {
        // An honest router thread writes only to slots that it has just allocated, as their state shows.
        if self.thread_of(slot).is_none()
            || self.leaving.contains(&slot.0)
            || !self.segment.is_released(slot)
        {
            return;
        }
        let value = vec![b'v'; usize::from(input.byte().unwrap_or(0)) * 200];
        let head = WireRequestHead {
            method: b"GET",
            websocket: value.len().is_multiple_of(400),
            fields: &[(b"Name", &value)],
            ..WireRequestHead::default()
        };
        let body = BodyRef::Stream { len: None };
        if self.segment.write_request(slot, &head, &body).is_err() {
            self.segment.write_request_spooled(slot, &head, 4096, 100);
        }
        self.written.insert(slot.0);
    }

    fn free(&mut self, slot: SlotId) {
        let Some(thread) = self.thread_of(slot) else {
            assert!(self.segment.free(slot), "a free slot stays free");
            return;
        };
        self.written.remove(&slot.0);
        if self.segment.free(slot) {
            self.used.remove(&(slot.0, thread));
            self.leaving.remove(&slot.0);
        } else {
            self.leaving.insert(slot.0);
        }
    }

    fn drain(&mut self, thread: u32) {
        let mut seen = Vec::new();
        self.segment
            .drain_completions(thread, |slot| seen.push(slot));
        for slot in seen {
            assert_eq!(
                self.thread_of(slot),
                Some(thread),
                "a completion for another thread"
            );
            if self.leaving.contains(&slot.0) {
                self.free(slot);
            }
        }
    }

    fn read(&mut self, slot: SlotId) {
        if let Ok(Some(head)) = self.segment.response_head(slot) {
            assert!((200..=599).contains(&head.status));
            assert_eq!(head.fields().count(), head.len());
            for (name, value) in head.fields() {
                assert!(crate::response::is_valid(name, value));
            }
        }
        let Some(ring) = self.segment.shared().region(slot.0, Region::Response) else {
            return;
        };
        let start = ring.as_ptr() as usize;
        if let Ok(ready) = self.segment.response_ready(slot) {
            assert!(ready.len() <= RESPONSE_CAPACITY as usize);
            assert!(!(ready.finished && ready.aborted));
            for span in ready.spans.iter().filter(|span| span.len > 0) {
                let first = span.ptr as usize;
                assert!(first >= start);
                assert!(first + span.len <= start + RESPONSE_CAPACITY as usize);
            }
            let mut copy = Vec::new();
            ready.copy_to(&mut copy);
            assert_eq!(copy.len(), ready.len());
        }
    }

    fn end_worker(&mut self, worker: u32) {
        for (slot, _) in self.segment.worker_died(worker) {
            assert!(self.thread_of(slot).is_some(), "the fate of a free slot");
        }
    }

    /// An honest claim, and an honest response as long as the program demands.
    fn serve(&mut self, input: &mut Input<'_>) -> Option<()> {
        let worker = input.below(LAYOUT.workers)?;
        let how_far = input.byte()? % 4;
        let shared = self.segment.shared();
        let queue = shared.queue()?;
        let Some((slot, ticket)) = queue.claim(worker as u16, |slot| shared.state(slot)) else {
            return Some(());
        };
        let control = shared.slot(slot)?;
        if how_far > 0 {
            control.worker.status.store(200, Ordering::Relaxed);
            control.worker.head_fields.store(0, Ordering::Relaxed);
            control.worker.head_length.store(0, Ordering::Relaxed);
            control.worker.head_place.store(1, Ordering::Relaxed);
            let begun = SlotState::held(SlotKind::Begun, worker as u16, ticket);
            control.state.store(begun.pack(), Ordering::Release);
        }
        if how_far > 1 {
            control.worker.end.store(1, Ordering::Relaxed);
            let done = SlotState::held(SlotKind::Done, worker as u16, ticket);
            control.state.store(done.pack(), Ordering::Release);
        }
        if how_far > 2 {
            let thread = control.router.thread.load(Ordering::Relaxed);
            let _ = shared.completions(thread)?.complete(slot);
        }
        Some(())
    }

    /// Forges the state of one exchange, with plausible values.
    fn forge(&mut self, slot: SlotId, input: &mut Input<'_>) -> Option<()> {
        let control = self.segment.shared().slot(slot.0)?;
        let value = input.word()?;
        let worker = &control.worker;
        match input.byte()? % 8 {
            0 => worker.response_written.store(value, Ordering::Relaxed),
            1 => worker.response_written.store(
                value % (2 * u64::from(RESPONSE_CAPACITY)),
                Ordering::Relaxed,
            ),
            2 => worker.stream_consumed.store(value, Ordering::Relaxed),
            3 => worker.head_place.store(value as u32 % 4, Ordering::Relaxed),
            4 => worker
                .head_length
                .store(value as u32 % (2 * HEAD_CAPACITY), Ordering::Relaxed),
            5 => worker
                .head_fields
                .store(value as u32 % 16, Ordering::Relaxed),
            6 => worker.end.store(value as u32 % 4, Ordering::Relaxed),
            _ => {
                let kind = value % 7;
                // A worker number below 16 and any ticket.
                let word = (kind << 56) | ((value >> 8) % (1 << 44));
                control.state.store(word, Ordering::Relaxed);
            }
        }
        Some(())
    }

    /// Writes arbitrary bytes, mostly where the control words are.
    fn scribble(&mut self, input: &mut Input<'_>) -> Option<()> {
        let bytes = self.segment.shared().raw()?;
        let value = input.word()?;
        let place = input.word()?;
        let geometry = self.segment.shared().geometry;
        let offset = match input.byte()? % 4 {
            0 => place % geometry.slot_offset.max(HEADER_LENGTH),
            1 => {
                let slot = place >> 32;
                geometry.slot_offset
                    + slot % u64::from(LAYOUT.slots) * u64::from(SLOT_STRIDE)
                    + place % 256
            }
            2 => {
                let slot = place >> 32;
                geometry.slot_offset
                    + slot % u64::from(LAYOUT.slots) * u64::from(SLOT_STRIDE)
                    + place % u64::from(RESPONSE_OFFSET)
            }
            _ => place % geometry.total_length,
        };
        // At the very end it may not fit; then nothing is written.
        let _ = bytes.write(offset as usize, &value.to_ne_bytes());
        Some(())
    }

    /// All workers die: every slot must be freed and be usable by an honest worker.
    fn settle(&mut self) {
        for worker in 0..LAYOUT.workers {
            self.end_worker(worker);
        }
        let used: Vec<u32> = self.used.iter().map(|(slot, _)| *slot).collect();
        for slot in used {
            // A forged state may name a worker that never existed; the pool ends the whole generation in that case. Here the state is
            // corrected, as in a new segment.
            if !self.segment.free(SlotId(slot)) {
                if let Some(word) = self.segment.shared().state(slot) {
                    word.store(0, Ordering::Relaxed);
                }
                assert!(self.segment.free(SlotId(slot)), "slot {slot} is not freed");
            }
        }
        assert_eq!(self.segment.slots_in_use(), 0);
        for _ in 0..LAYOUT.slots {
            assert!(self.segment.allocate(0).is_some(), "a slot is lost");
        }
        assert!(self.segment.allocate(0).is_none());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    proptest! {
        // Miri is a thousand times slower.
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 3 } else { 400 }))]

        #[test]
        fn no_worker_can_harm_the_router(data in proptest::collection::vec(any::<u8>(), 0..3000)) {
            super::run(&data);
        }
    }
}
