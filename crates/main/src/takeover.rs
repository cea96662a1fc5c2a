//! Upgrade while serving: trial, takeover, and rollback.
//!
//! 1. *Trial*: the new program is run beside this one with a copy of the handover. It parses it, queries the language
//!    hosts, checks the configuration, and reports that it is ready. A failure here changes nothing.
//! 2. The controller finishes a configuration change in progress, accepts no other, and leaves control connections
//!    waiting.
//! 3. *Takeover*: this process becomes the new program, with the same process id and children; the old router continues
//!    to serve.
//! 4. The new program starts its controller and, with its grants, its router beside the old one, on the same sockets.
//!    When the new router serves, the old processes are retired: the old router accepts nothing more, finishes its
//!    requests, and ends. If the new router does not reach the serving state, the process becomes the old program
//!    again, and the old router accepts changes again.
//!
//! `impl` blocks of [`Supervisor`], which calls them from its loop; step 4 is in [`super::successors`]. See
//! docs/project/decisions/0091-upgrade-in-place.md.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tutti_log::Level;
use tutti_protocol::{Reason, ToController, ToRouter};
use tutti_sys::process::Ended;
use tutti_sys::signal;

use super::handover::{HandedRouter, Handover, PROTOCOL, plain_arguments};
use super::lifecycle::{Life, Upgrade, UpgradePhase};
use super::own_process::{ControllerProcess, OWN_PROGRAM, RouterProcess};
use super::processes::Numbered;
use super::rights::Rights;
use super::service_manager;
use super::supervisor::Supervisor;
use super::trial::{self, READY};

/// A trial queries the language hosts and parses a configuration: seconds at most.
const LONGEST_TRIAL: Duration = Duration::from_secs(60);

/// A configuration change may start applications.
const LONGEST_CHANGE: Duration = Duration::from_secs(60);

impl Supervisor {
    /// SIGUSR2, or `tutti upgrade` (then `asked` is the controller's request).
    pub(super) fn begin_upgrade(&mut self, asked: Option<u64>) {
        if let Some(reason) = self.why_no_upgrade() {
            return self.report_failed_upgrade(asked, reason);
        }
        service_manager::reloading(&self.instance.log);
        let program = self.instance.program.clone();
        self.log(
            Level::Notice,
            &format!("upgrade: trying `{}`", program.display()),
        );
        let started = self
            .handover(asked, None)
            .and_then(|(handover, _previous)| {
                trial::start(&program, &self.instance.arguments, &handover)
            });
        match started {
            Ok((pid, output)) => {
                self.life = Life::Upgrading(Upgrade {
                    asked,
                    until: Instant::now() + LONGEST_TRIAL,
                    step: UpgradePhase::Trial { pid, output },
                });
            }
            Err(error) => {
                let reason = format!("`{}` cannot be run: {error}", program.display());
                self.continue_without_upgrade(asked, &reason);
            }
        }
    }

