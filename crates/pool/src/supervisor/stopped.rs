//! Processes that do nothing any more, and whose end is not reported: stopped by a signal, or dead while their prototype is stopped.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A request that has waited for so long may be waiting for such a process.
pub(super) const SUSPICIOUS: Duration = Duration::from_millis(500);

/// The interval of the checks for that reason.
pub(super) const INTERVAL: Duration = Duration::from_millis(250);

/// A prototype reaps a worker within milliseconds, unless it gets no processor time or hangs.
pub(super) const REAPED_WITHIN: Duration = Duration::from_secs(2);

/// Such processes, and since when.
#[derive(Debug, Default)]
pub(super) struct Stopped {
    /// When they were last checked.
    pub(super) looked: Option<Instant>,
    pub(super) stopped: BTreeMap<i32, Instant>,
    pub(super) dead: BTreeMap<i32, Instant>,
    /// When a stopped process is killed; `None`: the watchdog is off.
    pub(super) limit: Option<Duration>,
}

impl Stopped {
    /// True if this process was stopped in the last round.
    pub(super) fn has(&self, pid: i32) -> bool {
        self.stopped.contains_key(&pid)
    }

    /// The number of stopped processes.
    pub(super) fn count(&self) -> u32 {
        u32::try_from(self.stopped.len()).unwrap_or(u32::MAX)
    }
}

/// Notes the processes that are found now, and forgets the others.
pub(super) fn note(since: &mut BTreeMap<i32, Instant>, found: &[i32], now: Instant) -> Vec<i32> {
    since.retain(|pid, _| found.contains(pid));
    let is_new = |pid: &i32| !since.contains_key(pid);
    let new: Vec<i32> = found.iter().copied().filter(is_new).collect();
    since.extend(new.iter().map(|pid| (*pid, now)));
    new
}
