//! The state of the machine, its clock, and the accesses to shared memory that are left before another may run.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

use crate::random::Random;
use crate::state::mappings::Mappings;
use crate::state::processes::{Pid, Processes};
use crate::state::readiness::Readiness;
use crate::state::tasks::{Tasks, Thread};
use crate::state::timers::Timers;

/// The clock at the start, so that nothing is ever before its beginning.
const START: u64 = 1_000_000_000_000;

/// The behaviour of a run.
#[derive(Clone, Copy, Debug)]
pub struct Chances {
    /// Accesses to shared memory after which another may run, at most, in a window of [`WINDOW`] turns.
    pub most_accesses: u64,
    /// Between two turns, such a window begins once in this many; 1: the whole run is one.
    pub windows: u32,
    /// Descriptors are asked for events between two turns once in this many; also whenever nothing else can run.
    pub events: u32,
    /// Nanoseconds that a turn takes, at most.
    pub most_nanoseconds: u64,
    /// A sleeping process is woken for no reason once in this many turns (a signal); 0: never.
    pub spurious: u32,
}

/// Turns in which another may run after few accesses, so that all orders of a few steps can occur. In between, turns are longer: most orders
/// of accesses that have nothing to do with each other come to the same, and a request takes few turns.
pub(crate) const WINDOW: u32 = 120;

/// Accesses after which another may run, at most, outside such a window.
pub(crate) const MOST_BETWEEN: u64 = 2000;

/// The thread or process that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Thread(usize),
    Process(Pid),
}

pub(crate) struct Kernel {
    pub(crate) now: u64,
    pub(crate) threads: Vec<Thread>,
    pub(crate) processes: Processes,
    pub(crate) tasks: Tasks,
    pub(crate) timers: Timers,
    pub(crate) readiness: Readiness,
    pub(crate) mappings: Mappings,
    /// The process ids that exist.
    ids: BTreeSet<i32>,
    started: Instant,
    pub(crate) random: Random,
    pub(crate) chances: Chances,
    pub(crate) running: Vec<Actor>,
    pub(crate) step: u64,
    pub(crate) digest: u64,
    /// Turns that are left of a window.
    pub(crate) window: u32,
    /// Runs some processes in the middle of a thread's code.
    interrupt: fn(),
}

thread_local! {
    static KERNEL: RefCell<Option<Kernel>> = const { RefCell::new(None) };
    /// Accesses that are left before another may run.
    pub(crate) static LEFT: Cell<u64> = const { Cell::new(u64::MAX) };
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

/// Makes this the machine of the running thread of the system.
pub(crate) fn begin(kernel: Kernel, is_traced: bool) {
    IS_TRACED.set(is_traced);
    IS_DEAD.set(false);
    LEFT.set(u64::MAX);
    let before = KERNEL.replace(Some(kernel));
    assert!(before.is_none(), "two machines on one thread");
}

/// Takes the machine away: from now on, there is none.
pub(crate) fn take() -> Option<Kernel> {
    IS_TRACED.set(false);
    KERNEL.take()
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

/// Calls `act` as a killed process, which changes nothing in shared memory any more.
pub(crate) fn killing(act: impl FnOnce()) {
    let was_dead = IS_DEAD.replace(true);
    let left = LEFT.replace(u64::MAX);
    act();
    LEFT.set(left);
    IS_DEAD.set(was_dead);
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
            let interrupt = with(|kernel| kernel.interrupt);
            interrupt();
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
    /// A machine at its start, with nothing to run.
    pub(crate) fn new(seed: u64, chances: Chances, interrupt: fn()) -> Self {
        Self {
            now: START,
            threads: Vec::new(),
            processes: Processes::default(),
            tasks: Tasks::default(),
            timers: Timers::default(),
            readiness: Readiness::default(),
            mappings: Mappings::default(),
            ids: BTreeSet::new(),
            started: Instant::now(),
            random: Random::new(seed),
            chances,
            running: Vec::new(),
            step: 0,
            digest: 0,
            window: 0,
            interrupt,
        }
    }

    /// Nanoseconds since the start.
    pub(crate) fn since_start(&self) -> u64 {
        self.now - START
    }

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
    let (step, now) = with(|kernel| (kernel.step, kernel.since_start()));
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
