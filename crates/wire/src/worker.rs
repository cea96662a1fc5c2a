//! The worker's side of a segment.
//!
//! Owns the calling process's place in the worker table. [`Worker::next_request`] blocks until there is a request; the
//! [`Exchange`] it gives reads the request in place and writes the response into the slot's ring. Called by the `worker`
//! crate and, through the C ABI, by other languages. Single-threaded: a worker process has one of these.

mod exchange;

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

pub use self::exchange::{ClientGone, Exchange};
use crate::idle::Idle;
use crate::layout::{Layout, WorkerEntry};
use crate::pull::{Field, Puller};
use crate::queue::Queue;
use crate::shared::Shared;
use crate::sync::{AtomicU64, Futex, Ordering};
use crate::{interrupt, now_ms};

/// Most rounds of a spin before sleep, each a look at the queue and a pause: about the cost of a sleep and wake-up across
/// cores (34 µs on a two-core virtual machine, docs/decisions/0001-bitmaps-not-rings.md), beyond which spinning cannot pay.
const MAX_SPIN: u32 = 1024;

/// A segment mapped by a prototype, before it forks workers.
#[derive(Debug)]
pub struct Attached {
    shared: Rc<Shared>,
}

impl Attached {
    /// Maps the segment. Errors: `InvalidData` when the file is no segment of this version.
    pub fn open(file: BorrowedFd<'_>) -> io::Result<Self> {
        Ok(Self {
            shared: Rc::new(Shared::open(file)?),
        })
    }

    /// The segment's layout.
    pub fn layout(&self) -> Layout {
        self.shared.geometry.layout
    }

    /// Becomes worker `id`, in the worker's own process. `events` are the router threads' events in order; `spool` is the
    /// application's spool file.
    pub fn into_worker(
        self,
        id: u32,
        events: Vec<OwnedFd>,
        spool: Option<OwnedFd>,
    ) -> io::Result<Worker> {
        let invalid = |what: String| io::Error::new(io::ErrorKind::InvalidInput, what);
        let layout = self.layout();
        if id >= layout.workers || id > u32::from(u16::MAX) {
            return Err(invalid(format!(
                "worker {id} does not exist: the segment has {}",
                layout.workers
            )));
        }
        if events.len() != layout.threads as usize {
            return Err(invalid(format!(
                "segment has {} router threads, {} events were given",
                layout.threads,
                events.len()
            )));
        }
        let several_cores = std::thread::available_parallelism().is_ok_and(|n| n.get() > 1);
        Ok(Worker {
            core: Rc::new(Core {
                shared: self.shared,
                id,
                events,
                spool,
            }),
            puller: Puller::new(id, if several_cores { MAX_SPIN } else { 0 }),
            pace: Pace::default(),
            catches_signals: false,
        })
    }
}

/// What a worker and its exchanges share.
#[derive(Debug)]
struct Core {
    shared: Rc<Shared>,
    id: u32,
    events: Vec<OwnedFd>,
    spool: Option<OwnedFd>,
}

impl Core {
    fn entry(&self) -> Option<&WorkerEntry> {
        self.shared.worker(self.id)
    }

    /// Tells the router thread that owns the slot that something happened in it.
    fn complete(&self, slot: u32, thread: u32) {
        let Some(completions) = self.shared.completions(thread) else {
            return;
        };
        if completions.complete(slot)
            && let Some(event) = self.events.get(thread as usize)
        {
            let _ = rustix::io::write(event.as_fd(), &1u64.to_ne_bytes());
        }
    }
}

impl Field for Core {
    fn queue(&self) -> Option<Queue<'_>> {
        self.shared.queue()
    }

    fn idle(&self) -> Idle<'_> {
        self.shared.idle()
    }

    fn wake_word(&self, worker: u32) -> Option<&Futex> {
        self.shared.wake_word(worker)
    }

    fn state(&self, slot: u32) -> Option<&AtomicU64> {
        // About to be claimed: the swap of the state takes long enough for the request to arrive meanwhile.
        self.shared.prefetch_request(slot);
        self.shared.state(slot)
    }

    fn max_searching(&self) -> u32 {
        self.shared.max_searching()
    }

    fn must_stop(&self) -> bool {
        interrupt::is_stopping()
            || self.entry().is_none_or(|entry| {
                let limit = entry.control.request_limit.load(Ordering::Relaxed);
                entry.control.quit.load(Ordering::Relaxed) != 0
                    || (limit != 0 && entry.report.requests.load(Ordering::Relaxed) >= limit)
            })
    }
}

