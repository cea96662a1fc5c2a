//! The configuration as requests see it: prepared as a whole from the former one and from outside resources, replaced in one step, kept
//! until its last request has ended.
//!
//! `prepare` may fail and has no effect then: sockets it bound are closed when [`PreparedSnapshot`] is dropped. The server's `commit` cannot fail.
//! It keeps what did not change: listening sockets, MIME table, access log file. [`SnapshotEnvironment`] provides the outside resources: sockets,
//! logs, spools, applications.
//!
//! Must never: affect the configuration in force, whatever fails; leak what was opened for one that failed; or reopen what has not changed.

mod entry_points;
mod environment;
mod faults;
mod http3_sockets;
mod request_settings;

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use tutti_cache::stores;
use tutti_config::model::{self, Config, Switch};
use tutti_config::{Diagnostic, Diagnostics};
use tutti_conn::bandwidths::Bandwidths;
use tutti_conn::clock::{Millis, millis};
use tutti_conn::listener::SharedListener;
use tutti_files::mime::MimeTypes;
use tutti_guard::GuardTable;
use tutti_http::{MessageLimits, may_trail};
use tutti_pool::ApplicationPool;
use tutti_quic::Spoken;
use tutti_request_log::Logs;
use tutti_request_log::ResponseCounts;
use tutti_routing::{Modules, Router, ScopeNumber};
use tutti_spool::Spool;
use tutti_telemetry::Tracer;
use tutti_tls::{Bundle, CertificateSource, ClientTls, Offer, OfferError};
use tutti_upstream::{ServerGroup, StickyKey, authorities};

pub(crate) use self::entry_points::{CompiledStream, ListenerEntry};
pub use self::environment::SnapshotEnvironment;
use self::faults::{bind_fault, http3_fault};
pub(crate) use self::http3_sockets::{Http3Listener, Http3Sockets};
pub(crate) use self::request_settings::{
    Charset, Replacements, RequestSettings, SettingsTable, Timeouts,
};

/// One whole configuration.
pub(crate) struct Snapshot {
    /// The settings of requests.
    pub(crate) settings: SettingsTable,
    /// The MIME types of files.
    pub(crate) mime: Arc<MimeTypes>,
    mime_source: BTreeMap<String, String>,
    /// The listeners with a socket.
    pub(crate) listeners: Vec<ListenerEntry>,
    /// The compiled routes.
    pub(crate) router: Router,
    /// Internal listeners for the jobs of spoolers, including runs of schedules, in the router's order.
    job_entrances: Vec<ListenerEntry>,
    /// Internal listeners for the questions of guards.
    question_entrances: Vec<ListenerEntry>,
    /// Sorted by name, as in the router.
    pub(crate) spoolers: Vec<Arc<model::Spooler>>,
    /// Sorted by name, as in the router.
    pub(crate) applications: Vec<Arc<ApplicationPool>>,
    /// In the router's order.
    pub(crate) upstreams: Vec<Arc<ServerGroup>>,
    /// Resolution of the names of servers.
    pub(crate) resolver: model::Resolver,
    /// Access to the Kubernetes API server, for servers that are Services.
    pub(crate) kubernetes: model::Kubernetes,
    /// For large bodies of requests to upstreams; set if there is an upstream.
    pub(crate) body_spool: Option<Spool>,
    /// The spool for responses to slow clients; set if there is an upstream or an application, and `response_buffering` is not 0
    /// everywhere.
    response_spool: Option<Spool>,
    /// The largest `max_body_size` and `response_buffering`, for which the spools were made.
    largest: (u64, u64),
    /// `body_temp_path`.
    body_folder: Option<PathBuf>,
    /// Access logs and the slow log.
    pub(crate) logs: Logs,
    /// `None`: requests are not traced.
    pub(crate) tracer: Option<Arc<Tracer>>,
    /// The modules for scripts of the configuration.
    pub(crate) modules: Modules,
    /// A listener has `forwarded`.
    pub(crate) believes_fields: bool,
    /// The time for which the connections of a listener that is removed are still passed on.
    pub(crate) stream_drain: Millis,
    /// `log_route`.
    pub(crate) logs_routes: bool,
    /// Bodies of requests to applications up to this size stay in memory.
    pub(crate) body_buffer_bytes: usize,
    /// Counts of requests by answerer.
    pub(crate) counts: ResponseCounts,
    /// The guards of actions, in the router's order.
    pub(crate) guards: GuardTable,
    /// The bandwidths of their limits.
    bandwidths: Vec<(Arc<model::Limit>, Arc<Bandwidths>)>,
    /// The caches.
    pub(crate) caches: Vec<Arc<tutti_cache::ResponseStore>>,
}

