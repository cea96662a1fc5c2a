//! The event loop of main: signals, messages of controller and routers, ending children, timers.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tutti_log::Level;
use tutti_protocol::{Reason, RouterCounts, StoreKind, ToController, ToRouter};
use tutti_sys::daemon::Starter;
use tutti_sys::listen::SocketName;
use tutti_sys::process::{self, Ended};
use tutti_sys::signal::Signals;

use super::acme::Acme;
use super::certificate_files::Keys;
use super::config_watch::ConfigWatch;
use super::flags::TermPace;
use super::fleet::Fleet;
use super::instance::Instance;
use super::isolation::Cgroups;
use super::lifecycle::{Life, Pace, Stop};
use super::own_process::{ControllerProcess, Launch, RouterProcess};
use super::pending::Pending;
use super::processes::{Numbered, Processes};
use super::requests::RouterResources;
use super::restarts::Restarts;
use super::{children, service_manager, state, stored};

/// Interval between searches for stray processes at a stop: killing one can make its children ours.
const STRAY_INTERVAL: Duration = Duration::from_millis(20);

/// Maximum consecutive messages of one process: a process that sends without end must not keep main from signals and
/// from the others.
pub(super) const MOST_AT_ONCE: usize = 64;

/// Why the configuration files are reloaded when they have changed.
const WATCHED: &str = "--watch";

/// The state of main.
pub(super) struct Supervisor {
    pub(super) instance: Instance,
    signals: Signals,
    starter: Starter,
    pub(super) life: Life,
    pub(super) holdings: RouterResources,
    pub(super) controllers: Processes<ControllerProcess>,
    pub(super) controller_restarts: Restarts,
    /// The requests that the controller waits for.
    pub(super) pending: Pending,
    pub(super) routers: Processes<RouterProcess>,
    /// Counted by routers that have ended.
    pub(super) base: RouterCounts,
    pub(super) router_restarts: Restarts,
    pub(super) acme: Acme,
    pub(super) fleet: Fleet,
    pub(super) keys: Keys,
    /// Watches the configuration files, if requested.
    config_watch: Option<ConfigWatch>,
    /// The configuration files are to be reloaded as soon as that is possible, because of this.
    pub(super) wanted_reload: Option<String>,
    /// Longest silence before a process counts as hanging.
    pub(super) longest_silence: Option<Duration>,
}

impl Supervisor {
    pub(super) fn new(instance: Instance, signals: Signals, starter: Starter) -> Supervisor {
        let places = &instance.places;
        let watched = places.config.as_ref().filter(|_| places.is_watching);
        Supervisor {
            config_watch: watched.map(|path| ConfigWatch::new(path, Instant::now())),
            wanted_reload: None,
            instance,
            signals,
            starter,
            life: Life::Beginning,
            holdings: RouterResources::default(),
            controllers: Processes::default(),
            controller_restarts: Restarts::default(),
            pending: Pending::default(),
            routers: Processes::default(),
            base: RouterCounts::default(),
            router_restarts: Restarts::default(),
            acme: Acme::default(),
            fleet: Fleet::default(),
            keys: Keys::default(),
            longest_silence: None,
        }
    }

    pub(super) fn log(&self, level: Level, message: &str) {
        self.instance.log.line(level, message);
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.life.is_stopping()
    }

    /// Returns all controllers, including the one that will serve after an upgrade.
    fn all_controllers(&self) -> impl Iterator<Item = &ControllerProcess> {
        self.controllers.all().chain(self.life.next_controller())
    }

    /// Returns all routers, including the one that will serve after an upgrade.
    fn all_routers(&self) -> impl Iterator<Item = &RouterProcess> {
        self.routers.all().chain(self.life.next_router())
    }

    /// Returns the process ids of all controllers.
    pub(super) fn controller_pids(&self) -> Vec<i32> {
        self.all_controllers().map(Numbered::pid).collect()
    }

    /// Returns the process ids of all routers.
    pub(super) fn router_pids(&self) -> Vec<i32> {
        self.all_routers().map(Numbered::pid).collect()
    }

    pub(super) fn controller(&mut self, pid: i32) -> Option<&mut ControllerProcess> {
        let mut all = self.controllers.all_mut();
        let found = all.find(|controller| controller.pid() == pid);
        found.or_else(|| {
            self.life
                .next_controller_mut()
                .filter(|next| next.pid() == pid)
        })
    }

    pub(super) fn router(&mut self, pid: i32) -> Option<&mut RouterProcess> {
        let mut all = self.routers.all_mut();
        let found = all.find(|router| router.pid() == pid);
        found.or_else(|| self.life.next_router_mut().filter(|next| next.pid() == pid))
    }

