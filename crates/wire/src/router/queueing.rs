//! Queueing: the router's own record of the queue, and what keeps it moving.
//!
//! The ring in shared memory is a copy for the workers. The slot at each position, the tail, and the first position that may be live are
//! recorded here, so that no worker's writes can lose a request of another application, or a later one of this application, for good.

use super::producer::Producer;
use super::{NO_OWNER, Segment, lock};
use crate::SlotId;
use crate::idle::Wake;
use crate::queue::is_before;
use crate::state::{SlotKind, SlotState};
use crate::sync::{Ordering, fence};

/// A request that has taken this long is not a short one; two ticks of the coarse clock at 250 Hz.
const STUCK_MS: u64 = 8;

impl Segment {
    /// Queues a request that has been written and wakes at most one worker.
    ///
    /// [`Wake::NoneIdle`] means that all workers are busy (or none exists): the time to start another one.
    pub fn submit(&self, slot: SlotId) -> Wake {
        let owned = self
            .slots
            .get(slot.0)
            .is_some_and(|private| private.owner.load(Ordering::Relaxed) != NO_OWNER);
        if !owned {
            return Wake::Searching;
        }
        {
            let mut producer = lock(&self.producer);
            self.make_room(&mut producer);
            self.enqueue(&mut producer, slot.0, None);
        }
        self.wake()
    }

    /// Gives a slot the next position. With `from`, only if its state is still that.
    pub(super) fn enqueue(
        &self,
        producer: &mut Producer,
        slot: u32,
        from: Option<SlotState>,
    ) -> bool {
        let (Some(state), Some(queue)) = (self.state_word(slot), self.shared.queue()) else {
            return false;
        };
        // Read by the router once: later writes of a worker do not count.
        let may_wait = |kind| matches!(kind, SlotKind::Queued | SlotKind::Taken);
        assert!(
            from.is_none_or(|from| may_wait(from.kind)),
            "a request that has begun must not be queued again"
        );
        let position = producer.tail;
        let queued = SlotState::of(SlotKind::Queued, position).pack();
        match from {
            None => state.store(queued, Ordering::Release),
            Some(from) => {
                let swapped = state.compare_exchange(
                    from.pack(),
                    queued,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                );
                if swapped.is_err() {
                    return false;
                }
            }
        }
        producer.record(position, slot);
        producer.tail = position.wrapping_add(1);
        queue.publish(position, slot);
        true
    }

    fn is_live(&self, producer: &Producer, position: u64) -> bool {
        let queued = SlotState::of(SlotKind::Queued, position).pack();
        self.state_word(producer.slot_at(position))
            .is_some_and(|state| state.load(Ordering::Relaxed) == queued)
    }

    /// Forgets positions at the front that are not live any more.
    fn advance(&self, producer: &mut Producer) {
        while is_before(producer.first, producer.tail) && !self.is_live(producer, producer.first) {
            producer.first = producer.first.wrapping_add(1);
        }
    }

    /// Ensures that the next position's cell does not belong to a live one.
    ///
    /// There are four cells per slot, so a full ring consists mostly of cancelled requests behind an old live one: the live ones are then
    /// queued again, in order.
    pub(super) fn make_room(&self, producer: &mut Producer) {
        let cells = producer.slots.len() as u64;
        if producer.tail.wrapping_sub(producer.first) < cells {
            return;
        }
        self.advance(producer);
        if producer.tail.wrapping_sub(producer.first) < cells {
            return;
        }
        let mut live = Vec::new();
        let mut position = producer.first;
        while is_before(position, producer.tail) {
            if self.is_live(producer, position) {
                live.push((producer.slot_at(position), position));
            }
            position = position.wrapping_add(1);
        }
        assert!(
            live.len() as u64 <= cells,
            "more requests than cells are queued again"
        );
        producer.first = producer.tail;
        if let Some(queue) = self.shared.queue() {
            queue.head.store(producer.tail, Ordering::Release);
        }
        for (slot, position) in live {
            self.enqueue(
                producer,
                slot,
                Some(SlotState::of(SlotKind::Queued, position)),
            );
        }
    }

