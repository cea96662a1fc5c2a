//! The unused slots of a segment.

/// The slot freed last is allocated first, then the lowest that was never used: the low ones are warm.
#[derive(Debug)]
pub(super) struct Free {
    given_back: Vec<u32>,
    /// No slot from here on has been allocated yet.
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
                "slot {slot} was freed, but never allocated"
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
            "slot {slot} was freed, but never allocated"
        );
        debug_assert!(
            !self.given_back.contains(&slot),
            "slot {slot} was freed twice"
        );
        self.given_back.push(slot);
        assert!(
            self.given_back.len() <= self.unused as usize,
            "more slots were freed than allocated"
        );
    }

    pub(super) fn is_empty(&self) -> bool {
        self.in_use() == self.slots
    }

    pub(super) fn in_use(&self) -> u32 {
        self.unused - self.given_back.len() as u32
    }

    /// The used ones, except the `keep` that will be used next.
    pub(super) fn surplus(&self, keep: usize) -> &[u32] {
        let count = self.given_back.len().saturating_sub(keep);
        self.given_back.get(..count).unwrap_or_default()
    }
}
