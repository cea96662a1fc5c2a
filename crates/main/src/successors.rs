//! The new program's side of an upgrade: it continues with the handover of the former program, and its controller and
//! router take over, or it returns to the former program.
//!
//! `impl` blocks of [`Supervisor`]; see [`super::takeover`] for the overview.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tutti_log::Level;
use tutti_protocol::{Grants, ToController, ToRouter};
use tutti_sys::spawn::inherited;

use super::handover::{HandedRouter, Handover};
use super::isolation::Cgroups;
use super::lifecycle::{Life, Successors, Upgrade, UpgradePhase};
use super::own_process::{ControllerProcess, Launch, RouterProcess};
use super::processes::Numbered;
use super::rights::Rights;
use super::supervisor::Supervisor;

/// The new router starts all applications before it serves.
const LONGEST_START: Duration = Duration::from_secs(180);

impl Supervisor {
    fn adopt_router(&mut self, handed: &HandedRouter) -> io::Result<RouterProcess> {
        let mut rights = Rights::new(&handed.grants);
        rights.bank = handed.bank;
        self.holdings.rights.insert(handed.pid, rights);
        RouterProcess::adopt(handed)
    }

    /// Continues where another program has stopped.
    pub(super) fn resume(&mut self, handover: &Handover) -> io::Result<()> {
        self.life = Life::Serving;
        self.base = handover.totals;
        self.wanted_reload.clone_from(&handover.reload);
        self.holdings.grants = handover.grants.clone();
        self.holdings.cgroups = Cgroups::recorded(&handover.state);
        self.holdings.configuration = handover.configuration.clone();
        self.holdings.files = handover.files.iter().cloned().collect();
        self.holdings.quic_secret.clone_from(&handover.quic_secret);
        let bank = handover.router.as_ref().map_or(0, |router| router.bank);
        let retired = handover.retired.iter().map(|router| router.bank);
        self.holdings.sockets.turn_to(bank, retired)?;
        for sockets in &handover.datagrams {
            self.holdings.sockets.adopt_datagrams(sockets)?;
        }
        for socket in &handover.sockets {
            self.holdings.sockets.adopt(socket)?;
        }
        for socket in &handover.given {
            let open = inherited(socket.socket)?;
            self.holdings.sockets.give(socket.place.clone(), open);
        }
        for group in &handover.groups {
            self.holdings.children.adopt(group)?;
        }
        let controller = handover.controller.as_ref();
        self.controllers.serving = controller.map(ControllerProcess::adopt).transpose()?;
        if let Some(router) = &handover.router {
            self.routers.serving = Some(self.adopt_router(router)?);
        }
        for router in &handover.retired {
            let router = self.adopt_router(router)?;
            self.routers.leaving.push(router);
        }
        // The former program may have asked them to end; when it would have killed them is not handed over.
        let routers = self.router_pids();
        self.holdings.children.end_orphans(&routers, Instant::now());
        match &handover.refusal {
            Some(reason) => {
                self.continue_without_upgrade(handover.asked, reason);
                self.start_missing();
            }
            None => self.start_successors(handover),
        }
        // Children may have ended during the takeover.
        self.reap();
        Ok(())
    }

    fn start_successors(&mut self, handover: &Handover) {
        self.log(
            Level::Notice,
            &format!(
                "upgrade: version {} takes over from {}",
                env!("CARGO_PKG_VERSION"),
                handover.version
            ),
        );
        let previous = inherited(handover.previous).ok();
        match self.launch_controller(Launch::Successor) {
            Ok(controller) => {
                self.life = Life::Upgrading(Upgrade {
                    asked: handover.asked,
                    until: Instant::now() + LONGEST_START,
                    step: UpgradePhase::StartingController {
                        previous,
                        controller,
                    },
                });
            }
            Err(error) => {
                let reason = format!("its controller cannot be started: {error}");
                self.go_back_to(previous, handover.asked, &reason);
            }
        }
    }

