//! The oldest requests in progress of an application.

use std::time::Instant;

use tutti_wire::SlotKind;

use super::{Generation, Phase};

/// Number of requests returned: more would not be read.
const MOST: usize = 10;

impl Generation {
    /// For each of them the arrival, its method and target, and the number of the worker that has begun it; the oldest first.
    pub(crate) fn oldest(&self) -> Vec<(Instant, String, Option<u32>)> {
        let mut found = Vec::new();
        self.each(|slot, state| {
            if state.phase == Phase::Live && !state.is_answered {
                found.extend(state.arrived.map(|arrived| (arrived, slot, state.serial)));
            }
        });
        found.sort_unstable_by_key(|(arrived, ..)| *arrived);
        let mut oldest = Vec::new();
        for (arrived, slot, serial) in found {
            let held = self.segment.state(slot);
            let kind = held.map(|held| held.kind);
            let state = self.lock(slot).filter(|state| state.serial == serial);
            if let Some(state) = state
                && kind != Some(SlotKind::Done)
            {
                let worker =
                    held.filter(|held| matches!(held.kind, SlotKind::Taken | SlotKind::Begun));
                let worker = worker.map(|held| u32::from(held.worker));
                oldest.push((arrived, state.line.to_string(), worker));
            }
            if oldest.len() == MOST {
                break;
            }
        }
        oldest
    }
}
