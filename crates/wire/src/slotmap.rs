//! Marks on slots: by which a worker notifies a router thread, and the router a worker with an event loop, that something happened.
//!
//! A bitmap over all slots, summaries over the bitmap's words, and a flag that the reader is about to sleep (for router threads; workers
//! have their wake word). A bitmap, unlike a ring, has no entry that a dying worker could reserve and never fill.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// The marks for one reader.
pub(crate) struct SlotMap<'a> {
    pub(crate) flag: &'a AtomicU32,
    pub(crate) summaries: &'a [AtomicU64],
    pub(crate) words: &'a [AtomicU64],
}

impl SlotMap<'_> {
    /// Marks a slot. False when there is no such slot.
    pub(crate) fn mark(&self, slot: u32) -> bool {
        debug_assert!(self.summaries.len() * 64 >= self.words.len());
        let index = slot as usize / 64;
        let (Some(word), Some(summary)) = (self.words.get(index), self.summaries.get(index / 64))
        else {
            return false;
        };
        word.fetch_or(1 << (slot % 64), Ordering::Release);
        summary.fetch_or(1 << (index % 64), Ordering::Release);
        true
    }

    /// Marks a slot for a router thread. True when the thread sleeps and the caller must ring its event.
    #[must_use]
    pub(crate) fn complete(&self, slot: u32) -> bool {
        if !self.mark(slot) {
            return false;
        }
        fence(Ordering::SeqCst);
        self.flag.load(Ordering::Relaxed) != 0 && self.flag.swap(0, Ordering::AcqRel) != 0
    }

    /// True if nothing is marked. After the caller's own `fence(SeqCst)` this cannot miss a mark.
    pub(crate) fn is_empty(&self) -> bool {
        self.summaries
            .iter()
            .all(|summary| summary.load(Ordering::Acquire) == 0)
    }

    /// Calls `f` for each marked slot, in one pass: later marks are left to the next call.
    pub(crate) fn drain(&self, mut f: impl FnMut(u32)) {
        for (group, summary) in self.summaries.iter().enumerate() {
            if summary.load(Ordering::Relaxed) == 0 {
                continue;
            }
            let mut summary = summary.swap(0, Ordering::AcqRel);
            while summary != 0 {
                let index = group as u32 * 64 + summary.trailing_zeros();
                summary &= summary - 1;
                let Some(word) = self.words.get(index as usize) else {
                    continue;
                };
                let mut bits = word.swap(0, Ordering::AcqRel);
                while bits != 0 {
                    f(index * 64 + bits.trailing_zeros());
                    bits &= bits - 1;
                }
            }
        }
    }

    /// Announces that the router thread is about to sleep; false when there are marks and it must not.
    #[must_use]
    pub(crate) fn set_sleeping(&self) -> bool {
        // A swap, because loom's model of a plain store beside another thread's swap is too weak; once per sleep costs nothing.
        self.flag.swap(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if !self.is_empty() {
            self.flag.swap(0, Ordering::AcqRel);
            return false;
        }
        true
    }
}
