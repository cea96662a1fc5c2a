//! The states of main, from its start to its stop: one at a time, with the data that belongs to each.
//!
//! Used by the supervisor, which acts; here are the states and their transitions. A transition consumes the state it
//! leaves, so that no data of an upgrade is left once it has ended or a stop has begun.

use std::io::PipeReader;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use tutti_protocol::Grants;

use super::own_process::{ControllerProcess, RouterProcess};
use super::processes::Numbered;

/// Time for controller and router to end by themselves at a quick stop.
pub(super) const QUICK_STOP: Duration = Duration::from_secs(2);

/// The state of main.
#[expect(clippy::large_enum_variant, reason = "main has one")]
pub(super) enum Life {
    /// The controller decides what to start with.
    Beginning,
    /// That is decided, and no router has served yet.
    Starting,
    /// A router has served. If it ends, another is started.
    Serving,
    /// A router serves, while another program is to take over, or this program is taking over from one.
    Upgrading(Upgrade),
    /// Stopping. This is final.
    Stopping(Stop),
}

/// An upgrade in progress.
pub(super) struct Upgrade {
    /// The controller's request for it, which must be answered.
    pub(super) asked: Option<u64>,
    /// The time limit of the current step.
    pub(super) until: Instant,
    pub(super) step: UpgradePhase,
}

/// The current step of an upgrade in this program.
#[expect(clippy::large_enum_variant, reason = "main has one")]
pub(super) enum UpgradePhase {
    /// The new program runs its trial.
    Trial { pid: i32, output: PipeReader },
    /// Controller and router are being frozen.
    Freezing {
        is_controller_at_rest: bool,
        is_router_at_rest: bool,
    },
    /// In the new program: its controller computes the grants of its router.
    StartingController {
        /// The program to return to; `None` if it cannot be opened.
        previous: Option<OwnedFd>,
        controller: ControllerProcess,
    },
    /// In the new program: its router starts.
    StartingRouter {
        previous: Option<OwnedFd>,
        successors: Successors,
    },
}

/// The processes that take over from those of the former program.
pub(super) struct Successors {
    pub(super) controller: ControllerProcess,
    pub(super) router: RouterProcess,
    /// The rights of the router.
    pub(super) grants: Grants,
}

/// A stop in progress.
pub(super) struct Stop {
    pub(super) exit: ExitCode,
    pub(super) pace: Pace,
}

/// The time that the processes have to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Routers finish their requests.
    Graceful,
    /// Routers are killed at that time.
    Quick { kill_at: Instant },
    /// No router is left, and controllers have been asked to end. They are killed at that time.
    LastAnswers { kill_at: Instant },
}

impl Life {
    pub(super) fn is_stopping(&self) -> bool {
        matches!(self, Life::Stopping(_))
    }

    /// True if requests have been served, so that serving must continue.
    pub(super) fn has_served(&self) -> bool {
        matches!(self, Life::Serving | Life::Upgrading(_))
    }

    /// Returns when the stop or the current step of the upgrade is overdue.
    pub(super) fn deadline(&self) -> Option<Instant> {
        match self {
            Life::Beginning | Life::Starting | Life::Serving => None,
            Life::Upgrading(upgrade) => Some(upgrade.until),
            Life::Stopping(stop) => stop.pace.kill_at(),
        }
    }

    /// Starts a stop, or turns the one in progress into a quick one. Returns the former state; `None` if a stop at this
    /// pace or a faster one is in progress.
    pub(super) fn stop(&mut self, stop: Stop) -> Option<Life> {
        match self {
            Life::Stopping(now) if now.pace != Pace::Graceful || stop.pace == Pace::Graceful => {
                None
            }
            _ => Some(std::mem::replace(self, Life::Stopping(stop))),
        }
    }

