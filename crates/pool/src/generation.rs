//! One segment and what the router knows of each of its slots.
//!
//! Shared by listen threads (submit, completions) and the control thread (deadlines, deaths). What a worker may see or
//! spoil is in the segment; what decides about a request is here, in the router's own memory: who waits for it, until
//! when, and its verdict.
//!
//! A slot goes `Free → Live → (Detached) → Free`. *Live*: an [`Exchange`](crate::Exchange) holds it. *Detached*: the
//! client has gone while a worker was at it; the slot is freed when the worker is done. All changes of one slot
//! happen under its lock. What must never happen: freeing a slot whose worker may still touch it.

mod oldest;
mod overdue;
mod stack_requests;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use rustix::pipe::{PipeFlags, pipe_with};
use tutti_spool::Region;
use tutti_wire::layout::{MAX_SLOTS, MAX_WORKERS};
use tutti_wire::{CancelOutcome, Fate, Layout, Segment, SlotId, SlotKind, Table, Violation};

pub(crate) use self::overdue::{GRACE, Overdue};
use crate::bells::Bells;
use crate::context::Context;
use crate::error::ExchangeError;
use crate::request_line::RequestLine;
use crate::shared::Shared;
use crate::stack_replies::StackRequest;

/// Slots per worker. A slot is held for the whole of an exchange, also while its response is being read; with four the
/// queue in the segment never runs dry while the router refills it.
const SLOTS_PER_WORKER: u32 = 4;

/// Fewest slots: a burst on a small pool is then queued in the segment, where workers take it without the router.
const MIN_SLOTS: u32 = 256;

/// Worker numbers beyond twice the processes: during a takeover old and new workers are there at once, and some that are
/// still leaving from before.
const SPARE_NUMBERS: u32 = 4;

/// Fewest worker numbers: one group of idle words, so that a small pool can become larger without a new segment.
const MIN_NUMBERS: u32 = 64;

/// The router's end of a worker's event: a pipe. Workers have the same pipe opened anew, so nothing that they do to theirs makes this
/// one block; an eventfd has one set of flags for all, and a listen thread that writes it would stand still.
fn worker_event() -> rustix::io::Result<OwnedFd> {
    let (_, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    Ok(writer)
}

fn numbers_for(processes: u32, threads: u32) -> u32 {
    (processes * 2 + SPARE_NUMBERS).saturating_mul(threads)
}

/// A segment with the router's own table beside it.
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
    /// A request has come that may become overdue.
    has_deadlines: AtomicBool,
    /// About requests that take long.
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
    /// Slots in use by it, detached ones too.
    outstanding: AtomicU32,
    /// True while the thread looks here for completions; only that thread changes it.
    listed: AtomicBool,
}

/// One slot. Aligned to a cache line: neighbours belong to other threads.
#[repr(align(64))]
#[derive(Default)]
struct Entry(Mutex<State>);

#[derive(Default)]
pub(crate) struct State {
    phase: Phase,
    slot: Option<SlotId>,
    /// Tells one use of the slot from the next.
    serial: u64,
    thread: u32,
    waker: Option<Waker>,
    verdict: Option<ExchangeError>,
    arrived: Option<Instant>,
    deadline: Option<Instant>,
    /// When a worker must have begun it.
    begin_by: Option<Instant>,
    kill_at: Option<Instant>,
    /// The count of its worker's loop when it was told; see [`Generation::is_stuck`].
    looks: u64,
    line: RequestLine,
    regions: Regions,
    /// Its client has all of the response.
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

/// The outcome of a request that a worker's end interrupted, for its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its client gets this status, or has got it: it may have been answered before, because its time was over.
    Answered(u16),
    /// Its client had the head of an answer, or a WebSocket.
    BrokenOff,
    ClientGone,
}

impl std::fmt::Display for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let line = &self.line;
        match self.outcome {
            Outcome::Answered(status) => write!(f, "`{line}`; answered {status}"),
            Outcome::BrokenOff => write!(f, "`{line}`; its answer is broken off"),
            Outcome::ClientGone => write!(f, "`{line}`, whose client had gone"),
        }
    }
}

/// The request that a slot is taken for.
pub(crate) struct Admission<'a> {
    pub(crate) thread: u32,
    pub(crate) arrived: Instant,
    pub(crate) deadline: Option<Instant>,
    pub(crate) begin_by: Option<Instant>,
    pub(crate) method: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) regions: Regions,
}

/// Stretches of the spool that belong to a request until its worker is done.
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

/// Numbers of one look over all slots.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gauge {
    /// Requests that hold a slot, but for those that have been answered.
    pub(crate) active: u32,
    /// Processes that are at some request, but for those that were told to leave.
    pub(crate) busy: u32,
    /// Requests in the segment's queue.
    pub(crate) queued: u32,
    /// When the oldest of those arrived.
    pub(crate) oldest: Option<Instant>,
}

