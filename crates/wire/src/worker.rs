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
use crate::idle::{Slept, sleep};
use crate::layout::{Layout, WorkerEntry};
use crate::shared::Shared;
use crate::sync::{Ordering, fence};
use crate::{interrupt, now_ms};

/// Most rounds of a spin before sleep, each a look at the queue and a pause: about the cost of a sleep and wake-up across
/// cores (34 µs on a two-core virtual machine, docs/decisions/0001-bitmaps-not-rings.md), beyond which spinning cannot pay.
const MAX_SPIN: u32 = 1024;
/// A sleep shorter than this would have been worth spinning for.
const SHORT_SLEEP: Duration = Duration::from_micros(50);

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
            is_searching: false,
            spin: 0,
            max_spin: if several_cores { MAX_SPIN } else { 0 },
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

    fn has_work(&self) -> bool {
        self.shared.queue().is_some_and(|queue| queue.has_work())
    }

    fn must_stop(&self) -> bool {
        interrupt::is_stopping()
            || self
                .entry()
                .is_none_or(|entry| entry.control.quit.load(Ordering::Relaxed) != 0)
    }
}

/// One worker process of an application.
#[derive(Debug)]
pub struct Worker {
    core: Rc<Core>,
    /// Our searching bit may be set.
    is_searching: bool,
    /// Rounds of the next spin; grows while sleeps turn out short, shrinks while they turn out long.
    spin: u32,
    max_spin: u32,
    catches_signals: bool,
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

    /// Limits the spin before sleep to so many rounds; 0 for none.
    pub fn set_max_spin(&mut self, rounds: u32) {
        self.max_spin = rounds;
        self.spin = self.spin.min(rounds);
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

    /// Whether the worker has been told to leave, by the router or by a signal.
    pub fn must_stop(&self) -> bool {
        self.core.must_stop()
    }

    /// Waits for a request. `None`: leave; the process should exit. No request is ever claimed and then dropped.
    ///
    /// The request counts as begun when this returns it.
    pub fn next_request(&mut self) -> Option<Exchange> {
        loop {
            if self.core.must_stop() {
                self.retire();
                return None;
            }
            if let Some((slot, ticket)) = self.claim() {
                if let Some(exchange) = Exchange::begin(Rc::clone(&self.core), slot, ticket) {
                    return Some(exchange);
                }
                continue;
            }
            if !self.spin() {
                self.sleep();
            }
        }
    }

    fn claim(&mut self) -> Option<(u32, u64)> {
        let shared = &self.core.shared;
        let queue = shared.queue()?;
        let claimed = queue.claim(self.core.id as u16, |slot| shared.state(slot))?;
        if let Some(entry) = self.core.entry() {
            let report = &entry.report;
            report.current.store(claimed.0 + 1, Ordering::Relaxed);
            let requests = report.requests.load(Ordering::Relaxed);
            report
                .requests
                .store(requests.wrapping_add(1), Ordering::Relaxed);
            report.since_ms.store(now_ms(), Ordering::Relaxed);
        }
        if self.is_searching {
            self.stop_searching();
        }
        Some(claimed)
    }

    /// We are not looking for work any more; if there is some, somebody else must.
    fn stop_searching(&mut self) {
        self.is_searching = false;
        let shared = &self.core.shared;
        shared.idle().clear_searching(self.core.id);
        fence(Ordering::SeqCst);
        if self.core.has_work() {
            shared.wake_one(shared.max_searching());
        }
    }

    /// Looks at the queue for a while before sleeping; true when there is something to do.
    fn spin(&mut self) -> bool {
        if self.spin == 0 {
            return false;
        }
        let shared = &self.core.shared;
        if !self.is_searching {
            if shared.idle().searching() >= shared.max_searching() {
                return false;
            }
            shared.idle().set_searching(self.core.id);
            self.is_searching = true;
            fence(Ordering::SeqCst);
        }
        for _ in 0..self.spin {
            if self.core.has_work() || self.core.must_stop() {
                return true;
            }
            std::hint::spin_loop();
        }
        false
    }

    fn sleep(&mut self) {
        let shared = &self.core.shared;
        let Some(entry) = self.core.entry() else {
            return;
        };
        if self.is_searching {
            self.is_searching = false;
            // What was published before this is seen by the look at the queue inside `sleep`.
            shared.idle().clear_searching(self.core.id);
        }
        entry.report.since_ms.store(now_ms(), Ordering::Relaxed);
        let from = Instant::now();
        let slept = sleep(
            &shared.idle(),
            self.core.id,
            &entry.wake.0,
            || self.core.has_work(),
            || self.core.must_stop(),
        );
        if slept == Slept::Notified {
            self.is_searching = true;
            self.spin = if from.elapsed() < SHORT_SLEEP {
                (self.spin * 2).max(16).min(self.max_spin)
            } else {
                self.spin / 2
            };
        }
    }

    /// Takes no further request; what wake-up may have been meant for us is passed on. The process should exit.
    pub fn retire(&mut self) {
        let shared = Rc::clone(&self.core.shared);
        shared.idle().clear_idle(self.core.id);
        if let Some(entry) = self.core.entry() {
            entry.report.ready.store(0, Ordering::Relaxed);
        }
        self.stop_searching();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if self.catches_signals {
            interrupt::release();
        }
    }
}
