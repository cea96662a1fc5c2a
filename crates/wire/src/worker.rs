//! The worker's side of a segment.
//!
//! Owns the calling thread's place in the worker table. [`Worker::next_request`] blocks until there is a request; a worker that has entered
//! a [loop](Worker::enter_loop) checks for requests and news between its turns instead, and sleeps in its own poll. The [`Exchange`] reads
//! the request in place and writes the response into the slot's ring. Called by the `worker` crate and, through the C ABI, by other
//! languages. One worker belongs to one thread; a process may have several.

mod around;
mod class;
mod core;
mod detached;
mod event_loop;
mod exchange;
mod messages;

use std::io;
use std::ops::Range;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use self::class::Class;
use self::core::Core;
pub use self::detached::Detached;
pub use self::exchange::{ClientGone, Exchange};
pub use self::messages::{Incoming, Message};
pub use crate::descriptors::Descriptors;
use crate::forked;
pub use crate::forked::{end_if_forked, is_forked};
use crate::layout::{LEAVING, Layout, READY};
use crate::pull::{Field, Puller};
use crate::shared::Shared;
use crate::sync::{AtomicU32, Ordering};
use crate::{interrupt, now, now_ms};

/// Most rounds of a spin before sleep, each a check of the queue and a pause: about the cost of a sleep and wake-up across cores (34 µs on
/// a two-core virtual machine, docs/project/decisions/0001-bitmaps-not-rings.md), beyond which spinning cannot pay.
const MAX_SPIN: u32 = 1024;

/// A segment mapped by a prototype, before it forks workers.
#[derive(Clone, Debug)]
pub struct Attached {
    shared: Arc<Shared>,
}

/// A worker that no thread has become yet.
#[derive(Debug)]
pub struct UnstartedWorker {
    shared: Arc<Shared>,
    id: u32,
    descriptors: Arc<Descriptors>,
}

impl Attached {
    /// Maps the segment. Errors: `InvalidData` when the file is not a segment, or of a server whose versions do not meet ours.
    pub fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            shared: Arc::new(Shared::open(file)?),
        })
    }

    /// Writes into the words that both sides rely on, as a worker may that runs wild: `place` counts them.
    #[cfg(simulated)]
    pub fn scribble(&self, place: u64, value: u64) {
        let geometry = &self.shared.geometry;
        let before = geometry.slot_offset / 8;
        let of_slot = u64::from(crate::layout::CONTROL_LENGTH) / 8;
        let place = place % (before + u64::from(geometry.layout.slots) * of_slot);
        let offset = match place.checked_sub(before) {
            None => place * 8,
            Some(word) => {
                let slot = word / of_slot * u64::from(crate::layout::SLOT_STRIDE);
                geometry.slot_offset + slot + word % of_slot * 8
            }
        };
        if let Some(raw) = self.shared.raw() {
            let _ = raw.write(offset as usize, &value.to_ne_bytes());
        }
    }

    /// The segment's layout.
    pub fn layout(&self) -> Layout {
        self.shared.geometry.layout
    }

    /// Worker `id`, to be started by a thread of this process.
    ///
    /// Errors: `InvalidInput` for a number that does not exist, or descriptors that are not the segment's.
    pub fn unstarted(
        &self,
        id: u32,
        descriptors: &Arc<Descriptors>,
    ) -> io::Result<UnstartedWorker> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let layout = self.layout();
        if id >= layout.workers || id > u32::from(u16::MAX) {
            return Err(invalid(format!(
                "worker {id} does not exist: the segment has {}",
                layout.workers
            )));
        }
        let events = descriptors.threads.len();
        if events != layout.threads as usize {
            return Err(invalid(format!(
                "segment has {} router threads, {events} events were given",
                layout.threads,
            )));
        }
        let events = descriptors.workers.len();
        if events != 0 && events != layout.workers as usize {
            return Err(invalid(format!(
                "segment has {} workers, {events} events were given",
                layout.workers,
            )));
        }
        forked::watch();
        Ok(UnstartedWorker {
            shared: Arc::clone(&self.shared),
            id,
            descriptors: Arc::clone(descriptors),
        })
    }

    /// Becomes worker `id`, in a process that has just this one. `events` are the router threads' events in order; `spool` is the
    /// application's spool file.
    pub fn into_worker(
        self,
        id: u32,
        events: Vec<OwnedFd>,
        spool: Option<OwnedFd>,
    ) -> io::Result<Worker> {
        let descriptors = Descriptors {
            threads: events,
            workers: Vec::new(),
            spool,
        };
        Ok(self.unstarted(id, &Arc::new(descriptors))?.into_worker())
    }

    /// Makes `signals` end the workers `numbers`, which are this process's, gracefully: they get no more requests, and sleeping ones are
    /// woken. Process-wide; a second call replaces the first.
    pub fn catch_signals(
        &self,
        numbers: Range<u32>,
        descriptors: &Arc<Descriptors>,
        signals: &[i32],
    ) -> io::Result<()> {
        interrupt::catch(
            Arc::clone(&self.shared),
            numbers,
            Arc::clone(descriptors),
            signals,
        )
    }
}

/// Ends all workers of this process gracefully, as a signal does that [`Attached::catch_signals`] caught.
pub fn stop_process() {
    interrupt::stop();
}

impl UnstartedWorker {
    /// The worker's number.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Makes the calling thread the worker.
    pub fn into_worker(self) -> Worker {
        // A simulation runs the same on every machine.
        let several_cores =
            cfg!(simulated) || std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
        Worker {
            puller: Puller::new(self.id, if several_cores { MAX_SPIN } else { 0 }),
            core: Arc::new(Core {
                shared: self.shared,
                id: self.id,
                descriptors: self.descriptors,
                is_loop: AtomicBool::new(false),
                lives_on: AtomicBool::new(false),
                open: AtomicU32::new(0),
            }),
            pace: Pace::default(),
            class: Class::default(),
            concurrency: 1,
            is_leaving: false,
            has_to_end: false,
            catches_signals: false,
        }
    }
}

