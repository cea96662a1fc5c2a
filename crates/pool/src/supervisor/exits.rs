//! Ends of processes, and the two ways to learn of them: main reaps, and what nobody reports is missed.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::table::ProcessTable;
use crate::launcher::ProcessExit;

/// Main and a prototype speak through different sockets: the end of a process may be known before its start. Not for
/// long, and the number may be another's afterwards.
const NEWS_DELAY: Duration = Duration::from_secs(1);

/// How often workers without a prototype are looked for.
const MISSING_INTERVAL: Duration = Duration::from_millis(150);

/// Ends that main reported.
#[derive(Debug, Default)]
pub(super) struct Exits {
    /// Not yet handled.
    reported: Vec<(i32, ProcessExit)>,
    /// Of processes that nobody here knew: the news of their start may be on its way.
    unknown: VecDeque<(i32, ProcessExit, Instant)>,
}

impl Exits {
    pub(super) fn report(&mut self, pid: i32, status: ProcessExit) {
        self.reported.push((pid, status));
    }

    /// Takes those that are to be handled.
    pub(super) fn take(&mut self) -> Vec<(i32, ProcessExit)> {
        std::mem::take(&mut self.reported)
    }

    /// Keeps an end for a moment whose process nobody knows.
    pub(super) fn keep_unknown(&mut self, pid: i32, status: ProcessExit) {
        let now = Instant::now();
        self.unknown.retain(|(_, _, at)| now < *at + NEWS_DELAY);
        self.unknown.push_back((pid, status, now));
    }

    /// Takes the end of a process whose start has just become known, if it has been reported a moment ago.
    pub(super) fn take_unknown(&mut self, pid: i32) -> Option<ProcessExit> {
        let position = self
            .unknown
            .iter()
            .position(|(unknown, ..)| *unknown == pid)?;
        let (_, status, at) = self.unknown.remove(position)?;
        (at.elapsed() < NEWS_DELAY).then_some(status)
    }
}

/// A look for workers whose end nobody reports: the prototype had taken their exit status and died before it could say so.
#[derive(Debug, Default)]
pub(super) struct MissingWorkers {
    last: Option<Instant>,
    /// Workers (prototype, number) that were not there at the last look.
    missing: Vec<(u64, u32)>,
}

/// The outcome of a look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// Every worker has a prototype, which tells of its end.
    Unneeded,
    /// These workers (prototype, number) have ended, and nobody has said how.
    Lost(Vec<(u64, u32)>),
}

impl MissingWorkers {
    /// Looks for the workers without a prototype, not more often than [`MISSING_INTERVAL`].
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
            .filter(|worker| {
                worker
                    .pid
                    .is_some_and(|pid| !tutti_sys::signal::exists(pid))
            })
            .map(|worker| (worker.prototype, worker.number));
        // Main may have reaped it just now: its news has until the next look, and tells how it ended.
        let (lost, missing): (Vec<_>, Vec<_>) =
            gone.partition(|worker| self.missing.contains(worker));
        self.missing = missing;
        Look::Lost(lost)
    }
}
