//! Allocates slots to router threads, and frees them.
//!
//! `impl` blocks of [`Segment`]. Must never happen: that a slot is allocated while a worker may still use it.

use super::{CancelOutcome, NO_OWNER, PRIVATE_DIED, PRIVATE_TOUCHED, Segment, lock};
use crate::SlotId;
use crate::state::{SlotKind, SlotState};
use crate::sync::Ordering;

impl Segment {
    /// Allocates a slot to the calling router thread; `None` when all are in use.
    pub fn allocate(&self, thread: u32) -> Option<SlotId> {
        if thread >= self.shared.geometry.layout.threads {
            return None;
        }
        let slot = lock(&self.free).take()?;
        let private = self.slots.get(slot)?;
        assert_eq!(
            private.owner.load(Ordering::Relaxed),
            NO_OWNER,
            "slot {slot} is in use and was given out again"
        );
        private.owner.store(thread, Ordering::Relaxed);
        private.flags.store(PRIVATE_TOUCHED, Ordering::Relaxed);
        private.response_consumed.store(0, Ordering::Relaxed);
        private.stream_written.store(0, Ordering::Relaxed);
        if let Some(control) = self.shared.slot(slot) {
            control.router.thread.store(thread, Ordering::Relaxed);
        }
        Some(SlotId(slot))
    }

    /// Frees a slot: true when it is free now.
    ///
    /// False while a worker still has it: the client is marked as gone, and `drain_completions` reports the slot when the worker has
    /// released it (or died); call again then. A request still queued is cancelled. Freeing twice has no effect.
    pub fn free(&self, slot: SlotId) -> bool {
        let Some(private) = self.slots.get(slot.0) else {
            return true;
        };
        if private.owner.load(Ordering::Relaxed) == NO_OWNER {
            return true;
        }
        if !matches!(
            self.cancel(slot),
            CancelOutcome::Cancelled | CancelOutcome::Released
        ) {
            self.client_gone(slot);
            // The worker may have released it in between; otherwise its completion comes after this.
            if !self.is_released(slot) {
                return false;
            }
        }
        let owner = private.owner.swap(NO_OWNER, Ordering::AcqRel);
        if owner == NO_OWNER {
            return true;
        }
        assert!(
            owner < self.shared.geometry.layout.threads,
            "slot {} belonged to thread {owner}, which does not exist",
            slot.0
        );
        // A dead worker's state must not be taken for that of the next use. Otherwise it may stay: not writing it saves a cache miss.
        if private.flags.load(Ordering::Relaxed) & PRIVATE_DIED != 0
            && let Some(state) = self.shared.state(slot.0)
        {
            state.store(SlotState::of(SlotKind::Free, 0).pack(), Ordering::Release);
        }
        lock(&self.free).give_back(slot.0);
        true
    }

    /// True if a slot is free.
    pub fn has_free(&self) -> bool {
        !lock(&self.free).is_empty()
    }

    /// Slots in use.
    pub fn slots_in_use(&self) -> u32 {
        lock(&self.free).in_use()
    }

    /// Returns the memory of free slots to the system, except of the `keep` that will be used next.
    pub fn trim(&self, keep: usize) {
        let free = lock(&self.free);
        for &slot in free.surplus(keep) {
            let Some(private) = self.slots.get(slot) else {
                continue;
            };
            assert_eq!(
                private.owner.load(Ordering::Relaxed),
                NO_OWNER,
                "slot {slot} is in use and its memory would be discarded"
            );
            let flags = private.flags.fetch_and(!PRIVATE_TOUCHED, Ordering::Relaxed);
            if flags & PRIVATE_TOUCHED != 0 {
                self.shared.discard_slot(slot);
            }
        }
    }
}
