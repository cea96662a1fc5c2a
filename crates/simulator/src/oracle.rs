//! The rules that must hold, and the history of each request.
//!
//! A broken rule panics: the run ends there, and its seed is reported.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tutti_pool::{ExchangeError, SubmitError};

use crate::plan::{Act, Plan};

/// `limits.drain_timeout` by default.
const DRAIN: Duration = Duration::from_secs(60);

/// A request as its worker and its client see it.
#[derive(Clone, Debug, Default)]
struct Record {
    /// Workers that have begun it and have not left it to others.
    begun: u32,
    /// The process that has begun it.
    holder: Option<i32>,
    /// The worker has sent its head, or is about to.
    is_published: bool,
    /// The worker has completed it, or is about to.
    is_complete: bool,
    /// The worker is done with it.
    is_done: bool,
    /// It was left to another worker once.
    was_left: bool,
    is_answered: bool,
}

/// The result for a client.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A whole response with a body of this length.
    Response(usize),
    /// An error, or the rest of a response is missing.
    Error(ExchangeError),
    /// The request was not accepted.
    Refused(SubmitError),
    /// The client has gone.
    Gone,
}

/// Numbers of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) responses: u64,
    pub(crate) errors: u64,
    pub(crate) refused: u64,
    pub(crate) gone: u64,
    pub(crate) kills: u64,
    pub(crate) restarts: u64,
    pub(crate) upgrades: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Oracle {
    /// Responses may be wrong: see [`Plan::is_damaged`].
    is_lenient: bool,
    records: Vec<Record>,
    pub(crate) counts: Counts,
    /// Requests that the pool has accepted.
    pub(crate) accepted: u64,
    /// Processes that have ended, or are being killed.
    ended: BTreeSet<i32>,
    /// When the first router began to end.
    pub(crate) first_drain: Option<Instant>,
    /// Workers in the middle of a request.
    pub(crate) serving: BTreeMap<i32, u32>,
    /// The time of the last event that the supervisor learns of late: the end of a process, of a pause of its thread, a jump of the clock.
    pub(crate) last_disturbance: Option<Instant>,
}

impl Oracle {
    pub(crate) fn new(is_lenient: bool) -> Oracle {
        Oracle {
            is_lenient,
            ..Oracle::default()
        }
    }

    fn record(&mut self, id: u64) -> &mut Record {
        let place = id as usize;
        if self.records.len() <= place {
            self.records.resize(place + 1, Record::default());
        }
        &mut self.records[place]
    }

    /// A worker has been given the request.
    pub(crate) fn begins(&mut self, id: u64, process: i32) {
        *self.serving.entry(process).or_default() += 1;
        let is_lenient = self.is_lenient;
        let record = self.record(id);
        record.begun += 1;
        assert!(
            record.begun == 1 || is_lenient,
            "request {id} is delivered a second time, to process {process}; process {:?} had begun it",
            record.holder
        );
        record.holder = Some(process);
    }

    /// The worker is about to send the head.
    pub(crate) fn publishes(&mut self, id: u64) {
        self.record(id).is_published = true;
    }

    /// The worker is about to complete the response.
    pub(crate) fn completes(&mut self, id: u64) {
        let record = self.record(id);
        record.is_published = true;
        record.is_complete = true;
    }

    /// The worker has nothing to do with the request any more.
    pub(crate) fn is_done(&mut self, id: u64, process: i32) {
        self.record(id).is_done = true;
        self.leaves_off(process);
    }

    /// True if the worker may leave the request to others.
    pub(crate) fn may_leave(&mut self, id: u64) -> bool {
        !self.record(id).was_left
    }

    /// The worker has left the request to others.
    pub(crate) fn leaves(&mut self, id: u64, process: i32) {
        let record = self.record(id);
        record.begun = record.begun.saturating_sub(1);
        record.was_left = true;
        self.leaves_off(process);
    }

