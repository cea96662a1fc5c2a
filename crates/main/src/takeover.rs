//! Upgrade while serving: trial, takeover, and the way back.
//!
//! 1. *Trial*: the new program is run beside this one with a copy of the handover. It reads it, asks the language hosts,
//!    checks the configuration, and says that it is ready. Whatever goes wrong here changes nothing.
//! 2. The controller finishes a change of configuration under way, takes no other, and leaves control connections waiting.
//! 3. *Takeover*: this process becomes the new program. Same number, same children; the old router serves on.
//! 4. The new program starts its controller, and with what that says its router beside the old one, on the same sockets. When that
//!    serves, the old ones are retired: the router accepts nothing more, answers what it has, and ends. If it does not come to serve, the process becomes the old
//!    program again, and the old router takes changes again.
//!
//! `impl` blocks of [`Supervisor`], which calls them from its loop. See docs/decisions/0091-upgrade-in-place.md.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tutti_log::Level;
use tutti_protocol::{Grants, Reason, ToController, ToRouter};
use tutti_sys::process::Ended;
use tutti_sys::signal;
use tutti_sys::spawn::inherited;

use super::handover::{HandedRouter, Handover, PROTOCOL, plain_arguments};
use super::isolation::Cgroups;
use super::own_process::{ControllerProcess, OWN_PROGRAM, RouterProcess};
use super::processes::Numbered;
use super::rights::Rights;
use super::service_manager;
use super::supervisor::Supervisor;
use super::trial::{self, READY};
use super::upgrade::Upgrade;

/// A trial asks the language hosts and parses a configuration: seconds at most.
const LONGEST_TRIAL: Duration = Duration::from_secs(60);

/// A change of configuration may start applications.
const LONGEST_CHANGE: Duration = Duration::from_secs(60);

/// The new router starts all applications before it serves.
const LONGEST_START: Duration = Duration::from_secs(180);

impl Supervisor {
    /// SIGUSR2, or `tutti upgrade` (then `asked` is the controller's request).
    pub(super) fn begin_upgrade(&mut self, asked: Option<u64>) {
        if let Some(reason) = self.why_no_upgrade() {
            return self.tell_failed_upgrade(asked, reason);
        }
        self.asked = asked;
        service_manager::reloading(&self.instance.log);
        let program = self.instance.program.clone();
        self.log(
            Level::Notice,
            &format!("upgrade: trying `{}`", program.display()),
        );
        let started = self
            .handover(None)
            .and_then(|(handover, _previous)| trial::start(&program, &handover));
        match started {
            Ok((pid, output)) => {
                let until = Instant::now() + LONGEST_TRIAL;
                self.upgrade = Some(Upgrade::Trial { pid, output, until });
            }
            Err(error) => {
                self.refuse_upgrade(&format!("`{}` cannot be run: {error}", program.display()))
            }
        }
    }