/// The spools that a change needs in addition: they will be requested from [`SnapshotEnvironment`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpoolsNeeded {
    /// For request bodies that are sent to servers.
    pub requests: bool,
    /// For responses to slow clients.
    pub responses: bool,
}

/// A prepared configuration.
pub struct PreparedSnapshot {
    /// It replaces the one in force.
    pub(crate) snapshot: Snapshot,
    /// Listeners that are not in the configuration in force.
    pub(crate) added: Vec<Arc<SharedListener>>,
    /// All listeners with HTTP/3.
    pub(crate) http3: Vec<Http3Listener>,
}

impl Snapshot {
    /// A configuration without listeners, for this many listen threads.
    ///
    /// # Errors
    /// None: it contains nothing that could be at fault.
    pub(crate) fn empty(threads: usize) -> Result<Self, Diagnostics> {
        let config = Config::default();
        let mut empty = Self::settings(&config, None, Router::compile(&config)?);
        empty.counts = ResponseCounts::new(threads);
        Ok(empty)
    }

    fn settings(config: &Config, previous: Option<&Snapshot>, router: Router) -> Self {
        let http = &config.settings.http;
        let kept = previous.filter(|previous| previous.mime_source == http.mime_types);
        let mime = kept.map_or_else(
            || Arc::new(MimeTypes::new(&http.mime_types)),
            |previous| Arc::clone(&previous.mime),
        );
        Self {
            guards: GuardTable::default(),
            bandwidths: Vec::new(),
            settings: SettingsTable::new(config, router.combinations()),
            mime,
            mime_source: http.mime_types.clone(),
            listeners: Vec::new(),
            job_entrances: Vec::new(),
            question_entrances: Vec::new(),
            spoolers: config.spoolers.values().cloned().collect(),
            router,
            applications: Vec::new(),
            upstreams: Vec::new(),
            resolver: config.settings.resolver.clone(),
            kubernetes: config.settings.kubernetes.clone(),
            body_spool: None,
            response_spool: None,
            largest: (config.largest_body(), config.largest_buffering()),
            body_folder: http.body_temp_path.clone(),
            logs: previous.map_or_else(Logs::default, |previous| Logs::after(&previous.logs)),
            tracer: None,
            modules: modules(config, previous),
            believes_fields: false,
            stream_drain: millis(http.drain_timeout.unwrap_or(model::Http::UPGRADE_TIME)),
            logs_routes: http.log_route,
            body_buffer_bytes: usize::try_from(http.body_buffer_size).unwrap_or(usize::MAX),
            counts: ResponseCounts::new(previous.map_or(0, |previous| previous.counts.threads())),
            caches: stores(config, previous.map_or(&[], |previous| &previous.caches)),
        }
    }

