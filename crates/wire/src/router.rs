//! The router's side of a segment.
//!
//! Owns the segment, the free list, the queue's true tail and everything else that must not depend on data that a worker may write: the
//! user and the ring positions of each slot. Called by `pool` from every router thread; a slot is used by the one thread that allocated it,
//! deaths are reported by one control thread.

mod allocation;
mod death;
mod free;
mod producer;
mod queueing;
mod slot;

use std::io;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32 as PrivateU32, AtomicU64 as PrivateU64};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

pub use self::death::Fate;
use self::free::Free;
use self::producer::Producer;
pub use self::slot::{CancelOutcome, Readable};
use crate::SlotId;
use crate::idle::{ASLEEP, Wake, notify};
use crate::layout::{Geometry, HANDING_OVER, LEAVING, Layout, MODE_LOOP, READY};
use crate::map::create_file;
use crate::shared::Shared;
use crate::sync::{AtomicU64, Ordering, fence};
use crate::table::Table;

/// No thread uses the slot.
const NO_OWNER: u32 = u32::MAX;

/// The router's own state of a slot.
#[repr(align(64))]
#[derive(Debug)]
struct Private {
    /// The thread that allocated it, or [`NO_OWNER`].
    owner: PrivateU32,
    /// See the `PRIVATE_` constants.
    flags: PrivateU32,
    /// Bytes of interim answers that have been read.
    interims_read: PrivateU32,
    /// Workers that have died with the request and had not begun it.
    requeues: PrivateU32,
    response_consumed: PrivateU64,
    stream_written: PrivateU64,
}

impl Default for Private {
    fn default() -> Self {
        Self {
            owner: PrivateU32::new(NO_OWNER),
            flags: PrivateU32::new(0),
            interims_read: PrivateU32::new(0),
            requeues: PrivateU32::new(0),
            response_consumed: PrivateU64::new(0),
            stream_written: PrivateU64::new(0),
        }
    }
}

/// The worker that held the slot died.
const PRIVATE_DIED: u32 = 1;
/// The response head has been read.
const PRIVATE_HEAD_READ: u32 = 2;
/// The slot's pages may be resident.
const PRIVATE_TOUCHED: u32 = 4;
/// The request opens a WebSocket: it may be answered 101.
const PRIVATE_WEBSOCKET: u32 = 8;

/// The answer of a worker to whether it takes requests; any process of the application can write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It has not begun to, or has written a value without a meaning.
    Absent,
    /// It takes requests.
    Ready,
    /// It takes no more.
    Leaving,
    /// It takes no more, and another program is about to take its place.
    HandingOver,
}

impl Readiness {
    fn of(word: u32) -> Readiness {
        match word {
            READY => Readiness::Ready,
            LEAVING => Readiness::Leaving,
            HANDING_OVER => Readiness::HandingOver,
            _ => Readiness::Absent,
        }
    }
}

/// The state of a worker: its reports, which are untrusted, and its `pid`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerSnapshot {
    /// Its process id, 0 when it has not been reported started.
    pub pid: u32,
    /// By its own account.
    pub readiness: Readiness,
    /// True if it sleeps, waiting for work.
    pub idle: bool,
    /// True if it was asked to quit.
    pub quitting: bool,
    /// The slot it serves.
    pub current: Option<SlotId>,
    /// Requests it has taken.
    pub requests: u64,
    /// [`crate::now_ms`] of its last change: idle since, or busy with `current` since. Event loops: of the last request taken, or
    /// sleep.
    pub since_ms: u64,
    /// True if it has an event loop.
    pub is_loop: bool,
    /// Its open exchanges, if it has an event loop.
    pub open: u32,
    /// Its number of checks for work, if it has an event loop.
    pub looks: u64,
    /// True if it sleeps, for any reason.
    pub asleep: bool,
}

impl WorkerSnapshot {
    /// True if it has any request.
    pub fn is_busy(&self) -> bool {
        self.current.is_some() || self.open > 0
    }
}

/// One application generation's shared memory, on the router's side.
#[derive(Debug)]
pub struct Segment {
    shared: Shared,
    file: OwnedFd,
    free: Mutex<Free>,
    producer: Mutex<Producer>,
    slots: Table<Private>,
    pids: Vec<PrivateU32>,
    events: Vec<OnceLock<OwnedFd>>,
    worker_events: OnceLock<Vec<OwnedFd>>,
    max_searching: PrivateU32,
}

