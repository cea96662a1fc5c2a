//! An application as the listen threads use it: it accepts requests.
//!
//! Owned by configuration snapshots (through `Arc`) and by its supervisor. It survives restarts and deaths of its processes; only a change
//! of its configuration makes another one. What must never happen: a request that is accepted and then neither answered nor refused.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use tutti_metrics::Histogram;
use tutti_spool::{Region, Spool};
use tutti_wire::layout::MAX_SLOTS;
use tutti_wire::request::{BodyRef, WireRequestHead, encode};
use tutti_wire::{SlotId, Wake};

use crate::counters::End;
use crate::error::SubmitError;
use crate::exchange::ApplicationExchange;
use crate::failure::StartFailure;
use crate::generation::{Admission, Deadlines, Generation, Regions};
use crate::runtime;
use crate::shared::{Admit, Shared};
use crate::spec::{Abandoned, AppSpec};
use crate::threads;
use crate::waiting::Source;

/// The body of a request for an application.
#[derive(Debug)]
pub enum OutgoingBody<'a> {
    /// None.
    None,
    /// In the caller's memory; copied into the slot if it is small enough, otherwise written to the spool.
    Inline(&'a [u8]),
    /// Written to [`ApplicationPool::spool`] before. The region is freed when the worker has finished.
    Spooled(Region),
    /// Written with [`ApplicationExchange::write_body`] while the worker reads.
    Stream {
        /// Its length, if known.
        len: Option<u64>,
    },
}

/// When and on which thread a request was submitted.
struct Handed {
    thread: u32,
    /// [`tutti_wire::now_us`].
    handed_us: u64,
    /// When it was complete; see [`ApplicationPool::take`].
    arrived: Instant,
    deadlines: Deadlines,
}

/// A slot that was taken for a request. It is freed when this is dropped before the request has been submitted.
#[must_use]
pub struct TakenSlot<'a> {
    application: &'a ApplicationPool,
    /// `None`: submitted.
    place: Option<(Arc<Generation>, SlotId)>,
    handed: Handed,
    is_relayed: bool,
}

impl TakenSlot<'_> {
    /// True if the request is relayed to a program that speaks HTTP.
    pub fn is_relayed(&self) -> bool {
        self.is_relayed
    }

    /// Submits the request to the workers.
    ///
    /// # Errors
    /// It does not fit, or cannot be stored; no worker will see it.
    pub fn submit(
        mut self,
        head: &WireRequestHead<'_>,
        body: OutgoingBody<'_>,
    ) -> Result<ApplicationExchange, SubmitError> {
        let Some((generation, slot)) = self.place.take() else {
            return Err(SubmitError::Stopped);
        };
        let application = self.application;
        application.place(generation, slot, &self.handed, head, body)
    }
}

impl Drop for TakenSlot<'_> {
    fn drop(&mut self) {
        if let Some((generation, slot)) = self.place.take() {
            self.application.give_back(&generation, slot);
        }
    }
}

/// The end of a time limit that begins at `start`; `None`: there is no limit.
fn after(start: Instant, limit: Option<Duration>) -> Option<Instant> {
    start.checked_add(limit?)
}

/// Waits for a slot, or for the reason why there will be none.
struct Turn<'a> {
    application: &'a ApplicationPool,
    thread: u32,
}

impl Source for Turn<'_> {
    type Item = Result<(Arc<Generation>, SlotId), SubmitError>;

    fn take(&mut self) -> Option<Self::Item> {
        match self.application.check_admission() {
            Ok(()) => self.application.take_slot(self.thread).map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    fn has_more(&self) -> bool {
        self.application.shared.admission() != Admit::Open
            || self.application.generation.load().segment.has_free()
    }
}

/// The state of one application for `/status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AppStatus {
    /// Running workers, without those that are draining or stopped by a signal.
    pub running: u32,
    /// Workers being started.
    pub starting: u32,
    /// Workers and prototypes stopped by a signal.
    pub stopped: u32,
    /// True once a worker has been ready for requests.
    pub started: bool,
    /// Idle workers.
    pub idle: u32,
    /// Requests in progress.
    pub active: u32,
    /// Requests that no worker has begun.
    pub queued: u32,
    /// Workers and prototypes replaced after they had died.
    pub restarts: u64,
    /// Requests since the application was configured.
    pub requests: u64,
    /// Failed starts of a process.
    pub failures: u64,
    /// Why the last start failed, if it did.
    pub last_failure: Option<Arc<StartFailure>>,
}