    /// Starts from the state folder: the first start of this process.
    pub(super) fn begin(&mut self, given: Vec<(SocketName, OwnedFd)>) {
        self.holdings.cgroups = Cgroups::recorded(&self.instance.places.state);
        self.holdings.cgroups.end_all();
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
        self.start_controller();
    }

    /// Runs until the server has stopped and nothing is left.
    pub(super) fn run(mut self) -> ExitCode {
        self.watchdog_from_environment();
        while !self.is_over() {
            self.wait();
            self.handle_signals();
            self.handle_controllers();
            self.handle_routers();
            self.handle_acme();
            self.handle_fleet();
            self.handle_time();
        }
        self.clean_up();
        self.log(Level::Notice, "tutti has stopped");
        self.instance.log.flush();
        match self.life {
            Life::Stopping(stop) => stop.exit,
            // Failed only if it ends without having been stopped.
            _ => ExitCode::SUCCESS,
        }
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
        let controllers = self.all_controllers().map(|c| c.process.waits_on());
        let routers = self.all_routers().map(|r| r.process.waits_on());
        let acme = self.acme.process().map(|process| process.waits_on());
        let fleet = self.fleet.process().map(|process| process.waits_on());
        let lines = controllers.chain(routers).chain(acme).chain(fleet);
        let lines: Vec<_> = lines.flatten().collect();
        for (socket, has_waiting) in &lines {
            let flags = if *has_waiting {
                PollFlags::IN | PollFlags::OUT
            } else {
                PollFlags::IN
            };
            polls.push(PollFd::new(socket, flags));
        }
        let log = self.instance.log.waiting();
        let log = log.as_ref().map(|log| log.descriptor());
        polls.extend(log.iter().map(|log| PollFd::new(log, PollFlags::OUT)));
        let _ = poll(&mut polls, timeout.as_ref());
        self.instance.log.flush();
    }

    fn next_deadline(&self) -> Option<Instant> {
        let strays = self
            .has_only_strays()
            .then(|| Instant::now() + STRAY_INTERVAL);
        let others = [
            self.router_restarts.deadline(),
            self.controller_restarts.deadline(),
            self.acme.deadline(),
            self.fleet.deadline(),
            self.config_watch.as_ref().map(ConfigWatch::deadline),
            self.life.deadline(),
            self.holdings.children.next_deadline(),
            self.next_look(),
            strays,
        ];
        let routers = self.all_routers().map(|r| r.process.end_deadline());
        let controllers = self.all_controllers().map(|c| c.process.end_deadline());
        let ending = routers.chain(controllers).flatten();
        others.into_iter().flatten().chain(ending).min()
    }

    /// True if main stops, and only processes that have left their application's group remain.
    fn has_only_strays(&self) -> bool {
        self.is_stopping()
            && self.routers.is_empty()
            && self.controllers.is_empty()
            && self.holdings.children.is_empty()
    }

    fn handle_signals(&mut self) {
        while let Some(number) = self.signals.next() {
            match number {
                libc::SIGQUIT => self.begin_stop(Stop::graceful()),
                libc::SIGTERM if self.instance.places.sigterm == TermPace::Graceful => {
                    self.begin_stop(Stop::graceful());
                }
                libc::SIGTERM | libc::SIGINT => self.begin_stop(Stop::quick(ExitCode::SUCCESS)),
                libc::SIGUSR1 => self.reopen_logs(),
                libc::SIGUSR2 => self.begin_upgrade(None),
                libc::SIGHUP => self.reload(),
                libc::SIGCHLD => self.reap(),
                _ => {}
            }
        }
    }

    /// SIGHUP: the configuration files are to be reloaded.
    fn reload(&mut self) {
        if self.instance.places.config.is_none() {
            let text = "SIGHUP is ignored: there is no `--config` to reload; configure through the control socket";
            return self.log(Level::Info, text);
        }
        self.wanted_reload = Some("SIGHUP".to_owned());
        if !self.may_reload() {
            self.log(
                Level::Info,
                "the configuration files will be reloaded when the server has finished its start or upgrade",
            );
        }
    }

    /// True if the controller can reload the configuration files.
    fn may_reload(&self) -> bool {
        matches!(self.life, Life::Serving) && self.controllers.serving.is_some()
    }

