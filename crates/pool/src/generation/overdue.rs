//! Requests whose time is over.
//!
//! Called by the supervisor at each of its looks. What must never happen: an event loop that serves others killed for one
//! request.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tutti_wire::{CancelOutcome, SlotKind};

use super::{Generation, Phase};
use crate::error::ExchangeError;

/// How long a worker that has been told that its request's time is up may take to finish before it is killed. PHP looks
/// at its connection status at the next output or statement tick, so one that is alive needs milliseconds. Nobody waits
/// for it: another worker is started in its place at once.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// A request that the sweep found.
#[derive(Debug)]
pub(crate) enum Overdue {
    /// The worker has been told.
    Told {
        /// Its number.
        worker: u32,
        /// It has an event loop: it is not replaced for one request.
        serves_others: bool,
        /// The request line that it works on.
        line: String,
    },
    /// It was told a while ago and is still at it: kill it.
    Stuck {
        /// Its number.
        worker: u32,
        /// The request line that it works on.
        line: String,
    },
}

impl Generation {
    /// Answers for the requests a worker has begun and is given no more time for. Returns their request lines.
    pub(crate) fn overrun(&self, worker: u32, verdict: &ExchangeError) -> Vec<String> {
        let mut lines = Vec::new();
        for slot in self.slots() {
            let Some(mut state) = self.lock(slot) else {
                continue;
            };
            let is_held = self.segment.state(slot).is_some_and(|held| {
                held.kind == SlotKind::Begun && u32::from(held.worker) == worker
            });
            if state.phase == Phase::Free || !is_held {
                continue;
            }
            state.deadline = None;
            lines.push(state.line.to_string());
            self.settle(slot, state, verdict.clone());
            self.segment.client_gone(slot);
        }
        lines
    }

    /// Ends the time of requests whose deadline has passed.
    pub(crate) fn sweep(&self, now: Instant, overdue: &mut Vec<Overdue>) {
        if !self.has_deadlines.load(Ordering::Relaxed) {
            return;
        }
        for slot in self.slots() {
            let Some(mut state) = self.lock(slot) else {
                continue;
            };
            if state.phase != Phase::Free && state.begin_by.is_some_and(|begin_by| begin_by <= now)
            {
                state.begin_by = None;
                if self.is_queued(slot) && self.segment.cancel(slot) == CancelOutcome::Cancelled {
                    self.settle(slot, state, ExchangeError::QueueWait);
                    continue;
                }
            }
            let is_late = state.deadline.is_some_and(|deadline| deadline <= now);
            let is_stuck = state.kill_at.is_some_and(|kill_at| kill_at <= now);
            if state.phase == Phase::Free || !(is_late || is_stuck) {
                continue;
            }
            state.deadline = None;
            match self.segment.cancel(slot) {
                // The worker is done; what is left is between the server and its client.
                CancelOutcome::Released => state.kill_at = None,
                CancelOutcome::Cancelled => {
                    self.settle(slot, state, ExchangeError::Timeout { begun: false });
                }
                CancelOutcome::Running(worker) => {
                    let line = state.line.to_string();
                    if is_stuck {
                        state.kill_at = None;
                        if self.is_stuck(worker, state.looks) {
                            overdue.push(Overdue::Stuck { worker, line });
                        }
                        continue;
                    }
                    state.kill_at = Some(now + GRACE);
                    state.looks = self.segment.worker_snapshot(worker).looks;
                    self.settle(slot, state, ExchangeError::Timeout { begun: true });
                    self.segment.client_gone(slot);
                    let serves_others = self.segment.worker_snapshot(worker).is_loop;
                    overdue.push(Overdue::Told {
                        worker,
                        serves_others,
                        line,
                    });
                }
            }
        }
    }

    /// True if a worker that has been told of an overdue request, and is still at it, does not move at all. An event loop
    /// that moves serves others: the request's handler is its own business.
    fn is_stuck(&self, worker: u32, looks: u64) -> bool {
        let snapshot = self.segment.worker_snapshot(worker);
        !snapshot.is_loop || (!snapshot.asleep && snapshot.looks == looks)
    }
}