    /// Opens the file for responses to slow clients, or takes the one of `previous`, if it may be needed.
    ///
    /// # Errors
    /// Why it cannot be made; then responses wait in memory.
    pub(crate) fn open_store(
        &mut self,
        config: &Config,
        previous: &Snapshot,
        around: &mut dyn SnapshotEnvironment,
    ) -> io::Result<()> {
        let (_, most) = self.largest;
        if most == 0 || (self.upstreams.is_empty() && self.applications.is_empty()) {
            return Ok(());
        }
        let spool = match previous.response_spool_for(config) {
            Some(spool) => spool.clone(),
            None => around.response_spool(most)?,
        };
        self.settings.set_store(&spool);
        self.response_spool = Some(spool);
        Ok(())
    }

    /// The spool of responses, if its folder and its limit have not changed.
    fn response_spool_for(&self, config: &Config) -> Option<&Spool> {
        let is_same = self.body_folder == config.settings.http.body_temp_path;
        let is_same = is_same && self.largest.1 == config.largest_buffering();
        self.response_spool.as_ref().filter(|_| is_same)
    }

    /// The spool of request bodies, if its folder and its limit have not changed.
    fn body_spool_for(&self, config: &Config) -> Option<&Spool> {
        let is_same = self.body_folder == config.settings.http.body_temp_path;
        let is_same = is_same && self.largest.0 == config.largest_body();
        self.body_spool.as_ref().filter(|_| is_same)
    }

    /// The spools that a configuration needs in addition to those of this one.
    pub(crate) fn spools_needed(&self, config: &Config) -> SpoolsNeeded {
        let has_servers = !config.upstreams.is_empty() || config.proxies().next().is_some();
        let has_answers = has_servers || !config.applications.is_empty();
        let has_answers = has_answers && config.largest_buffering() != 0;
        SpoolsNeeded {
            requests: has_servers && self.body_spool_for(config).is_none(),
            responses: has_answers && self.response_spool_for(config).is_none(),
        }
    }

    /// The settings of requests from a listener, before they are routed.
    pub(crate) fn settings_of(&self, listener: u64) -> ScopeNumber {
        if !self.settings.has_scopes() {
            return ScopeNumber::default();
        }
        self.settings_at(self.position_of(listener))
    }

    /// The same for a listener with this number.
    pub(crate) fn settings_at(&self, position: Option<usize>) -> ScopeNumber {
        match position {
            Some(position) if self.settings.has_scopes() => self.router.settings_of(position),
            _ => ScopeNumber::default(),
        }
    }

    /// Limits of HTTP/2 on a listener; `None` if it is disabled there.
    pub(crate) fn http2_of(&self, listener: u64) -> Option<model::Http2> {
        let position = self.position_of(listener)?;
        self.listeners.get(position)?.options.http2.on()
    }

    /// HTTP/3 on a listener; `None` if it is disabled there.
    pub(crate) fn http3_of(&self, listener: u64) -> Option<&Spoken> {
        let position = self.position_of(listener)?;
        self.listeners.get(position)?.http3.as_ref()
    }

    fn set_guards(&mut self, guards: GuardTable, previous: &Snapshot) {
        self.bandwidths = bandwidths(&guards, previous);
        self.guards = guards;
    }

    /// Gives listeners the steps for their connections.
    fn set_streams(&mut self, config: &Config) {
        for entry in &mut self.listeners {
            let mut wanted = config.listeners.iter();
            let wanted = wanted.find(|wanted| wanted.address == entry.address);
            let stream = wanted.and_then(|wanted| wanted.stream.as_ref());
            entry.stream =
                stream.map(|stream| Arc::new(CompiledStream::new(stream, &self.upstreams)));
        }
    }

    /// A listener of this configuration.
    pub(crate) fn entry_of(&self, listener: u64) -> Option<&ListenerEntry> {
        self.listeners.get(self.position_of(listener)?)
    }

    /// The steps for the connections of a listener; `None`: all are read as HTTP.
    pub(crate) fn stream_of(&self, listener: u64) -> Option<&Arc<CompiledStream>> {
        self.entry_of(listener)?.stream.as_ref()
    }

