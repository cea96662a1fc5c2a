//! The event loop of main: signals, the router's messages, children that end, time.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_pool::Level;
use tutti_sys::daemon::{self, Starter};
use tutti_sys::listen::Endpoint;
use tutti_sys::process::{self, Ended};
use tutti_sys::signal::{self, Signals};

use super::isolation::Cgroups;
use super::requests::Holdings;
use super::router_process::RouterProcess;
use super::takeover::Upgrade;
use super::{Instance, children, service_manager, state, stored};
use crate::log;
use crate::protocol::{ConfigFile, Hello, Store, ToMain, ToRouter, Totals};

/// A router that ends sooner than this after its start counts as failing.
const STABLE_AFTER: Duration = Duration::from_secs(10);

/// Routers in a row that ended before they served anything; then main gives up. One that served goes on being replaced.
const MAX_FRUITLESS_STARTS: u32 = 8;

/// Pause before the second start after a failure; doubled each time: 8 starts take six seconds.
const FIRST_PAUSE: Duration = Duration::from_millis(50);

/// Longest pause: a request that kills every router must not close the site for much longer than it takes.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// A quick stop leaves the router this long to end by itself.
const QUICK_STOP: Duration = Duration::from_secs(2);

/// How often stray processes are looked for at a stop: killing one can bring its own children to us.
const STRAY_INTERVAL: Duration = Duration::from_millis(20);

/// A message with its descriptors, if there was one.
type Received = Option<(ToMain, Vec<OwnedFd>)>;

/// How a stop was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    Graceful,
    Quick,
}

/// The state of main.
pub(super) struct Supervisor {
    pub(super) instance: Instance,
    signals: Signals,
    starter: Starter,
    pub(super) holdings: Holdings,
    /// The one that serves.
    pub(super) router: Option<RouterProcess>,
    /// The one that is to serve after an upgrade.
    pub(super) candidate: Option<RouterProcess>,
    /// Those that served before, and answer what they have begun.
    pub(super) retired: Vec<RouterProcess>,
    pub(super) upgrade: Option<Upgrade>,
    /// The router's request for the upgrade under way.
    pub(super) asked: Option<u64>,
    /// The program to go back to.
    pub(super) previous: Option<OwnedFd>,
    /// Counted by routers that have ended.
    pub(super) base: Totals,
    restart_at: Option<Instant>,
    /// Since a router was last stable.
    failures: u32,
    fruitless_starts: u32,
    pub(super) has_served: bool,
    stop: Option<Stop>,
    kill_router_at: Option<Instant>,
    exit: ExitCode,
}

impl Supervisor {
    pub(super) fn new(instance: Instance, signals: Signals, starter: Starter) -> Supervisor {
        Supervisor {
            instance,
            signals,
            starter,
            holdings: Holdings::default(),
            router: None,
            candidate: None,
            retired: Vec::new(),
            upgrade: None,
            asked: None,
            previous: None,
            base: Totals::default(),
            restart_at: None,
            failures: 0,
            fruitless_starts: 0,
            has_served: false,
            stop: None,
            kill_router_at: None,
            exit: ExitCode::SUCCESS,
        }
    }