    fn why_no_upgrade(&self) -> Option<&'static str> {
        if matches!(self.life, Life::Upgrading(_)) {
            Some("an upgrade is in progress")
        } else if self.is_stopping() || self.fleet.nodes.is_leaving() {
            Some("the server is stopping")
        } else if !self
            .routers
            .serving
            .as_ref()
            .is_some_and(|router| router.is_ready)
        {
            Some("the router is still starting; try again in a moment")
        } else if self.controllers.serving.is_none() {
            Some("the controller is still starting; try again in a moment")
        } else {
            None
        }
    }

    fn report_failed_upgrade(&mut self, asked: Option<u64>, reason: &str) {
        self.log(
            Level::Error,
            &format!(
                "upgrade failed, version {} continues: {reason}",
                env!("CARGO_PKG_VERSION")
            ),
        );
        if let Some(id) = asked {
            self.refuse(id, Reason::Refused, reason);
        }
    }

    /// Aborts the upgrade in progress: everything continues as before.
    fn refuse_upgrade(&mut self, reason: &str) {
        if let Some(upgrade) = self.life.end_upgrade(|_| true) {
            self.continue_without_upgrade(upgrade.asked, reason);
        }
    }

    /// Continues as before an upgrade, which has ended for this reason.
    pub(super) fn continue_without_upgrade(&mut self, asked: Option<u64>, reason: &str) {
        self.report_failed_upgrade(asked, reason);
        service_manager::ready(&self.instance.log);
        self.send_to_controller(&ToController::Thaw, Vec::new());
        if let Some(router) = &mut self.routers.serving {
            let _ = router.send(&ToRouter::Thaw, Vec::new());
        }
    }

    /// Starts the router or controller that ended during an upgrade, which cancelled its restart.
    pub(super) fn start_missing(&mut self) {
        if self.routers.serving.is_none() && self.router_restarts.deadline().is_none() {
            self.start_router();
        }
        if self.controllers.serving.is_none() && self.controller_restarts.deadline().is_none() {
            self.start_controller();
        }
    }

    /// Handles the end of a child; true if it was the trial.
    pub(super) fn trial_ended(&mut self, ended_pid: i32, ended: Ended) -> bool {
        let Some((asked, output)) = self.life.end_trial(ended_pid) else {
            return false;
        };
        let words = trial::words_of(output);
        if ended != Ended::Code(0) {
            let reason = format!("the new program {ended} when it was tried: {words}");
            self.continue_without_upgrade(asked, &reason);
        } else if !words.contains(&format!("{READY} {PROTOCOL}")) {
            let reason = format!("the new program does not report that it can take over: {words}");
            self.continue_without_upgrade(asked, &reason);
        } else {
            self.life = Life::Upgrading(Upgrade {
                asked,
                until: Instant::now() + LONGEST_CHANGE,
                step: UpgradePhase::Freezing {
                    is_controller_at_rest: false,
                    is_router_at_rest: false,
                },
            });
            self.send_to_controller(&ToController::Freeze, Vec::new());
            if let Some(router) = &mut self.routers.serving {
                let _ = router.send(&ToRouter::Freeze, Vec::new());
            }
        }
        true
    }

    /// The controller accepts no changes any more.
    pub(super) fn controller_frozen(&mut self) {
        if let Life::Upgrading(Upgrade {
            step:
                UpgradePhase::Freezing {
                    is_controller_at_rest,
                    ..
                },
            ..
        }) = &mut self.life
        {
            *is_controller_at_rest = true;
        }
        self.hand_over_if_at_rest();
    }

    /// The router prepares no changes any more.
    pub(super) fn router_frozen(&mut self) {
        if let Life::Upgrading(Upgrade {
            step: UpgradePhase::Freezing {
                is_router_at_rest, ..
            },
            ..
        }) = &mut self.life
        {
            *is_router_at_rest = true;
        }
        self.hand_over_if_at_rest();
    }

    /// Hands over now, if nothing is pending.
    pub(super) fn hand_over_if_at_rest(&mut self) {
        let Life::Upgrading(upgrade) = &self.life else {
            return;
        };
        if !upgrade.is_at_rest() || !self.pending.is_empty() {
            return;
        }
        let asked = upgrade.asked;
        let program = self.instance.program.clone();
        let error = self.hand_over(&program, asked, None);
        self.refuse_upgrade(&format!("`{}` cannot be run: {error}", program.display()));
    }

    /// Becomes another program; returns only if that fails.
    pub(super) fn hand_over(
        &mut self,
        program: &Path,
        asked: Option<u64>,
        refusal: Option<String>,
    ) -> io::Error {
        // They have had time for their responses.
        for controller in &self.controllers.leaving {
            controller.process.kill();
        }
        // Everything it has started is stored, so it need not be handed over: the next main starts another.
        self.acme.kill();
        self.fleet.kill();
        let flushed = self
            .controllers
            .serving
            .iter_mut()
            .try_for_each(|controller| controller.process.flush_all())
            .and_then(|()| {
                let mut routers = self.routers.all_mut();
                routers.try_for_each(|router| router.process.flush_all())
            });
        if let Err(error) = flushed {
            return error;
        }
        match self.handover(asked, refusal) {
            Ok((handover, _keep)) => handover.become_program(program, &self.instance.arguments),
            Err(error) => error,
        }
    }

    /// Returns the handover of the current state, with the descriptors that were opened for it.
    fn handover(
        &self,
        asked: Option<u64>,
        refusal: Option<String>,
    ) -> io::Result<(Handover, [OwnedFd; 2])> {
        let previous = OwnedFd::from(File::open(OWN_PROGRAM)?);
        let log = self.instance.log.descriptor()?;
        let instance = &self.instance;
        let places = &instance.places;
        let handover = Handover {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            refusal,
            asked,
            program: instance.program.clone(),
            previous: previous.as_raw_fd(),
            control: instance.control.as_raw_fd(),
            log: log.as_raw_fd(),
            state_lock: instance.state_lock.as_raw_fd(),
            pid_file: instance.pid_file.as_ref().map(|file| file.number()),
            control_place: (&places.control).into(),
            pid: places.pid.clone(),
            log_path: places.log.clone(),
            modules: places.modules.clone(),
            state: places.state.clone(),
            config: self.instance.places.config.clone(),
            source: self.instance.places.source.clone(),
            is_watching: self.instance.places.is_watching,
            reload: self.reload_to_hand_over(),
            sigterm: self.instance.places.sigterm,
            temporary: places.temporary.clone(),
            has_own_temporary_folder: instance.has_own_temporary_folder,
            is_daemon: instance.is_daemon,
            configuration: self.holdings.configuration.clone(),
            files: self.holdings.files.iter().cloned().collect(),
            sockets: self.holdings.sockets.handed(),
            quic_secret: self.holdings.quic_secret.clone(),
            datagrams: self.holdings.sockets.handed_datagrams(),
            given: self.holdings.sockets.handed_given(),
            groups: self.holdings.children.handed(),
            grants: self.holdings.grants.clone(),
            controller: self
                .controllers
                .serving
                .as_ref()
                .map(ControllerProcess::handed),
            router: self
                .routers
                .serving
                .as_ref()
                .map(|router| self.handed(router)),
            retired: self
                .routers
                .leaving
                .iter()
                .map(|r| self.handed(r))
                .collect(),
            totals: self.base,
        };
        Ok((handover, [previous, log]))
    }

    fn handed(&self, router: &RouterProcess) -> HandedRouter {
        let rights = self.holdings.rights.get(&router.pid());
        HandedRouter {
            pid: router.pid(),
            socket: router.socket_number(),
            is_ready: router.is_ready,
            bank: rights.map_or(0, |rights| rights.bank),
            grants: rights.map(Rights::handed).unwrap_or_default(),
        }
    }

    /// The serving router has ended during an upgrade. Once the new one is starting, it takes over immediately: there
    /// is nothing to return to.
    pub(super) fn router_lost_in_upgrade(&mut self) {
        let Life::Upgrading(upgrade) = &self.life else {
            return;
        };
        match upgrade.step {
            UpgradePhase::Trial { .. } => {}
            UpgradePhase::Freezing { .. } => {
                self.refuse_upgrade("the router has ended in the meantime")
            }
            // The next router is the new one, as soon as the new controller has sent its grants.
            UpgradePhase::StartingController { .. } => self.router_restarts.cancel(),
            UpgradePhase::StartingRouter { .. } => {
                self.router_restarts.cancel();
                if let Some((asked, successors)) = self.life.take_successors() {
                    self.promote(asked, successors);
                }
            }
        }
    }

    /// The controller has ended: it can neither answer the upgrade request nor confirm that no change is in progress.
    pub(super) fn controller_lost_in_upgrade(&mut self) {
        let Life::Upgrading(upgrade) = &mut self.life else {
            return;
        };
        upgrade.asked = None;
        if matches!(upgrade.step, UpgradePhase::Freezing { .. }) {
            self.refuse_upgrade("the controller has ended in the meantime");
        }
    }

    /// A step of the upgrade has exceeded its time limit.
    pub(super) fn upgrade_overdue(&mut self) {
        let Life::Upgrading(upgrade) = &self.life else {
            return;
        };
        match upgrade.step {
            UpgradePhase::Trial { pid, .. } => {
                let _ = signal::send_group(pid, libc::SIGKILL);
                self.refuse_upgrade("the trial of the new program gets no answer");
            }
            UpgradePhase::Freezing { .. } => {
                self.refuse_upgrade("a configuration change in progress does not finish");
            }
            UpgradePhase::StartingController { .. } | UpgradePhase::StartingRouter { .. } => {
                self.go_back("its router does not start serving in time", None);
            }
        }
    }

    /// A stop has aborted this upgrade. The processes that were to serve after it leave with the others.
    pub(super) fn abandon_upgrade(&mut self, upgrade: Upgrade) {
        if let UpgradePhase::Trial { pid, .. } = upgrade.step {
            let _ = signal::send_group(pid, libc::SIGKILL);
        }
        let (controller, router) = upgrade.step.into_own();
        self.controllers.leaving.extend(controller);
        self.routers.leaving.extend(router);
    }

    /// Notifies the router in force of a job that a former one has delivered. Without this the job would be delivered
    /// again.
    pub(super) fn send_delivered(&mut self, spooler: String, job: u64, error: String) {
        if let Some(router) = &mut self.routers.serving {
            let delivered = ToRouter::JobDelivered {
                spooler,
                job,
                error,
            };
            let _ = router.send(&delivered, Vec::new());
        }
    }

    /// Makes the router in force store a job that a client has submitted to a former one. Without one, the stream is closed, and
    /// the client is answered 503.
    pub(super) fn send_job(&mut self, stream: Vec<OwnedFd>) {
        if let Some(router) = &mut self.routers.serving {
            let _ = router.send(&ToRouter::TakeJob, stream);
        }
    }

    /// True if a router may store jobs.
    pub(super) fn may_have_jobs(&self, pid: i32) -> bool {
        let rights = self.holdings.rights.get(&pid);
        rights.is_some_and(super::rights::Rights::has_jobs)
    }

    /// Sends the router in force the counters from before its start.
    pub(super) fn send_totals(&mut self) {
        let sum = self
            .routers
            .leaving
            .iter()
            .fold(self.base, |sum, router| sum + router.totals);
        if let Some(router) = &mut self.routers.serving {
            let _ = router.send(&ToRouter::Totals { totals: sum }, Vec::new());
        }
    }
}

