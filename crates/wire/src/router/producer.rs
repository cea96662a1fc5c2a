//! The router's own record of the queue: the slot at each position, the tail, and the first position that may be live.

/// The router's own record of the queue.
#[derive(Debug)]
pub(super) struct Producer {
    /// The next position.
    pub(super) tail: u64,
    /// No position before this one is live.
    pub(super) first: u64,
    /// The slot at each position, modulo the ring.
    pub(super) slots: Vec<u32>,
    /// The first live position at the last tick, if there was one.
    pub(super) stalled_at: Option<u64>,
}

impl Producer {
    pub(super) fn new(cells: u32) -> Self {
        assert!(cells.is_power_of_two(), "{cells} cells are no ring");
        Self {
            tail: 1,
            first: 1,
            slots: vec![0; cells as usize],
            stalled_at: None,
        }
    }

    pub(super) fn slot_at(&self, position: u64) -> u32 {
        let mask = self.slots.len() as u64 - 1;
        self.slots
            .get((position & mask) as usize)
            .copied()
            .unwrap_or(u32::MAX)
    }

    pub(super) fn record(&mut self, position: u64, slot: u32) {
        debug_assert_eq!(position, self.tail, "positions are given in order");
        let mask = self.slots.len() as u64 - 1;
        if let Some(place) = self.slots.get_mut((position & mask) as usize) {
            *place = slot;
        }
    }
}
