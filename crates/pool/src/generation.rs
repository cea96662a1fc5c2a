//! One segment, and the router's own state of each of its slots.
//!
//! Shared by listen threads (submit, completions) and the control thread (deadlines, deaths). Data that a worker may see or damage is in
//! the segment; what decides about a request is here, in the router's own memory: the waiting task, the deadline, and the verdict.
//!
//! A slot goes `Free → Live → (Detached) → Free`. *Live*: an [`Exchange`](crate::Exchange) holds it. *Detached*: the client disconnected
//! while a worker served the request; the slot is freed when the worker has finished. All changes of one slot happen under its lock. What
//! must never happen: freeing a slot that its worker may still use.

mod oldest;
mod overdue;
mod stack_requests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use tutti_spool::Region;
use tutti_wire::layout::{MAX_SLOTS, MAX_WORKERS};
use tutti_wire::{CancelOutcome, Fate, Layout, Segment, SlotId, SlotKind, Table, Violation};

pub(crate) use self::overdue::{Deadlines, GRACE, Overdue};
use crate::bells::Bells;
use crate::context::Context;
use crate::error::ExchangeError;
use crate::request_line::RequestLine;
use crate::shared::Shared;
use crate::stack_replies::StackRequest;

/// Fewest slots per worker. A slot is held for the whole exchange, also while its response is being read; with four, the queue in the segment
/// does not run empty while the router refills it.
const SLOTS_PER_WORKER: u32 = 4;

/// Fewest slots: bursts on a small pool are queued in the segment, where workers take them without the router.
/// A simulation has few, so that they run out.
const MIN_SLOTS: u32 = if cfg!(simulated) { 4 } else { 256 };

/// Worker numbers beyond twice the processes: there are old and new workers at once during a takeover, or draining ones and their
/// successors after limits, and some that are still draining from before. If that is not enough, those that have drained for the longest
/// time are ended.
const SPARE_NUMBERS: u32 = 4;

/// Fewest worker numbers: one group of idle words, so that a small pool can grow without a new segment.
const MIN_NUMBERS: u32 = if cfg!(simulated) { 8 } else { 64 };

/// Makes the router's end of a worker's event, a pipe. Workers open the same pipe anew, so they cannot make this end block; an eventfd has
/// one set of flags for all, and a listen thread that writes it could be blocked.
fn worker_event() -> rustix::io::Result<OwnedFd> {
    let (_, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok(writer)
}

fn numbers_for(processes: u32, threads: u32) -> u32 {
    (processes * 2 + SPARE_NUMBERS).saturating_mul(threads)
}

/// A segment with the router's table of its slots.
pub(crate) struct Generation {
    /// Shared with the workers.
    pub(crate) segment: Segment,
    /// By which its workers wake listen threads.
    pub(crate) bells: Bells,
    pub(crate) shared: Arc<Shared>,
    entries: Table<Entry>,
    threads: Box<[Thread]>,
    violated: AtomicBool,
    offenders: Mutex<Vec<u32>>,
    closed: AtomicBool,
    /// The verdict on all requests, once they are ended: also on one whose slot was taken before, and that is placed later.
    end: OnceLock<ExchangeError>,
    /// A request with a deadline has been submitted.
    has_deadlines: AtomicBool,
    /// Questions about slow requests.
    questions: Mutex<Vec<StackRequest>>,
}

impl std::fmt::Debug for Generation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Generation")
            .field("application", &self.shared.name)
            .finish_non_exhaustive()
    }
}

/// The requests of one listen thread in this segment.
#[derive(Debug, Default)]
struct Thread {
    /// Its slots in use, including detached ones.
    outstanding: AtomicU32,
    /// True while the thread checks this segment for completions; only that thread changes it.
    listed: AtomicBool,
}

/// One slot. Aligned to a cache line: neighbours may belong to other threads.
#[repr(align(64))]
#[derive(Default)]
struct Entry(Mutex<State>);

#[derive(Default)]
pub(crate) struct State {
    phase: Phase,
    slot: Option<SlotId>,
    /// Distinguishes one use of the slot from the next.
    serial: u64,
    thread: u32,
    waker: Option<Waker>,
    verdict: Option<ExchangeError>,
    arrived: Option<Instant>,
    deadline: Option<Instant>,
    /// When a worker must have begun it.
    begin_by: Option<Instant>,
    kill_at: Option<Instant>,
    /// The count of its worker's loop when it was cancelled; see [`Generation::is_stuck`].
    looks: u64,
    line: RequestLine,
    regions: Regions,
    /// The client has the whole response.
    is_answered: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Free,
    Live,
    Detached,
}

