//! The machine as a test sees it: it is made, run until something holds, and disturbed.

use std::collections::VecDeque;
use std::time::Duration;

use crate::kernel::{Actor, Chances, Kernel, LEFT, begin, take, with};
use crate::processes::kill;
use crate::schedule::{interrupt, run_process, run_thread};
use crate::state::processes::Pid;
use crate::state::tasks::Thread;
use crate::{readiness, tasks, timers};

/// The state of the machine between two turns.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Turns so far.
    pub step: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// The turn was one of the router, and now every thread of it sleeps.
    pub is_router_asleep: bool,
    /// Nothing can happen before a timer expires.
    pub is_idle: bool,
}

impl Snapshot {
    fn of(kernel: &Kernel, is_of_router: bool, is_idle: bool) -> Self {
        let mut threads = kernel.threads.iter();
        let is_asleep = |thread: &Thread| thread.is_parked && thread.ready.is_empty();
        Self {
            step: kernel.step,
            elapsed: Duration::from_nanos(kernel.since_start()),
            is_router_asleep: is_of_router && threads.all(is_asleep),
            is_idle,
        }
    }
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The caller ended it.
    Ended,
    /// Nothing will ever happen again.
    Dead,
}

/// A simulated machine. There is one at a time on a thread of the system.
#[derive(Debug)]
pub struct Machine(());

impl Machine {
    /// A machine whose behaviour is determined by `seed`.
    pub fn new(seed: u64, chances: Chances, is_traced: bool) -> Machine {
        begin(Kernel::new(seed, chances, interrupt), is_traced);
        Machine(())
    }

    /// Adds a thread of the router, which calls `park` before it sleeps and `unpark` when it is awake.
    pub fn add_thread(&self, park: fn(), unpark: fn()) -> usize {
        with(|kernel| {
            kernel.threads.push(Thread {
                ready: VecDeque::new(),
                is_parked: false,
                stopped_until: 0,
                park,
                unpark,
                locals: Vec::new(),
            });
            kernel.threads.len() - 1
        })
    }

    /// Calls `act` as this thread.
    pub fn on_thread<T>(&self, thread: usize, act: impl FnOnce() -> T) -> T {
        with(|kernel| kernel.running.push(Actor::Thread(thread)));
        let outcome = act();
        with(|kernel| kernel.running.pop());
        outcome
    }

    /// Runs until `look`, which is called between turns, returns false, or nothing can happen any more.
    pub fn run(&self, mut look: impl FnMut(&Snapshot) -> bool) -> Ran {
        loop {
            timers::expire();
            if with(|kernel| kernel.random.once_in(kernel.chances.events)) {
                readiness::poll();
            }
            let chosen = with(Kernel::choose);
            let is_idle = match chosen {
                Some(Ok(thread)) => {
                    run_thread(thread);
                    false
                }
                Some(Err(place)) => {
                    run_process(place);
                    false
                }
                None => !readiness::poll(),
            };
            let is_of_router = !matches!(chosen, Some(Err(_)));
            if !look(&with(|kernel| Snapshot::of(kernel, is_of_router, is_idle))) {
                return Ran::Ended;
            }
            // The caller may have woken something.
            if is_idle && with(|kernel| kernel.choose().is_none()) {
                let is_due = |at| at <= with(|kernel| kernel.now);
                match with(|kernel| (kernel.timers.next_at(), kernel.next_time())) {
                    // The clock has jumped beyond it.
                    (Some(at), _) if is_due(at) => {}
                    (_, Some(at)) => with(|kernel| kernel.now = at),
                    (_, None) => return Ran::Dead,
                }
            }
        }
    }

    /// A process does not run for this long.
    pub fn stop(&self, pid: Pid, duration: Duration) {
        with(|kernel| {
            let until = kernel.now + duration.as_nanos() as u64;
            kernel.processes.stop(pid, until);
        });
    }

    /// A thread does not run for this long.
    pub fn stop_thread(&self, thread: usize, duration: Duration) {
        with(|kernel| {
            let until = kernel.now + duration.as_nanos() as u64;
            if let Some(thread) = kernel.threads.get_mut(thread) {
                thread.stopped_until = until;
            }
        });
    }

    /// The clock jumps.
    pub fn jump(&self, duration: Duration) {
        with(|kernel| kernel.now += duration.as_nanos() as u64);
    }

    /// A number that differs between two runs if any of their turns does.
    pub fn digest(&self) -> u64 {
        with(|kernel| kernel.digest)
    }

    /// True if this process has not ended.
    pub fn is_alive(&self, pid: Pid) -> bool {
        with(|kernel| kernel.processes.is_alive(pid))
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        LEFT.set(u64::MAX);
        if std::thread::panicking() {
            // The remains of a broken run are in no state to be cleaned up.
            std::mem::forget(take());
            return;
        }
        with(|kernel| kernel.running.clear());
        tasks::end_all();
        while let Some(pid) = with(|kernel| kernel.processes.all.first().map(|first| first.pid)) {
            if !kill(pid) {
                break;
            }
        }
        let locals: Vec<_> = with(|kernel| {
            let threads = kernel.threads.iter_mut();
            threads
                .flat_map(|thread| std::mem::take(&mut thread.locals))
                .collect()
        });
        drop(locals);
        drop(take());
    }
}