    fn why_no_upgrade(&self) -> Option<&'static str> {
        if self.upgrade.is_some() {
            Some("an upgrade is under way")
        } else if self.is_stopping() {
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

    fn tell_failed_upgrade(&mut self, asked: Option<u64>, reason: &str) {
        self.log(
            Level::Error,
            &format!(
                "upgrade failed, version {} goes on: {reason}",
                env!("CARGO_PKG_VERSION")
            ),
        );
        if let Some(id) = asked {
            self.refuse(id, Reason::Refused, reason);
        }
    }

    /// Everything goes on as before.
    fn refuse_upgrade(&mut self, reason: &str) {
        self.upgrade = None;
        let asked = self.asked.take();
        self.tell_failed_upgrade(asked, reason);
        if !self.is_stopping() {
            service_manager::ready(&self.instance.log);
        }
        self.tell_controller(&ToController::Thaw, Vec::new());
        if let Some(router) = &mut self.routers.serving {
            let _ = router.send(&ToRouter::Thaw, Vec::new());
        }
    }

    /// A child has ended: true if it was the trial.
    pub(super) fn trial_ended(&mut self, ended_pid: i32, ended: Ended) -> bool {
        if !matches!(&self.upgrade, Some(Upgrade::Trial { pid, .. }) if *pid == ended_pid) {
            return false;
        }
        let Some(Upgrade::Trial { output, .. }) = self.upgrade.take() else {
            return true;
        };
        let words = trial::words_of(output);
        if ended != Ended::Code(0) {
            self.refuse_upgrade(&format!(
                "the new program {ended} when it was tried: {words}"
            ));
        } else if !words.contains(&format!("{READY} {PROTOCOL}")) {
            self.refuse_upgrade(&format!(
                "the new program does not say that it can take over: {words}"
            ));
        } else {
            let until = Instant::now() + LONGEST_CHANGE;
            self.upgrade = Some(Upgrade::Freezing {
                until,
                is_controller_at_rest: false,
                is_router_at_rest: false,
            });
            self.tell_controller(&ToController::Freeze, Vec::new());
            if let Some(router) = &mut self.routers.serving {
                let _ = router.send(&ToRouter::Freeze, Vec::new());
            }
        }
        true
    }

    /// The controller takes no changes any more.
    pub(super) fn controller_frozen(&mut self) {
        if let Some(Upgrade::Freezing {
            is_controller_at_rest,
            ..
        }) = &mut self.upgrade
        {
            *is_controller_at_rest = true;
        }
        self.hand_over_if_at_rest();
    }

    /// The router tries nothing any more.
    pub(super) fn router_frozen(&mut self) {
        if let Some(Upgrade::Freezing {
            is_router_at_rest, ..
        }) = &mut self.upgrade
        {
            *is_router_at_rest = true;
        }
        self.hand_over_if_at_rest();
    }

    /// Now, if nobody waits for anything.
    pub(super) fn hand_over_if_at_rest(&mut self) {
        let is_at_rest = matches!(
            self.upgrade,
            Some(Upgrade::Freezing {
                is_controller_at_rest: true,
                is_router_at_rest: true,
                ..
            })
        );
        if !is_at_rest || !self.pending.is_empty() || self.is_stopping() {
            return;
        }
        let program = self.instance.program.clone();
        let error = self.hand_over(&program, None);
        self.refuse_upgrade(&format!("`{}` cannot be run: {error}", program.display()));
    }

    /// Becomes another program; comes back only if that fails.
    fn hand_over(&mut self, program: &Path, refusal: Option<String>) -> io::Error {
        // Those have had time for their answers.
        for controller in &self.controllers.leaving {
            controller.process.kill();
        }
        let flushed = self
            .controllers
            .serving
            .iter_mut()
            .try_for_each(|controller| controller.process.flush_all())
            .and_then(|()| {
                let mut routers = self
                    .routers
                    .serving
                    .iter_mut()
                    .chain(&mut self.routers.leaving);
                routers.try_for_each(|router| router.process.flush_all())
            });
        if let Err(error) = flushed {
            return error;
        }
        match self.handover(refusal) {
            Ok((handover, _keep)) => handover.become_program(program, &self.instance.arguments),
            Err(error) => error,
        }
    }

    /// The handover as things stand, with the descriptors that are open for its sake.
    fn handover(&self, refusal: Option<String>) -> io::Result<(Handover, [OwnedFd; 2])> {
        let previous = OwnedFd::from(File::open(OWN_PROGRAM)?);
        let log = self.instance.log.descriptor()?;
        let instance = &self.instance;
        let places = &instance.places;
        let handover = Handover {
            protocol: PROTOCOL,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            refusal,
            asked: self.asked,
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
            temporary: places.temporary.clone(),
            has_own_temporary_folder: instance.has_own_temporary_folder,
            is_daemon: instance.is_daemon,
            configuration: self.holdings.configuration.clone(),
            files: self.holdings.files.iter().cloned().collect(),
            sockets: self.holdings.sockets.handed(),
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
            grants: rights.map(Rights::handed).unwrap_or_default(),
        }
    }

    fn adopt_router(&mut self, handed: &HandedRouter) -> io::Result<RouterProcess> {
        let rights = Rights::new(&handed.grants);
        self.holdings.rights.insert(handed.pid, rights);
        RouterProcess::adopt(handed)
    }

    /// Goes on where another program has left off.
    pub(super) fn resume(&mut self, handover: &Handover) -> io::Result<()> {
        self.asked = handover.asked;
        self.base = handover.totals;
        self.has_served = true;
        self.has_begun = true;
        self.holdings.grants = handover.grants.clone();
        self.holdings.cgroups = Cgroups::take_over(&handover.state, false);
        self.holdings.configuration = handover.configuration.clone();
        self.holdings.files = handover.files.iter().cloned().collect();
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
        match &handover.refusal {
            Some(reason) => {
                self.refuse_upgrade(&reason.clone());
                if self.routers.serving.is_none() {
                    self.start_router();
                }
                if self.controllers.serving.is_none() {
                    self.start_controller();
                }
            }
            None => self.start_candidate(handover),
        }
        // Children may have ended while nobody looked.
        self.reap();
        Ok(())
    }

    fn start_candidate(&mut self, handover: &Handover) {
        self.log(
            Level::Notice,
            &format!(
                "upgrade: version {} takes over from {}",
                env!("CARGO_PKG_VERSION"),
                handover.version
            ),
        );
        let previous = inherited(handover.previous);
        self.previous = previous.ok();
        self.upgrade = Some(Upgrade::Starting {
            until: Instant::now() + LONGEST_START,
        });
        match self.launch_controller(true) {
            Ok(controller) => self.controllers.next = Some(controller),
            Err(error) => self.go_back(&format!("its controller cannot be started: {error}")),
        }
    }

    /// Our controller has said what our router may have.
    pub(super) fn start_candidate_router(&mut self, grants: Grants) {
        if self.routers.next.is_some() || self.is_stopping() {
            return;
        }
        self.candidate_grants = grants;
        let grants = self.candidate_grants.clone();
        match self.launch_router(true, &grants) {
            Ok(router) => self.routers.next = Some(router),
            Err(error) => return self.go_back(&format!("its router cannot be started: {error}")),
        }
        if self.routers.serving.is_none() {
            self.router_lost_in_upgrade();
        }
    }

    /// The former router has ended while ours was starting: it takes over at once, and there is nothing to go back to.
    pub(super) fn router_lost_in_upgrade(&mut self) {
        if self.controllers.next.is_none() {
            if matches!(self.upgrade, Some(Upgrade::Freezing { .. })) {
                self.refuse_upgrade("the router has ended meanwhile");
            }
            return;
        }
        // The next router is ours, as soon as our controller has said what it may have.
        self.router_restarts.cancel();
        if let Some(candidate) = self.routers.next.take() {
            self.routers.serving = Some(candidate);
            self.upgrade = None;
            self.previous = None;
            self.promote_controller();
            self.tell_totals();
        }
    }

    /// The controller has ended: nobody is there to say that no change is under way.
    pub(super) fn controller_lost_in_upgrade(&mut self) {
        if matches!(self.upgrade, Some(Upgrade::Freezing { .. })) {
            self.refuse_upgrade("the controller has ended meanwhile");
        }
    }

    /// From now on our controller is the one; the former gives the answer to who has asked for the upgrade.
    fn promote_controller(&mut self) {
        self.holdings.grants = std::mem::take(&mut self.candidate_grants);
        if let Some(id) = self.asked.take() {
            self.answer(id, Vec::new());
        }
        if let Some(mut former) =
            std::mem::replace(&mut self.controllers.serving, self.controllers.next.take())
        {
            let _ = former.process.send(&ToController::End, Vec::new());
            self.controllers.leaving.push(former);
        }
        // One may be due in the place of a former that has ended.
        self.controller_restarts.cancel();
        self.tell_controller(&ToController::Serve, Vec::new());
    }

    /// Our router does not come to serve: the old program is to go on.
    pub(super) fn go_back(&mut self, reason: &str) {
        if self.is_stopping() {
            // A router that is stopped while it starts says that it cannot serve.
            return;
        }
        self.upgrade = None;
        if let Some(controller) = self.controllers.next.take() {
            controller.process.kill();
        }
        if let Some(candidate) = self.routers.next.take() {
            candidate.process.kill();
            self.holdings.children.kill_of(candidate.pid());
            self.holdings.rights.remove(&candidate.pid());
        }
        let Some(previous) = &self.previous else {
            return self.refuse_upgrade(reason);
        };
        let reason = format!("version {}: {reason}", env!("CARGO_PKG_VERSION"));
        self.log(Level::Error, &format!("upgrade: going back: {reason}"));
        let program = PathBuf::from(format!("/proc/self/fd/{}", previous.as_raw_fd()));
        let error = self.hand_over(&program, Some(reason.clone()));
        self.log(
            Level::Alert,
            &format!("cannot become the former program again: {error}; the former router goes on"),
        );
        self.refuse_upgrade(&reason);
    }

    /// The new router serves: it is the one from now on.
    pub(super) fn candidate_ready(&mut self) {
        let Some(mut candidate) = self.routers.next.take() else {
            return;
        };
        candidate.is_ready = true;
        self.upgrade = None;
        self.previous = None;
        self.log(
            Level::Notice,
            &format!(
                "upgrade: version {} serves; the former router answers what it has begun",
                env!("CARGO_PKG_VERSION")
            ),
        );
        self.promote_controller();
        if let Some(mut old) = self.routers.serving.replace(candidate) {
            let _ = old.send(&ToRouter::Retire, Vec::new());
            self.routers.leaving.push(old);
        }
        self.tell_totals();
        self.ask_router();
    }

    /// The upgrade has waited long enough.
    pub(super) fn upgrade_overdue(&mut self) {
        match self.upgrade.take() {
            Some(Upgrade::Trial { pid, .. }) => {
                let _ = signal::send_group(pid, libc::SIGKILL);
                self.refuse_upgrade("the new program does not answer when it is tried");
            }
            Some(Upgrade::Freezing { .. }) => {
                self.refuse_upgrade("a change of configuration under way does not come to its end");
            }
            Some(Upgrade::Starting { .. }) => {
                self.go_back("its router does not come to serve in time")
            }
            None => {}
        }
    }

    /// Gives up an upgrade because of a stop.
    pub(super) fn forget_upgrade(&mut self) {
        if let Some(Upgrade::Trial { pid, .. }) = self.upgrade.take() {
            let _ = signal::send_group(pid, libc::SIGKILL);
        }
    }

    /// Tells the router in force the counts from before its time.
    pub(super) fn tell_totals(&mut self) {
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

/// The program to be run by the next upgrade: as it was called, so that a link that is changed leads to the new one.
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

/// The arguments without those of a takeover, and the program's path.
pub(super) fn call(arguments: &[std::ffi::OsString]) -> (Vec<std::ffi::OsString>, PathBuf) {
    (plain_arguments(arguments), program_path(arguments.first()))
}

/// Becomes the former program again before anything was taken over.
pub(super) fn give_back(
    mut handover: Handover,
    arguments: &[std::ffi::OsString],
    reason: &str,
) -> io::Error {
    handover.refusal = Some(format!("version {}: {reason}", env!("CARGO_PKG_VERSION")));
    let program = PathBuf::from(format!("/proc/self/fd/{}", handover.previous));
    handover.become_program(&program, arguments)
}
