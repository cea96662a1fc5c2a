//! The machine: decides what runs next, and for how long.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::time::{Duration, Instant};

use crate::processes::{Pid, Processes, Waits};
use crate::random::Random;
use crate::readiness::{self, Readiness};
use crate::tasks::{self, Tasks, Thread};
use crate::timers::{self, Timers};

/// The clock at the start, so that nothing is ever before its beginning.
const START: u64 = 1_000_000_000_000;

/// Tasks that a thread runs at most before another may run.
const TASKS_AT_ONCE: u64 = 4;

/// Processes that run at most in the middle of a thread's code.
const AT_ONCE: u64 = 3;

/// The behaviour of a run.
#[derive(Clone, Copy, Debug)]
pub struct Chances {
    /// Accesses to shared memory after which another may run, at most.
    pub most_accesses: u64,
    /// Nanoseconds that a turn takes, at most.
    pub most_nanoseconds: u64,
    /// A sleeping process is woken for no reason once in this many turns (a signal); 0: never.
    pub spurious: u32,
}

/// The thread or process that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Actor {
    Thread(usize),
    Process(Pid),
}

/// The state of the machine between two turns.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Turns so far.
    pub step: u64,
    /// Time since the start.
    pub elapsed: Duration,
    /// Every thread of the router sleeps, and nothing has woken one.
    pub is_router_asleep: bool,
    /// Nothing can happen before a timer expires.
    pub is_idle: bool,
}

/// The reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ran {
    /// The caller ended it.
    Ended,
    /// Nothing will ever happen again.
    Dead,
}

pub(crate) struct Kernel {
    pub(crate) now: u64,
    pub(crate) threads: Vec<Thread>,
    pub(crate) processes: Processes,
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    pub(crate) readiness: Readiness,
    pub(crate) mappings: BTreeMap<usize, (usize, u64)>,
    /// The process ids that exist.
    ids: BTreeSet<i32>,
    started: Instant,
    random: Random,
    chances: Chances,
    running: Vec<Actor>,
    step: u64,
    digest: u64,
    is_traced: bool,
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
    /// Accesses that are left before another may run.
    static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
    static IS_DEAD: Cell<bool> = const { Cell::new(false) };
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
}

/// Calls `act` with the machine, which must not run anything.
#[allow(clippy::expect_used, reason = "a programming error of a test")]
pub(crate) fn with<T>(act: impl FnOnce(&mut Kernel) -> T) -> T {
    KERNEL.with_borrow_mut(|kernel| act(kernel.as_mut().expect("there is no machine")))
}

/// The same where there may be no machine, because it is being dropped.
pub(crate) fn try_with(act: impl FnOnce(&mut Kernel)) {
    KERNEL.with_borrow_mut(|kernel| {
        if let Some(kernel) = kernel {
            act(kernel);
        }
    });
}

/// An access to shared memory: another may run before it.
#[inline]
pub(crate) fn step() {
    let left = LEFT.get();
    match left.checked_sub(1) {
        Some(left) => LEFT.set(left),
        None => preempt(),
    }
}

/// True while the destructors of a killed process run.
#[inline]
pub(crate) fn is_dead() -> bool {
    IS_DEAD.get()
}

#[cold]
fn preempt() {
    if is_dead() || KERNEL.with_borrow(Option::is_none) {
        LEFT.set(u64::MAX);
        return;
    }
    match with(|kernel| kernel.running.last().copied()) {
        None => LEFT.set(u64::MAX),
        Some(Actor::Process(_)) => yield_now(),
        Some(Actor::Thread(_)) => {
            let times = with(|kernel| kernel.random.below(AT_ONCE + 1));
            for _ in 0..times {
                let Some(place) = with(Kernel::some_process) else {
                    break;
                };
                run_process(place);
            }
            LEFT.set(with(Kernel::accesses));
        }
    }
}

/// The running process leaves its stack.
#[expect(
    deprecated,
    reason = "the scope would have to be passed through production code"
)]
pub(crate) fn yield_now() {
    generator::yield_with(());
}

impl Kernel {
    pub(crate) fn running_process(&self) -> Option<Pid> {
        match self.running.last() {
            Some(Actor::Process(pid)) => Some(*pid),
            _ => None,
        }
    }

    /// The thread that runs, perhaps interrupted by processes; the first if none does.
    pub(crate) fn thread_of_task(&self) -> usize {
        let mut threads = self.running.iter().rev().filter_map(|actor| match actor {
            Actor::Thread(thread) => Some(*thread),
            Actor::Process(_) => None,
        });
        threads.next().unwrap_or(0)
    }

