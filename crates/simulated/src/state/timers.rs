//! The timers of tasks and of processes.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::task::Waker;

use super::processes::Pid;

/// The task or process that a timer wakes.
pub(crate) enum Sleeper {
    Task(Waker),
    Process(Pid),
}

struct Timer {
    at: (u64, u64),
    sleeper: Sleeper,
}

impl PartialEq for Timer {
    fn eq(&self, other: &Self) -> bool {
        self.at == other.at
    }
}

impl Eq for Timer {}

impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Timer {
    fn cmp(&self, other: &Self) -> Ordering {
        self.at.cmp(&other.at)
    }
}

/// All timers that have not expired.
#[derive(Default)]
pub(crate) struct Timers {
    next: u64,
    all: BinaryHeap<Reverse<Timer>>,
}

impl Timers {
    pub(crate) fn add(&mut self, at: u64, sleeper: Sleeper) {
        self.next += 1;
        let at = (at, self.next);
        self.all.push(Reverse(Timer { at, sleeper }));
    }

    /// Takes the first timer off the table, if its time has come.
    pub(crate) fn expired(&mut self, now: u64) -> Option<Sleeper> {
        let is_due = self.next_at()? <= now;
        let timer = is_due.then(|| self.all.pop()).flatten();
        timer.map(|Reverse(timer)| timer.sleeper)
    }

    pub(crate) fn next_at(&self) -> Option<u64> {
        self.all.peek().map(|Reverse(timer)| timer.at.0)
    }
}