    pub(super) fn log(&self, level: Level, message: &str) {
        self.instance.log.line(level, message);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// From the state folder: the first start of this process.
    pub(super) fn begin(&mut self, given: Vec<(Endpoint, OwnedFd)>) {
        self.holdings.cgroups = Cgroups::take_over(&self.instance.places.state, true);
        self.log(
            Level::Notice,
            &format!("tutti {} started", env!("CARGO_PKG_VERSION")),
        );
        for (endpoint, socket) in given {
            self.log(
                Level::Notice,
                &format!("the service manager has opened `{endpoint}`"),
            );
            self.holdings.sockets.give((&endpoint).into(), socket);
        }
        match state::load(&self.instance.places.state) {
            Ok(configuration) => self.holdings.configuration = configuration,
            Err(error) => self.log(
                Level::Alert,
                &format!("starting with an empty configuration: {error}"),
            ),
        }
        self.start_router();
    }

    /// Until told to stop and nothing is left.
    pub(super) fn run(mut self) -> ExitCode {
        while !self.is_over() {
            self.wait();
            self.handle_signals();
            self.handle_routers();
            self.handle_time();
        }
        self.clean_up();
        self.log(Level::Notice, "tutti has stopped");
        self.exit
    }

    fn is_over(&self) -> bool {
        self.has_only_strays() && !process::has_children()
    }

    fn wait(&self) {
        let timeout = self.next_deadline().map(|at| {
            let left = at.saturating_duration_since(Instant::now());
            Timespec {
                tv_sec: left.as_secs().cast_signed(),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        let mut polls = vec![PollFd::new(&self.signals, PollFlags::IN)];
        let sockets: Vec<_> = self
            .routers()
            .filter_map(|r| Some((r.socket()?, r.has_waiting())))
            .collect();
        for (socket, has_waiting) in &sockets {
            let flags = if *has_waiting {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            polls.push(PollFd::new(socket, flags));
        }
        let _ = poll(&mut polls, timeout.as_ref());
    }

    fn next_deadline(&self) -> Option<Instant> {
        let strays = self
            .has_only_strays()
            .then(|| Instant::now() + STRAY_INTERVAL);
        let others = [
            self.restart_at,
            self.kill_router_at,
            self.upgrade.as_ref().map(Upgrade::deadline),
            self.holdings.children.next_deadline(),
        ];
        others.into_iter().chain([strays]).flatten().min()
    }

    /// Stopping, and all that is left are processes that have moved out of their application's group.
    fn has_only_strays(&self) -> bool {
        self.stop.is_some() && self.routers().next().is_none() && self.holdings.children.is_empty()
    }

    fn routers(&self) -> impl Iterator<Item = &RouterProcess> {
        self.router
            .iter()
            .chain(&self.candidate)
            .chain(&self.retired)
    }

    fn routers_mut(&mut self) -> impl Iterator<Item = &mut RouterProcess> {
        self.router
            .iter_mut()
            .chain(&mut self.candidate)
            .chain(&mut self.retired)
    }

    fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            match number {
                libc::SIGQUIT => self.begin_stop(Stop::Graceful),
                libc::SIGTERM | libc::SIGINT => self.begin_stop(Stop::Quick),
                libc::SIGUSR1 => self.reopen_logs(),
                libc::SIGUSR2 => self.begin_upgrade(None),
                libc::SIGHUP => self.reload(),
                libc::SIGCHLD => self.reap(),
                _ => {}
            }
        }
    }

    /// Has the router read the configuration files again.
    fn reload(&mut self) {
        if self.instance.places.config.is_none() {
            let text = "SIGHUP is ignored: there is no `--config` to read again; configure through the control socket";
            return self.log(Level::Info, text);
        }
        let sent = match &mut self.router {
            Some(router) => router.send(&ToRouter::Reload, Vec::new()),
            // The next one begins with what is in force; the files can be read again when it is there.
            None => Err(io::ErrorKind::NotConnected.into()),
        };
        if let Err(error) = sent {
            self.log(
                Level::Alert,
                &format!("cannot read the configuration files again now: {error}"),
            );
        }
    }

    fn begin_stop(&mut self, stop: Stop) {
        if self.stop == Some(Stop::Quick) || self.stop == Some(stop) {
            return;
        }
        let how = if stop == Stop::Graceful {
            "gracefully"
        } else {
            "quickly"
        };
        self.log(Level::Notice, &format!("stopping {how}"));
        self.stop = Some(stop);
        service_manager::stopping(&self.instance.log);
        self.restart_at = None;
        if stop == Stop::Quick {
            self.kill_router_at = Some(Instant::now() + QUICK_STOP);
        }
        self.forget_upgrade();
        // Nobody new gets in while the stop lasts, and a new instance can have the addresses afterwards.
        self.holdings.sockets.release_all();
        let message = ToRouter::Stop {
            is_graceful: stop == Stop::Graceful,
        };
        for router in self.routers_mut() {
            let _ = router.send(&message, Vec::new());
        }
        if self.routers().next().is_none() {
            self.holdings.children.end(None, Instant::now());
        }
    }

    pub(super) fn reap(&mut self) {
        while let Some((pid, ended)) = process::reap() {
            if self.routers().any(|router| router.pid == pid) {
                self.some_router_ended(pid, ended);
            } else if !self.trial_ended(pid, ended) {
                let news = ToRouter::Exited {
                    pid,
                    status: ended.into(),
                };
                for router in self.routers_mut() {
                    let _ = router.send(&news, Vec::new());
                }
            }
        }
        self.holdings.children.forget_empty();
    }

    fn some_router_ended(&mut self, pid: i32, ended: Ended) {
        // Its applications answer to nobody any more; the next router starts new ones.
        self.holdings.children.end(Some(pid), Instant::now());
        if let Some(place) = self.retired.iter().position(|router| router.pid == pid) {
            return self.retired_ended(place, ended);
        }
        if self
            .candidate
            .as_ref()
            .is_some_and(|router| router.pid == pid)
        {
            self.candidate = None;
            if self.stop.is_none() {
                self.go_back(&format!(
                    "its router {ended}; see the log for its last words"
                ));
            }
            return;
        }
        self.router_ended(pid, ended);
        // The new one takes over at once; there is nothing to go back to.
        if self.router.is_none() && self.candidate.is_some() && self.stop.is_none() {
            self.restart_at = None;
            self.router = self.candidate.take();
            self.upgrade = None;
            self.previous = None;
        }
    }

    fn retired_ended(&mut self, place: usize, ended: Ended) {
        let router = self.retired.remove(place);
        self.base = self.base
            + Totals {
                active: 0,
                idle: 0,
                ..router.totals
            };
        self.tell_totals();
        let level = if ended == Ended::Code(0) {
            Level::Info
        } else {
            Level::Alert
        };
        self.log(
            level,
            &format!("former router process {} {ended}", router.pid),
        );
    }

    fn router_ended(&mut self, pid: i32, ended: Ended) {
        let Some(router) = self.router.take() else {
            return;
        };
        self.kill_router_at = None;
        if self.stop.is_some() {
            return;
        }
        let was_stable = router.is_ready && router.started.elapsed() >= STABLE_AFTER;
        self.failures = if was_stable { 0 } else { self.failures + 1 };
        self.fruitless_starts = if router.is_ready {
            0
        } else {
            self.fruitless_starts + 1
        };
        self.log(Level::Alert, &format!("router process {pid} {ended}"));
        if self.fruitless_starts >= MAX_FRUITLESS_STARTS {
            return self.give_up(
                "the router ends again and again before it serves; see the log for its last words",
            );
        }
        // The first time at once: whoever connects meanwhile waits in the socket's queue.
        let pause = match self.failures {
            0 | 1 => Duration::ZERO,
            n => FIRST_PAUSE
                .saturating_mul(1 << (n - 2).min(16))
                .min(LONGEST_PAUSE),
        };
        self.restart_at = Some(Instant::now() + pause);
    }

    fn give_up(&mut self, reason: &str) {
        self.log(Level::Alert, &format!("cannot go on: {reason}"));
        self.starter.fail(reason);
        self.exit = ExitCode::FAILURE;
        self.begin_stop(Stop::Quick);
    }

    fn start_router(&mut self) {
        self.restart_at = None;
        match self.launch_router(false) {
            Ok(router) => {
                self.log(
                    Level::Info,
                    &format!("router started as process {}", router.pid),
                );
                self.router = Some(router);
                self.tell_totals();
            }
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// What is stored beside the configuration; what cannot be read is told and left out.
    fn stored(&self, store: Store) -> BTreeMap<String, String> {
        let (found, errors) = stored::load(&self.instance.places.state, store);
        for error in errors {
            self.log(Level::Alert, &error.to_string());
        }
        found
    }

    /// The configuration files, unless something is being served already.
    fn files_to_begin_with(&self, is_upgrade: bool) -> Option<Result<Vec<ConfigFile>, String>> {
        let path = self.instance.places.config.as_deref()?;
        if is_upgrade || self.has_served {
            return None;
        }
        Some(crate::config_files::read(path).map_err(|error| error.to_string()))
    }

    /// Starts one and greets it.
    pub(super) fn launch_router(&self, is_upgrade: bool) -> io::Result<RouterProcess> {
        RouterProcess::start(&self.instance).and_then(|mut router| {
            let hello = Hello {
                is_upgrade,
                modules: self.instance.modules.clone(),
                tmpdir: self.instance.places.temporary.clone(),
                configuration: self.holdings.configuration.clone(),
                certificates: self.stored(Store::Certificates),
                js_modules: self.stored(Store::JsModules),
                is_restart: self.has_served,
                files: self.files_to_begin_with(is_upgrade),
                default_user: self.instance.default_user.clone(),
            };
            let descriptors = vec![
                self.instance.control.try_clone()?,
                self.instance.log.descriptor()?,
            ];
            router.send(&ToRouter::Hello(Box::new(hello)), descriptors)?;
            Ok(router)
        })
    }

    fn handle_routers(&mut self) {
        let pids: Vec<i32> = self.routers().map(|router| router.pid).collect();
        for pid in pids {
            self.handle_router(pid);
        }
    }

    fn receive_from(&mut self, pid: i32) -> Option<io::Result<Received>> {
        let router = self.routers_mut().find(|router| router.pid == pid)?;
        router.flush();
        Some(router.receive())
    }

    fn handle_router(&mut self, pid: i32) {
        // Found anew each time: what one says may change which there are.
        while let Some(received) = self.receive_from(pid) {
            match received {
                Ok(None) => return,
                Ok(Some((message, descriptors))) => self.obey(pid, message, descriptors),
                // A router that talks nonsense is not to be trusted with anything more.
                Err(error) => {
                    self.log(
                        Level::Alert,
                        &format!(
                            "router process {pid} sent a message that cannot be read: {error}"
                        ),
                    );
                    let _ = signal::send(pid, libc::SIGKILL);
                    return;
                }
            }
        }
    }

    fn obey(&mut self, pid: i32, message: ToMain, descriptors: Vec<OwnedFd>) {
        let is_serving = self.router.as_ref().is_some_and(|router| router.pid == pid);
        let is_candidate = self
            .candidate
            .as_ref()
            .is_some_and(|router| router.pid == pid);
        match message {
            ToMain::Ready if is_candidate => self.candidate_ready(),
            ToMain::Ready => self.router_ready(),
            ToMain::Unfit { message } if is_candidate => self.go_back(&message),
            // Nothing to serve, and nothing from before to fall back on.
            ToMain::Unfit { message } if is_serving && !self.has_served => self.give_up(&message),
            ToMain::Upgrade { id } if is_serving => self.begin_upgrade(Some(id)),
            ToMain::Frozen if is_serving => self.router_frozen(),
            ToMain::Totals { totals } => {
                if let Some(router) = self.retired.iter_mut().find(|router| router.pid == pid) {
                    router.totals = totals;
                    self.tell_totals();
                }
            }
            // Sockets, logs and the stored configuration are the business of the one that serves.
            ToMain::Unlisten { .. }
            | ToMain::CloseFile { .. }
            | ToMain::Store { .. }
            | ToMain::SetAside
                if !is_serving => {}
            message => {
                let answer = self
                    .holdings
                    .carry_out(&self.instance, pid, message, descriptors);
                let router = self.routers_mut().find(|router| router.pid == pid);
                if let (Some((answer, descriptors)), Some(router)) = (answer, router)
                    && let Err(error) = router.send(&answer, descriptors)
                {
                    self.log(Level::Alert, &format!("cannot answer the router: {error}"));
                }
            }
        }
    }

    fn router_ready(&mut self) {
        self.has_served = true;
        self.starter.succeed();
        if self.upgrade.is_none() {
            service_manager::ready(&self.instance.log);
        }
        if let Some(router) = &mut self.router {
            router.is_ready = true;
        }
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        if self.restart_at.is_some_and(|at| at <= now) {
            self.start_router();
        }
        if self.kill_router_at.is_some_and(|at| at <= now) {
            self.kill_router_at = Some(now + QUICK_STOP);
            for router in self.routers() {
                let _ = signal::send(router.pid, libc::SIGKILL);
            }
        }
        if self
            .upgrade
            .as_ref()
            .is_some_and(|upgrade| upgrade.deadline() <= now)
        {
            self.upgrade_overdue();
        }
        self.holdings.children.kill_overdue(now);
        if self.has_only_strays() {
            children::kill_strays();
        }
    }

    fn reopen_logs(&mut self) {
        if let Err(error) = self.reopen_own_log() {
            self.log(Level::Alert, &error.to_string());
        }
        for path in &self.holdings.files {
            let routers = self
                .router
                .iter_mut()
                .chain(&mut self.candidate)
                .chain(&mut self.retired);
            let mut routers = routers.collect::<Vec<_>>();
            let reopened = log::open(path).and_then(|file| {
                routers.iter_mut().try_for_each(|router| {
                    let news = ToRouter::FileReopened { path: path.clone() };
                    router.send(&news, vec![file.try_clone()?])
                })
            });
            if let Err(error) = reopened {
                self.instance.log.line(Level::Alert, &error.to_string());
            }
        }
        self.log(Level::Notice, "logs reopened");
    }

    /// Also without a file of our own the router is told, for the files that applications write to.
    fn reopen_own_log(&mut self) -> io::Result<()> {
        if let Some(path) = &self.instance.places.log {
            self.instance.log.replace(log::open(path)?);
            if self.instance.is_daemon {
                daemon::redirect_stderr(self.instance.log.descriptor()?.as_fd())?;
            }
        }
        let log = self.instance.log.clone();
        self.routers_mut()
            .try_for_each(|router| router.send(&ToRouter::LogReopened, vec![log.descriptor()?]))
    }

    fn clean_up(&mut self) {
        self.holdings.sockets.release_all();
        self.holdings.cgroups.remove();
        if let Endpoint::Path(path) = &self.instance.places.control {
            let _ = std::fs::remove_file(path);
        }
        let _ = std::fs::remove_file(&self.instance.places.pid);
        if self.instance.has_own_temporary_folder {
            let _ = std::fs::remove_dir(&self.instance.places.temporary);
        }
    }
}