impl Segment {
    /// Creates and maps a segment. `name` shows in `/proc/PID/maps`.
    ///
    /// Errors: `InvalidInput` for counts out of range, else the kernel's error (memory, descriptors).
    pub fn create(name: &str, layout: &Layout) -> io::Result<Self> {
        let geometry = Geometry::new(layout)?;
        let file = create_file(name, geometry.total_length)?;
        let shared = Shared::create(file.as_fd(), layout)?;
        Ok(Self {
            shared,
            file,
            free: Mutex::new(Free::new(layout.slots)),
            producer: Mutex::new(Producer::new(geometry.queue_cells)),
            slots: Table::new(layout.slots),
            pids: (0..layout.workers).map(|_| PrivateU32::new(0)).collect(),
            events: (0..layout.threads).map(|_| OnceLock::new()).collect(),
            worker_events: OnceLock::new(),
            max_searching: PrivateU32::new(1),
        })
    }

    /// The memory file, to be inherited by the prototype.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// The layout it was created with.
    pub fn layout(&self) -> Layout {
        self.shared.geometry.layout
    }

    /// Sets how many woken workers may look for work at once before they wake each other; 1 unless set.
    pub fn set_max_searching(&self, count: u32) {
        self.max_searching.store(count, Ordering::Relaxed);
        if let Some(header) = self.shared.header() {
            header.max_searching.store(count, Ordering::Relaxed);
        }
    }

    /// Sets the event of a router thread, rung when a worker's death completes its slots. Only the first call has an effect.
    pub fn set_event(&self, thread: u32, event: OwnedFd) {
        if let Some(place) = self.events.get(thread as usize) {
            let _ = place.set(event);
        }
    }

    /// Sets the events of the workers, one for each of the layout's, for event loops. Only the first call has an effect.
    pub fn set_worker_events(&self, events: Vec<OwnedFd>) {
        let _ = self.worker_events.set(events);
    }

    /// The events of the workers, if there are any.
    pub fn worker_events(&self) -> &[OwnedFd] {
        self.worker_events.get().map_or(&[], Vec::as_slice)
    }

    /// Calls `f` for each slot of this thread in which something happened, and perhaps for others.
    pub fn drain_completions(&self, thread: u32, mut f: impl FnMut(SlotId)) {
        let Some(completions) = self.shared.completions(thread) else {
            return;
        };
        completions.drain(|slot| {
            if self.is_owned_by(slot, thread) {
                self.shared.prefetch_response(slot);
                f(SlotId(slot));
            }
        });
    }

    /// Announces that this thread is about to sleep: workers ring its event from now on. False when completions are pending: do not sleep,
    /// drain.
    #[must_use]
    pub fn set_sleeping(&self, thread: u32) -> bool {
        self.shared
            .completions(thread)
            .is_some_and(|completions| completions.set_sleeping())
    }

    /// Announces that this thread is awake and will drain before it sleeps: its event need not be rung.
    pub fn clear_sleeping(&self, thread: u32) {
        if let Some(completions) = self.shared.completions(thread)
            && completions.flag.load(Ordering::Relaxed) != 0
        {
            completions.flag.store(0, Ordering::Relaxed);
        }
    }

    /// Records that a worker process exists.
    pub fn worker_started(&self, worker: u32, pid: u32) {
        if let Some(place) = self.pids.get(worker as usize) {
            place.store(pid, Ordering::Relaxed);
        }
        if let Some(entry) = self.shared.worker(worker) {
            entry.control.pid.store(pid, Ordering::Relaxed);
        }
    }