/// One worker process of an application.
#[derive(Debug)]
pub struct Worker {
    core: Rc<Core>,
    puller: Puller,
    pace: Pace,
    catches_signals: bool,
}

/// How long this worker's requests take, from samples: a look at the clock costs as much as all the rest of a claim.
#[derive(Debug, Default)]
struct Pace {
    claims: u32,
    started: Option<Instant>,
    /// Average, weighted towards the latest.
    average: Option<Duration>,
}

impl Pace {
    /// One claim in so many is timed.
    const SAMPLED: u32 = 8;
    /// A single long one, such as a time slice lost to another process, must not make all look long.
    const LONGEST: Duration = Duration::from_millis(4);
    /// Up to here a further worker on the same cores cannot help: it would run instead of, not beside, those awake.
    const SHORT: Duration = Duration::from_millis(1);

    /// A request has been claimed.
    fn start(&mut self) {
        if self.claims.is_multiple_of(Self::SAMPLED) {
            self.started = Some(Instant::now());
        }
        self.claims = self.claims.wrapping_add(1);
    }

    /// The worker is back for more; whether its requests are short, if that was measured now.
    fn finish(&mut self) -> Option<bool> {
        let took = self.started.take()?.elapsed().min(Self::LONGEST);
        let average = self
            .average
            .map_or(took, |average| (average * 3 + took) / 4);
        self.average = Some(average);
        Some(average < Self::SHORT)
    }
}

impl Worker {
    /// Makes `signals` end the process gracefully: `next_request` gives `None` once the current request is done.
    pub fn catch_signals(&mut self, signals: &[i32]) -> io::Result<()> {
        self.catches_signals = true;
        match self.core.entry() {
            Some(entry) => interrupt::catch(&entry.wake.0, signals),
            None => Ok(()),
        }
    }

    /// Bounds the spin before sleep: at least and at most so many rounds, each a look at the queue and a pause. The default
    /// is adaptive between 0 and 1024; `set_spin(0, 0)` never spins.
    pub fn set_spin(&mut self, least: u32, most: u32) {
        self.puller.set_spin(least, most);
    }

    /// This worker's number.
    pub fn id(&self) -> u32 {
        self.core.id
    }

    /// Announces that the worker takes requests from now on.
    pub fn ready(&self) {
        if let Some(entry) = self.core.entry() {
            entry.report.since_ms.store(now_ms(), Ordering::Relaxed);
            entry.report.ready.store(1, Ordering::Release);
        }
    }

    /// Whether the worker has to leave: told by the router or a signal, or it has had all the requests it may have.
    pub fn must_stop(&self) -> bool {
        self.core.must_stop()
    }

    /// Waits for a request. `None`: leave; the process should exit. No request is ever claimed and then dropped.
    ///
    /// The request counts as begun when this returns it.
    pub fn next_request(&mut self) -> Option<Exchange> {
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
                self.mark_absent();
                return None;
            };
            if let Some(report) = report {
                report.current.store(slot + 1, Ordering::Relaxed);
                let requests = report.requests.load(Ordering::Relaxed);
                report
                    .requests
                    .store(requests.wrapping_add(1), Ordering::Relaxed);
                report.since_ms.store(now_ms(), Ordering::Relaxed);
            }
            if let Some(exchange) = Exchange::begin(Rc::clone(core), slot, ticket) {
                self.pace.start();
                return Some(exchange);
            }
        }
    }

    /// Takes no further request; what wake-up may have been meant for us is passed on. The process should exit.
    pub fn retire(&mut self) {
        self.mark_absent();
        self.puller.retire(&*self.core);
    }

    fn mark_absent(&self) {
        if let Some(entry) = self.core.entry() {
            entry.report.ready.store(0, Ordering::Relaxed);
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
