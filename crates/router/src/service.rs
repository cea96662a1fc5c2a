//! The service: connects configuration, pool, server and main.
//!
//! A change is prepared (sockets and logs from main, applications from the pool, routes) and then committed, when main has stored it. The
//! former may fail and then has no effect; the latter cannot fail.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tutti_commands::Commands;
use tutti_config::{Config, Diagnostic, Diagnostics, Document, ValidationContext};
use tutti_jobs::Jobs;
use tutti_log::Level;
use tutti_log::Log;
use tutti_metrics::Page;
use tutti_pool::{Manager, Starts};
use tutti_protocol::{Challenge, Change, LanguageModule, RouterCounts};
use tutti_script::Modules;
use tutti_server::Server;
use tutti_telemetry::{Exporters, SpanCounts};
use tutti_unprivileged::certificates::Certificates;
use tutti_unprivileged::context;
use tutti_unprivileged::role_state::Standings;

use super::commands;
use super::jobs;
use super::limits;
use super::line::Link;
use super::metrics::{self, Facts, Jumps, unix_time};
use super::missing::{Lacking, Leniency, Need};
use super::opening::{Fetched, Opened, Openings, Running};
use super::problems::{Problems, both, option_warning, start_faults, unstarted_warning};
use super::status;
use super::stored::{Renewed, Stored};

/// The service of this router. A handle: clones are the same service.
#[derive(Clone)]
pub(super) struct RouterService(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) log: Log,
    modules: Vec<LanguageModule>,
    pub(super) server: Arc<Server>,
    pub(super) manager: Manager,
    exporters: Exporters,
    pub(super) jobs: Jobs,
    pub(super) commands: Commands,
    threads: u32,
    stored: Stored,
    pub(super) document: ArcSwap<Document>,
    config: ArcSwap<Config>,
    /// Parts of the stored configuration that are not being served.
    pub(super) problems: ArcSwap<Problems>,
    /// Those that are retried, with the missing resource.
    lacking: Mutex<Vec<Lacking>>,
    /// They are being retried.
    pub(super) is_trying: AtomicBool,
    pub(super) openings: Openings,
    pub(super) standings: Standings,
    /// Held by a change, and by an upgrade, which permits no change.
    pub(super) changing: tokio::sync::Mutex<()>,
    /// Counted by routers that retire or have ended.
    others: Mutex<RouterCounts>,
    /// When this router was started, in seconds since 1970.
    started: f64,
    /// The number of changes of the time of day.
    pub(super) jumps: Jumps,
    /// Number of configurations that were put in force, and when the last one was.
    in_force: Mutex<(u64, f64)>,
    /// Number of times that a change has put the contents of files for access control in place.
    guard_changes: AtomicU64,
}

/// The parts of a service.
pub(super) struct Parts {
    pub(super) link: Arc<Link>,
    pub(super) log: Log,
    pub(super) modules: Vec<LanguageModule>,
    pub(super) tmpdir: PathBuf,
    pub(super) quic: tutti_protocol::QuicHello,
    pub(super) server: Arc<Server>,
    pub(super) manager: Manager,
    pub(super) exporters: Exporters,
    pub(super) jobs: Jobs,
    pub(super) commands: Commands,
    pub(super) certificates: Certificates,
    pub(super) js_modules: Modules,
    pub(super) threads: u32,
}

/// The origin of a configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// A change by the controller: applied whole or not at all.
    Change,
    /// In force before this router: applied as far as it can be served.
    Stored,
    /// In force in the router that is being replaced: applied whole or not at all.
    Running,
}

/// A prepared configuration: putting it in force cannot fail. Dropping it undoes everything that was opened and started for it.
pub(super) struct Ready {
    document: Document,
    config: Config,
    opened: Opened,
    applications: tutti_pool::PreparedApplications,
    server: tutti_server::PreparedSnapshot,
    /// The file of jobs, if it is needed and not open yet.
    jobs: Option<OwnedFd>,
    /// Applications that are being started; only a stored configuration does not wait for them.
    starts: Starts,
    /// Faults that do not prevent serving, which only a stored configuration may have.
    forgiven: Vec<Diagnostic>,
}