/// A request that a worker had begun when it ended.
#[derive(Debug)]
pub(crate) struct Interrupted {
    /// Its method and target.
    pub(crate) line: String,
    pub(crate) outcome: Outcome,
}

/// The result, for its client, of a request that a worker's death interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The client got this status, perhaps before, at the deadline.
    Answered(u16),
    /// The client had the head of a response, or a WebSocket.
    BrokenOff,
    ClientGone,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = &self.line;
        match self.outcome {
            Outcome::Answered(status) => write!(f, "`{line}`; answered {status}"),
            Outcome::BrokenOff => write!(f, "`{line}`; its response was cut short"),
            Outcome::ClientGone => write!(f, "`{line}`, whose client had disconnected"),
        }
    }
}

/// A request for which a slot is taken.
pub(crate) struct Admission<'a> {
    pub(crate) thread: u32,
    pub(crate) arrived: Instant,
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) regions: Regions,
}

/// Regions of the spool that belong to a request until its worker has finished.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    pub(crate) body: Option<Region>,
    /// The encoded head, if it did not fit the slot.
    pub(crate) head: Option<Region>,
}

impl Regions {
    fn is_empty(&self) -> bool {
        self.body.is_none() && self.head.is_none()
    }
}

/// The result of a scan of all slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    /// Requests that hold a slot, except those already answered.
    pub(crate) active: u32,
    /// Busy processes, except those that are draining.
    pub(crate) busy: u32,
    /// Requests in the segment's queue.
    pub(crate) queued: u32,
    /// When the oldest of those arrived.
    pub(crate) oldest: Option<Instant>,
}

impl Generation {
    /// Creates an empty segment for an application.
    pub(crate) fn create(shared: &Arc<Shared>, context: &Context) -> io::Result<Arc<Self>> {
        let spec = shared.spec.load();
        let threads = spec.special.threads().get();
        let max = spec.common.processes.max();
        // A worker that is draining, and its successor, may both have as many as they can. Slots that are not used take no memory.
        let concurrency = spec.concurrency().get();
        let mut at_once = concurrency.saturating_mul(2).max(SLOTS_PER_WORKER);
        if spec.special.may_take_over() {
            // Connections have slots of their own.
            at_once = at_once.saturating_add(SLOTS_PER_WORKER);
        }
        let layout = Layout {
            slots: max
                .saturating_mul(threads)
                .saturating_mul(at_once)
                .clamp(MIN_SLOTS, MAX_SLOTS),
            workers: numbers_for(max, threads).clamp(MIN_NUMBERS, MAX_WORKERS),
            threads: context.threads.count(),
        };
        // The name appears in /proc; memfd_create(2) permits 249 bytes without NUL.
        let name: String = shared
            .name
            .chars()
            .filter(|&c| c != '\0')
            .take(48)
            .collect();
        let segment = Segment::create(&format!("tutti-{name}"), &layout)?;
        segment.set_max_searching(context.cores);
        for (thread, event) in (0..).zip(context.threads.duplicates()?) {
            segment.set_event(thread, event);
        }
        if spec.special.may_run_event_loops() {
            let events = (0..layout.workers).map(|_| worker_event());
            segment.set_worker_events(events.collect::<Result<_, _>>()?);
        }
        let bells = Bells::new(layout.threads)?;
        Ok(Self::new(segment, bells, Arc::clone(shared)))
    }

