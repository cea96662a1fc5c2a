//! Decides what runs next, and for how long.

use crate::kernel::{Actor, Kernel, LEFT, MOST_BETWEEN, WINDOW, is_traced, trace, with};
use crate::state::processes::Waits;
use crate::tasks;

/// Tasks that a thread runs at most before another may run.
const TASKS_AT_ONCE: u64 = 4;

/// Processes that run at most in the middle of a thread's code.
const AT_ONCE: u64 = 3;

impl Kernel {
    fn accesses(&mut self) -> u64 {
        let most = match self.window {
            0 => MOST_BETWEEN.max(self.chances.most_accesses),
            _ => self.chances.most_accesses,
        };
        self.random.scaled(0, most)
    }

    fn some_process(&mut self) -> Option<usize> {
        let count = self.processes.runnable(self.now).count();
        let nth = self.random.below(count as u64) as usize;
        self.processes.runnable(self.now).nth(nth)
    }

    fn ready_threads(&self) -> impl Iterator<Item = usize> {
        let now = self.now;
        self.threads
            .iter()
            .enumerate()
            .filter_map(move |(number, thread)| {
                let has_work = !thread.ready.is_empty() || !thread.is_parked;
                (has_work && thread.stopped_until <= now).then_some(number)
            })
    }

    /// Chooses the next to run: a thread, or the place of a process.
    pub(crate) fn choose(&mut self) -> Option<Result<usize, usize>> {
        let threads = self.ready_threads().count();
        let processes = self.processes.runnable(self.now).count();
        let chosen = self.random.below((threads + processes) as u64) as usize;
        match chosen.checked_sub(threads) {
            None => self.ready_threads().nth(chosen).map(Ok),
            Some(chosen) => self.processes.runnable(self.now).nth(chosen).map(Err),
        }
    }

    /// A turn is over.
    fn turn(&mut self, actor: u64) {
        self.step += 1;
        self.window = match self.window {
            0 if self.random.once_in(self.chances.windows) => WINDOW,
            left => left.saturating_sub(1),
        };
        let took = self.random.scaled(1, self.chances.most_nanoseconds);
        self.now += took;
        self.digest = (self.digest ^ actor ^ (took << 20))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(23);
        if self.random.once_in(self.chances.spurious) {
            let sleeping = |waits: &Waits| matches!(waits, Waits::Word(_));
            let all = &mut self.processes.all;
            let count = all
                .iter()
                .filter(|process| sleeping(&process.waits))
                .count();
            let nth = self.random.below(count as u64) as usize;
            let mut asleep = all.iter_mut().filter(|process| sleeping(&process.waits));
            if let Some(process) = asleep.nth(nth) {
                process.waits = Waits::No;
            }
        }
    }

    /// When something can happen that cannot happen now.
    pub(crate) fn next_time(&self) -> Option<u64> {
        let threads = self.threads.iter();
        let stopped = threads.map(|thread| thread.stopped_until);
        let processes = self.processes.all.iter();
        let paused = processes.map(|process| process.stopped_until);
        let times = stopped.chain(paused).chain(self.timers.next_at());
        times.filter(|at| *at > self.now).min()
    }
}

/// Runs some processes in the middle of a thread's code.
pub(crate) fn interrupt() {
    let times = with(|kernel| kernel.random.below(AT_ONCE + 1));
    for _ in 0..times {
        let Some(place) = with(Kernel::some_process) else {
            break;
        };
        run_process(place);
    }
    LEFT.set(with(Kernel::accesses));
}

/// Runs the process at this place until it leaves its stack.
pub(crate) fn run_process(place: usize) {
    let taken = with(|kernel| {
        let accesses = kernel.accesses();
        let process = kernel.processes.all.get_mut(place)?;
        let stack = process.stack.take()?;
        process.waits = Waits::Running;
        kernel.running.push(Actor::Process(process.pid));
        Some((process.pid, stack, accesses))
    });
    let Some((pid, mut stack, accesses)) = taken else {
        return;
    };
    if is_traced() {
        trace(&format!("process {} runs", pid.0));
    }
    let outer = LEFT.replace(accesses);
    stack.resume();
    LEFT.set(outer);
    let ended = with(|kernel| {
        kernel.running.pop();
        kernel.turn(pid.0 as u64 + 1000);
        let is_over = stack.is_done();
        let mut stack = Some(stack);
        let mut all = kernel.processes.all.iter_mut();
        if let Some(process) = all.find(|process| process.pid == pid) {
            if process.waits == Waits::Running {
                process.waits = Waits::No;
            }
            process.stack = stack.take();
        }
        if is_over {
            return kernel
                .processes
                .remove(pid)
                .and_then(|process| process.stack);
        }
        stack
    });
    drop(ended);
}

/// Runs some tasks of a thread.
pub(crate) fn run_thread(number: usize) {
    let begun = with(|kernel| {
        let accesses = kernel.accesses();
        let tasks = 1 + kernel.random.below(TASKS_AT_ONCE);
        let thread = kernel.threads.get_mut(number)?;
        let was_parked = std::mem::replace(&mut thread.is_parked, false);
        let hooks = (thread.park, thread.unpark);
        kernel.running.push(Actor::Thread(number));
        Some((accesses, tasks, was_parked, hooks))
    });
    let Some((accesses, tasks, was_parked, (park, unpark))) = begun else {
        return;
    };
    if is_traced() {
        trace(&format!("thread {number} runs"));
    }
    LEFT.set(accesses);
    if was_parked {
        unpark();
    }
    let next = || with(|kernel| kernel.threads.get_mut(number)?.ready.pop_front());
    for _ in 0..tasks {
        let Some(task) = next() else { break };
        tasks::poll(task);
    }
    let has_work = || {
        let is_ready = |kernel: &mut Kernel| {
            let thread = kernel.threads.get(number);
            thread.is_some_and(|thread| !thread.ready.is_empty())
        };
        with(is_ready)
    };
    if !has_work() {
        park();
        if has_work() {
            unpark();
        } else {
            with(|kernel| {
                if let Some(thread) = kernel.threads.get_mut(number) {
                    thread.is_parked = true;
                }
            });
        }
    }
    LEFT.set(u64::MAX);
    with(|kernel| {
        kernel.running.pop();
        kernel.turn(number as u64);
    });
}
