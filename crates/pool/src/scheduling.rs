//! Decides when the workers of applications with short requests are in the scheduler's batch class (sched(7)).
//!
//! A worker that is woken takes the core from the router or another worker, for one request at a time. In the batch class it waits until
//! they sleep, and then finds several requests. That saves between a sixth and almost half of the CPU of short requests. But it also waits
//! for processes that compute, for up to a slice of the scheduler: so the class only helps where nearly all CPU time of the machine goes to
//! this router and short requests. Any process may be computing, so the criterion is our share of the machine's CPU time
//! (docs/project/decisions/0382-workers-in-batch.md).

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time over which CPU time is measured before a decision.
const WINDOW: Duration = Duration::from_millis(400);

/// Measurements older than this many windows are discarded.
const STALE: u32 = 4;

/// Requests that need less CPU time than this are short.
pub(crate) const SHORT: Duration = Duration::from_millis(1);

/// Clocks of CPU time, which never go backwards.
pub trait Clocks: Send + Sync {
    /// The number of cores that this process may use.
    fn cores(&self) -> u32 {
        u32::try_from(tutti_sys::proc::cpu_count()).unwrap_or(1)
    }

    /// The machine's time that was not idle. `None` if unknown.
    fn machine(&self) -> Option<Duration>;

    /// This process's time.
    fn own(&self) -> Duration;

    /// The time of a worker's process. `None` if it has ended.
    fn worker(&self, pid: i32) -> Option<Duration>;
}

/// The clocks of the system.
pub(crate) struct SystemClocks;

impl Clocks for SystemClocks {
    fn machine(&self) -> Option<Duration> {
        tutti_sys::proc::machine_busy_time()
    }

    fn own(&self) -> Duration {
        tutti_sys::proc::own_cpu_time()
    }

    fn worker(&self, pid: i32) -> Option<Duration> {
        tutti_sys::proc::cpu_time(pid).ok()
    }
}

/// The decision for all applications; shared by their supervisors.
pub(crate) struct Scheduling {
    pub(crate) clocks: Box<dyn Clocks>,
    cores: u32,
    state: Mutex<State>,
}

/// The measurement so far.
#[derive(Debug, Default)]
struct State {
    window: Option<Window>,
    /// CPU time of short requests in workers, in this window.
    short: Duration,
    is_batch: bool,
}

/// The clocks at the beginning of a window.
#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    machine: Duration,
    own: Duration,
}

impl Scheduling {
    pub(crate) fn new(clocks: Box<dyn Clocks>, cores: u32) -> Self {
        Self {
            clocks,
            cores,
            state: Mutex::default(),
        }
    }

    /// Adds the CPU time of short requests in workers since the last call, and returns whether such workers should be in the batch class.
    /// Called by each supervisor a few times a second while it has requests.
    pub(crate) fn note(&self, short: Duration, now: Instant) -> bool {
        // Its parts are plain numbers.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Workers report the number of requests, which may be wrong.
        state.short = state.short.saturating_add(short);
        let age = state
            .window
            .map(|window| now.saturating_duration_since(window.since));
        if age.is_some_and(|age| age < WINDOW) {
            return state.is_batch;
        }
        let Some(machine) = self.clocks.machine() else {
            return false;
        };
        let next = Window {
            since: now,
            machine,
            own: self.clocks.own(),
        };
        let last = state.window.replace(next);
        let short = std::mem::take(&mut state.short);
        state.is_batch = match (last, age) {
            (Some(last), Some(age)) if age < WINDOW * STALE => {
                let busy = next.machine.saturating_sub(last.machine);
                let own = next.own.saturating_sub(last.own);
                let share = Share {
                    ours: own.saturating_add(short).min(busy),
                    busy,
                    whole: age * self.cores,
                };
                share.asks_for_batch(state.is_batch)
            }
            _ => false,
        };
        state.is_batch
    }
}

/// The distribution of the machine's CPU time.
#[derive(Clone, Copy, Debug)]
struct Share {
    /// The router's time and that of short requests.
    ours: Duration,
    /// All used time.
    busy: Duration,
    /// All available time.
    whole: Duration,
}