    fn new(segment: Segment, bells: Bells, shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Generation {
            bells,
            entries: Table::new(segment.layout().slots),
            threads: (0..segment.layout().threads)
                .map(|_| Thread::default())
                .collect(),
            violated: AtomicBool::new(false),
            offenders: Mutex::default(),
            closed: AtomicBool::new(false),
            end: OnceLock::new(),
            has_deadlines: AtomicBool::new(false),
            questions: Mutex::default(),
            segment,
            shared,
        })
    }

    pub(crate) fn lock(&self, slot: SlotId) -> Option<MutexGuard<'_, State>> {
        // A panic cannot leave it half changed: the code under this lock only moves values.
        let entry = self.entries.get(slot.0)?;
        Some(entry.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if this segment has room for this many processes.
    pub(crate) fn has_room_for(&self, processes: u32) -> bool {
        let threads = self.shared.spec.load().special.threads().get();
        self.segment.layout().workers >= numbers_for(processes, threads).min(MAX_WORKERS)
    }

    /// Takes a slot for a request that is about to be written.
    pub(crate) fn admit(&self, slot: SlotId, admission: Admission<'_>) {
        if let Some(thread) = self.threads.get(admission.thread as usize) {
            thread.outstanding.fetch_add(1, Ordering::AcqRel);
        }
        if let Some(mut state) = self.lock(slot) {
            assert_eq!(
                state.phase,
                Phase::Free,
                "slot {slot:?} has a request and was given to another"
            );
            debug_assert!(state.waker.is_none() && state.regions.is_empty());
            state.phase = Phase::Live;
            state.slot = Some(slot);
            state.serial = state.serial.wrapping_add(1);
            state.thread = admission.thread;
            state.waker = None;
            state.verdict = self.end.get().cloned();
            state.arrived = Some(admission.arrived);
            state.deadline = None;
            state.begin_by = None;
            state.kill_at = None;
            state.line.set(admission.method, admission.target);
            state.regions = admission.regions;
            state.is_answered = false;
        }
    }

    /// Frees a slot, now or when its worker has finished.
    fn release(&self, slot: SlotId, mut state: MutexGuard<'_, State>) {
        if state.phase == Phase::Free {
            return;
        }
        state.waker = None;
        // The lock is held: the next user of the slot waits until this is over.
        if !self.segment.free(slot) && !self.closed.load(Ordering::Acquire) {
            state.phase = Phase::Detached;
            return;
        }
        debug_assert_eq!(state.slot, Some(slot), "another slot's state");
        state.phase = Phase::Free;
        state.slot = None;
        let regions = std::mem::take(&mut state.regions);
        let thread = state.thread;
        drop(state);
        drop(regions);
        if let Some(thread) = self.threads.get(thread as usize) {
            let before = thread.outstanding.fetch_sub(1, Ordering::AcqRel);
            assert_ne!(before, 0, "more requests were ended than begun");
        }
        self.shared.waiting.wake_one();
    }

    /// Notes that the client has the whole response.
    pub(crate) fn note_answered(&self, slot: SlotId) {
        if let Some(mut state) = self.lock(slot) {
            state.is_answered = true;
        }
    }

    /// Called when the exchange is dropped.
    pub(crate) fn abandon(&self, slot: SlotId) {
        if let Some(state) = self.lock(slot) {
            self.release(slot, state);
        }
    }

    /// Handles a completion in this slot; returns true if it has woken a task.
    fn complete(&self, slot: SlotId) -> bool {
        let Some(mut state) = self.lock(slot) else {
            return false;
        };
        if self.segment.state(slot).is_none() {
            // A correct worker never sets an invalid state.
            self.condemn();
        }
        match state.phase {
            Phase::Live => {
                let waker = state.waker.take();
                drop(state);
                let has_waker = waker.is_some();
                if let Some(waker) = waker {
                    waker.wake();
                }
                has_waker
            }
            Phase::Detached => {
                self.release(slot, state);
                false
            }
            Phase::Free => false,
        }
    }

    /// Handles one thread's completions; returns true if that has woken a task.
    pub(crate) fn drain(&self, thread: u32) -> bool {
        let mut has_woken = false;
        self.segment
            .drain_completions(thread, |slot| has_woken |= self.complete(slot));
        has_woken
    }

    /// The number of the thread's slots in use.
    pub(crate) fn outstanding(&self, thread: u32) -> u32 {
        let thread = self.threads.get(thread as usize);
        thread.map_or(0, |thread| thread.outstanding.load(Ordering::Acquire))
    }

    /// Returns true if the thread must put this generation on its list.
    pub(crate) fn list_thread(&self, thread: u32) -> bool {
        self.threads.get(thread as usize).is_some_and(|thread| {
            !thread.listed.load(Ordering::Relaxed) && !thread.listed.swap(true, Ordering::Relaxed)
        })
    }

    /// True if this generation is on the thread's list.
    pub(crate) fn is_listed(&self, thread: u32) -> bool {
        let thread = self.threads.get(thread as usize);
        thread.is_some_and(|thread| thread.listed.load(Ordering::Relaxed))
    }

    /// Returns true if the thread has no more requests here and must remove this generation from its list.
    pub(crate) fn unlist_if_idle(&self, thread: u32) -> bool {
        let Some(thread) = self.threads.get(thread as usize) else {
            return true;
        };
        if thread.outstanding.load(Ordering::Acquire) != 0 {
            return false;
        }
        let was_listed = thread.listed.swap(false, Ordering::Relaxed);
        debug_assert!(
            was_listed,
            "only the thread itself takes a segment off its list"
        );
        true
    }

    /// Registers a waker for a live slot, or returns its verdict.
    pub(crate) fn watch(&self, slot: SlotId, waker: &Waker) -> Result<(), ExchangeError> {
        let Some(mut state) = self.lock(slot) else {
            return Err(ExchangeError::Stopped);
        };
        if let Some(verdict) = &state.verdict {
            return Err(verdict.clone());
        }
        match &mut state.waker {
            Some(present) => present.clone_from(waker),
            empty => *empty = Some(waker.clone()),
        }
        Ok(())
    }

    /// Removes the deadline of a request.
    pub(crate) fn lift_deadline(&self, slot: SlotId) {
        if let Some(mut state) = self.lock(slot) {
            state.deadline = None;
        }
    }

    /// The verdict on a live slot, if there is one.
    pub(crate) fn verdict(&self, slot: SlotId) -> Result<(), ExchangeError> {
        match self.lock(slot) {
            Some(state) => state.verdict.clone().map_or(Ok(()), Err),
            None => Err(ExchangeError::Stopped),
        }
    }

    /// Sets the verdict on a request and wakes the task that waits for it.
    fn settle(&self, slot: SlotId, mut state: MutexGuard<'_, State>, verdict: ExchangeError) {
        match state.phase {
            Phase::Free => {}
            Phase::Detached => self.release(slot, state),
            Phase::Live => {
                state.verdict.get_or_insert(verdict);
                let waker = state.waker.take();
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
        }
    }

    /// Handles the requests of a worker that has ended. Returns those that it had begun.
    ///
    /// A response that it had finished remains complete: an exchange checks for data before it checks the verdict.
    pub(crate) fn worker_died(&self, worker: u32, verdict: &ExchangeError) -> Vec<Interrupted> {
        // The verdict must be set before the completion that `Segment::worker_died` sets: after that completion, the slot may belong to
        // another request at any moment.
        let mut condemned = Vec::new();
        self.each(|slot, state| {
            if self.segment.fate(slot, worker) == Some(Fate::Begun) {
                let has_client = state.phase == Phase::Live || state.verdict.is_some();
                let status = state.verdict.get_or_insert(verdict.clone()).status();
                let outcome = match (has_client, self.segment.is_head_taken(slot)) {
                    (false, _) => Outcome::ClientGone,
                    (true, true) => Outcome::BrokenOff,
                    (true, false) => Outcome::Answered(status),
                };
                condemned.push((slot, state.serial, state.line, outcome));
            }
        });
        let fates = self.segment.worker_died(worker);
        let mut interrupted = Vec::new();
        for (slot, fate) in fates {
            let before = condemned.iter().find(|(condemned, ..)| *condemned == slot);
            let Some(state) = self.lock(slot) else {
                continue;
            };
            if let (Fate::Begun, Some((_, serial, line, outcome))) = (fate, before) {
                interrupted.push(Interrupted {
                    line: line.to_string(),
                    outcome: *outcome,
                });
                if state.serial != *serial {
                    continue;
                }
            }
            match (fate, state.phase) {
                (Fate::Begun, Phase::Live) if before.is_some() => {
                    self.settle(slot, state, verdict.clone());
                }
                (_, Phase::Detached) => self.release(slot, state),
                _ => {}
            }
        }
        interrupted
    }

    /// Calls `act` for each slot in use.
    fn each(&self, mut act: impl FnMut(SlotId, &mut State)) {
        for (_, entry) in self.entries.made() {
            let mut state = entry.0.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(slot) = state.slot {
                act(slot, &mut state);
            }
        }
    }

    /// The slots in use.
    fn slots(&self) -> Vec<SlotId> {
        let mut slots = Vec::new();
        self.each(|slot, _| slots.push(slot));
        slots
    }

    fn is_queued(&self, slot: SlotId) -> bool {
        self.segment
            .state(slot)
            .is_some_and(|state| state.kind == SlotKind::Queued)
    }

    /// Refuses all requests that no worker has begun.
    pub(crate) fn refuse_queued(&self, verdict: &ExchangeError) {
        for slot in self.slots() {
            let Some(state) = self.lock(slot) else {
                continue;
            };
            if self.is_queued(slot) && self.segment.cancel(slot) == CancelOutcome::Cancelled {
                self.settle(slot, state, verdict.clone());
            }
        }
    }

    /// Ends all requests of a segment whose workers have all ended.
    pub(crate) fn close(&self, verdict: &ExchangeError) {
        self.closed.store(true, Ordering::Release);
        self.fail_all(verdict);
    }

    /// Answers all requests; slots that workers may still use remain taken until [`close`](Self::close).
    pub(crate) fn fail_all(&self, verdict: &ExchangeError) {
        let verdict = self.end.get_or_init(|| verdict.clone());
        // Also the slots that have not been used yet: a request is placed before its slot is locked here, or it sees the verdict.
        for slot in (0..self.segment.layout().slots).map(SlotId) {
            if let Some(state) = self.lock(slot) {
                self.settle(slot, state, verdict.clone());
            }
        }
    }

    /// Handles invalid data that a worker wrote. For an invalid response head, only its worker is killed; invalid counters may come from
    /// any worker, so the whole segment is replaced.
    pub(crate) fn report_violation(&self, slot: SlotId, violation: Violation) {
        let holder = self.segment.state(slot).filter(|state| {
            matches!(
                state.kind,
                SlotKind::Taken | SlotKind::Begun | SlotKind::Done
            )
        });
        match (violation, holder) {
            (Violation::Head | Violation::Status(_) | Violation::Message, Some(state)) => {
                self.offenders().push(u32::from(state.worker));
            }
            _ => self.condemn(),
        }
        self.shared.signal.raise();
    }

    /// Has this segment replaced.
    pub(crate) fn condemn(&self) {
        if !self.violated.swap(true, Ordering::AcqRel) {
            self.shared.signal.raise();
        }
    }

    fn offenders(&self) -> MutexGuard<'_, Vec<u32>> {
        self.offenders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the workers that sent an invalid response head since the last call.
    pub(crate) fn take_offenders(&self) -> Vec<u32> {
        std::mem::take(&mut *self.offenders())
    }

    /// True if a violation was seen.
    pub(crate) fn is_violated(&self) -> bool {
        self.violated.load(Ordering::Acquire)
    }

    /// Scans all slots.
    pub(crate) fn gauge(&self) -> Gauge {
        let mut gauge = Gauge::default();
        let mut busy = Vec::new();
        self.each(|slot, state| {
            let held = self.segment.state(slot);
            let kind = held.map(|held| held.kind);
            if state.phase == Phase::Live && !state.is_answered && kind != Some(SlotKind::Done) {
                gauge.active += 1;
            }
            match kind {
                Some(SlotKind::Queued) => {
                    gauge.queued += 1;
                    gauge.oldest = match (gauge.oldest, state.arrived) {
                        (Some(a), Some(b)) => Some(a.min(b)),
                        (a, b) => a.or(b),
                    };
                }
                Some(SlotKind::Taken | SlotKind::Begun) => {
                    busy.extend(held.map(|held| u32::from(held.worker)));
                }
                _ => {}
            }
        });
        gauge.busy = self.processes_of(busy);
        gauge
    }

    /// The number of processes that these workers belong to, except draining ones. Each process has a block of numbers, one for each of its
    /// threads.
    fn processes_of(&self, workers: Vec<u32>) -> u32 {
        let threads = self.shared.spec.load().special.threads().get();
        let mut processes: Vec<u32> = workers
            .into_iter()
            .filter(|&worker| !self.segment.worker_snapshot(worker).quitting)
            .map(|worker| worker / threads)
            .collect();
        processes.sort_unstable();
        processes.dedup();
        u32::try_from(processes.len()).unwrap_or(u32::MAX)
    }

    /// True while there is any request.
    pub(crate) fn is_in_use(&self) -> bool {
        self.threads
            .iter()
            .any(|thread| thread.outstanding.load(Ordering::Acquire) != 0)
    }
}
