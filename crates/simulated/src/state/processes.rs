//! The processes: each has a stack of its own, and may wait for something.

use generator::Generator;

use super::mappings::Word;

/// The number of a simulated process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pid(pub(crate) usize);

/// The thing that a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// Nothing: it may run.
    No,
    /// It is running, perhaps below others on the stack.
    Running,
    /// A futex.
    Word(Word),
    /// Its timer.
    Timer,
    /// A descriptor, and perhaps its timer.
    Readable,
}

pub(crate) struct Process {
    pub(crate) pid: Pid,
    /// `None` while it runs.
    pub(crate) stack: Option<Generator<'static, (), ()>>,
    pub(crate) waits: Waits,
    /// Stopped (SIGSTOP), or not scheduled, until then.
    pub(crate) stopped_until: u64,
}

/// All processes that have not ended.
#[derive(Default)]
pub(crate) struct Processes {
    pub(crate) next: usize,
    pub(crate) all: Vec<Process>,
}

impl Processes {
    fn find(&mut self, pid: Pid) -> Option<&mut Process> {
        self.all.iter_mut().find(|process| process.pid == pid)
    }

    pub(crate) fn wait(&mut self, pid: Pid, waits: Waits) {
        if let Some(process) = self.find(pid) {
            process.waits = waits;
        }
    }

    pub(crate) fn wake(&mut self, is_meant: impl Fn(&Waits) -> bool) {
        for process in &mut self.all {
            if is_meant(&process.waits) {
                process.waits = Waits::No;
            }
        }
    }

    pub(crate) fn wake_one(&mut self, pid: Pid) {
        if let Some(process) = self.find(pid)
            && matches!(process.waits, Waits::Timer | Waits::Readable)
        {
            process.waits = Waits::No;
        }
    }

    pub(crate) fn stop(&mut self, pid: Pid, until: u64) {
        if let Some(process) = self.find(pid) {
            process.stopped_until = until;
        }
    }

    pub(crate) fn is_alive(&self, pid: Pid) -> bool {
        self.all.iter().any(|process| process.pid == pid)
    }

    /// Takes a process off the table, unless it is running.
    pub(crate) fn remove(&mut self, pid: Pid) -> Option<Process> {
        let position = self
            .all
            .iter()
            .position(|process| process.pid == pid && process.waits != Waits::Running)?;
        Some(self.all.remove(position))
    }

    /// The places of those that may run.
    pub(crate) fn runnable(&self, now: u64) -> impl Iterator<Item = usize> {
        self.all
            .iter()
            .enumerate()
            .filter_map(move |(place, process)| {
                (process.waits == Waits::No && process.stopped_until <= now).then_some(place)
            })
    }
}