/// The result of putting a configuration in force.
pub(super) struct InForce {
    /// Applications that are still being started.
    pub(super) starts: Starts,
    /// Parts that work without a missing resource.
    pub(super) forgiven: Vec<Diagnostic>,
}

/// A prepared change.
pub(super) enum ReadyChange {
    Configuration(Box<Ready>),
    /// With the new server, if the configuration uses the changed object.
    Stored(Box<(Renewed, Option<tutti_server::PreparedSnapshot>)>),
}

impl RouterService {
    pub(super) fn new(parts: Parts) -> RouterService {
        RouterService(Arc::new(Inner {
            openings: Openings::new(parts.link, parts.tmpdir, parts.quic),
            log: parts.log,
            modules: parts.modules,
            server: parts.server,
            manager: parts.manager,
            exporters: parts.exporters,
            jobs: parts.jobs,
            commands: parts.commands,
            threads: parts.threads,
            document: ArcSwap::from_pointee(Document::empty()),
            config: ArcSwap::from_pointee(Config::default()),
            problems: ArcSwap::default(),
            stored: Stored::new(parts.certificates, parts.js_modules),
            lacking: Mutex::default(),
            is_trying: AtomicBool::default(),
            standings: Standings::default(),
            changing: tokio::sync::Mutex::default(),
            others: Mutex::default(),
            started: unix_time(),
            jumps: Jumps::default(),
            in_force: Mutex::default(),
            guard_changes: AtomicU64::default(),
        }))
    }

    /// Stops restoring. Main ends changes.
    pub(super) fn stop(&self) {
        self.0.standings.stop();
    }

    /// Stops retrying listeners; completes when none is being retried.
    pub(super) async fn freeze(&self) {
        self.0.standings.freeze();
        drop(self.0.changing.lock().await);
    }

    /// Retries listeners again.
    pub(super) fn thaw(&self) {
        self.0.standings.thaw();
    }

    /// Sets the counts of other routers.
    pub(super) fn count_others(&self, totals: RouterCounts) {
        *self.0.others.lock().unwrap_or_else(PoisonError::into_inner) = totals;
    }

    /// The counts of this router.
    pub(super) fn totals(&self) -> RouterCounts {
        self.0.own_totals()
    }

    /// Completes when every listen thread has responded.
    pub(super) fn threads_answer(&self) -> impl Future<Output = ()> + Send + use<> {
        self.0.server.threads_answer()
    }

    /// Returns the time that connections may last when the server stops, `unless_given` without the option; `None`: unlimited.
    pub(super) fn drain_timeout(&self, unless_given: Duration) -> Option<Duration> {
        let given = self.0.config.load().settings.http.drain_timeout;
        let longest = given.unwrap_or(unless_given);
        (!longest.is_zero()).then_some(longest)
    }

    /// Closes all listening sockets, so that no new client waits for an answer that will not come. Requests in progress continue.
    ///
    /// # Panics
    /// If the server does not drain yet: connections would be closed as those of a removed listener are, at once.
    pub(super) fn close_listeners(&self) {
        assert!(self.0.server.is_draining());
        let mut config = Config::clone(&self.0.config.load());
        config.listeners.clear();
        self.replace_snapshot(&config);
    }

    /// Releases the configuration in force. Call it when no listen thread is running any more.
    pub(super) fn forget(&self) {
        self.replace_snapshot(&Config::default());
    }

    fn replace_snapshot(&self, config: &Config) {
        let certificates = self.0.stored.certificates();
        match self.0.prepare_running(config, &certificates) {
            // Dropped at once: nothing is served any more.
            Ok(prepared) => drop(self.0.server.commit(prepared)),
            Err(faults) => {
                let details: Vec<String> = faults.0.iter().map(Diagnostic::detail).collect();
                let text = format!("cannot release the configuration: {}", details.join("; "));
                self.0.log.line(Level::Alert, &text);
            }
        }
    }

    /// Answers authorities as the previous router did. The certificate process sets the answers anew with its next order.
    pub(super) fn take_challenges(&self, challenges: &[Challenge]) {
        if let Err(why) = self.0.answer_authorities(challenges) {
            let text = format!("cannot answer authorities: {why}");
            self.0.log.line(Level::Warn, &text);
        }
    }

