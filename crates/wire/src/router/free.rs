//! The slots of a segment that nobody uses.

/// The one that was given back last is given out first, then the lowest that never was: the low ones are warm.
#[derive(Debug)]
pub(super) struct Free {
    given_back: Vec<u32>,
    /// From here on none has been given out.
    unused: u32,
    slots: u32,
}

impl Free {
    pub(super) fn new(slots: u32) -> Self {
        Self {
            given_back: Vec::new(),
            unused: 0,
            slots,
        }
    }

    pub(super) fn take(&mut self) -> Option<u32> {
        if let Some(slot) = self.given_back.pop() {
            assert!(
                slot < self.unused,
                "slot {slot} was given back, but never out"
            );
            return Some(slot);
        }
        let slot = self.unused;
        if slot >= self.slots {
            return None;
        }
        self.unused += 1;
        assert!(self.unused <= self.slots, "more slots than there are");
        Some(slot)
    }

    pub(super) fn give_back(&mut self, slot: u32) {
        assert!(
            slot < self.unused,
            "slot {slot} was given back, but never out"
        );
        debug_assert!(
            !self.given_back.contains(&slot),
            "slot {slot} was given back twice"
        );
        self.given_back.push(slot);
        assert!(
            self.given_back.len() <= self.unused as usize,
            "more slots were given back than out"
        );
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_use() == self.slots
    }

    pub(super) fn in_use(&self) -> u32 {
        self.unused - self.given_back.len() as u32
    }

    /// Those that were used, but for the `keep` that will be used next.
    pub(super) fn surplus(&self, keep: usize) -> &[u32] {
        let count = self.given_back.len().saturating_sub(keep);
        self.given_back.get(..count).unwrap_or_default()
    }
}
