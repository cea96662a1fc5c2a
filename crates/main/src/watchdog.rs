//! The watchdog: a router that is there and does nothing is noticed.
//!
//! Main asks the router from time to time; its control thread answers once all of its listen threads have. One that does not
//! answer for [`DEFAULT_LIMIT`] is killed, and another started. It is not killed for what it cannot help: where main itself
//! was late by more than half of the pause between two looks, the machine is overloaded (or was asleep), and the look does not
//! count; nor does it while a debugger holds the router; and one that computes has ten times as long.
//! `impl` blocks of [`Supervisor`], which calls them from its loop.

use std::time::{Duration, Instant};

use tutti_log::Level;
use tutti_protocol::ToRouter;
use tutti_sys::{proc, signal};

use super::supervisor::Supervisor;

/// Longest silence of a router that does not compute.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// The variable in the server's environment: seconds, or `off`.
const VARIABLE: &str = "TUTTI_WATCHDOG";

/// Looks in the longest silence.
const LOOKS: u32 = 6;

/// How many times as long a router may be silent that computes: reading a huge configuration takes minutes.
const WHILE_COMPUTING: u32 = 10;

/// Share of one processor from which on a process computes.
const COMPUTING_SHARE: f64 = 0.2;

/// A router that is to end gracefully has to take note of it within this time, though it may be reading a huge configuration.
const LONGEST_DEAFNESS: Duration = Duration::from_secs(10);

/// Clock ticks of `/proc/PID/stat` (`sysconf(_SC_CLK_TCK)`, which is 100 on all that Linux runs on).
const TICKS_PER_SECOND: f64 = 100.0;

/// How long a router may be silent: `None` for ever.
pub(super) fn limit(value: Option<&str>) -> Result<Option<Duration>, String> {
    match value {
        None | Some("") => Ok(Some(DEFAULT_LIMIT)),
        Some("off") => Ok(None),
        Some(text) => match text.parse() {
            Ok(seconds @ 1..=86400) => Ok(Some(Duration::from_secs(seconds))),
            _ => Err(format!(
                "{VARIABLE} is `{text}`, which is neither `off` nor seconds from 1 to 86400: {} seconds are taken",
                DEFAULT_LIMIT.as_secs()
            )),
        },
    }
}

/// What `/proc` tells of a router.
#[derive(Debug, Clone, Copy)]
struct Seen {
    state: char,
    cpu_ticks: u64,
    is_traced: bool,
}

impl Seen {
    fn of(pid: i32) -> Option<Seen> {
        let stat = proc::stat(pid).ok()?;
        Some(Seen {
            state: stat.state,
            cpu_ticks: stat.cpu_ticks,
            is_traced: proc::is_traced(pid),
        })
    }
}

/// What is known of a router's answers.
#[derive(Debug)]
pub(super) struct Pulse {
    number: u64,
    is_answered: bool,
    idle_looks: u32,
    busy_looks: u32,
    cpu_ticks: u64,
    next_look: Instant,
    /// The router has been told to end, and has to take note of it by then.
    pub(super) deaf_until: Option<Instant>,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Wait,
    Ask,
    Hangs,
}

impl Pulse {
    pub(super) fn new() -> Pulse {
        Pulse {
            number: 0,
            is_answered: true,
            idle_looks: 0,
            busy_looks: 0,
            cpu_ticks: 0,
            next_look: Instant::now(),
            deaf_until: None,
        }
    }

    /// The router has answered.
    pub(super) fn answered(&mut self, number: u64) {
        if number == self.number {
            self.is_answered = true;
            self.deaf_until = None;
        }
    }

    fn ask(&mut self) -> ToRouter {
        self.number += 1;
        self.is_answered = false;
        (self.idle_looks, self.busy_looks) = (0, 0);
        ToRouter::Probe {
            number: self.number,
        }
    }

    fn look(&mut self, now: Instant, pause: Duration, seen: Seen) -> Verdict {
        let late = now.saturating_duration_since(self.next_look);
        self.next_look = now + pause;
        let ticks = seen.cpu_ticks.saturating_sub(self.cpu_ticks);
        self.cpu_ticks = seen.cpu_ticks;
        if self.is_answered {
            return Verdict::Ask;
        }
        if late > pause / 2 || seen.is_traced {
            return Verdict::Wait;
        }
        if ticks as f64 >= pause.as_secs_f64() * TICKS_PER_SECOND * COMPUTING_SHARE {
            self.busy_looks += 1;
        } else {
            self.idle_looks += 1;
        }
        match self.idle_looks >= LOOKS || self.busy_looks >= LOOKS * WHILE_COMPUTING {
            true => Verdict::Hangs,
            false => Verdict::Wait,
        }
    }
}

impl Supervisor {
    /// Reads the variable; says what is wrong with it.
    pub(super) fn watchdog_from_environment(&mut self) {
        let value = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
        self.longest_silence = limit(value.as_deref()).unwrap_or_else(|complaint| {
            self.log(Level::Warn, &complaint);
            Some(DEFAULT_LIMIT)
        });
    }