    fn leaves_off(&mut self, process: i32) {
        if let Some(count) = self.serving.get_mut(&process) {
            *count -= 1;
            if *count == 0 {
                self.serving.remove(&process);
            }
        }
    }

    /// A process has ended, or is being killed.
    pub(crate) fn process_ends(&mut self, process: i32, now: Instant) {
        self.ended.insert(process);
        self.serving.remove(&process);
        self.is_disturbed_at(now);
    }

    /// Until then, something goes on that the supervisor learns of late.
    pub(crate) fn is_disturbed_at(&mut self, at: Instant) {
        self.last_disturbance = self.last_disturbance.max(Some(at));
    }

    /// A client has the head of the response.
    pub(crate) fn sees_head(&mut self, id: u64, status: u16) {
        if self.is_lenient {
            return;
        }
        assert_eq!(status, 200, "request {id}");
        assert!(
            self.record(id).is_published,
            "the head of request {id} was read before its worker had announced it"
        );
    }

    /// A request ends for its client. `sent` is when it arrived at the server.
    pub(crate) fn ends(
        &mut self,
        plan: &Plan,
        id: u64,
        sent: Instant,
        now: Instant,
        outcome: &Outcome,
    ) {
        let request = plan.request(id);
        let waited = now - sent;
        let faults = &plan.faults;
        let may_fail =
            !self.ended.is_empty() || faults.failed_starts > 0 || faults.no_descriptors > 0;
        let ended_is = |process: &i32| self.ended.contains(process);
        let known_end = match outcome {
            Outcome::Error(ExchangeError::WorkerDied { pid, .. }) => ended_is(pid),
            _ => true,
        };
        self.counts.requests += 1;
        match outcome {
            Outcome::Response(_) => self.counts.responses += 1,
            Outcome::Error(_) => self.counts.errors += 1,
            Outcome::Refused(_) => self.counts.refused += 1,
            Outcome::Gone => self.counts.gone += 1,
        }
        let is_lenient = self.is_lenient;
        let is_drained = self.first_drain.is_some_and(|begun| now >= begun + DRAIN);
        let record = self.record(id);
        assert!(!record.is_answered, "request {id} is answered twice");
        record.is_answered = true;
        let is_late = |limit: Option<Duration>| limit.is_some_and(|limit| waited >= limit);
        assert!(
            plan.timeout.is_none_or(|limit| request.age < limit) || record.begun == 0,
            "request {id}, whose time was over before, was given to process {:?}",
            record.holder
        );
        let is_right = match outcome {
            Outcome::Gone => true,
            Outcome::Response(length) => {
                record.is_complete && record.begun == 1 && *length == request.length
            }
            Outcome::Error(error) => match error {
                ExchangeError::WorkerDied { pid, .. } => {
                    known_end
                        && !record.is_done
                        && (record.begun == 0 || record.holder == Some(*pid))
                }
                ExchangeError::Aborted => matches!(request.act, Act::Abort | Act::AbortLate),
                ExchangeError::Timeout { .. } => is_late(plan.timeout),
                ExchangeError::QueueWait => is_late(plan.queue_wait),
                ExchangeError::Drained => is_late(Some(DRAIN)) || is_drained,
                ExchangeError::StartFailed(_) => may_fail,
                ExchangeError::Violation => plan.faults.garbage > 0,
                _ => false,
            },
            Outcome::Refused(error) => match error {
                SubmitError::QueueFull { .. } => plan.queue_length < 1000,
                SubmitError::Timeout => is_late(plan.timeout) || is_late(plan.queue_wait),
                SubmitError::StartFailed(_) => may_fail,
                SubmitError::Spool { .. } => faults.full_disk > 0,
                _ => false,
            },
        };
        let record = record.clone();
        assert!(
            is_right || is_lenient,
            "request {id} ({request:?}) must not end with {outcome:?} after {waited:?}: {record:?}"
        );
    }
}