    fn accesses(&mut self) -> u64 {
        self.random.scaled(0, self.chances.most_accesses)
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
    fn choose(&mut self) -> Option<Result<usize, usize>> {
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

    fn is_router_asleep(&self) -> bool {
        self.threads
            .iter()
            .all(|thread| thread.is_parked && thread.ready.is_empty())
    }

    /// When something can happen that cannot happen now.
    fn next_time(&self) -> Option<u64> {
        let threads = self.threads.iter();
        let stopped = threads.map(|thread| thread.stopped_until);
        let processes = self.processes.all.iter();
        let paused = processes.map(|process| process.stopped_until);
        let times = stopped.chain(paused).chain(self.timers.next_at());
        times.filter(|at| *at > self.now).min()
    }

    fn snapshot(&self, is_idle: bool) -> Snapshot {
        Snapshot {
            step: self.step,
            elapsed: Duration::from_nanos(self.now - START),
            is_router_asleep: self.is_router_asleep(),
            is_idle,
        }
    }
}

fn run_process(place: usize) {
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

fn run_thread(number: usize) {
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

/// The simulated clock.
pub fn now() -> Instant {
    with(|kernel| kernel.started + Duration::from_nanos(kernel.now))
}

/// The same clock as a number: since the machine was started, like CLOCK_MONOTONIC.
pub fn elapsed() -> Duration {
    with(|kernel| Duration::from_nanos(kernel.now))
}

/// True while the stack of a killed process is unwound.
pub fn is_killed() -> bool {
    is_dead()
}

/// True if a process runs, not a thread of the router.
pub fn is_process() -> bool {
    let is_process = |kernel: &Option<Kernel>| {
        let running = kernel.as_ref().map(Kernel::running_process);
        running.flatten().is_some()
    };
    KERNEL.with(|kernel| kernel.try_borrow().is_ok_and(|kernel| is_process(&kernel)))
}

/// True if there is a process with this id, as kill(2) with signal 0 says.
pub fn exists(id: i32) -> bool {
    with(|kernel| kernel.ids.contains(&id))
}

/// There is, or is no more, a process with this id.
pub fn set_exists(id: i32, is_there: bool) {
    with(|kernel| match is_there {
        true => kernel.ids.insert(id),
        false => kernel.ids.remove(&id),
    });
}

/// A number of this run.
pub fn random() -> u64 {
    with(|kernel| kernel.random.number())
}

/// The number of turns so far.
pub fn step_number() -> u64 {
    KERNEL.with(|kernel| {
        let kernel = kernel.try_borrow();
        kernel
            .ok()
            .and_then(|kernel| Some(kernel.as_ref()?.step))
            .unwrap_or(0)
    })
}

/// True if each turn is to be printed.
pub fn is_traced() -> bool {
    IS_TRACED.get()
}

/// Prints a line about the current turn.
pub fn trace(text: &str) {
    let (step, now) = with(|kernel| (kernel.step, kernel.now - START));
    // A full disk is one of the faults.
    let _ = writeln!(
        std::io::stdout(),
        "{step:>8} {:>12}.{:03} µs  {text}",
        now / 1000,
        now % 1000
    );
}

/// Calls `act` with the running thread's own value of this type.
#[allow(clippy::expect_used, reason = "a programming error of a test")]
pub fn thread_local<T: Default + 'static, R>(act: impl FnOnce(&mut T) -> R) -> R {
    let mut value = with(|kernel| {
        let number = kernel.thread_of_task();
        let locals = kernel
            .threads
            .get_mut(number)
            .map(|thread| &mut thread.locals)?;
        let place = locals.iter().position(|local| local.is::<T>())?;
        Some(locals.swap_remove(place))
    })
    .unwrap_or_else(|| Box::<T>::default() as Box<dyn Any>);
    let outcome = act(value.downcast_mut().expect("a value of this type"));
    with(|kernel| {
        let number = kernel.thread_of_task();
        if let Some(thread) = kernel.threads.get_mut(number) {
            thread.locals.push(value);
        }
    });
    outcome
}

/// A simulated machine. There is one at a time on a thread of the system.
#[derive(Debug)]
pub struct Machine(());

impl Machine {
    /// A machine whose behaviour is determined by `seed`.
    pub fn new(seed: u64, chances: Chances, is_traced: bool) -> Machine {
        let kernel = Kernel {
            now: START,
            threads: Vec::new(),
            processes: Processes::default(),
            tasks: Tasks::default(),
            timers: Timers::default(),
            readiness: Readiness::default(),
            mappings: BTreeMap::new(),
            ids: BTreeSet::new(),
            started: Instant::now(),
            random: Random::new(seed),
            chances,
            running: Vec::new(),
            step: 0,
            digest: 0,
            is_traced,
        };
        IS_TRACED.set(kernel.is_traced);
        IS_DEAD.set(false);
        LEFT.set(u64::MAX);
        let before = KERNEL.replace(Some(kernel));
        assert!(before.is_none(), "two machines on one thread");
        Machine(())
    }

    /// Adds a thread of the router, which calls `park` before it sleeps and `unpark` when it is awake.
    pub fn add_thread(&self, park: fn(), unpark: fn()) -> usize {
        with(|kernel| {
            kernel.threads.push(Thread {
                ready: std::collections::VecDeque::new(),
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
            if with(|kernel| kernel.random.once_in(8)) {
                readiness::poll();
            }
            let is_idle = match with(Kernel::choose) {
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
            if !look(&with(|kernel| kernel.snapshot(is_idle))) {
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

/// Kills a process. False if there is none, or it runs.
pub fn kill(pid: Pid) -> bool {
    let Some(process) = with(|kernel| kernel.processes.remove(pid)) else {
        return false;
    };
    let was_dead = IS_DEAD.replace(true);
    let left = LEFT.replace(u64::MAX);
    drop(process);
    LEFT.set(left);
    IS_DEAD.set(was_dead);
    true
}

impl Drop for Machine {
    fn drop(&mut self) {
        LEFT.set(u64::MAX);
        if std::thread::panicking() {
            // The remains of a broken run are in no state to be cleaned up.
            std::mem::forget(KERNEL.take());
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
        let kernel = KERNEL.take();
        IS_TRACED.set(false);
        drop(kernel);
    }
}