    /// Reloads the configuration files if that is wanted or they have changed, and if it is possible now.
    fn mind_config(&mut self, now: Instant) {
        let may_reload = self.may_reload();
        if let Some(watch) = self.config_watch.as_mut() {
            if !may_reload {
                watch.wait(now);
            } else if watch.is_changed(now) {
                self.log(Level::Info, "the configuration files have changed");
                self.wanted_reload = Some(WATCHED.to_owned());
            }
        }
        if may_reload && let Some(by) = self.wanted_reload.take() {
            self.send_to_controller(&ToController::Reload { by }, Vec::new());
        }
    }

    /// Returns why the next program must reload the configuration files, if it must: it cannot know what this one has
    /// read.
    pub(super) fn reload_to_hand_over(&self) -> Option<String> {
        let is_unread = self
            .config_watch
            .as_ref()
            .is_some_and(ConfigWatch::is_unread);
        let watched = || is_unread.then(|| WATCHED.to_owned());
        self.wanted_reload.clone().or_else(watched)
    }

    pub(super) fn begin_stop(&mut self, stop: Stop) {
        let is_graceful = stop.pace == Pace::Graceful;
        if is_graceful && self.leaves_fleet_first() {
            return;
        }
        let Some(before) = self.life.stop(stop) else {
            return;
        };
        let how = if is_graceful { "gracefully" } else { "quickly" };
        self.log(Level::Notice, &format!("stopping {how}"));
        service_manager::stopping(&self.instance.log);
        self.router_restarts.cancel();
        self.controller_restarts.cancel();
        self.acme.kill();
        self.end_fleet(is_graceful);
        if let Life::Upgrading(upgrade) = before {
            self.abandon_upgrade(upgrade);
        }
        // A change that is stored by now is in force; another is rejected.
        self.give_up_change(Reason::Unavailable, "the server is stopping");
        for controller in self.controllers.all_mut() {
            let _ = controller.process.send(&ToController::Stopping, Vec::new());
        }
        // No new connections are accepted during the stop, and a new instance can bind the addresses afterwards.
        self.holdings.sockets.release_all();
        let message = ToRouter::Stop { is_graceful };
        for router in self.routers.all_mut() {
            let _ = router.send(&message, Vec::new());
        }
        if is_graceful {
            self.expect_to_be_heard();
        }
        if self.routers.is_empty() {
            self.holdings.children.end(None, Instant::now());
        }
    }

    pub(super) fn reap(&mut self) {
        let now = Instant::now();
        for (router, rights) in &mut self.holdings.rights {
            rights.forget_ended(*router, &self.holdings.children, now);
        }
        while let Some((pid, ended)) = process::reap() {
            if self.router(pid).is_some() {
                self.some_router_ended(pid, ended);
            } else if self.controller(pid).is_some() {
                self.some_controller_ended(pid, ended);
            } else if !self.acme_ended(pid, ended)
                && !self.fleet_ended(pid, ended)
                && !self.trial_ended(pid, ended)
            {
                self.holdings.children.ended(pid);
                let news = ToRouter::Exited {
                    pid,
                    status: ended.into(),
                };
                for router in self.routers.all_mut().chain(self.life.next_router_mut()) {
                    let _ = router.send(&news, Vec::new());
                }
            }
        }
        self.holdings.children.forget_empty();
    }

    fn some_router_ended(&mut self, pid: i32, ended: Ended) {
        self.handle_last_messages(pid);
        // Its applications have no router any more; the next one starts new ones.
        self.holdings.children.end(Some(pid), Instant::now());
        self.router_lost(pid, &ended.to_string());
        if let Some(router) = self.routers.take_leaving(pid) {
            self.holdings.release_datagrams_of_no_router();
            return self.retired_ended(&router, ended);
        }
        if self.life.is_next_router(pid) {
            let reason = format!("its router {ended}; see its last messages in the log");
            return self.go_back(&reason, Some(pid));
        }
        self.router_ended(pid, ended);
        if self.routers.serving.is_none() {
            self.router_lost_in_upgrade();
        }
    }

    fn retired_ended(&mut self, router: &RouterProcess, ended: Ended) {
        self.base = self.base
            + RouterCounts {
                active: 0,
                idle: 0,
                ..router.totals
            };
        self.send_totals();
        if !router.is_ready {
            // It was to serve after an upgrade that a stop has aborted.
            return;
        }
        let level = if ended == Ended::Code(0) {
            Level::Info
        } else {
            Level::Alert
        };
        self.log(
            level,
            &format!("former router process {} {ended}", router.pid()),
        );
    }

    fn router_ended(&mut self, pid: i32, ended: Ended) {
        let Some(router) = self.routers.serving.take() else {
            return;
        };
        if self.is_stopping() {
            return;
        }
        self.log(Level::Alert, &format!("router process {pid} {ended}"));
        let started = router.process.started;
        self.restart_router(router.is_ready.then_some(started));
    }