    /// Called when main has reopened a log.
    pub(super) fn replace_file(&self, path: &Path, file: OwnedFd) {
        if let Err(error) = self.0.server.replace_log(path, &file) {
            let text = format!("cannot use the reopened log `{}`: {error}", path.display());
            self.0.log.line(Level::Alert, &text);
        }
    }
}

impl Inner {
    /// Gives exactly these answers to authorities that check names.
    pub(super) fn answer_authorities(&self, challenges: &[Challenge]) -> Result<(), String> {
        let mut http = BTreeMap::new();
        let mut tls = tutti_tls::Challenges::default();
        for challenge in challenges {
            match challenge {
                Challenge::Http { token, answer } => {
                    http.insert(token.clone(), answer.clone());
                }
                Challenge::TlsAlpn { name, pem } => tls
                    .add(name, pem.as_bytes())
                    .map_err(|error| error.to_string())?,
            }
        }
        let tls = Arc::new(tls);
        self.server
            .set_challenges(tutti_tls::AuthorityAnswers { http, tls });
        Ok(())
    }

    /// Prepares a change. The caller must hold `changing`.
    pub(super) async fn prepare_change(&self, change: Change) -> Result<ReadyChange, Diagnostics> {
        match change {
            Change::Configuration { text } => {
                let mut document = tutti_config::parse(text.as_bytes())?;
                document.forget_source();
                let ready = self.prepare(document, Origin::Change).await?;
                Ok(ReadyChange::Configuration(Box::new(ready)))
            }
            Change::Keep { store, name, text } => {
                let config = self.config.load();
                let renewed = self.stored.keeping(&config, store, &name, &text)?;
                self.prepare_stored(renewed)
            }
            Change::Discard { store, name } => {
                self.prepare_stored(self.stored.discarding(&self.config.load(), store, &name))
            }
        }
    }

    fn prepare_stored(&self, renewed: Renewed) -> Result<ReadyChange, Diagnostics> {
        let server = match &renewed.config {
            Some(config) => Some(self.prepare_running(config, &renewed.certificates)?),
            None => None,
        };
        Ok(ReadyChange::Stored(Box::new((renewed, server))))
    }

    /// Commits a change, and waits until every listen thread uses it, so that the client that made the change is served by it. The caller
    /// must have held `changing` since the change was prepared. Returns the faults of applications without initial processes.
    pub(super) async fn commit_change(self: &Arc<Self>, ready: ReadyChange) -> Diagnostics {
        let mut warnings = Diagnostics::default();
        match ready {
            ReadyChange::Configuration(ready) => {
                let document = ready.document.clone();
                let unstarted = ready.applications.unstarted().iter();
                warnings.0.extend(unstarted.map(unstarted_warning));
                let of_options = ready.applications.warnings().iter();
                warnings.0.extend(of_options.map(option_warning));
                self.commit(*ready);
                self.document.store(Arc::new(document));
                self.problems.store(Arc::default());
                self.lacking().clear();
            }
            ReadyChange::Stored(ready) => {
                let (renewed, server) = *ready;
                if let (Some(config), Some(server)) = (self.stored.commit(renewed), server) {
                    self.config.store(Arc::new(config));
                    tokio::spawn(self.server.commit(server).end());
                    self.note_in_force();
                }
                if !self.problems.load().faults.0.is_empty() {
                    // It may be what a part was disabled for.
                    self.restore_alone(Document::clone(&self.document.load()))
                        .await;
                }
            }
        }
        self.server.threads_answer().await;
        warnings
    }

    /// Prepares a configuration that opens nothing new.
    fn prepare_running(
        &self,
        config: &Config,
        certificates: &Certificates,
    ) -> Result<tutti_server::PreparedSnapshot, Diagnostics> {
        let mut around = Running {
            manager: &self.manager,
            certificates,
            wishes: self.openings.wishes(),
        };
        self.server.prepare(config, &mut around)
    }

