//! The watchdog: a router that is there and does nothing is noticed.
//!
//! Main asks the router from time to time; its control thread answers once all of its listen threads have. One that does not
//! answer for [`DEFAULT_LIMIT`] is killed, and another started. It is not killed for what it cannot help: where main itself
//! was late by more than half of the pause between two looks, the machine is overloaded (or was asleep), and the look does not
//! count; nor does it while a debugger holds the router; and one that computes has ten times as long.
//! `impl` blocks of [`Supervisor`], which calls them from its loop.

use std::time::{Duration, Instant};

use tutti_log::Level;
use tutti_sys::signal;

use super::processes::Numbered;
use super::pulse::{LOOKS, Seen, Verdict};
use super::supervisor::Supervisor;

/// Longest silence of a router that does not compute.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// The variable in the server's environment: seconds, or `off`.
const VARIABLE: &str = "TUTTI_WATCHDOG";

/// A router that is to end gracefully has to take note of it within this time, though it may be reading a huge configuration.
const LONGEST_DEAFNESS: Duration = Duration::from_secs(10);

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
            .routers
            .serving
            .as_ref()
            .filter(|r| r.understands_probes())?
            .pulse;
        let look = self.longest_silence.map(|_| pulse.next_look);
        look.into_iter().chain(pulse.deaf_until).min()
    }

    /// Asks the router for a sign of life, or kills it for want of one.
    pub(super) fn watch_router(&mut self, now: Instant) {
        let limit = self.longest_silence;
        let Some(router) = self
            .routers
            .serving
            .as_mut()
            .filter(|r| r.understands_probes())
        else {
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
        let Some(router) = self
            .routers
            .serving
            .as_mut()
            .filter(|r| r.understands_probes())
        else {
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
