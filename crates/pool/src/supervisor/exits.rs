//! Ends of processes, learnt in two ways: main reports them, or the supervisor notices that a process is missing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::table::ProcessTable;
use crate::launcher::ProcessExit;
use crate::runtime;

/// Main and a prototype use different sockets: the end of a process may be known before its start. Not for long, and its id may be reused
/// afterwards.
const NEWS_DELAY: Duration = Duration::from_secs(1);

/// Minimum interval between checks of the workers without a prototype.
const MISSING_INTERVAL: Duration = Duration::from_millis(150);

/// Ends that main reported.
#[derive(Debug, Default)]
pub(super) struct Exits {
    /// Not yet handled.
    reported: Vec<(i32, ProcessExit)>,
    /// Ends of unknown processes: the message about their start may be on its way.
    unknown: VecDeque<(i32, ProcessExit, Instant)>,
}

impl Exits {
    pub(super) fn report(&mut self, pid: i32, status: ProcessExit) {
        self.reported.push((pid, status));
    }

    /// Takes the ends to be handled.
    pub(super) fn take(&mut self) -> Vec<(i32, ProcessExit)> {
        std::mem::take(&mut self.reported)
    }

    /// Keeps the end of an unknown process for a moment.
    pub(super) fn keep_unknown(&mut self, pid: i32, status: ProcessExit) {
        let now = runtime::now();
        self.unknown.retain(|(_, _, at)| now < *at + NEWS_DELAY);
        self.unknown.push_back((pid, status, now));
    }

    /// Takes the end of a process whose start has just become known, if it was reported a moment ago.
    pub(super) fn take_unknown(&mut self, pid: i32) -> Option<ProcessExit> {
        let position = self
            .unknown
            .iter()
            .position(|(unknown, ..)| *unknown == pid)?;
        let (_, status, at) = self.unknown.remove(position)?;
        (runtime::now().saturating_duration_since(at) < NEWS_DELAY).then_some(status)
    }
}

/// Finds workers whose end is not reported: the prototype had taken their exit status and died before it could report it.
#[derive(Debug, Default)]
pub(super) struct MissingWorkers {
    last: Option<Instant>,
    /// Workers (prototype, number) that were missing in the last round.
    missing: Vec<(u64, u32)>,
}

/// The result of a check.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Every worker has a prototype, which reports its end.
    Unneeded,
    /// These workers (prototype, number) have ended, with unknown status.
    Lost(Vec<(u64, u32)>),
}

impl MissingWorkers {
    /// Checks the workers without a prototype, at most once per [`MISSING_INTERVAL`].
    pub(super) fn look(&mut self, table: &ProcessTable, now: Instant) -> Look {
        let mut orphans = table.orphans().peekable();
        if orphans.peek().is_none() {
            return Look::Unneeded;
        }
        if self.last.is_some_and(|last| now < last + MISSING_INTERVAL) {
            return Look::Lost(Vec::new());
        }
        self.last = Some(now);
        let gone = orphans
            .filter(|worker| worker.pid.is_some_and(|pid| !runtime::exists(pid)))
            .map(|worker| (worker.prototype, worker.number));
        // Main may have just reaped it: its report, with the status, has until the next round to arrive.
        let (lost, missing): (Vec<_>, Vec<_>) =
            gone.partition(|worker| self.missing.contains(worker));
        self.missing = missing;
        Look::Lost(lost)
    }
}