    /// When [`Self::watch_router`] is next to be called.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let pulse = &self
            .router
            .as_ref()
            .filter(|r| r.understands_probes())?
            .pulse;
        let look = self.longest_silence.map(|_| pulse.next_look);
        look.into_iter().chain(pulse.deaf_until).min()
    }

    /// Asks the router for a sign of life, or kills it for want of one.
    pub(super) fn watch_router(&mut self, now: Instant) {
        let limit = self.longest_silence;
        let Some(router) = self.router.as_mut().filter(|r| r.understands_probes()) else {
            return;
        };
        if router.pulse.deaf_until.is_some_and(|until| until <= now) {
            router.pulse.deaf_until = None;
            let pid = router.pid();
            let text = format!(
                "router process {pid} has not taken note of the stop for {} seconds; it is killed",
                LONGEST_DEAFNESS.as_secs()
            );
            self.log(Level::Alert, &text);
            let _ = signal::send(pid, libc::SIGKILL);
            return;
        }
        let Some(limit) = limit.filter(|_| router.pulse.next_look <= now) else {
            return;
        };
        let pid = router.pid();
        let Some(seen) = Seen::of(pid) else { return };
        match router.pulse.look(now, limit / LOOKS, seen) {
            Verdict::Wait => {}
            Verdict::Ask => {
                let probe = router.pulse.ask();
                let _ = router.send(&probe, Vec::new());
            }
            Verdict::Hangs => {
                let state = match seen.state {
                    'T' => "it is stopped by a signal",
                    'D' => "it waits for the kernel, perhaps for a disk",
                    'R' => "it computes all the time",
                    _ => "it waits for something that does not come",
                };
                let text = format!(
                    "router process {pid} has given no sign of life for {} seconds ({state}); it is killed, and another started \
                     ({VARIABLE}=off in the server's environment leaves it alone)",
                    limit.as_secs()
                );
                self.log(Level::Alert, &text);
                let _ = signal::send(pid, libc::SIGKILL);
            }
        }
    }

    /// The router has just been told to end.
    pub(super) fn expect_to_be_heard(&mut self) {
        let Some(router) = self.router.as_mut().filter(|r| r.understands_probes()) else {
            return;
        };
        let probe = router.pulse.ask();
        router.pulse.deaf_until = Some(Instant::now() + LONGEST_DEAFNESS);
        let _ = router.send(&probe, Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSE: Duration = Duration::from_secs(5);

    fn seen(cpu_ticks: u64) -> Seen {
        Seen {
            state: 'S',
            cpu_ticks,
            is_traced: false,
        }
    }

    /// Looks this often; how many it took until the router was found to hang.
    fn looks(most: u32, mut look: impl FnMut(&mut Pulse, u32) -> Verdict) -> Option<u32> {
        let mut pulse = Pulse::new();
        let start = pulse.next_look;
        assert_eq!(pulse.look(start, PAUSE, seen(0)), Verdict::Ask);
        pulse.ask();
        (1..=most).find(|&number| look(&mut pulse, number) == Verdict::Hangs)
    }

    /// Issue 10, 1.19: a stopped router was noticed by nobody, and one that is merely slow must not be killed.
    #[test]
    fn silence_counts_unless_there_is_a_reason_for_it() {
        let on_time = |pulse: &mut Pulse, seen: Seen| pulse.look(pulse.next_look, PAUSE, seen);
        assert_eq!(looks(100, |pulse, _| on_time(pulse, seen(0))), Some(LOOKS));
        let computing = looks(100, |pulse, number| {
            on_time(pulse, seen(u64::from(number) * 400))
        });
        assert_eq!(computing, Some(LOOKS * WHILE_COMPUTING));
        let late = looks(100, |pulse, _| {
            pulse.look(pulse.next_look + PAUSE, PAUSE, seen(0))
        });
        assert_eq!(late, None);
        let traced = looks(100, |pulse, _| {
            let traced = Seen {
                is_traced: true,
                ..seen(0)
            };
            on_time(pulse, traced)
        });
        assert_eq!(traced, None);
        let answering = looks(100, |pulse, _| {
            pulse.answered(pulse.number);
            let verdict = on_time(pulse, seen(0));
            pulse.ask();
            verdict
        });
        assert_eq!(answering, None);
        let late_answer = looks(100, |pulse, _| {
            pulse.answered(pulse.number + 1);
            on_time(pulse, seen(0))
        });
        assert_eq!(late_answer, Some(LOOKS));
    }

    #[test]
    fn the_limit_is_seconds_or_off() {
        assert_eq!(limit(None), Ok(Some(DEFAULT_LIMIT)));
        assert_eq!(limit(Some("off")), Ok(None));
        assert_eq!(limit(Some("5")), Ok(Some(Duration::from_secs(5))));
        for wrong in ["0", "-1", "no", "5s"] {
            assert!(limit(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