/// A request in progress.
#[derive(Clone, Debug, PartialEq)]
pub struct OldRequest {
    /// Its method and target, perhaps cut.
    pub line: String,
    /// The time since it was complete: its head, and its body unless that is streamed.
    pub age: Duration,
    /// The process that serves it; `None`: none has begun it.
    pub process: Option<i32>,
}

/// The state of one application for the metrics, including former applications with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct AppMeasures {
    /// The state for `/status`.
    pub status: AppStatus,
    /// Workers and prototypes replaced after they had died.
    pub restarts: u64,
    /// Failed starts of a process.
    pub failures: u64,
    /// Ended processes, by reason.
    pub ends: Vec<(End, u64)>,
    /// The times that requests waited before a process began them.
    pub waits: Histogram,
    /// The running processes.
    pub pids: Vec<i32>,
    /// Its processes start the actual application as a child process.
    pub starts_programs: bool,
    /// The oldest requests in progress, the oldest first.
    pub oldest: Vec<OldRequest>,
}

impl AppMeasures {
    /// Memory of its processes, in bytes. A process that has just ended counts as 0.
    pub fn memory(&self) -> u64 {
        let memory = match self.starts_programs {
            true => tutti_sys::proc::rss_of_family,
            false => tutti_sys::proc::rss,
        };
        let used = self.pids.iter().filter_map(|pid| memory(*pid).ok());
        used.sum()
    }
}

/// An application of the configuration.
pub struct ApplicationPool {
    pub(crate) shared: Arc<Shared>,
    pub(crate) generation: ArcSwap<Generation>,
    spool: Spool,
}

