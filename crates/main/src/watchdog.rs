//! The watchdog: a process of the server's own that is there and does nothing is noticed.
//!
//! Main asks the router, the controller, and the processes for certificates and for the source from time to time. Each answers from
//! the loop that does its work; the router does so once all of its listen threads have. One that does not
//! answer for [`DEFAULT_LIMIT`] is killed, and another started. It is not killed for what it cannot help: where main itself
//! was late by more than half of the pause between two looks, the machine is overloaded (or was asleep), and the look does not
//! count; nor does it while a debugger holds the process; and one that computes has ten times as long. The processes of applications
//! are watched by the router (`tutti_pool`), which has the same limit.
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

/// The variable in the server's environment: seconds, or `off`.
const VARIABLE: &str = "TUTTI_WATCHDOG";

/// A router that is to end gracefully has to take note of it within this time, though it may be reading a huge configuration.
const LONGEST_DEAFNESS: Duration = Duration::from_secs(10);

/// How long a process may be silent: `None` for ever.
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

    /// When [`Self::watch`] is next to be called.
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

    /// Asks the processes for signs of life, and kills those that give none.
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

    /// The router has just been told to end.
    pub(super) fn expect_to_be_heard(&mut self) {
        let router = self.routers.serving.as_mut();
        let Some(router) = router.filter(|router| router.process.understands_probes()) else {
            return;
        };
        router.process.probe();
        router.process.pulse.deaf_until = Some(Instant::now() + LONGEST_DEAFNESS);
    }
}

/// The messages of a process that is asked for signs of life.
pub(super) trait Watched: DeserializeOwned {
    /// The name of the process in the log.
    const NAME: &'static str;
    /// The messages to it.
    type Question: Serialize;

    /// Asks for a sign of life.
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
    const NAME: &'static str = "the process for certificates,";
    type Question = ToAcme;

    fn probe(number: u64) -> ToAcme {
        ToAcme::Probe { number }
    }
}

impl Watched for FromFleet {
    const NAME: &'static str = "the process that follows the source,";
    type Question = ToFleet;

    fn probe(number: u64) -> ToFleet {
        ToFleet::Probe { number }
    }
}

impl<In: Watched> OwnProcess<In> {
    fn probe(&mut self) {
        let number = self.pulse.ask();
        // One that has gone is noticed by its end.
        let _ = self.send(&In::probe(number), Vec::new());
    }

    fn next_look(&self, limit: Option<Duration>) -> Option<Instant> {
        if !self.understands_probes() {
            return None;
        }
        let look = limit.map(|_| self.pulse.next_look);
        look.into_iter().chain(self.pulse.deaf_until).min()
    }

    /// Asks for a sign of life, or kills the process for want of one. Returns what the log says of that.
    fn watch(&mut self, now: Instant, limit: Option<Duration>) -> Option<String> {
        if !self.understands_probes() {
            return None;
        }
        let (name, pid) = (In::NAME, self.pid);
        if self.pulse.deaf_until.is_some_and(|until| until <= now) {
            self.pulse.deaf_until = None;
            self.kill();
            return Some(format!(
                "{name} {pid} has not taken note of the stop for {} seconds; it is killed",
                LONGEST_DEAFNESS.as_secs()
            ));
        }
        let limit = limit.filter(|_| self.pulse.next_look <= now)?;
        let seen = Seen::of(pid)?;
        match self.pulse.look(now, limit / LOOKS, seen) {
            Liveness::Wait => None,
            Liveness::Ask => {
                self.probe();
                None
            }
            Liveness::Hangs => {
                self.kill();
                let state = match seen.state {
                    'T' => "it is stopped by a signal",
                    'D' => "it waits for the kernel, perhaps for a disk",
                    'R' => "it computes all the time",
                    _ => "it waits for something that does not come",
                };
                Some(format!(
                    "{name} {pid} has given no sign of life for {} seconds ({state}); it is killed, and another started \
                     ({VARIABLE}=off in the server's environment leaves it alone)",
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
