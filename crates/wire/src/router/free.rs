//! The slots of a segment that nobody uses.

/// The slots that nobody uses. The one that was given back last is given out first, then the lowest that never was: the low ones are warm.
#[derive(Debug)]
pub(super) struct Free {
    pub(super) given_back: Vec<u32>,
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
        self.given_back.pop().or_else(|| {
            let slot = self.unused;
            (slot < self.slots).then(|| self.unused += 1).map(|()| slot)
        })
    }

    pub(super) fn count(&self) -> u32 {
        self.slots - self.in_use()
    }

    pub(super) fn in_use(&self) -> u32 {
        self.unused - self.given_back.len() as u32
    }
}