/// One worker of an application: a thread that serves requests.
#[derive(Debug)]
pub struct Worker {
    core: Arc<Core>,
    puller: Puller,
    pace: Pace,
    class: Class,
    /// Most exchanges at once.
    concurrency: u32,
    /// It takes no further request.
    is_leaving: bool,
    /// It has noticed that it must end. If its limit of requests is raised afterwards, it ends nevertheless: it has left the queue.
    has_to_end: bool,
    catches_signals: bool,
}

/// The time that this worker's requests take, by sampling: reading the clock costs as much as all the rest of a claim.
#[derive(Debug, Default)]
struct Pace {
    claims: u32,
    started: Option<Instant>,
    /// Average, weighted towards the latest.
    average: Option<Duration>,
}

impl Pace {
    /// One claim in this many is timed.
    const SAMPLED: u32 = 8;
    /// A single long one, such as a time slice lost to another process, must not make all seem long.
    const LONGEST: Duration = Duration::from_millis(4);
    /// Up to this duration, a further worker on the same cores cannot help: it would run instead of, not beside, those awake.
    const SHORT: Duration = Duration::from_millis(1);

    /// Called when a request has been claimed.
    fn start(&mut self) {
        if self.claims.is_multiple_of(Self::SAMPLED) {
            self.started = Some(now());
        }
        self.claims = self.claims.wrapping_add(1);
    }

    /// Called when the worker is ready for the next request; returns whether its requests are short, if that was measured now.
    fn finish(&mut self) -> Option<bool> {
        let started = self.started.take()?;
        let took = now().saturating_duration_since(started).min(Self::LONGEST);
        let average = self
            .average
            .map_or(took, |average| (average * 3 + took) / 4);
        self.average = Some(average);
        Some(average < Self::SHORT)
    }
}

impl Worker {
    /// Makes `signals` end the process gracefully: `next_request` returns `None` once the current request is done. For a process with one
    /// worker; see [`Attached::catch_signals`].
    pub fn catch_signals(&mut self, signals: &[i32]) -> io::Result<()> {
        self.catches_signals = true;
        let core = &self.core;
        interrupt::catch(
            Arc::clone(&core.shared),
            core.id..core.id + 1,
            Arc::clone(&core.descriptors),
            signals,
        )
    }

    /// Limits the spin before sleep: the least and most rounds, each a check of the queue and a pause. The default is adaptive between 0
    /// and 1024; `set_spin(0, 0)` never spins.
    pub fn set_spin(&mut self, least: u32, most: u32) {
        self.puller.set_spin(least, most);
    }

    /// This worker's number.
    pub fn id(&self) -> u32 {
        self.core.id
    }

    /// Reports to the router that the worker is ready for requests.
    pub fn ready(&self) {
        if let Some(entry) = self.core.entry() {
            entry.report.since_ms.store(now_ms(), Ordering::Relaxed);
        }
        self.report(READY);
    }

    /// Declares that the process survives when one of this worker's exchanges is dropped unfinished (it has other threads): such an
    /// exchange is aborted then, while otherwise the router finds it when the process has died.
    pub fn set_lives_on(&self) {
        self.core.lives_on.store(true, Ordering::Relaxed);
    }

    /// True if the worker must end: the router or a signal asked for it, or it has reached its limit of requests.
    pub fn must_stop(&self) -> bool {
        self.has_to_end || self.core.must_stop()
    }

    /// Waits for a request. `None`: the process should exit. No request is ever claimed and then dropped. A process that user code has
    /// forked ends here.
    ///
    /// The request counts as begun when this returns it.
    pub fn next_request(&mut self) -> Option<Exchange> {
        end_if_forked(0);
        if let Some(is_short) = self.pace.finish() {
            self.puller.set_short(is_short);
        }
        loop {
            let core = &self.core;
            let report = core.entry().map(|entry| &entry.report);
            let claimed = self.puller.pull(&**core, || {
                if let Some(report) = report {
                    report.since_ms.store(now_ms(), Ordering::Relaxed);
                }
            });
            let Some((slot, ticket)) = claimed else {
                self.report(LEAVING);
                return None;
            };
            if let Some(report) = report {
                report.current.store(slot + 1, Ordering::Relaxed);
            }
            if let Some(exchange) = self.begin(slot, ticket) {
                return Some(exchange);
            }
        }
    }

    /// Takes a claimed slot.
    fn begin(&mut self, slot: u32, ticket: u64) -> Option<Exchange> {
        if let Some(entry) = self.core.entry() {
            let report = &entry.report;
            let requests = report.requests.load(Ordering::Relaxed);
            report
                .requests
                .store(requests.wrapping_add(1), Ordering::Relaxed);
            report.since_ms.store(now_ms(), Ordering::Relaxed);
            let is_batch = entry.control.is_batch.load(Ordering::Relaxed) != 0;
            self.class.follow(is_batch);
        }
        let exchange = Exchange::begin(Arc::clone(&self.core), slot, ticket)?;
        self.pace.start();
        Some(exchange)
    }

    /// Takes no further request; a wake-up that may have been meant for us is passed on. The process should exit.
    pub fn retire(&mut self) {
        self.report(LEAVING);
        self.puller.retire(&*self.core);
    }

    /// Reports to the router whether the worker takes requests.
    fn report(&self, readiness: u32) {
        if let Some(entry) = self.core.entry() {
            entry.report.ready.store(readiness, Ordering::Release);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.catches_signals {
            interrupt::release();
        }
    }
}
