//! The watchdog: detects processes of the server that hang.
//!
//! Main sends probes to the router, the controller, and the acme and source processes. Each answers from the loop that
//! does its work; the router answers once all of its listen threads have. A process that does not answer for
//! [`DEFAULT_LIMIT`] is killed, and another started. It is not killed for causes outside its control: if main itself
//! was late by more than half of the pause between two checks, the machine is overloaded (or was asleep), and the check
//! does not count; nor does it while a debugger holds the process; and a computing process has ten times as long. The
//! processes of applications are watched by the router (`tutti_pool`), with the same limit.
//! `impl` blocks of [`Supervisor`], which calls them from its loop.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tutti_log::Level;
use tutti_protocol::{
    FromAcme, FromController, FromFleet, FromRouter, ToAcme, ToController, ToFleet, ToRouter,
};

use super::heartbeat::{LOOKS, Liveness, Seen};
use super::own_process::OwnProcess;
use super::supervisor::Supervisor;

/// Longest silence of a process that does not compute.
const DEFAULT_LIMIT: Duration = Duration::from_secs(30);

/// The environment variable: seconds, or `off`.
const VARIABLE: &str = "TUTTI_WATCHDOG";

/// Time for a router to react to a graceful stop, even if it is reading a huge configuration.
const LONGEST_DEAFNESS: Duration = Duration::from_secs(10);

/// Returns how long a process may be silent: `None` means forever.
pub(super) fn limit(value: Option<&str>) -> Result<Option<Duration>, String> {
    match value {
        None | Some("") => Ok(Some(DEFAULT_LIMIT)),
        Some("off") => Ok(None),
        Some(text) => match text.parse() {
            Ok(seconds @ 1..=86400) => Ok(Some(Duration::from_secs(seconds))),
            _ => Err(format!(
                "{VARIABLE} is `{text}`, which is neither `off` nor a number of seconds from 1 to 86400: using {} seconds",
                DEFAULT_LIMIT.as_secs()
            )),
        },
    }
}

impl Supervisor {
    /// Reads the variable; logs if it is invalid.
    pub(super) fn watchdog_from_environment(&mut self) {
        let value = std::env::var_os(VARIABLE).map(|value| value.to_string_lossy().into_owned());
        self.longest_silence = limit(value.as_deref()).unwrap_or_else(|complaint| {
            self.log(Level::Warn, &complaint);
            Some(DEFAULT_LIMIT)
        });
    }

    /// Returns when [`Self::watch`] must be called next.
    pub(super) fn next_look(&self) -> Option<Instant> {
        let limit = self.longest_silence;
        let router = self.routers.serving.as_ref();
        let controller = self.controllers.serving.as_ref();
        let looks = [
            router.and_then(|router| router.process.next_look(limit)),
            controller.and_then(|controller| controller.process.next_look(limit)),
            self.acme.process().and_then(|acme| acme.next_look(limit)),
            self.fleet
                .process()
                .and_then(|fleet| fleet.next_look(limit)),
        ];
        looks.into_iter().flatten().min()
    }

    /// Sends probes to the processes, and kills those that do not answer.
    pub(super) fn watch(&mut self, now: Instant) {
        let limit = self.longest_silence;
        let router = self.routers.serving.as_mut();
        let controller = self.controllers.serving.as_mut();
        let complaints = [
            router.and_then(|router| router.process.watch(now, limit)),
            controller.and_then(|controller| controller.process.watch(now, limit)),
            self.acme
                .process
                .as_mut()
                .and_then(|acme| acme.watch(now, limit)),
            self.fleet
                .process
                .as_mut()
                .and_then(|fleet| fleet.watch(now, limit)),
        ];
        for complaint in complaints.into_iter().flatten() {
            self.log(Level::Alert, &complaint);
        }
    }

    /// The router has just been stopped.
    pub(super) fn expect_to_be_heard(&mut self) {
        let router = self.routers.serving.as_mut();
        let Some(router) = router.filter(|router| router.process.understands_probes()) else {
            return;
        };
        router.process.probe();
        router.process.pulse.deaf_until = Some(Instant::now() + LONGEST_DEAFNESS);
    }
}

/// The messages of a process that answers probes.
pub(super) trait Watched: DeserializeOwned {
    /// The name of the process in the log.
    const NAME: &'static str;
    /// The messages to it.
    type Question: Serialize;

    /// Creates a probe.
    fn probe(number: u64) -> Self::Question;
}

impl Watched for FromRouter {
    const NAME: &'static str = "router process";
    type Question = ToRouter;

    fn probe(number: u64) -> ToRouter {
        ToRouter::Probe { number }
    }
}

impl Watched for FromController {
    const NAME: &'static str = "controller process";
    type Question = ToController;

    fn probe(number: u64) -> ToController {
        ToController::Probe { number }
    }
}

impl Watched for FromAcme {
    const NAME: &'static str = "the certificate process,";
    type Question = ToAcme;

    fn probe(number: u64) -> ToAcme {
        ToAcme::Probe { number }
    }
}

impl Watched for FromFleet {
    const NAME: &'static str = "the source process,";
    type Question = ToFleet;

    fn probe(number: u64) -> ToFleet {
        ToFleet::Probe { number }
    }
}

impl<In: Watched> OwnProcess<In> {
    fn probe(&mut self) {
        let number = self.pulse.ask();
        // A process that has ended is noticed by its end.
        let _ = self.send(&In::probe(number), Vec::new());
    }

    fn next_look(&self, limit: Option<Duration>) -> Option<Instant> {
        if !self.understands_probes() {
            return None;
        }
        let look = limit.map(|_| self.pulse.next_look);
        look.into_iter().chain(self.pulse.deaf_until).min()
    }

    /// Sends a probe, or kills the process if it does not answer. Returns a message for the log.
    fn watch(&mut self, now: Instant, limit: Option<Duration>) -> Option<String> {
        if !self.understands_probes() {
            return None;
        }
        let (name, pid) = (In::NAME, self.pid);
        if self.pulse.deaf_until.is_some_and(|until| until <= now) {
            self.pulse.deaf_until = None;
            self.kill();
            return Some(format!(
                "{name} {pid} has not reacted to the stop for {} seconds; killing it",
                LONGEST_DEAFNESS.as_secs()
            ));
        }
        let limit = limit.filter(|_| self.pulse.next_look <= now)?;
        let pause = limit / LOOKS;
        let Some(seen) = Seen::of(pid) else {
            // It has ended, or there is no `/proc` any more.
            self.pulse.postpone(now, pause);
            return None;
        };
        match self.pulse.look(now, pause, seen) {
            Liveness::Wait => None,
            Liveness::Ask => {
                self.probe();
                None
            }
            Liveness::Hangs => {
                self.kill();
                let state = match seen.state {
                    'T' => "it is stopped by a signal",
                    'D' => "it is waiting for the kernel, perhaps for a disk",
                    'R' => "it is using the processor all the time",
                    _ => "it is waiting for something that does not happen",
                };
                Some(format!(
                    "{name} {pid} has sent no heartbeat for {} seconds ({state}); killing it and starting another \
                     ({VARIABLE}=off in the server's environment disables this)",
                    limit.as_secs()
                ))
            }
        }
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
