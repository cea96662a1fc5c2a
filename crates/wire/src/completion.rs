//! How a worker tells a router thread that something happened in a slot.
//!
//! Per router thread: a bitmap over all slots, a summary word over the bitmap's words, and a flag that says the thread is
//! about to sleep. A bitmap, unlike a ring, has no place that a dying worker could reserve and never fill.

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// One router thread's completions.
pub(crate) struct Completions<'a> {
    pub(crate) sleeping: &'a AtomicU32,
    pub(crate) summary: &'a AtomicU64,
    pub(crate) words: &'a [AtomicU64],
}

impl Completions<'_> {
    /// Marks a slot. True when the thread sleeps and the caller must ring its event.
    #[must_use]
    pub(crate) fn complete(&self, slot: u32) -> bool {
        let index = slot as usize / 64;
        let Some(word) = self.words.get(index) else {
            return false;
        };
        word.fetch_or(1 << (slot % 64), Ordering::Release);
        self.summary.fetch_or(1 << index, Ordering::Release);
        fence(Ordering::SeqCst);
        self.sleeping.load(Ordering::Relaxed) != 0 && self.sleeping.swap(0, Ordering::AcqRel) != 0
    }

    /// Calls `f` for each marked slot, once over: what is marked meanwhile is left to the next call.
    pub(crate) fn drain(&self, mut f: impl FnMut(u32)) {
        if self.summary.load(Ordering::Relaxed) == 0 {
            return;
        }
        let mut summary = self.summary.swap(0, Ordering::AcqRel);
        while summary != 0 {
            let index = summary.trailing_zeros();
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

    /// Announces that the thread is about to sleep; false when completions are pending and it must not.
    #[must_use]
    pub(crate) fn set_sleeping(&self) -> bool {
        // Swaps, because loom's model of a plain store beside somebody's swap is too weak; once per sleep costs nothing.
        self.sleeping.swap(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        if self.summary.load(Ordering::Acquire) != 0 {
            self.sleeping.swap(0, Ordering::AcqRel);
            return false;
        }
        true
    }
}
