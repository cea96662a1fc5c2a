//! The heartbeats of a process that main has started for itself, and the judgement of their absence.

use std::time::{Duration, Instant};

use tutti_sys::proc;

/// Checks within the longest silence.
pub(super) const LOOKS: u32 = 6;

/// Factor by which a computing process may be silent longer: reading a huge configuration takes minutes.
const WHILE_COMPUTING: u32 = 10;

/// Share of one processor from which on a process counts as computing.
const COMPUTING_SHARE: f64 = 0.2;

/// Clock ticks of `/proc/PID/stat` (`sysconf(_SC_CLK_TCK)`, which is 100 on all platforms of Linux).
const TICKS_PER_SECOND: f64 = 100.0;

/// The state of a process in `/proc`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) state: char,
    cpu_ticks: u64,
    is_traced: bool,
}

impl Seen {
    pub(super) fn of(pid: i32) -> Option<Seen> {
        let stat = proc::stat(pid).ok()?;
        Some(Seen {
            state: stat.state,
            cpu_ticks: stat.cpu_ticks,
            is_traced: proc::is_traced(pid),
        })
    }
}

/// The last answers of a process to probes.
#[derive(Debug)]
pub(super) struct Pulse {
    number: u64,
    probe: Probe,
    cpu_ticks: u64,
    pub(super) next_look: Instant,
    /// The process must have reacted to the stop by then.
    pub(super) deaf_until: Option<Instant>,
}

/// The last probe.
#[derive(Debug)]
enum Probe {
    Answered,
    /// Not answered for this many checks, at which the process was idle or computing.
    Open {
        idle_looks: u32,
        busy_looks: u32,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Liveness {
    Wait,
    Ask,
    Hangs,
}

impl Pulse {
    pub(super) fn new() -> Pulse {
        Pulse {
            number: 0,
            probe: Probe::Answered,
            cpu_ticks: 0,
            next_look: Instant::now(),
            deaf_until: None,
        }
    }

    /// Records an answer.
    pub(super) fn answered(&mut self, number: u64) {
        if number == self.number {
            self.probe = Probe::Answered;
            self.deaf_until = None;
        }
    }

    /// Returns the number of the next probe.
    pub(super) fn ask(&mut self) -> u64 {
        self.number += 1;
        self.probe = Probe::Open {
            idle_looks: 0,
            busy_looks: 0,
        };
        self.number
    }

    /// Puts off the next look. Returns how late this one was.
    pub(super) fn postpone(&mut self, now: Instant, pause: Duration) -> Duration {
        let late = now.saturating_duration_since(self.next_look);
        self.next_look = now + pause;
        late
    }

    pub(super) fn look(&mut self, now: Instant, pause: Duration, seen: Seen) -> Liveness {
        let late = self.postpone(now, pause);
        let ticks = seen.cpu_ticks.saturating_sub(self.cpu_ticks);
        self.cpu_ticks = seen.cpu_ticks;
        let Probe::Open {
            idle_looks,
            busy_looks,
        } = &mut self.probe
        else {
            return Liveness::Ask;
        };
        if late > pause / 2 || seen.is_traced {
            return Liveness::Wait;
        }
        if ticks as f64 >= pause.as_secs_f64() * TICKS_PER_SECOND * COMPUTING_SHARE {
            *busy_looks += 1;
        } else {
            *idle_looks += 1;
        }
        match *idle_looks >= LOOKS || *busy_looks >= LOOKS * WHILE_COMPUTING {
            true => Liveness::Hangs,
            false => Liveness::Wait,
        }
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

    /// Checks this often; returns how many checks it took until the process counted as hanging.
    fn looks(most: u32, mut look: impl FnMut(&mut Pulse, u32) -> Liveness) -> Option<u32> {
        let mut pulse = Pulse::new();
        let start = pulse.next_look;
        assert_eq!(pulse.look(start, PAUSE, seen(0)), Liveness::Ask);
        pulse.ask();
        (1..=most).find(|&number| look(&mut pulse, number) == Liveness::Hangs)
    }

    #[test]
    fn a_look_that_cannot_be_made_is_put_off() {
        let mut pulse = Pulse::new();
        let now = pulse.next_look + PAUSE;
        assert_eq!(pulse.postpone(now, PAUSE), PAUSE);
        assert_eq!(pulse.next_look, now + PAUSE);
    }

    /// Issue 10, 1.19: a stopped router went unnoticed, and one that is merely slow must not be killed.
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
}