    /// The exact number of requests that wait for a worker; checks each.
    pub fn queue_len(&self) -> u32 {
        let mut producer = lock(&self.producer);
        self.advance(&mut producer);
        let mut count = 0;
        let mut position = producer.first;
        while is_before(position, producer.tail) {
            count += u32::from(self.is_live(&producer, position));
            position = position.wrapping_add(1);
        }
        count
    }

    /// The approximate number of requests that wait for a worker: cancelled ones count until they are passed over, and workers may falsify
    /// it. Reads two words.
    pub fn queue_len_estimate(&self) -> u32 {
        let Some(queue) = self.shared.queue() else {
            return 0;
        };
        let head = queue.head.load(Ordering::Relaxed);
        let tail = queue.tail.load(Ordering::Relaxed);
        if !is_before(head, tail) {
            return 0;
        }
        u32::try_from(tail.wrapping_sub(head))
            .unwrap_or(u32::MAX)
            .min(self.shared.geometry.layout.slots)
    }

    /// True if a request waits for a worker, whatever workers have done to the queue in shared memory.
    pub fn has_queued(&self) -> bool {
        self.oldest_queued().is_some()
    }

    /// The slot that has waited longest.
    pub fn oldest_queued(&self) -> Option<SlotId> {
        let mut producer = lock(&self.producer);
        self.advance(&mut producer);
        is_before(producer.first, producer.tail).then(|| SlotId(producer.slot_at(producer.first)))
    }

    /// Call this every few milliseconds to tens of milliseconds while requests are queued: if the oldest has not moved since the last call,
    /// it repairs what a worker may have corrupted and wakes one more worker; likewise when a worker that was expected back soon is not.
    /// True if one was woken.
    pub fn wake_stalled(&self) -> bool {
        let is_stuck = self.distrust_stuck();
        let stalled = {
            let mut producer = lock(&self.producer);
            self.advance(&mut producer);
            let first = producer.first;
            if !is_before(first, producer.tail) {
                producer.stalled_at = None;
                return false;
            }
            let stalled = producer.stalled_at == Some(first);
            producer.stalled_at = Some(first);
            if stalled {
                self.repair(&producer);
            }
            stalled
        };
        if stalled {
            self.wake_overlooked();
        }
        (stalled || is_stuck) && {
            fence(Ordering::SeqCst);
            matches!(self.wake_one(u32::MAX), Wake::Woken(_))
        }
    }

    /// Clears the brisk bit of each worker that has been at one request for longer than a short one takes.
    fn distrust_stuck(&self) -> bool {
        let idle = self.shared.idle();
        let now_ms = crate::now_ms();
        let mut found = false;
        for worker in 0..self.shared.geometry.layout.workers {
            let is_stuck = idle.is_brisk(worker)
                && self.shared.worker(worker).is_none_or(|entry| {
                    let since_ms = entry.report.since_ms.load(Ordering::Relaxed);
                    now_ms.saturating_sub(since_ms) >= STUCK_MS
                });
            if is_stuck {
                idle.clear_brisk(worker);
                found = true;
            }
        }
        found
    }

    /// Rewrites the queue in shared memory from the router's own record.
    fn repair(&self, producer: &Producer) {
        let Some(queue) = self.shared.queue() else {
            return;
        };
        let head = queue.head.load(Ordering::Acquire);
        let head_is_sane = !is_before(producer.first, head) && !is_before(producer.tail, head);
        let mut position = producer.first;
        while is_before(position, producer.tail) {
            queue.restore(position, producer.slot_at(position));
            position = position.wrapping_add(1);
        }
        queue.tail.store(producer.tail, Ordering::Release);
        if !head_is_sane || producer.tail.wrapping_sub(head) > producer.slots.len() as u64 {
            queue.head.store(producer.first, Ordering::Release);
        }
    }
}