impl Share {
    /// True if workers should be in the batch class: a good part of the machine is in use, mostly by this server. Clients on the same
    /// machine use up to half. There is some hysteresis.
    fn asks_for_batch(self, is_batch: bool) -> bool {
        let (part, of_busy) = if is_batch { (20, 35) } else { (25, 40) };
        self.busy * 100 >= self.whole * part && self.ours * 100 >= self.busy * of_busy
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Clocks that a test sets.
    #[derive(Clone, Default)]
    struct Moved(Arc<Mutex<(Duration, Duration)>>);

    impl Moved {
        fn advance(&self, machine: u64, own: u64) {
            let mut clocks = self.0.lock().unwrap();
            clocks.0 += Duration::from_millis(machine);
            clocks.1 += Duration::from_millis(own);
        }
    }

    impl Clocks for Moved {
        fn machine(&self) -> Option<Duration> {
            Some(self.0.lock().unwrap().0)
        }

        fn own(&self) -> Duration {
            self.0.lock().unwrap().1
        }

        fn worker(&self, _: i32) -> Option<Duration> {
            None
        }
    }

    /// Windows in which the machine, the router and short requests used this many milliseconds; returns the decision after each.
    fn decisions(windows: &[(u64, u64, u64)]) -> Vec<bool> {
        let clocks = Moved::default();
        let scheduling = Scheduling::new(Box::new(clocks.clone()), 2);
        let mut now = Instant::now();
        assert!(!scheduling.note(Duration::from_secs(9), now));
        windows
            .iter()
            .map(|&(machine, own, short)| {
                clocks.advance(machine, own);
                now += WINDOW;
                scheduling.note(Duration::from_millis(short), now)
            })
            .collect()
    }

    #[test]
    fn short_requests_that_fill_the_machine_are_done_in_batches() {
        assert_eq!(decisions(&[(800, 250, 200)]), [true]);
    }

    #[test]
    fn beside_others_that_compute_workers_interrupt_them() {
        assert_eq!(
            decisions(&[(800, 250, 200), (800, 20, 30), (800, 250, 200)]),
            [true, false, true]
        );
    }

    #[test]
    fn few_requests_change_nothing() {
        assert_eq!(decisions(&[(100, 50, 50)]), [false]);
    }

    #[test]
    fn a_decision_has_hysteresis() {
        let nearly = (800, 150, 150);
        assert_eq!(decisions(&[nearly]), [false]);
        assert_eq!(decisions(&[(800, 300, 200), nearly]), [true, true]);
    }

    #[test]
    fn after_a_pause_it_is_counted_anew() {
        let clocks = Moved::default();
        let scheduling = Scheduling::new(Box::new(clocks.clone()), 2);
        let now = Instant::now();
        scheduling.note(Duration::ZERO, now);
        clocks.advance(800, 700);
        assert!(!scheduling.note(Duration::ZERO, now + WINDOW * STALE));
        clocks.advance(800, 700);
        assert!(scheduling.note(Duration::ZERO, now + WINDOW * (STALE + 1)));
        clocks.advance(100, 100);
        let soon = now + WINDOW * (STALE + 1) + WINDOW / 2;
        assert!(
            scheduling.note(Duration::ZERO, soon),
            "the window is not over"
        );
    }

    #[test]
    fn invalid_counts_of_workers_do_no_harm() {
        let most = u64::MAX / 2000;
        assert_eq!(
            decisions(&[(800, 20, most), (800, 20, most), (100, 20, most)]),
            [true, true, false]
        );
        let scheduling = Scheduling::new(Box::new(Moved::default()), 2);
        let now = Instant::now();
        for number in 0..3 {
            assert!(!scheduling.note(Duration::MAX, now + WINDOW * number));
        }
    }

    #[test]
    fn without_clocks_there_is_no_batch_class() {
        struct Silent;
        impl Clocks for Silent {
            fn machine(&self) -> Option<Duration> {
                None
            }
            fn own(&self) -> Duration {
                Duration::ZERO
            }
            fn worker(&self, _: i32) -> Option<Duration> {
                None
            }
        }
        let scheduling = Scheduling::new(Box::new(Silent), 2);
        let now = Instant::now();
        for number in 0..3 {
            assert!(!scheduling.note(Duration::from_secs(9), now + WINDOW * number));
        }
    }
}