    /// Ends the upgrade in progress if `is_meant` is true for it: main then just serves.
    pub(super) fn end_upgrade(
        &mut self,
        is_meant: impl Fn(&UpgradePhase) -> bool,
    ) -> Option<Upgrade> {
        match std::mem::replace(self, Life::Serving) {
            Life::Upgrading(upgrade) if is_meant(&upgrade.step) => Some(upgrade),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Ends the upgrade in progress if this process is the trial. Returns the request for the upgrade, and the trial's
    /// output.
    pub(super) fn end_trial(&mut self, ended: i32) -> Option<(Option<u64>, PipeReader)> {
        let is_it =
            |step: &UpgradePhase| matches!(step, UpgradePhase::Trial { pid, .. } if *pid == ended);
        let upgrade = self.end_upgrade(is_it)?;
        match upgrade.step {
            UpgradePhase::Trial { output, .. } => Some((upgrade.asked, output)),
            _ => None,
        }
    }

    /// Ends the upgrade in progress if the new controller and router are ready to take over. Returns the request for it
    /// with them.
    pub(super) fn take_successors(&mut self) -> Option<(Option<u64>, Successors)> {
        let upgrade =
            self.end_upgrade(|step| matches!(step, UpgradePhase::StartingRouter { .. }))?;
        match upgrade.step {
            UpgradePhase::StartingRouter { successors, .. } => Some((upgrade.asked, successors)),
            _ => None,
        }
    }

    fn step(&self) -> Option<&UpgradePhase> {
        match self {
            Life::Upgrading(upgrade) => Some(&upgrade.step),
            _ => None,
        }
    }

    /// Returns the controller that will serve after an upgrade.
    pub(super) fn next_controller(&self) -> Option<&ControllerProcess> {
        match self.step()? {
            UpgradePhase::Trial { .. } | UpgradePhase::Freezing { .. } => None,
            UpgradePhase::StartingController { controller, .. } => Some(controller),
            UpgradePhase::StartingRouter { successors, .. } => Some(&successors.controller),
        }
    }

    pub(super) fn next_controller_mut(&mut self) -> Option<&mut ControllerProcess> {
        let Life::Upgrading(upgrade) = self else {
            return None;
        };
        match &mut upgrade.step {
            UpgradePhase::Trial { .. } | UpgradePhase::Freezing { .. } => None,
            UpgradePhase::StartingController { controller, .. } => Some(controller),
            UpgradePhase::StartingRouter { successors, .. } => Some(&mut successors.controller),
        }
    }

    /// Returns the router that will serve after an upgrade.
    pub(super) fn next_router(&self) -> Option<&RouterProcess> {
        match self.step()? {
            UpgradePhase::StartingRouter { successors, .. } => Some(&successors.router),
            _ => None,
        }
    }

    pub(super) fn next_router_mut(&mut self) -> Option<&mut RouterProcess> {
        match self {
            Life::Upgrading(Upgrade {
                step: UpgradePhase::StartingRouter { successors, .. },
                ..
            }) => Some(&mut successors.router),
            _ => None,
        }
    }

    pub(super) fn is_next_controller(&self, pid: i32) -> bool {
        self.next_controller().is_some_and(|one| one.pid() == pid)
    }

    pub(super) fn is_next_router(&self, pid: i32) -> bool {
        self.next_router().is_some_and(|one| one.pid() == pid)
    }
}

impl Upgrade {
    /// True if no process of the old version is making changes any more.
    pub(super) fn is_at_rest(&self) -> bool {
        matches!(
            self.step,
            UpgradePhase::Freezing {
                is_controller_at_rest: true,
                is_router_at_rest: true,
            }
        )
    }
}

impl UpgradePhase {
    /// Returns the new program's processes: its controller and, once it is started, its router.
    pub(super) fn into_own(self) -> (Option<ControllerProcess>, Option<RouterProcess>) {
        match self {
            UpgradePhase::Trial { .. } | UpgradePhase::Freezing { .. } => (None, None),
            UpgradePhase::StartingController { controller, .. } => (Some(controller), None),
            UpgradePhase::StartingRouter { successors, .. } => {
                (Some(successors.controller), Some(successors.router))
            }
        }
    }
}

impl Stop {
    pub(super) fn graceful() -> Stop {
        Stop {
            exit: ExitCode::SUCCESS,
            pace: Pace::Graceful,
        }
    }

    pub(super) fn quick(exit: ExitCode) -> Stop {
        let kill_at = Instant::now() + QUICK_STOP;
        Stop {
            exit,
            pace: Pace::Quick { kill_at },
        }
    }
}

impl Pace {
    pub(super) fn kill_at(self) -> Option<Instant> {
        match self {
            Pace::Graceful => None,
            Pace::Quick { kill_at } | Pace::LastAnswers { kill_at } => Some(kill_at),
        }
    }

    /// The time is over: remaining processes are killed, and checked again later.
    pub(super) fn overdue(self, now: Instant) -> Pace {
        let kill_at = now + QUICK_STOP;
        match self {
            Pace::Graceful => self,
            Pace::Quick { .. } => Pace::Quick { kill_at },
            Pace::LastAnswers { .. } => Pace::LastAnswers { kill_at },
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn upgrading(step: UpgradePhase) -> Life {
        Life::Upgrading(Upgrade {
            asked: Some(7),
            until: Instant::now(),
            step,
        })
    }

    fn trial() -> Life {
        let output = std::io::pipe().unwrap().0;
        upgrading(UpgradePhase::Trial { pid: 42, output })
    }

    fn freezing(is_at_rest: bool) -> Life {
        upgrading(UpgradePhase::Freezing {
            is_controller_at_rest: true,
            is_router_at_rest: is_at_rest,
        })
    }

    #[test]
    fn a_stop_ends_an_upgrade_and_only_becomes_faster() {
        let mut life = trial();
        let before = life.stop(Stop::graceful());
        assert!(matches!(before, Some(Life::Upgrading(_))) && life.deadline().is_none());
        assert!(life.end_trial(42).is_none() && life.is_stopping());
        assert!(life.stop(Stop::graceful()).is_none());
        assert!(life.stop(Stop::quick(ExitCode::FAILURE)).is_some());
        assert!(life.deadline().is_some());
        assert!(life.stop(Stop::quick(ExitCode::SUCCESS)).is_none());
        assert!(life.stop(Stop::graceful()).is_none());
        assert!(matches!(life, Life::Stopping(stop) if stop.exit == ExitCode::FAILURE));
    }

    #[test]
    fn who_has_the_last_answers_to_give_is_not_hurried() {
        let mut life = Life::Stopping(Stop {
            exit: ExitCode::SUCCESS,
            pace: Pace::LastAnswers {
                kill_at: Instant::now(),
            },
        });
        assert!(life.stop(Stop::quick(ExitCode::SUCCESS)).is_none());
        let now = Instant::now();
        let Life::Stopping(stop) = life else {
            unreachable!()
        };
        assert_eq!(stop.pace.overdue(now).kill_at(), Some(now + QUICK_STOP));
        assert_eq!(Pace::Graceful.overdue(now), Pace::Graceful);
    }

    #[test]
    fn an_upgrade_is_ended_only_by_its_own_processes() {
        let mut life = trial();
        assert!(life.end_trial(43).is_none() && life.take_successors().is_none());
        assert!(matches!(life.end_trial(42), Some((Some(7), _))));
        assert!(matches!(life, Life::Serving) && life.has_served());
        assert!(life.end_upgrade(|_| true).is_none());
        for mut other in [Life::Beginning, Life::Starting] {
            assert!(other.end_upgrade(|_| true).is_none() && !other.has_served());
        }
    }

    #[test]
    fn both_must_be_at_rest_before_the_takeover() {
        for (life, is_at_rest) in [
            (trial(), false),
            (freezing(false), false),
            (freezing(true), true),
        ] {
            let Life::Upgrading(upgrade) = life else {
                unreachable!()
            };
            assert_eq!(upgrade.is_at_rest(), is_at_rest);
        }
    }
}
