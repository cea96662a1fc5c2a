//! Counters of an application's name: a change of its options makes another application, which continues its counters.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tutti_metrics::{Durations, Histogram, PerThread};

/// Why a process of an application has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By itself, or after its maximum number of requests.
    Left,
    /// The server retired it: it was surplus, or was replaced.
    Retired,
    /// It exceeded `limits.memory` or `limits.memory_max`.
    Memory,
    /// It exceeded a time limit for a request or for draining.
    Timeout,
    /// Before it was ready.
    Start,
    /// By itself, with an exit code other than 0.
    Exit,
    /// Killed by SIGKILL from outside: mostly by the kernel, because memory ran out.
    Killed,
    /// Killed by another signal: a crash.
    Signal,
    /// Its exit status is unknown.
    Unknown,
}

impl End {
    /// All reasons.
    pub const ALL: [End; 9] = [
        Self::Left,
        Self::Retired,
        Self::Memory,
        Self::Timeout,
        Self::Start,
        Self::Exit,
        Self::Killed,
        Self::Signal,
        Self::Unknown,
    ];

    /// Its label in the metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Retired => "retired",
            Self::Memory => "memory",
            Self::Timeout => "timeout",
            Self::Start => "start",
            Self::Exit => "exit",
            Self::Killed => "killed",
            Self::Signal => "signal",
            Self::Unknown => "unknown",
        }
    }
}

/// The counters of a name.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Processes that were replaced after they had died.
    pub(crate) restarts: AtomicU64,
    /// Failed starts.
    pub(crate) failures: AtomicU64,
    ends: [AtomicU64; End::ALL.len()],
    /// The times that requests waited for a process, for each listen thread.
    waits: PerThread<Durations>,
}

/// A longer wait in a process's report is an error.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

impl Tally {
    /// For this many listen threads.
    pub(crate) fn new(threads: u32) -> Self {
        Self {
            restarts: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ends: Default::default(),
            waits: PerThread::new(threads as usize),
        }
    }

    /// Records how long a request waited. Call it on that listen thread.
    pub(crate) fn note_wait(&self, thread: u32, wait: Duration) {
        if wait <= LONGEST_WAIT
            && let Some(waits) = self.waits.of(thread)
        {
            waits.add(wait);
        }
    }

    /// Returns the times that requests waited.
    pub(crate) fn waits(&self) -> Histogram {
        Durations::sum(self.waits.all())
    }

    /// Counts the end of a process.
    pub(crate) fn note_end(&self, end: End) {
        if let Some(count) = self.ends.get(end as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Ends by reason.
    pub(crate) fn ends(&self) -> [(End, u64); End::ALL.len()] {
        let count = |end: End| {
            self.ends
                .get(end as usize)
                .map_or(0, |one| one.load(Ordering::Relaxed))
        };
        End::ALL.map(|end| (end, count(end)))
    }
}
