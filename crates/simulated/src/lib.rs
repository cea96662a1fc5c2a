//! A simulated machine, for tests only: the clock, the processes with their shared memory, and the tasks of the router's threads.
//!
//! As `loom` does for models, this crate stands in for the system where the real one would make a run unrepeatable: `wire` and `pool` take
//! their atomics, futexes, clock, tasks and timers from here if they are compiled with `--cfg simulated`, and are otherwise the code that
//! runs in production. Everything runs on one thread of the system. A seed decides which process or thread runs next, for how many
//! accesses to shared memory, and how long everything takes.
//!
//! Descriptors are the kernel's own (events, sockets, pipes, memory files): with a single thread they behave the same in each run.
//!
//! `state` has the tables of the machine, and `kernel` the machine that they are in. Above it is what production code calls: `access`,
//! `futexes`, `processes`, `readiness`, `tasks` and `timers`. `schedule` chooses and runs, and `machine` is for the test.
//!
//! Must never happen: a run whose steps depend on anything but its seed.

#![forbid(unsafe_code)]

mod access;
mod futexes;
mod kernel;
mod machine;
mod processes;
mod random;
mod readiness;
mod schedule;
mod state;
mod tasks;
mod timers;

pub use self::access::{AtomicU32, AtomicU64, fence};
pub use self::futexes::{mapped, unmapped, wait, wake};
pub use self::kernel::{
    Chances, elapsed, exists, is_killed, is_process, is_traced, now, random, set_exists,
    step_number, thread_local, trace,
};
pub use self::machine::{Machine, Ran, Snapshot};
pub use self::processes::{kill, start_process};
pub use self::random::Random;
pub use self::readiness::{AsyncFd, Ready};
pub use self::state::processes::Pid;
pub use self::tasks::{AbortHandle, Spawned, spawn, spawn_on};
pub use self::timers::{Elapsed, nap, sleep, sleep_until, timeout, timeout_at};

/// Prints a line about the current step if this run is traced.
#[macro_export]
macro_rules! note {
    ($($text:tt)*) => {
        if $crate::is_traced() {
            $crate::trace(&format!($($text)*));
        }
    };
}