    /// The bandwidths of the keys of a limit, if it has one.
    pub(crate) fn bandwidths_of(&self, limit: &Arc<model::Limit>) -> Option<&Bandwidths> {
        let mut all = self.bandwidths.iter();
        let (_, found) = all.find(|(known, _)| Arc::ptr_eq(known, limit))?;
        Some(found)
    }

    /// All listeners, including internal ones.
    pub(crate) fn entrances(&self) -> impl Iterator<Item = &ListenerEntry> {
        let own = self.job_entrances.iter().chain(&self.question_entrances);
        self.listeners.iter().chain(own)
    }

    /// The internal listener for a guard's question, by its number.
    pub(crate) fn question_entrance(&self, number: usize) -> Option<&Arc<SharedListener>> {
        let entry = self.question_entrances.get(number)?;
        Some(&entry.listener)
    }

    /// True for the internal listeners of guards' questions.
    pub(crate) fn is_question(&self, listener: u64) -> bool {
        let mut entrances = self.question_entrances.iter();
        entrances.any(|entry| entry.listener.id == listener)
    }

    /// The internal listener for the jobs of this spooler.
    pub(crate) fn entrance_of(&self, spooler: &str) -> Option<&ListenerEntry> {
        let mut entrances = self.job_entrances.iter();
        entrances.find(|entry| entry.listener.name() == spooler)
    }

    /// True for the internal listener of a spooler's jobs.
    pub(crate) fn is_of_job(&self, listener: u64) -> bool {
        let mut entrances = self.job_entrances.iter();
        entrances.any(|entry| entry.listener.id == listener)
    }

    /// The upstreams of each name: `proxy` actions with one URL and different options are shown as one upstream.
    pub(crate) fn upstreams_by_name(&self) -> BTreeMap<&str, Vec<&Arc<ServerGroup>>> {
        let mut by_name: BTreeMap<&str, Vec<&Arc<ServerGroup>>> = BTreeMap::new();
        for upstream in &self.upstreams {
            by_name.entry(upstream.name()).or_default().push(upstream);
        }
        by_name
    }

    /// The number of a listener in this configuration.
    pub(crate) fn position_of(&self, listener: u64) -> Option<usize> {
        self.entrances()
            .position(|entry| entry.listener.id == listener)
    }

    /// Returns a listener's offer to clients, if it speaks TLS.
    pub(crate) fn offer_of(&self, listener: u64) -> Option<&Offer> {
        let entry = self.listeners.get(self.position_of(listener)?)?;
        entry.offer.as_deref()
    }

