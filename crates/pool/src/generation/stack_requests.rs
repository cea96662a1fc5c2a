//! Questions about slow requests: which worker serves one.

use std::sync::{MutexGuard, PoisonError};

use tutti_wire::{SlotId, SlotKind};

use super::{Generation, Phase};
use crate::stack_replies::StackRequest;

impl Generation {
    /// Stores a question for the supervisor.
    pub(crate) fn ask(&self, question: StackRequest) {
        self.questions().push(question);
    }

    /// All questions since the last call.
    pub(crate) fn take_questions(&self) -> Vec<StackRequest> {
        std::mem::take(&mut *self.questions())
    }

    fn questions(&self) -> MutexGuard<'_, Vec<StackRequest>> {
        // Questions are added and removed whole.
        self.questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Distinguishes one use of a slot from the next.
    pub(crate) fn serial(&self, slot: SlotId) -> u64 {
        self.lock(slot).map_or(0, |state| state.serial)
    }

    /// The worker that serves the request in this use of a slot.
    pub(crate) fn worker_at(&self, slot: SlotId, serial: u64) -> Option<u32> {
        let state = self.lock(slot)?;
        let held = self.segment.state(slot)?;
        let is_it = state.serial == serial && state.phase != Phase::Free;
        (is_it && held.kind == SlotKind::Begun).then_some(u32::from(held.worker))
    }
}