/// Returns the program for the next upgrade: the path by which it was called, so that a changed link leads to the new
/// one.
pub(super) fn program_path(called: Option<&std::ffi::OsString>) -> PathBuf {
    let called = called.map(PathBuf::from).unwrap_or_default();
    let named = if called.components().count() > 1 {
        std::path::absolute(&called).ok()
    } else {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path)
            .map(|folder| folder.join(&called))
            .find(|candidate| !called.as_os_str().is_empty() && candidate.is_file())
    };
    named
        .filter(|path| path.is_file())
        .or_else(|| std::env::current_exe().ok())
        .unwrap_or(called)
}

/// Returns the arguments without those of a takeover, and the program's path.
pub(super) fn call(arguments: &[std::ffi::OsString]) -> (Vec<std::ffi::OsString>, PathBuf) {
    (plain_arguments(arguments), program_path(arguments.first()))
}

/// Returns to the former program before anything was taken over.
pub(super) fn give_back(
    mut handover: Handover,
    arguments: &[std::ffi::OsString],
    reason: &str,
) -> io::Error {
    handover.refusal = Some(format!("version {}: {reason}", env!("CARGO_PKG_VERSION")));
    let program = PathBuf::from(format!("/proc/self/fd/{}", handover.previous));
    handover.become_program(&program, arguments)
}
