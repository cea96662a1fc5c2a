//! Counts over all that has had an application's name: a change of its options makes another application, and its counters go on.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tutti_metrics::{Durations, Histogram, PerThread};

/// Why a process of an application has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Of its own will, or because it has had its requests.
    Left,
    /// The server told it to leave: it was one too many, or another took its place.
    Told,
    /// It had more memory than `limits.memory` or `limits.memory_max`.
    Memory,
    /// It did not come back from a request, or did not leave, within its time.
    Timeout,
    /// Before it was ready.
    Start,
    /// By itself, with a code other than 0.
    Exit,
    /// Killed by SIGKILL, and not by us: mostly by the kernel, for want of memory.
    Killed,
    /// Killed by another signal: a crash.
    Signal,
    /// Nobody was there to see how.
    Unknown,
}

impl End {
    /// All reasons.
    pub const ALL: [End; 9] = [
        Self::Left,
        Self::Told,
        Self::Memory,
        Self::Timeout,
        Self::Start,
        Self::Exit,
        Self::Killed,
        Self::Signal,
        Self::Unknown,
    ];

    /// Its word in the metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Told => "stopped",
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

/// The counts of a name.
#[derive(Debug)]
pub(crate) struct Tally {
    /// Processes that were replaced after they had died.
    pub(crate) restarts: AtomicU64,
    /// Starts that failed.
    pub(crate) failures: AtomicU64,
    ends: [AtomicU64; End::ALL.len()],
    /// How long requests waited for a process, of each listen thread.
    waits: PerThread<Durations>,
}

/// A process that says that a request waited longer than this is wrong.
const LONGEST_WAIT: Duration = Duration::from_secs(24 * 60 * 60);

impl Tally {
    /// For so many listen threads.
    pub(crate) fn new(threads: u32) -> Self {
        Self {
            restarts: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            ends: Default::default(),
            waits: PerThread::new(threads as usize),
        }
    }

    /// Counts how long a request has waited. To be called on that listen thread.
    pub(crate) fn note_wait(&self, thread: u32, wait: Duration) {
        if wait <= LONGEST_WAIT
            && let Some(waits) = self.waits.of(thread)
        {
            waits.add(wait);
        }
    }

    /// How long requests waited.
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