    /// Prepares `config` to replace `previous`; `sockets`: those of HTTP/3, which are kept. All faults are reported, not only the first.
    ///
    /// # Errors
    /// Listeners that cannot be bound, a log that cannot be opened, each at its place.
    pub(crate) fn prepare(
        config: &Config,
        previous: &Snapshot,
        sockets: &Http3Sockets,
        around: &mut dyn SnapshotEnvironment,
    ) -> Result<PreparedSnapshot, Diagnostics> {
        let mut faults: Vec<Diagnostic> = forbidden_trailers(config).collect();
        let router = Router::compile(config)?;
        let mut snapshot = Self::settings(config, Some(previous), router);
        let (mut added, mut http3) = (Vec::new(), Vec::new());
        for (position, wanted) in config.listeners.iter().enumerate() {
            let settings = snapshot.router.settings_of(position);
            let limits = &snapshot.settings.get(settings).limits;
            let offer = match offer(wanted, limits, previous, around) {
                Ok(offer) => offer,
                Err(error) => {
                    faults.push(Diagnostic::apply(error.pointer, error.message));
                    continue;
                }
            };
            match listener(wanted, previous, around, offer) {
                Ok((mut entry, is_new)) => {
                    match http3_sockets::begin(wanted, &mut entry, sockets, around) {
                        Ok(begun) => http3.extend(begun),
                        Err(error) => faults.push(http3_fault(wanted, &error)),
                    }
                    if is_new {
                        added.push(Arc::clone(&entry.listener));
                    }
                    snapshot.believes_fields |= entry.forwarded.is_some();
                    snapshot.listeners.push(entry);
                }
                Err(error) => faults.push(bind_fault(wanted, &error)),
            }
        }
        snapshot.job_entrances = job_entrances(config, previous);
        snapshot.question_entrances = entry_points::for_questions(
            snapshot.router.guards(),
            (previous.router.guards(), &previous.question_entrances),
            previous.counts.threads(),
        );
        snapshot.believes_fields |= !snapshot.question_entrances.is_empty();
        let stores = &config.settings.limit_stores;
        match GuardTable::new(snapshot.router.guards(), stores, &previous.guards, |path| {
            around.guard_file(path)
        }) {
            Ok(guards) => snapshot.set_guards(guards, previous),
            Err(mut failed) => faults.append(&mut failed),
        }
        for application in config.applications.values() {
            match around.application(&application.name) {
                Some(running) => snapshot.applications.push(running),
                None => faults.push(Diagnostic::apply(
                    application.pointer.clone(),
                    "the application is not running",
                )),
            }
        }
        snapshot.upstreams = upstreams(&snapshot.router, previous, around, &mut faults);
        snapshot.set_streams(config);
        if let Some(first) = snapshot.upstreams.first() {
            let kept = previous.body_spool_for(config).cloned();
            match kept.map_or_else(|| around.body_spool(config.largest_body()), Ok) {
                Ok(spool) => snapshot.body_spool = Some(spool),
                Err(error) => faults.push(Diagnostic::apply(
                    first.model().pointer.clone().into(),
                    format!("cannot create a file for large request bodies: {error}"),
                )),
            }
        }
        match Logs::open(config, &previous.logs, |path| around.open_log(path)) {
            Ok(logs) => {
                let combinations = snapshot.router.combinations();
                snapshot.settings.set_logs(config, combinations, &logs);
                snapshot.logs = logs;
            }
            Err(mut failed) => faults.append(&mut failed),
        }
        if let Some(wanted) = &config.settings.telemetry {
            match tracer(wanted, previous, around) {
                Ok(tracer) => snapshot.tracer = Some(tracer),
                Err(why) => faults.push(Diagnostic::apply(
                    wanted.pointer.clone(),
                    format!("cannot send traces: {why}"),
                )),
            }
        }
        let applications = snapshot.applications.iter().map(|one| &**one.name());
        let upstreams = snapshot.upstreams.iter().map(|one| one.name());
        let routes = snapshot.router.routes();
        snapshot.counts = previous.counts.of(applications, upstreams, routes);
        if faults.is_empty() {
            Ok(PreparedSnapshot {
                snapshot,
                added,
                http3,
            })
        } else {
            Err(Diagnostics(faults))
        }
    }
}

/// The ALPN protocols, the preferred first (RFC 7301 §6); the first only if HTTP/2 is enabled.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// The bandwidths of limits. Those of an unchanged limit are kept, with what their keys owe.
fn bandwidths(
    guards: &GuardTable,
    previous: &Snapshot,
) -> Vec<(Arc<model::Limit>, Arc<Bandwidths>)> {
    let one = |model: &Arc<model::Limit>| {
        let rate = model.options.bandwidth?;
        let mut known = previous.bandwidths.iter();
        let kept = known.find(|(known, _)| known == model);
        let bandwidths = kept.map_or_else(
            || Arc::new(Bandwidths::new(rate)),
            |(_, kept)| Arc::clone(kept),
        );
        Some((Arc::clone(model), bandwidths))
    };
    let limits = guards.limits().into_iter();
    limits.filter_map(|limit| one(&limit.model)).collect()
}