impl Generation {
    /// A segment for an application, with nothing in it.
    pub(crate) fn create(shared: &Arc<Shared>, context: &Context) -> io::Result<Arc<Self>> {
        let spec = shared.spec.load();
        let threads = spec.special.threads().get();
        let max = spec.common.processes.max();
        let mut at_once = spec.concurrency().get().max(SLOTS_PER_WORKER);
        if spec.special.may_take_over() {
            // Connections never take the slots of requests.
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
        // The name is for people who look into /proc; memfd_create(2) takes 249 bytes, and no NUL.
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
            has_deadlines: AtomicBool::new(false),
            questions: Mutex::default(),
            segment,
            shared,
        })
    }

    pub(crate) fn lock(&self, slot: SlotId) -> Option<MutexGuard<'_, State>> {
        // Nothing under this lock panics half-way through a change: it only moves values.
        let entry = self.entries.get(slot.0)?;
        Some(entry.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// True if so many processes find room in this segment.
    pub(crate) fn has_room_for(&self, processes: u32) -> bool {
        let threads = self.shared.spec.load().special.threads().get();
        self.segment.layout().workers >= numbers_for(processes, threads).min(MAX_WORKERS)
    }

    /// Takes a slot for a request that is about to be written.
    pub(crate) fn admit(&self, slot: SlotId, admission: Admission<'_>) {
        if (admission.deadline.is_some() || admission.begin_by.is_some())
            && !self.has_deadlines.load(Ordering::Relaxed)
        {
            self.has_deadlines.store(true, Ordering::Relaxed);
        }
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
            state.verdict = None;
            state.arrived = Some(admission.arrived);
            state.deadline = admission.deadline;
            state.begin_by = admission.begin_by;
            state.kill_at = None;
            state.line.set(admission.method, admission.target);
            state.regions = admission.regions;
            state.is_answered = false;
        }
    }

    /// Gives a slot back, now or, while a worker still has it, when that is done.
    fn release(&self, slot: SlotId, mut state: MutexGuard<'_, State>) {
        if state.phase == Phase::Free {
            return;
        }
        state.waker = None;
        // The lock is held: whoever is given the slot next waits for this to be over.
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

    /// The request's client has all of the response.
    pub(crate) fn note_answered(&self, slot: SlotId) {
        if let Some(mut state) = self.lock(slot) {
            state.is_answered = true;
        }
    }

    /// The exchange was dropped.
    pub(crate) fn abandon(&self, slot: SlotId) {
        if let Some(state) = self.lock(slot) {
            self.release(slot, state);
        }
    }

    /// A worker has said that something happened in this slot.
    fn complete(&self, slot: SlotId) {
        let Some(mut state) = self.lock(slot) else {
            return;
        };
        if self.segment.state(slot).is_none() {
            // No worker that is sound leaves a state that does not exist.
            self.condemn();
        }
        match state.phase {
            Phase::Live => {
                let waker = state.waker.take();
                drop(state);
                if let Some(waker) = waker {
                    waker.wake();
                }
            }
            Phase::Detached => self.release(slot, state),
            Phase::Free => {}
        }
    }

    /// Takes one thread's completions.
    pub(crate) fn drain(&self, thread: u32) {
        self.segment
            .drain_completions(thread, |slot| self.complete(slot));
    }

    /// True if the thread has to put this generation on its list.
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

    /// True if the thread has nothing here any more and takes this generation off its list.
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

    /// Registers who waits for a live slot, or tells what has become of it.
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

    /// The request may take as long as it takes.
    pub(crate) fn lift_deadline(&self, slot: SlotId) {
        if let Some(mut state) = self.lock(slot) {
            state.deadline = None;
        }
    }

    /// The decision about a live slot, if there is one.
    pub(crate) fn verdict(&self, slot: SlotId) -> Result<(), ExchangeError> {
        match self.lock(slot) {
            Some(state) => state.verdict.clone().map_or(Ok(()), Err),
            None => Err(ExchangeError::Stopped),
        }
    }

    /// Decides about a request; whoever waits for it learns of it.
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

    /// A worker has ended: puts its requests in order. Returns those that it had begun.
    ///
    /// A response that it had finished is whole and stays so: an exchange looks at what is there before the verdict.
    pub(crate) fn worker_died(&self, worker: u32, verdict: &ExchangeError) -> Vec<Interrupted> {
        // The verdict must be there before the completion that `Segment::worker_died` gives. After that completion the slot
        // may be another request's at any moment.
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

    /// Refuses every request that no worker has begun.
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

    /// Ends every request of a segment whose workers have all ended.
    pub(crate) fn close(&self, verdict: &ExchangeError) {
        self.closed.store(true, Ordering::Release);
        self.fail_all(verdict);
    }

    /// Answers every request; slots that workers may still be at stay theirs until [`close`](Self::close).
    pub(crate) fn fail_all(&self, verdict: &ExchangeError) {
        for slot in self.slots() {
            if let Some(state) = self.lock(slot) {
                self.settle(slot, state, verdict.clone());
            }
        }
    }

    /// A worker wrote what cannot be: the supervisor is told. A response head that makes no sense costs its worker; impossible
    /// counters may be anybody's doing, so the whole segment is replaced.
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

    /// Workers that sent an impossible response head since the last call.
    pub(crate) fn take_offenders(&self) -> Vec<u32> {
        std::mem::take(&mut *self.offenders())
    }

    /// True if a violation was seen.
    pub(crate) fn is_violated(&self) -> bool {
        self.violated.load(Ordering::Acquire)
    }

    /// Looks over all slots.
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

    /// How many processes these workers belong to that were not told to leave. Each has a block of numbers, one for each
    /// of its threads.
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

    /// True while any request is in here.
    pub(crate) fn is_in_use(&self) -> bool {
        self.threads
            .iter()
            .any(|thread| thread.outstanding.load(Ordering::Acquire) != 0)
    }
}