    pub(super) async fn prepare(
        &self,
        document: Document,
        origin: Origin,
    ) -> Result<Ready, Diagnostics> {
        let certificates = self.stored.certificates();
        let config = tutti_config::validate(&document, &self.known())?;
        let mut leniency = match origin {
            Origin::Stored => Leniency::Forgiving(Vec::new()),
            Origin::Change | Origin::Running => Leniency::None,
        };
        let specs = self.openings.specs(&config, &self.manager, &mut leniency);
        let specs = specs.await?;
        let jobs = self.file_of_jobs(&config, &mut leniency).await?;
        let needed = self.server.spools_needed(&config);
        let spools = self.openings.spools(&config, needed, &mut leniency).await?;
        let needed = self.server.cache_files_needed(&config);
        let mut cache_files = self.openings.cache_files(&config, &needed).await;
        if origin != Origin::Change {
            cache_files.report(&self.log);
            self.note_lacking(cache_files.lacking());
        } else if let Some(faults) = cache_files.faults() {
            return Err(faults);
        }
        let (mut opened, applications, starts) = match origin {
            Origin::Change | Origin::Running => {
                let (opened, applications, commands) = tokio::join!(
                    self.open(&config, origin),
                    self.manager.prepare(specs),
                    self.look_at_commands(&config, origin)
                );
                let opened = both(opened, applications.map_err(start_faults));
                let ((opened, applications), ()) = both(opened, commands)?;
                (opened, applications, Starts::default())
            }
            Origin::Stored => {
                let opened = self.open(&config, origin).await?;
                let (applications, starts) = self.manager.prepare_at_once(specs);
                (opened, applications, starts)
            }
        };
        let mut guard_files = self.openings.guard_files(&config).await;
        if origin != Origin::Change {
            // The file may be on a disk that is not mounted yet: until it can be read, access is refused.
            guard_files.retain(|_, content| content.is_ok());
        }
        let around = &mut Fetched {
            spools,
            cache_files,
            opened: &mut opened,
            applications: &applications,
            certificates: &certificates,
            wishes: self.openings.wishes(),
            guard_files,
            exporters: &self.exporters,
        };
        let server = self.server.prepare(&config, around);
        // Guards that stay have the content that this change has read, even if it fails.
        self.note_guard_change();
        let server = server?;
        Ok(Ready {
            document,
            config,
            opened,
            applications,
            server,
            jobs,
            starts,
            forgiven: leniency.faults(),
        })
    }

    /// The file of jobs, if it is needed and not open yet.
    async fn file_of_jobs(
        &self,
        config: &Config,
        leniency: &mut Leniency,
    ) -> Result<Option<OwnedFd>, Diagnostics> {
        if config.all_spoolers().next().is_none() || self.jobs.has_store() {
            return Ok(None);
        }
        match self.openings.jobs().await {
            Ok(file) => Ok(Some(file)),
            Err(fault) => {
                let pointer = fault.pointer.clone();
                leniency.forgive(fault)?;
                let need = Need::Jobs;
                self.note_lacking([Lacking { pointer, need }]);
                Ok(None)
            }
        }
    }

    /// The context against which configurations are checked now.
    pub(super) fn known(&self) -> ValidationContext {
        context(&self.modules)
            .with_certificates(self.stored.certificates().names())
            .with_js_modules(self.stored.js_modules())
    }

    /// Checks whether new commands can be run. Commands that ran before are started as soon as possible.
    async fn look_at_commands(&self, config: &Config, origin: Origin) -> Result<(), Diagnostics> {
        if origin != Origin::Change {
            return Ok(());
        }
        let looked = self.commands.look(config).await;
        looked.map_err(|failures| commands::faults(&failures))
    }

    /// Has main open what the configuration needs; listeners of a former configuration are retried.
    async fn open(&self, config: &Config, origin: Origin) -> Result<Opened, Diagnostics> {
        let opened = self.openings.open(config).await;
        opened.map_err(|unopened| {
            if origin != Origin::Change {
                self.note_lacking(unopened.lacking);
            }
            Diagnostics(unopened.faults)
        })
    }

    pub(super) fn lacking(&self) -> MutexGuard<'_, Vec<Lacking>> {
        self.lacking.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_lacking(&self, more: impl IntoIterator<Item = Lacking>) {
        let mut lacking = self.lacking();
        for one in more {
            if !lacking.contains(&one) {
                lacking.push(one);
            }
        }
    }

