//! The word that records the use and the holder of a slot.
//!
//! `kind (8 bits) | worker (16 bits) | ticket (40 bits)`. The ticket is the queue position (modulo 2^40) under which the
//! request was queued; it makes every use of a slot distinct, so that the claim of a request is one compare-and-swap from
//! `Queued(ticket)` to `Taken(worker, ticket)` and a stale queue cell can never claim a later request in the same slot.

/// Tickets are queue positions modulo 2^40.
pub(crate) const TICKET_MASK: u64 = (1 << 40) - 1;

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum SlotKind {
    /// The slot is unused, or the router is filling it.
    Free = 0,
    /// The request waits in the queue. A worker's claim or the router's cancellation ends this state, whichever swaps first.
    Queued = 1,
    /// A worker has claimed it, and user code has not run yet: it can be queued again if the worker dies.
    Taken = 2,
    /// User code may have run: must never be queued again.
    Begun = 3,
    /// The worker will not use the slot any more.
    Done = 4,
    /// Withdrawn by the router before a worker claimed it.
    Cancelled = 5,
}

impl SlotKind {
    /// True if the state names the worker that has, or had, the slot.
    pub(crate) fn has_worker(self) -> bool {
        matches!(self, Self::Taken | Self::Begun | Self::Done)
    }
}

/// A slot's state word, unpacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotState {
    /// The use of the slot.
    pub kind: SlotKind,
    /// The worker, for `Taken`, `Begun` and `Done`; zero otherwise.
    pub worker: u16,
    /// The ticket, 40 bits.
    pub ticket: u64,
}

impl SlotState {
    /// A state that belongs to no worker.
    pub fn of(kind: SlotKind, ticket: u64) -> Self {
        debug_assert!(!kind.has_worker(), "{kind:?} without its worker");
        Self {
            kind,
            worker: 0,
            ticket: ticket & TICKET_MASK,
        }
    }

    /// A state that belongs to a worker.
    pub fn held(kind: SlotKind, worker: u16, ticket: u64) -> Self {
        debug_assert!(kind.has_worker(), "{kind:?} of worker {worker}");
        Self {
            kind,
            worker,
            ticket: ticket & TICKET_MASK,
        }
    }

    /// The word in shared memory.
    pub fn pack(self) -> u64 {
        (self.kind as u64) << 56 | u64::from(self.worker) << 40 | (self.ticket & TICKET_MASK)
    }

    /// Decodes a word; `None` when no such kind exists.
    pub fn unpack(word: u64) -> Option<Self> {
        let kind = match word >> 56 {
            0 => SlotKind::Free,
            1 => SlotKind::Queued,
            2 => SlotKind::Taken,
            3 => SlotKind::Begun,
            4 => SlotKind::Done,
            5 => SlotKind::Cancelled,
            _ => return None,
        };
        Some(Self {
            kind,
            worker: (word >> 40 & 0xffff) as u16,
            ticket: word & TICKET_MASK,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_reversible_and_stable() {
        let state = SlotState::held(SlotKind::Begun, 0x1234, 0x00ab_cdef_0123);
        assert_eq!(state.pack(), 0x0312_3400_0000_0000 | 0x00ab_cdef_0123);
        assert_eq!(SlotState::unpack(state.pack()), Some(state));
        assert_eq!(SlotState::unpack(0xff << 56), None);
    }
}