impl std::fmt::Debug for ApplicationPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Application")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl ApplicationPool {
    pub(crate) fn new(shared: Arc<Shared>, generation: Arc<Generation>, spool: Spool) -> Arc<Self> {
        Arc::new(ApplicationPool {
            shared,
            generation: ArcSwap::new(generation),
            spool,
        })
    }

    /// Its name in the configuration.
    pub fn name(&self) -> &Arc<str> {
        &self.shared.name
    }

    /// Its specification, including later changes.
    pub fn spec(&self) -> Arc<AppSpec> {
        self.shared.spec.load_full()
    }

    /// True if a request is handed over with [`OutgoingBody::Stream`], before its body has been read.
    pub fn streams_requests(&self) -> bool {
        !self.shared.spec.load().common.request_buffering
    }

    /// The handling of a request whose client disconnects while it waits; `None`: depends on the method.
    pub fn abandoned(&self) -> Option<Abandoned> {
        self.shared.spec.load().common.limits.queue.abandoned
    }

    /// True if each worker starts the actual application as a child process.
    pub fn starts_programs(&self) -> bool {
        self.shared.starts_programs()
    }

    /// The store for bodies too large for a slot, written before [`submit`](Self::submit).
    pub fn spool(&self) -> &Spool {
        &self.spool
    }

    /// Submits a request to the workers: [`take`](Self::take) and [`TakenSlot::submit`] in one call.
    ///
    /// # Errors
    /// See [`SubmitError`]; the request has not been, and will not be, seen by a worker.
    pub async fn submit(
        &self,
        head: &WireRequestHead<'_>,
        body: OutgoingBody<'_>,
        arrived: Instant,
    ) -> Result<ApplicationExchange, SubmitError> {
        self.take(arrived).await?.submit(head, body)
    }

    /// Takes a slot for a request; call it on a listen thread.
    ///
    /// `arrived` is when its head was complete, and its body unless that is streamed: deadlines count from then. Normally this does not wait; when all slots are in use it waits
    /// in order of arrival. The request itself is not needed until there is a slot, so that a caller that waits need not keep what it is
    /// made of.
    ///
    /// # Errors
    /// See [`SubmitError`].
    pub async fn take(&self, arrived: Instant) -> Result<TakenSlot<'_>, SubmitError> {
        let Some(thread) = threads::current() else {
            debug_assert!(false, "submit on a thread that has not entered the pool");
            return Err(SubmitError::Stopped);
        };
        let handed_us = tutti_wire::now_us();
        self.check_admission()?;
        let (deadlines, queue_length, is_relayed) = {
            let spec = self.shared.spec.load();
            let limits = &spec.common.limits;
            let deadlines = Deadlines {
                end_by: after(arrived, limits.timeout.0),
                begin_by: after(arrived, limits.queue.wait.0),
            };
            (deadlines, limits.queue.length, spec.special.is_relayed())
        };
        self.check_queue(queue_length)?;
        let free = match self.shared.waiting.len() {
            0 => self.take_slot(thread),
            _ => None,
        };
        let place = match free {
            Some(place) => place,
            None => {
                self.wait_for_slot((thread, arrived), queue_length, deadlines)
                    .await?
            }
        };
        let taken = TakenSlot {
            application: self,
            place: Some(place),
            handed: Handed {
                thread,
                handed_us,
                arrived,
                deadlines,
            },
            is_relayed,
        };
        // A worker that began it would count as late at once, and be replaced. The slot is freed.
        let end_by = deadlines.end_by;
        match end_by.is_some_and(|deadline| deadline <= runtime::now()) {
            true => Err(SubmitError::Timeout),
            false => Ok(taken),
        }
    }

    /// The state for `/status`, as of now.
    pub fn status(&self) -> AppStatus {
        let generation = self.generation.load();
        let gauge = generation.gauge();
        let waiting = self.shared.waiting.len();
        let counters = &self.shared.counters;
        let running = counters.running.load(Ordering::Acquire);
        AppStatus {
            running,
            starting: counters.starting.load(Ordering::Acquire),
            stopped: counters.stopped.load(Ordering::Acquire),
            started: counters.started.load(Ordering::Relaxed),
            idle: running.saturating_sub(gauge.busy),
            active: gauge.active + waiting,
            queued: gauge.queued + waiting,
            restarts: counters.restarts.load(Ordering::Relaxed),
            requests: counters.requests.load(Ordering::Relaxed),
            failures: counters.failures.load(Ordering::Relaxed),
            last_failure: self.shared.failure(),
        }
    }

    /// The state for the metrics, as of now.
    pub fn measures(&self) -> AppMeasures {
        let tally = &self.shared.tally;
        AppMeasures {
            status: self.status(),
            restarts: tally.restarts.load(Ordering::Relaxed),
            failures: tally.failures.load(Ordering::Relaxed),
            ends: tally.ends().into(),
            waits: tally.waits(),
            pids: self.shared.pids(),
            starts_programs: self.starts_programs(),
            oldest: self.oldest(),
        }
    }

    fn oldest(&self) -> Vec<OldRequest> {
        let oldest = self.generation.load().oldest();
        let processes = self.shared.processes();
        let pid_of = |worker: u32| {
            let mut processes = processes.iter();
            let process = processes.find(|process| process.numbers.contains(&worker));
            process.map(|process| process.pid)
        };
        let describe = |(arrived, line, worker): (Instant, String, Option<u32>)| OldRequest {
            line,
            age: runtime::now().saturating_duration_since(arrived),
            process: worker.and_then(pid_of),
        };
        oldest.into_iter().map(describe).collect()
    }

    /// The number of free slots, and of requests that wait for one: while some wait, the free ones are about to be taken.
    #[doc(hidden)]
    pub fn free_and_waiting(&self) -> (u32, u32) {
        let segment = &self.generation.load().segment;
        let free = segment.layout().slots - segment.slots_in_use();
        (free, self.shared.waiting.len())
    }

    /// The number of slots, free or not.
    #[cfg(simulated)]
    pub fn slots(&self) -> u32 {
        self.generation.load().segment.layout().slots
    }

    fn check_admission(&self) -> Result<(), SubmitError> {
        match self.shared.admission() {
            Admit::Open => Ok(()),
            Admit::Failing => Err(SubmitError::StartFailed(self.shared.failure_text())),
            Admit::Stopped => Err(SubmitError::Stopped),
        }
    }

    fn take_slot(&self, thread: u32) -> Option<(Arc<Generation>, SlotId)> {
        let generation = self.generation.load();
        let slot = generation.segment.allocate(thread)?;
        Some((Arc::clone(&generation), slot))
    }

    async fn wait_for_slot(
        &self,
        (thread, arrived): (u32, Instant),
        queue_length: u32,
        deadlines: Deadlines,
    ) -> Result<(Arc<Generation>, SlotId), SubmitError> {
        let waiting = &self.shared.waiting;
        if waiting.len() >= queue_length {
            return Err(self.queue_full());
        }
        let turn = waiting.wait(
            arrived,
            Turn {
                application: self,
                thread,
            },
        );
        let patience = [deadlines.end_by, deadlines.begin_by];
        match patience.into_iter().flatten().min() {
            Some(deadline) => runtime::timeout_at(deadline.into(), turn)
                .await
                .unwrap_or(Err(SubmitError::Timeout)),
            None => turn.await,
        }
    }

    /// Refuses the request if the queue is full. Requests that hold a slot count as well, where fewer may wait than there may be slots.
    fn check_queue(&self, length: u32) -> Result<(), SubmitError> {
        if length >= MAX_SLOTS {
            return Ok(());
        }
        let generation = self.generation.load();
        let waiting = generation.segment.queue_len_estimate() + self.shared.waiting.len();
        if waiting < length {
            return Ok(());
        }
        // Requests that an idle worker will take at once do not count as waiting.
        let segment = &generation.segment;
        if waiting < length + segment.idle_count() + segment.searching_count() {
            return Ok(());
        }
        Err(self.queue_full())
    }

    fn queue_full(&self) -> SubmitError {
        SubmitError::QueueFull {
            retry_after: self.retry_after(),
        }
    }

    /// Estimates when there will be room, from how long the request at the head of the queue has waited.
    fn retry_after(&self) -> Duration {
        let waited = self
            .shared
            .waiting
            .oldest()
            .map_or(Duration::ZERO, |since| {
                runtime::now().saturating_duration_since(since)
            });
        Duration::from_secs(waited.as_secs().clamp(1, 60))
    }

    /// Frees a slot that has no request.
    fn give_back(&self, generation: &Generation, slot: SlotId) {
        generation.segment.free(slot);
        self.shared.waiting.wake_one();
    }

    fn place(
        &self,
        generation: Arc<Generation>,
        slot: SlotId,
        handed: &Handed,
        head: &WireRequestHead<'_>,
        body: OutgoingBody<'_>,
    ) -> Result<ApplicationExchange, SubmitError> {
        let &Handed {
            thread,
            handed_us,
            arrived,
            deadlines,
        } = handed;
        debug_assert_eq!(threads::current(), Some(thread));
        let regions = match self.write(&generation, slot, head, body) {
            Ok(regions) => regions,
            Err(error) => {
                self.give_back(&generation, slot);
                return Err(error);
            }
        };
        self.shared
            .counters
            .requests
            .fetch_add(1, Ordering::Relaxed);
        generation.admit(
            slot,
            Admission {
                thread,
                arrived,
                method: head.method,
                target: head.target,
                regions,
            },
        );
        threads::wait_for(thread, &generation);
        if generation.segment.submit(slot) == Wake::NoneIdle {
            self.shared.signal.press();
        }
        generation.set_deadlines(slot, deadlines);
        self.shared.signal.arm();
        Ok(ApplicationExchange::new(
            generation,
            slot,
            (thread, handed_us),
        ))
    }

    /// Writes the request into its slot, or what does not fit to the spool.
    fn write(
        &self,
        generation: &Generation,
        slot: SlotId,
        head: &WireRequestHead<'_>,
        body: OutgoingBody<'_>,
    ) -> Result<Regions, SubmitError> {
        let mut regions = Regions::default();
        let mut inline = None;
        let mut body = match body {
            OutgoingBody::None => BodyRef::None,
            OutgoingBody::Inline(bytes) => {
                inline = Some(bytes);
                BodyRef::Inline(bytes)
            }
            OutgoingBody::Stream { len } => BodyRef::Stream { len },
            OutgoingBody::Spooled(region) => {
                let place = BodyRef::Spool {
                    offset: region.offset(),
                    len: region.len(),
                };
                regions.body = Some(region);
                place
            }
        };
        if generation.segment.write_request(slot, head, &body).is_ok() {
            return Ok(regions);
        }
        if let Some(bytes) = inline {
            let mut region = self.spool.allocate()?;
            region.append(bytes)?;
            body = BodyRef::Spool {
                offset: region.offset(),
                len: region.len(),
            };
            regions.body = Some(region);
            if generation.segment.write_request(slot, head, &body).is_ok() {
                return Ok(regions);
            }
        }
        let record = encode(head, &body).map_err(|_| SubmitError::TooLarge)?;
        let mut region = self.spool.allocate()?;
        region.append(&record)?;
        let length = u32::try_from(region.len()).map_err(|_| SubmitError::TooLarge)?;
        generation
            .segment
            .write_request_spooled(slot, head, region.offset(), length);
        regions.head = Some(region);
        Ok(regions)
    }
}