    /// Restarts the router, now or after a pause, unless another start is not worthwhile.
    fn restart_router(&mut self, useful_from: Option<Instant>) {
        if !self.router_restarts.ended(useful_from) {
            self.give_up(
                "the router keeps ending before it serves; see its last messages in the log",
            );
        }
    }

    pub(super) fn give_up(&mut self, reason: &str) {
        self.log(Level::Alert, &format!("cannot continue: {reason}"));
        self.starter.fail(reason);
        self.begin_stop(Stop::quick(ExitCode::FAILURE));
    }

    pub(super) fn start_router(&mut self) {
        self.holdings.release_what_is_not_granted();
        let grants = self.holdings.grants.clone();
        match self.launch_router(Launch::Serving, &grants) {
            Ok(router) => {
                self.log(
                    Level::Info,
                    &format!("router started as process {}", router.pid()),
                );
                self.routers.serving = Some(router);
                self.send_totals();
            }
            // Descriptors or memory may be exhausted for a moment.
            Err(error) if self.life.has_served() => {
                self.log(Level::Alert, &format!("starting a router: {error}"));
                self.restart_router(None);
            }
            Err(error) => self.give_up(&error.to_string()),
        }
    }

    /// Reads the bundles or modules stored beside the configuration. Unreadable ones are logged and skipped.
    pub(super) fn stored(&self, store: StoreKind) -> BTreeMap<String, String> {
        let (found, errors) = stored::load(&self.instance.places.state, store);
        for error in errors {
            self.log(Level::Alert, &error.to_string());
        }
        found
    }

    pub(super) fn router_ready(&mut self) {
        let is_first = matches!(self.life, Life::Starting);
        if is_first {
            self.life = Life::Serving;
        }
        if let Some(router) = &mut self.routers.serving {
            router.is_ready = true;
        }
        if is_first {
            self.send_to_controller(&ToController::Serve, Vec::new());
        }
        self.ask_router();
        self.check_up();
    }

    /// Notifies the parent process or service manager once everything is up.
    pub(super) fn check_up(&mut self) {
        let is_serving = self
            .controllers
            .serving
            .as_ref()
            .is_some_and(|c| c.is_serving);
        if is_serving && self.routers.serving.as_ref().is_some_and(|r| r.is_ready) {
            self.starter.succeed();
            if matches!(self.life, Life::Serving) {
                service_manager::ready(&self.instance.log);
            }
        }
    }

    fn handle_time(&mut self) {
        let now = Instant::now();
        if self.router_restarts.take_due(now) {
            self.start_router();
        }
        if self.controller_restarts.take_due(now) {
            self.start_controller();
        }
        self.mind_acme(now);
        self.mind_fleet(now);
        self.mind_config(now);
        if self.is_stopping() && self.routers.is_empty() {
            self.end_controllers();
        }
        if self.life.deadline().is_some_and(|at| at <= now) {
            match &mut self.life {
                Life::Stopping(stop) => {
                    stop.pace = stop.pace.overdue(now);
                    self.kill_all();
                }
                _ => self.upgrade_overdue(),
            }
        }
        self.holdings.children.kill_overdue(now);
        self.watch(now);
        self.kill_closed(now);
        if self.has_only_strays() {
            children::kill_strays();
        }
    }

    fn kill_all(&self) {
        for router in self.routers.all() {
            router.process.kill();
        }
        for controller in self.controllers.all() {
            controller.process.kill();
        }
    }

    /// Kills processes that have closed their connection without ending.
    fn kill_closed(&mut self, now: Instant) {
        let routers = self.routers.all_mut().chain(self.life.next_router_mut());
        let routers = routers.map(|r| r.process.kill_overdue(now));
        let mut overdue: Vec<String> = routers.flatten().collect();
        let next = self.life.next_controller_mut();
        let controllers = self.controllers.all_mut().chain(next);
        let controllers = controllers.map(|c| c.process.kill_overdue(now));
        overdue.extend(controllers.flatten());
        for text in overdue {
            self.log(Level::Alert, &text);
        }
    }

    fn clean_up(&mut self) {
        self.holdings.sockets.release_all();
        self.holdings.cgroups.remove();
        if let SocketName::Path(path) = &self.instance.places.control {
            let _ = std::fs::remove_file(path);
        }
        if let Some(pid_file) = &self.instance.pid_file {
            pid_file.remove();
        }
        if self.instance.has_own_temporary_folder {
            let _ = std::fs::remove_dir(&self.instance.places.temporary);
        }
    }
}