/// The fields of `trailers` that may not follow a body.
fn forbidden_trailers(config: &Config) -> impl Iterator<Item = Diagnostic> {
    let each = config.scopes.iter().flat_map(|scope| {
        let names = scope.trailers.iter().flatten().map(|(name, _)| name);
        names.map(|name| (&scope.pointer, name))
    });
    each.filter(|(_, name)| !may_trail(name.as_bytes()))
        .map(|(pointer, name)| {
            let message = format!("the field `{name}` cannot follow a body");
            Diagnostic::apply(pointer.child("trailers").child(name), message).suggest(
                "a trailer must not frame, route or describe the response (RFC 9110 §6.5.1)",
            )
        })
}

/// The ALPN protocols offered to an upstream.
fn upstream_protocols(options: &model::UpstreamOptions) -> &'static [&'static [u8]] {
    match options.http_version {
        model::HttpVersion::Http1 => &[b"http/1.1"],
        model::HttpVersion::Http2 => &[b"h2"],
    }
}

/// TLS of a listener; clients can resume earlier sessions if that is possible.
fn offer(
    wanted: &model::Listener,
    limits: &MessageLimits,
    previous: &Snapshot,
    around: &mut dyn SnapshotEnvironment,
) -> Result<Option<Arc<Offer>>, OfferError> {
    let Some(tls) = &wanted.tls else {
        return Ok(None);
    };
    let before = previous
        .listeners
        .iter()
        .find(|entry| entry.address == wanted.address)
        .and_then(|entry| entry.offer.as_deref());
    let mut find = |source: CertificateSource<'_>| found(source, around);
    let [_, old @ ..] = &PROTOCOLS;
    let protocols = match wanted.options.http2 {
        Switch::On(_) => &PROTOCOLS[..],
        Switch::Off => old,
    };
    let mut offer = Offer::new(tls, &mut find, protocols, before)?;
    if let Some(http3) = wanted.options.http3.on().filter(|http3| http3.early_data) {
        offer.take_early(
            tutti_quic::promised(&http3, limits.max_head_bytes()),
            before,
        );
    }
    if let Some(on_demand) = &tls.on_demand
        && let Some(demands) = around.demands(&on_demand.account)
    {
        offer.begin_demands(demands);
    }
    Ok(Some(Arc::new(offer)))
}

/// A certificate of the configuration or of a file.
fn found(
    source: CertificateSource<'_>,
    around: &mut dyn SnapshotEnvironment,
) -> Result<Arc<Bundle>, String> {
    match source {
        CertificateSource::Stored(name) => around
            .certificate(name)
            .ok_or_else(|| format!("the certificate bundle `{name}` does not exist")),
        CertificateSource::File(path) => authorities::read(path).map(Arc::new),
    }
}

/// The existing socket of a listener, or a new one.
fn listener(
    wanted: &model::Listener,
    previous: &Snapshot,
    around: &mut dyn SnapshotEnvironment,
    offer: Option<Arc<Offer>>,
) -> io::Result<(ListenerEntry, bool)> {
    let kept = previous
        .listeners
        .iter()
        .find(|entry| entry.address == wanted.address);
    let (name, threads) = (&wanted.name, previous.counts.threads());
    let listener = match (kept, &wanted.address) {
        (Some(entry), _) => Arc::clone(&entry.listener),
        (None, model::ListenAddress::Udp(_)) => {
            let sockets = around.bind_datagrams(wanted)?.sockets;
            SharedListener::of_datagrams(name, entry_points::next_id(), sockets, threads)
        }
        (None, _) => {
            let (id, socket) = (entry_points::next_id(), around.bind(wanted)?);
            SharedListener::new(name, id, socket, threads)
        }
    };
    let entry = ListenerEntry {
        listener,
        address: wanted.address.clone(),
        options: wanted.options,
        forwarded: wanted.forwarded.clone(),
        offer,
        http3: None,
        proxy_protocol: wanted.proxy_protocol.clone(),
        stream: None,
    };
    Ok((entry, kept.is_none()))
}