    /// Puts it in force: cannot fail, and does not wait.
    pub(super) fn commit(&self, ready: Ready) -> InForce {
        let Ready {
            config,
            mut opened,
            applications,
            server,
            jobs,
            starts,
            forgiven,
            ..
        } = ready;
        let retired = self.server.commit(server);
        self.open_jobs(jobs);
        self.jobs.configure(&config);
        applications.commit();
        self.commands.configure(&config);
        tokio::spawn(retired.end());
        let leaving = self.server.leaving_datagrams();
        self.openings.release(&config, &mut opened, leaving);
        self.note_threads(&config);
        self.note_in_force();
        self.config.store(Arc::new(config));
        InForce { starts, forgiven }
    }

    /// Opens the store of jobs, unless another change has opened it meanwhile.
    fn open_jobs(&self, file: Option<OwnedFd>) {
        let Some(file) = file.filter(|_| !self.jobs.has_store()) else {
            return;
        };
        if let Err(error) = self.jobs.open(file.into()) {
            let text = format!("jobs cannot be stored: {error}");
            self.log.line(Level::Alert, &text);
        }
    }

    fn note_threads(&self, config: &Config) {
        let wanted = config.settings.listen_threads.unwrap_or(self.threads);
        if wanted != self.threads {
            let text = format!(
                "`listen_threads`: {wanted} is stored; it takes effect at the next start, until then there are {}",
                self.threads
            );
            self.log.line(Level::Notice, &text);
        }
    }

    /// The files for access control.
    pub(super) fn guard_files(&self) -> Vec<PathBuf> {
        self.server.guard_files()
    }

    /// Replaces the content of one of them. Returns the numbers of its lines with a weak hash, or its faults.
    pub(super) fn replace_guard_file(
        &self,
        path: &Path,
        content: &[u8],
    ) -> Vec<Result<Vec<usize>, String>> {
        self.server.replace_guard_file(path, content)
    }

    fn note_in_force(&self) {
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        *in_force = (in_force.0 + 1, unix_time());
        // New guards have the content that the change has read, perhaps long before.
        self.note_guard_change();
    }

    fn note_guard_change(&self) {
        self.guard_changes.fetch_add(1, Ordering::Release);
    }

    /// A number that is another one after each change that put contents of these files in place.
    pub(super) fn guard_changes(&self) -> u64 {
        self.guard_changes.load(Ordering::Acquire)
    }

    /// The current metrics.
    pub(super) fn metrics(&self) -> Page {
        let mut page = Page::default();
        self.server.measure(&mut page);
        let (generation, changed) = *self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let facts = Facts {
            generation,
            changed,
            started: self.started,
            problems: self.problems.load().left(&self.manager.status()).0.len(),
            applications: self.manager.measures(),
            certificates: &self.stored.certificates(),
            spans: self.spans(),
            lost: self.log.lost(),
            jumps: self.jumps.counts(),
        };
        metrics::measure(&facts, &mut page);
        jobs::measure(&self.jobs, &mut page);
        commands::measure(&self.commands, &mut page);
        limits::measure(&self.server, &mut page);
        page
    }

    /// Counts of spans, if requests are or were traced.
    fn spans(&self) -> Option<SpanCounts> {
        let counts = self.exporters.counts();
        let is_traced = self.config.load().settings.telemetry.is_some();
        (is_traced || counts != SpanCounts::default()).then_some(counts)
    }

    fn own_totals(&self) -> RouterCounts {
        let totals = self.server.totals();
        RouterCounts {
            accepted: totals.accepted,
            active: totals.active,
            idle: totals.idle,
            closed: totals.closed,
            requests: totals.requests,
        }
    }

    pub(super) fn status(&self) -> Value {
        let others = *self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let applications = self.manager.status();
        status::whole(&status::Parts {
            modules: &self.modules,
            totals: self.own_totals() + others,
            upstreams: self.server.upstreams(),
            streams: self.server.streams(),
            leaving: self.server.leaving(),
            problems: &self.problems.load().left(&applications),
            telemetry: self.spans(),
            applications: self.manager.measures(),
            commands: &self.commands,
            spoolers: jobs::status(&self.jobs),
            schedules: jobs::schedules(&self.jobs),
            caches: self.server.caches(),
            limits: limits::status(&self.server),
            limit_stores: limits::stores(&self.server),
            recent: self.server.recent().latest(),
        })
    }
}
