//! Requests whose time is over.
//!
//! Called by the supervisor in each round. What must never happen: an event loop that serves other requests is killed because of one.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tutti_wire::{CancelOutcome, SlotId, SlotKind};

use super::{Generation, Phase};
use crate::error::ExchangeError;

/// Maximum time for a worker to finish after its request was cancelled at its deadline, before it is killed. PHP checks its connection
/// status at the next output or statement tick, so a responsive worker needs milliseconds. Another worker is started in its place at once,
/// so no request waits for it.
pub(crate) const GRACE: Duration = Duration::from_secs(1);

/// The server looks for overdue requests more often than this. If it is later, the whole machine may have stood still, and the worker has had
/// no time.
const LATE: Duration = Duration::from_millis(250);

/// The time limits of a request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Deadlines {
    /// When it must have ended.
    pub(crate) end_by: Option<Instant>,
    /// When a worker must have begun it.
    pub(crate) begin_by: Option<Instant>,
}

/// An overdue request.
#[derive(Debug)]
pub(crate) enum Overdue {
    /// The request has been cancelled.
    Cancelled {
        /// The number of its worker.
        worker: u32,
        /// The worker has an event loop: it is not replaced because of one request.
        serves_others: bool,
        /// Its request line.
        line: String,
    },
    /// It was cancelled a while ago and its worker still serves it: the worker must be killed.
    Stuck {
        /// The number of its worker.
        worker: u32,
        /// Its request line.
        line: String,
    },
}

impl Generation {
    /// Answers all requests that a worker has begun, because it gets no more time. Returns their request lines.
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

    /// Sets the time limits of a request that has been submitted: before that its slot has the state of its former use, which would be taken
    /// for that of the request.
    pub(crate) fn set_deadlines(&self, slot: SlotId, deadlines: Deadlines) {
        let Deadlines { end_by, begin_by } = deadlines;
        if end_by.is_none() && begin_by.is_none() {
            return;
        }
        if let Some(mut state) = self.lock(slot) {
            state.deadline = end_by;
            state.begin_by = begin_by;
        }
        if !self.has_deadlines.load(Ordering::Relaxed) {
            self.has_deadlines.store(true, Ordering::Relaxed);
        }
    }

    /// Cancels requests whose deadline has passed.
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
                CancelOutcome::Released => {
                    state.kill_at = None;
                    // The worker has finished, or its end is known: the rest is between the server and its client.
                    let is_over = state.verdict.is_some()
                        || self
                            .segment
                            .state(slot)
                            .is_some_and(|held| held.kind == SlotKind::Done);
                    if !is_over {
                        // A worker has falsified the state: none would ever finish the request.
                        self.condemn();
                        self.settle(slot, state, ExchangeError::Timeout { begun: true });
                    } else if let Some(waker) = state.waker.take() {
                        // If the state is falsified, the completion has not been reported.
                        drop(state);
                        waker.wake();
                    }
                }
                CancelOutcome::Cancelled => {
                    self.settle(slot, state, ExchangeError::Timeout { begun: false });
                }
                CancelOutcome::Running(worker) => {
                    let line = state.line.to_string();
                    if is_stuck {
                        if state.kill_at.is_some_and(|kill_at| kill_at + LATE < now) {
                            state.kill_at = Some(now + GRACE);
                            continue;
                        }
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
                    overdue.push(Overdue::Cancelled {
                        worker,
                        serves_others,
                        line,
                    });
                }
            }
        }
    }

    /// True if a worker whose overdue request was cancelled, and that still serves it, does not move at all. An event loop that moves
    /// serves other requests: only the request's handler ignores the cancellation.
    fn is_stuck(&self, worker: u32, looks: u64) -> bool {
        let snapshot = self.segment.worker_snapshot(worker);
        !snapshot.is_loop || (!snapshot.asleep && snapshot.looks == looks)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use tutti_wire::worker::Attached;
    use tutti_wire::{BodyRef, Layout, Segment, WireRequestHead};

    use super::*;
    use crate::bells::Bells;
    use crate::generation::{Admission, Regions};
    use crate::shared::Shared;

    fn generation() -> Arc<Generation> {
        let layout = Layout {
            slots: 4,
            workers: 8,
            threads: 1,
        };
        let segment = Segment::create("tutti-test", &layout).unwrap();
        Generation::new(segment, Bells::new(1).unwrap(), Shared::sample())
    }

    fn admit(generation: &Generation, now: Instant) -> SlotId {
        let slot = generation.segment.allocate(0).unwrap();
        generation.admit(
            slot,
            Admission {
                thread: 0,
                arrived: now,
                method: b"GET",
                target: b"/",
                regions: Regions::default(),
            },
        );
        slot
    }

    /// It was killed before it could write where it was.
    #[test]
    fn a_worker_has_its_time_after_the_machine_has_stood_still() {
        let generation = generation();
        let now = Instant::now();
        let slot = admit(&generation, now);
        let head = WireRequestHead {
            method: b"GET",
            target: b"/",
            path: b"/",
            ..WireRequestHead::default()
        };
        let segment = &generation.segment;
        segment.write_request(slot, &head, &BodyRef::None).unwrap();
        segment.submit(slot);
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        let events = vec![rustix::event::eventfd(0, flags).unwrap()];
        let attached = Attached::open(segment.fd()).unwrap();
        let mut worker = attached.into_worker(2, events, None).unwrap();
        let exchange = worker.next_request().unwrap();
        let deadlines = Deadlines {
            end_by: Some(now),
            begin_by: None,
        };
        generation.set_deadlines(slot, deadlines);
        let found = |after: Duration| {
            let mut overdue = Vec::new();
            generation.sweep(now + after, &mut overdue);
            let is_stuck = |one: &Overdue| matches!(one, Overdue::Stuck { worker: 2, .. });
            (overdue.len(), overdue.iter().any(is_stuck))
        };
        assert_eq!(found(Duration::ZERO), (1, false), "it is cancelled");
        let late = GRACE + 2 * LATE;
        assert_eq!(found(late), (0, false));
        assert_eq!(found(late + GRACE), (1, true));
        drop(exchange);
    }

    /// A listen thread may be interrupted in the middle: the slot still has the state of its former use, from which it seemed that a worker
    /// had falsified it, and all processes were replaced.
    #[test]
    fn a_request_is_not_late_before_it_is_submitted() {
        let generation = generation();
        let now = Instant::now();
        let slot = admit(&generation, now);
        let mut overdue = Vec::new();
        generation.has_deadlines.store(true, Ordering::Relaxed);
        generation.sweep(now, &mut overdue);
        assert!(!generation.is_violated());
        assert_eq!(generation.verdict(slot), Ok(()));
        generation.segment.submit(slot);
        let deadlines = Deadlines {
            end_by: Some(now),
            begin_by: None,
        };
        generation.set_deadlines(slot, deadlines);
        generation.sweep(now, &mut overdue);
        assert!(overdue.is_empty() && !generation.is_violated());
        let verdict = ExchangeError::Timeout { begun: false };
        assert_eq!(generation.verdict(slot), Err(verdict));
    }
}