/// The internal listeners for the jobs of spoolers: existing ones, by name, and new ones.
fn job_entrances(config: &Config, previous: &Snapshot) -> Vec<ListenerEntry> {
    let one = |spooler: &Arc<model::Spooler>| {
        let kept = previous.entrance_of(&spooler.name);
        entry_points::own(&spooler.name, kept, previous.counts.threads())
    };
    config.delivering_spoolers().map(one).collect()
}

/// The existing modules if they are equal: their engines are then recognised without a comparison.
fn modules(config: &Config, previous: Option<&Snapshot>) -> Modules {
    let wanted = &config.settings.modules;
    let kept = previous.filter(|previous| previous.modules == *wanted);
    kept.map_or(wanted, |previous| &previous.modules).clone()
}

/// The upstreams of the configuration. Unchanged ones are kept, and so are unchanged servers of changed ones.
fn upstreams(
    router: &Router,
    previous: &Snapshot,
    around: &mut dyn SnapshotEnvironment,
    faults: &mut Vec<Diagnostic>,
) -> Vec<Arc<ServerGroup>> {
    let mut system = authorities::System::default();
    // The former groups that continue in changed ones. Each does so once: two would count each other's requests and failures.
    let mut continued: Vec<&Arc<ServerGroup>> = Vec::new();
    let one = |wanted: &Arc<model::Upstream>| {
        // `proxy` actions may have the same URL and differ in everything else.
        let same_name = || {
            let known = previous.upstreams.iter();
            known.filter(|known| known.name() == wanted.name)
        };
        let before = same_name()
            .find(|known| known.model() == wanted)
            .or_else(|| {
                // An unchanged one keeps its counters.
                let former = same_name().find(|known| {
                    let is_continued = continued.iter().any(|one| Arc::ptr_eq(one, known));
                    !is_continued && !router.upstreams().contains(known.model())
                });
                continued.extend(former);
                former
            });
        let tls_before = before.and_then(|before| before.tls());
        let tls = wanted.tls.as_ref().map(|tls| {
            let mut find = |source: CertificateSource<'_>| found(source, around);
            let sources = (&mut find as _, &mut (|| system.read()) as _);
            let protocols = upstream_protocols(&wanted.options);
            ClientTls::new(tls, sources, protocols, tls_before)
        });
        let tls = tls
            .transpose()
            .map_err(|error| faults.push(Diagnostic::apply(error.pointer, error.message)))
            .ok()?;
        let key = wanted.sticky_key.as_ref().and_then(|file| {
            let content = around.guard_file(&file.path)?;
            let key = content.and_then(|content| StickyKey::of_file(&content));
            key.map_err(|why| {
                let message = format!("`{}`: {why}", file.path.display());
                faults.push(Diagnostic::apply(file.pointer.clone().into(), message));
            })
            .ok()
        });
        let is_same_tls = tls.as_ref().map(Arc::as_ptr) == tls_before.map(Arc::as_ptr);
        Some(match before {
            Some(before)
                if before.model() == wanted
                    && is_same_tls
                    && key.as_ref().is_none_or(|key| before.has_key(key)) =>
            {
                Arc::clone(before)
            }
            before => {
                let before = before.map(Arc::as_ref);
                Arc::new(ServerGroup::with_key(wanted, (tls, key), before))
            }
        })
    };
    router.upstreams().iter().filter_map(one).collect()
}

/// The existing tracer if its options are unchanged, or a new one.
fn tracer(
    wanted: &model::Telemetry,
    previous: &Snapshot,
    around: &mut dyn SnapshotEnvironment,
) -> Result<Arc<Tracer>, String> {
    let kept = previous.tracer.as_ref();
    match kept.filter(|tracer| tracer.settings() == wanted) {
        Some(tracer) => Ok(Arc::clone(tracer)),
        None => around.tracer(wanted),
    }
}
