//! The work queue: a ring of cells that producers fill in order and any worker empties.
//!
//! A cell is only a hint; the slot's state word decides: position `p` is live while its slot is `Queued(p)`. So a worker that dies between
//! any two instructions blocks nothing: before the claim the request is still queued, after it the state names the dead worker. Any worker
//! that finds the cell at `head` not live advances `head`.

use crate::state::{SlotKind, SlotState, TICKET_MASK};
use crate::sync::{AtomicU64, Ordering};

/// The low bits of a cell hold the slot, the high 40 its ticket.
const SLOT_BITS: u32 = 24;

/// The queue as a worker or the router sees it.
pub(crate) struct Queue<'a> {
    pub(crate) head: &'a AtomicU64,
    pub(crate) tail: &'a AtomicU64,
    /// A power of two of them.
    pub(crate) cells: &'a [AtomicU64],
}

/// The content of a cell for a slot queued at a position.
pub(crate) fn cell(position: u64, slot: u32) -> u64 {
    debug_assert!(slot < 1 << SLOT_BITS, "slot {slot} would spoil the ticket");
    (position & TICKET_MASK) << SLOT_BITS | u64::from(slot)
}

impl<'a> Queue<'a> {
    fn at(&self, position: u64) -> Option<&'a AtomicU64> {
        debug_assert!(self.cells.len().is_power_of_two());
        let mask = self.cells.len().wrapping_sub(1);
        self.cells.get(position as usize & mask)
    }

    /// Makes a queued slot visible to the workers. Producers call this one at a time (the router's mutex); the slot's
    /// state is `Queued(position)` already.
    pub(crate) fn publish(&self, position: u64, slot: u32) {
        if let Some(place) = self.at(position) {
            place.store(cell(position, slot), Ordering::Release);
        }
        self.tail.store(position.wrapping_add(1), Ordering::Release);
    }

    /// Rewrites a cell that a worker may have damaged.
    #[cfg(not(loom))]
    pub(crate) fn restore(&self, position: u64, slot: u32) {
        if let Some(place) = self.at(position) {
            place.store(cell(position, slot), Ordering::Release);
        }
    }

    /// True if a request may be waiting. After the caller's own `fence(SeqCst)` this cannot miss a published request: its cell was written
    /// before. The tail, in a line that the router keeps writing, is not read.
    pub(crate) fn has_work(&self) -> bool {
        let head = self.head.load(Ordering::Acquire);
        self.at(head)
            .is_some_and(|cell| lead(cell.load(Ordering::Acquire), head) >= 0)
    }

    /// True if the cell at the head has been filled: a spinning worker reads only this line, which it needs next anyway.
    pub(crate) fn is_filled(&self) -> bool {
        let head = self.head.load(Ordering::Relaxed);
        self.at(head)
            .is_some_and(|cell| cell.load(Ordering::Relaxed) >> SLOT_BITS == head & TICKET_MASK)
    }

    /// Takes the oldest live request. `state` finds a slot's state word; `None` for a slot that does not exist.
    pub(crate) fn claim(
        &self,
        worker: u16,
        state: impl Fn(u32) -> Option<&'a AtomicU64>,
    ) -> Option<(u32, u64)> {
        loop {
            let head = self.head.load(Ordering::Acquire);
            let content = self.at(head)?.load(Ordering::Acquire);
            let slot = (content & ((1 << SLOT_BITS) - 1)) as u32;
            let mut claimed = false;
            let lead = lead(content, head);
            if lead < 0 {
                // Not written yet: the queue is empty.
                return None;
            }
            if lead > 0 {
                // Overwritten. The tail, in a line of its own, is read in this case only.
                let tail = self.tail.load(Ordering::Acquire);
                if !is_before(head, tail) {
                    return None;
                }
                // Cells that the ring has overwritten are used up. This also bounds the loop when a hostile worker has written invalid
                // values into either word.
                let oldest = tail.wrapping_sub(self.cells.len() as u64);
                if is_before(head, oldest) {
                    let _ = self.head.compare_exchange(
                        head,
                        oldest,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    continue;
                }
                // The cell may have been written since we read it: the release of the tail publishes that.
                if self.at(head)?.load(Ordering::Acquire) != content {
                    continue;
                }
            } else if let Some(word) = state(slot) {
                let queued = SlotState::of(SlotKind::Queued, head).pack();
                let taken = SlotState::held(SlotKind::Taken, worker, head).pack();
                claimed = word
                    .compare_exchange(queued, taken, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok();
            }
            // Claimed here, claimed by another worker, cancelled or overwritten: in each case this position is used up.
            let _ = self.head.compare_exchange(
                head,
                head.wrapping_add(1),
                Ordering::AcqRel,
                Ordering::Relaxed,
            );
            if claimed {
                return Some((slot, head & TICKET_MASK));
            }
        }
    }
}

/// Returns the lead of a cell's ticket over a position: 0 if it is that position's, negative if the cell has not been written yet, positive if
/// the ring has overwritten it.
fn lead(content: u64, position: u64) -> i64 {
    // Both in the high 40 bits, so that the sign is that of their difference modulo 2^40.
    let ticket = content >> SLOT_BITS << SLOT_BITS;
    ticket.wrapping_sub(position << SLOT_BITS) as i64
}

/// True if position `a` comes before `b`, over wrap-around.
pub(crate) fn is_before(a: u64, b: u64) -> bool {
    (b.wrapping_sub(a) as i64) > 0
}
