//! Handles the requests of a worker that has died.
//!
//! Called once per dead worker, after the kernel has confirmed its end, so its state does not change any more.

use super::{NO_OWNER, PRIVATE_DIED, Segment, lock};
use crate::SlotId;
use crate::idle::{ASLEEP, ASLEEP_ON_EVENT, notify};
use crate::layout::END_COMPLETE;
use crate::state::{SlotKind, SlotState};
use crate::sync::Ordering;

/// A request is not given to another worker when this many have died with it before they had begun it: it may be what kills them.
const MOST_REQUEUES: u32 = 3;

/// The handling of a request whose worker died.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// User code had not run: it waits for another worker.
    Requeued,
    /// User code may have run, or too many workers died with it: the response ends as aborted.
    Begun,
}

impl Segment {
    /// Handles a dead worker's requests: those not begun are queued again, those begun end as aborted (their slots complete), finished ones
    /// stay finished. Its number can be given to a new worker afterwards.
    pub fn worker_died(&self, worker: u32) -> Vec<(SlotId, Fate)> {
        let mut fates = Vec::new();
        let idle = self.shared.idle();
        idle.clear_idle(worker);
        idle.clear_searching(worker);
        idle.clear_brisk(worker);
        for (slot, private) in self.slots.made() {
            if private.owner.load(Ordering::Relaxed) != NO_OWNER
                && let Some(fate) = self.settle(slot, worker)
            {
                fates.push((SlotId(slot), fate));
            }
        }
        self.clear_entry(worker);
        self.wake_overlooked();
        if self.has_queued() {
            self.wake_one(u32::MAX);
        }
        fates
    }

    /// The handling of the request in a slot if its worker died; `None`: it has none, or has finished it.
    pub fn fate(&self, slot: SlotId, worker: u32) -> Option<Fate> {
        self.fate_of(slot, self.state(slot)?, worker)
    }

    fn fate_of(&self, slot: SlotId, state: SlotState, worker: u32) -> Option<Fate> {
        if u32::from(state.worker) != worker {
            return None;
        }
        match state.kind {
            SlotKind::Taken => {
                let private = self.slots.get(slot.0)?;
                let requeues = private.requeues.load(Ordering::Relaxed);
                Some(match requeues < MOST_REQUEUES {
                    true => Fate::Requeued,
                    false => Fate::Begun,
                })
            }
            SlotKind::Begun => Some(Fate::Begun),
            SlotKind::Free | SlotKind::Queued | SlotKind::Done | SlotKind::Cancelled => None,
        }
    }

    fn settle(&self, slot: u32, worker: u32) -> Option<Fate> {
        let control = self.shared.slot(slot)?;
        let private = self.slots.get(slot)?;
        let state = SlotState::unpack(control.state.load(Ordering::Acquire))?;
        // By the state that was read above: another worker of the application may change it at any time.
        let fate = self.fate_of(SlotId(slot), state, worker);
        match fate {
            Some(Fate::Requeued) => {
                assert_eq!(
                    state.kind,
                    SlotKind::Taken,
                    "only a request that has not begun is queued again"
                );
                private.requeues.fetch_add(1, Ordering::Relaxed);
                let mut producer = lock(&self.producer);
                self.make_room(&mut producer);
                self.enqueue(&mut producer, slot, Some(state))
                    .then_some(Fate::Requeued)
            }
            Some(Fate::Begun) => {
                let complete = state.kind == SlotKind::Begun
                    && control.worker.end.load(Ordering::Acquire) == END_COMPLETE;
                private.flags.fetch_or(PRIVATE_DIED, Ordering::Release);
                self.complete_for_owner(slot);
                (!complete).then_some(Fate::Begun)
            }
            // It may have died between releasing the slot and reporting that.
            None if state.kind == SlotKind::Done && u32::from(state.worker) == worker => {
                self.complete_for_owner(slot);
                None
            }
            None => None,
        }
    }

    fn clear_entry(&self, worker: u32) {
        if let Some(pid) = self.pids.get(worker as usize) {
            pid.store(0, Ordering::Relaxed);
        }
        let Some(entry) = self.shared.worker(worker) else {
            return;
        };
        entry.control.pid.store(0, Ordering::Relaxed);
        entry.control.quit.store(0, Ordering::Relaxed);
        entry.control.request_limit.store(0, Ordering::Relaxed);
        entry.control.is_batch.store(0, Ordering::Relaxed);
        entry.wake.0.word().store(0, Ordering::Relaxed);
        let report = &entry.report;
        report.ready.store(0, Ordering::Relaxed);
        report.wake_mode.store(0, Ordering::Relaxed);
        report.current.store(0, Ordering::Relaxed);
        report.requests.store(0, Ordering::Relaxed);
        report.since_ms.store(0, Ordering::Relaxed);
        report.open.store(0, Ordering::Relaxed);
        report.looks.store(0, Ordering::Relaxed);
        if let Some(attention) = self.shared.attention(worker) {
            attention.drain(|_| {});
        }
    }

    /// True if words were written that no worker may write, or with invalid values: then nothing in the segment can be relied on. Checks
    /// only what costs little; a request that is answered wrongly is detected elsewhere.
    pub fn is_damaged(&self) -> bool {
        let workers = 0..self.shared.geometry.layout.workers;
        let mut words = workers.filter_map(|worker| self.shared.wake_word(worker));
        !self.shared.is_header_whole()
            || words.any(|word| word.word().load(Ordering::Relaxed) > ASLEEP_ON_EVENT)
    }

    /// Wakes workers that sleep without an idle bit: the dead worker may have taken one's bit without notifying it. A worker that is woken
    /// unnecessarily finds the queue empty and sleeps again.
    pub(super) fn wake_overlooked(&self) {
        let idle = self.shared.idle();
        for worker in 0..self.shared.geometry.layout.workers {
            if let Some(word) = self.shared.wake_word(worker)
                && word.word().load(Ordering::Acquire) >= ASLEEP
                && !idle.is_idle(worker)
            {
                notify(word, || self.ring(worker));
            }
        }
    }
}