    /// The new controller has sent the grants of the new router.
    pub(super) fn start_next_router(&mut self, grants: Grants) {
        let is_meant =
            |step: &UpgradePhase| matches!(step, UpgradePhase::StartingController { .. });
        let Some(upgrade) = self.life.end_upgrade(is_meant) else {
            return;
        };
        let UpgradePhase::StartingController {
            previous,
            controller,
        } = upgrade.step
        else {
            return;
        };
        match self.launch_router(Launch::Successor, &grants) {
            Ok(router) => {
                let successors = Successors {
                    controller,
                    router,
                    grants,
                };
                let step = UpgradePhase::StartingRouter {
                    previous,
                    successors,
                };
                self.life = Life::Upgrading(Upgrade { step, ..upgrade });
            }
            Err(error) => {
                controller.process.kill();
                let reason = format!("its router cannot be started: {error}");
                return self.go_back_to(previous, upgrade.asked, &reason);
            }
        }
        if self.routers.serving.is_none() {
            self.router_lost_in_upgrade();
        }
    }

    /// From now on the new controller and router serve. The former controller responds to the request for the upgrade.
    pub(super) fn promote(&mut self, asked: Option<u64>, successors: Successors) {
        self.holdings.grants = successors.grants;
        let rights = self.holdings.rights.get(&successors.router.pid());
        let bank = rights.map_or(0, |rights| rights.bank);
        self.lead_datagrams(bank);
        if let Some(id) = asked {
            self.answer(id, Vec::new());
        }
        if let Some(mut former) = self.controllers.serving.replace(successors.controller) {
            let _ = former.process.send(&ToController::End, Vec::new());
            self.controllers.leaving.push(former);
        }
        // A restart may be due for a former process that has ended.
        self.controller_restarts.cancel();
        self.send_to_controller(&ToController::Serve, Vec::new());
        if let Some(mut former) = self.routers.serving.replace(successors.router) {
            let _ = former.send(&ToRouter::Retire, Vec::new());
            self.routers.leaving.push(former);
        }
        self.send_totals();
    }

    /// The new controller or router does not reach the serving state: returns to the old program. `ended` is the one of
    /// them that has ended, if any.
    pub(super) fn go_back(&mut self, reason: &str, ended: Option<i32>) {
        let is_meant = |step: &UpgradePhase| {
            matches!(
                step,
                UpgradePhase::StartingController { .. } | UpgradePhase::StartingRouter { .. }
            )
        };
        let Some(mut upgrade) = self.life.end_upgrade(is_meant) else {
            return;
        };
        let previous = match &mut upgrade.step {
            UpgradePhase::StartingController { previous, .. }
            | UpgradePhase::StartingRouter { previous, .. } => previous.take(),
            UpgradePhase::Trial { .. } | UpgradePhase::Freezing { .. } => None,
        };
        let (controller, router) = upgrade.step.into_own();
        if let Some(controller) = controller.filter(|one| Some(one.pid()) != ended) {
            controller.process.kill();
        }
        if let Some(router) = router.filter(|one| Some(one.pid()) != ended) {
            router.process.kill();
            self.holdings.children.kill_of(router.pid());
            self.holdings.rights.remove(&router.pid());
            self.lead_datagrams(self.holdings.sockets.bank());
        }
        self.go_back_to(previous, upgrade.asked, reason);
    }

    /// Returns to the former program, or continues without it.
    fn go_back_to(&mut self, previous: Option<OwnedFd>, asked: Option<u64>, reason: &str) {
        if let Some(previous) = previous {
            let reason = format!("version {}: {reason}", env!("CARGO_PKG_VERSION"));
            self.log(Level::Error, &format!("upgrade: rolling back: {reason}"));
            let program = PathBuf::from(format!("/proc/self/fd/{}", previous.as_raw_fd()));
            let error = self.hand_over(&program, asked, Some(reason));
            let text = format!(
                "cannot return to the former program: {error}; the former router continues"
            );
            self.log(Level::Alert, &text);
        }
        self.continue_without_upgrade(asked, reason);
        self.start_missing();
    }

    /// The new router is ready, and serves from now on.
    pub(super) fn next_router_ready(&mut self) {
        let Some((asked, mut successors)) = self.life.take_successors() else {
            return;
        };
        successors.router.is_ready = true;
        self.log(
            Level::Notice,
            &format!(
                "upgrade: version {} serves; the former router finishes its requests",
                env!("CARGO_PKG_VERSION")
            ),
        );
        self.promote(asked, successors);
        self.ask_router();
    }
}