    /// Asks a worker to end after its current requests; it takes no further one.
    pub fn ask_worker_to_quit(&self, worker: u32) {
        let Some(entry) = self.shared.worker(worker) else {
            return;
        };
        entry.control.quit.store(1, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        // A full event loop sleeps without an idle bit.
        let was_idle = self.shared.idle().clear_idle(worker);
        if was_idle || entry.wake.0.word().load(Ordering::Relaxed) >= ASLEEP {
            notify(&entry.wake.0, || self.ring(worker));
        }
    }

    /// Sets after how many requests, counted from its start, a worker ends; `None`: never. It may be set before the worker is forked, and
    /// changed while it runs.
    pub fn set_request_limit(&self, worker: u32, limit: Option<NonZeroU64>) {
        if let Some(entry) = self.shared.worker(worker) {
            let limit = limit.map_or(0, NonZeroU64::get);
            entry.control.request_limit.store(limit, Ordering::Relaxed);
        }
    }

    /// Sets whether a worker uses the scheduler's batch class, from its next request on.
    pub fn set_batch(&self, worker: u32, is_batch: bool) {
        if let Some(entry) = self.shared.worker(worker) {
            let word = u32::from(is_batch);
            entry.control.is_batch.store(word, Ordering::Relaxed);
        }
    }

    /// Workers that sleep, waiting for work.
    pub fn idle_count(&self) -> u32 {
        self.shared
            .idle()
            .idle()
            .min(self.shared.geometry.layout.workers)
    }

    /// Workers that have been woken, or spin, and have not taken a request yet.
    pub fn searching_count(&self) -> u32 {
        self.shared
            .idle()
            .searching()
            .min(self.shared.geometry.layout.workers)
    }

    /// The state of a worker.
    pub fn worker_snapshot(&self, worker: u32) -> WorkerSnapshot {
        let pid = self
            .pids
            .get(worker as usize)
            .map_or(0, |pid| pid.load(Ordering::Relaxed));
        let Some(entry) = self.shared.worker(worker) else {
            return WorkerSnapshot {
                pid,
                readiness: Readiness::Absent,
                idle: false,
                quitting: false,
                current: None,
                requests: 0,
                since_ms: 0,
                is_loop: false,
                open: 0,
                looks: 0,
                asleep: false,
            };
        };
        let current = entry.report.current.load(Ordering::Relaxed);
        WorkerSnapshot {
            pid,
            readiness: Readiness::of(entry.report.ready.load(Ordering::Acquire)),
            idle: self.shared.idle().is_idle(worker),
            quitting: entry.control.quit.load(Ordering::Relaxed) != 0,
            current: current
                .checked_sub(1)
                .filter(|&slot| slot < self.shared.geometry.layout.slots)
                .map(SlotId),
            requests: entry.report.requests.load(Ordering::Relaxed),
            since_ms: entry.report.since_ms.load(Ordering::Relaxed),
            is_loop: entry.report.wake_mode.load(Ordering::Relaxed) == MODE_LOOP,
            open: entry.report.open.load(Ordering::Relaxed),
            looks: entry.report.looks.load(Ordering::Relaxed),
            asleep: entry.wake.0.word().load(Ordering::Relaxed) >= ASLEEP,
        }
    }

    fn is_owned_by(&self, slot: u32, thread: u32) -> bool {
        self.slots
            .get(slot)
            .is_some_and(|private| private.owner.load(Ordering::Relaxed) == thread)
    }

    fn state_word(&self, slot: u32) -> Option<&AtomicU64> {
        self.shared.state(slot)
    }

    fn wake(&self) -> Wake {
        self.wake_one(self.max_searching.load(Ordering::Relaxed))
    }

    /// Wakes a worker for work that has been published, unless this many are searching already.
    fn wake_one(&self, max_searching: u32) -> Wake {
        self.shared
            .wake_one(max_searching, |worker| self.ring(worker))
    }

    /// Writes a worker's event.
    fn ring(&self, worker: u32) {
        if let Some(event) = self.worker_events().get(worker as usize) {
            // A full counter is readable, as intended.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// Marks a slot for its thread and rings the thread's event if it sleeps.
    fn complete_for_owner(&self, slot: u32) {
        let Some(private) = self.slots.get(slot) else {
            return;
        };
        let thread = private.owner.load(Ordering::Relaxed);
        let Some(completions) = self.shared.completions(thread) else {
            return;
        };
        if completions.complete(slot)
            && let Some(event) = self.events.get(thread as usize).and_then(OnceLock::get)
        {
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
    }

    /// The segment's bytes, for tests with a hostile worker.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }
}

/// Locks a mutex; a panic elsewhere cannot leave its content half changed (each section is a few plain stores).
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
