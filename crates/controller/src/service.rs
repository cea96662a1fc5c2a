//! The operations of the control API: a change is checked here, prepared by the router, stored by main, and then in
//! force.
//!
//! Must never happen: that a configuration is in force or stored without being checked, that `/config` shows anything
//! but the configuration in force, or that a hanging router blocks the API.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::{ArcSwap, ArcSwapOption};
use serde_json::{Map, Value, json};
use tokio::time::timeout;
use tutti_config::model::Maintenance;
use tutti_config::{
    Config, Diagnostic, Diagnostics, Document, FaultKind, Pointer, ValidationContext,
};
use tutti_control::{RenewError, RestartError, Service, ServiceFuture, StopKind, StoreError};
use tutti_log::Log;
use tutti_metrics::ExpositionFormat;
use tutti_protocol::{
    self, Cause, CertificateNews, Change, ControllerHello, FromController, Grants, JobTask,
    LanguageModule, PurgeScope, Reason, RouterQuery, SourceNews, SourcePlan, StoreKind,
};
use tutti_script::Modules;
use tutti_unprivileged::certificates::Certificates;
use tutti_unprivileged::link::Refused;
use tutti_unprivileged::role_state::{RoleState, Standings};
use tutti_unprivileged::{automatic, context, faults, grants, js_modules, partial};

use super::dashboard_keeper::Keeper;
use super::line::Link;
use super::{files, log_place, source};

/// The value of `Server` in answers of the control API.
const SERVER_NAME: &str = concat!("Tutti/", env!("CARGO_PKG_VERSION"));

/// A router that has not reported its status after this time hangs, or main would have started another.
pub(super) const LONGEST_STATUS: Duration = Duration::from_secs(10);

/// Time that a change or restart may take beyond the longest start of an application: for the start of another router,
/// or an overloaded machine.
const DEFAULT_SLACK: Duration = Duration::from_secs(90);

/// The environment variable that overrides this number of seconds.
const SLACK: &str = "TUTTI_CHANGE_SLACK";

/// The state of all automatic certificates, by bundle.
pub(super) type News = BTreeMap<String, CertificateNews>;

fn slack() -> Duration {
    let given = std::env::var(SLACK).ok();
    let given = given.and_then(|text| text.parse().ok());
    given.map_or(DEFAULT_SLACK, Duration::from_secs)
}

/// The controller's implementation of the control API. A handle: clones share the same state.
#[derive(Clone)]
pub(super) struct ControllerService(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) link: Arc<Link>,
    pub(super) log: Log,
    modules: Vec<LanguageModule>,
    pub(super) certificates: ArcSwap<Certificates>,
    pub(super) js_modules: ArcSwap<Modules>,
    pub(super) document: ArcSwap<Document>,
    /// The valid part of the document: a stored one may have faults.
    pub(super) config: ArcSwap<Config>,
    /// Parts of the configuration that are not in force since the start, until the next change.
    problems: ArcSwap<Diagnostics>,
    /// Held by a change, and by an upgrade, which allows no changes.
    pub(super) changing: tokio::sync::Mutex<()>,
    standings: Standings,
    pub(super) dashboard: Keeper,
    /// The state of all automatic certificates.
    pub(super) acme_news: ArcSwap<News>,
    /// The source that `--source` names.
    pub(super) given_source: Option<Box<SourcePlan>>,
    /// The state of the source.
    pub(super) source_news: ArcSwapOption<SourceNews>,
    /// The log's destination in `/status`.
    log_place: Value,
    /// See [`SLACK`].
    slack: Duration,
}

impl ControllerService {
    pub(super) fn new(link: Arc<Link>, log: Log, hello: &ControllerHello) -> ControllerService {
        // A former controller has already logged the parts that cannot be used.
        let startup_log = (!hello.has_begun).then_some(&log);
        let certificates = Certificates::read(&hello.certificates, startup_log);
        ControllerService(Arc::new(Inner {
            link,
            modules: hello.modules.clone(),
            certificates: ArcSwap::from_pointee(certificates),
            js_modules: ArcSwap::from_pointee(js_modules::read(&hello.js_modules)),
            document: ArcSwap::from_pointee(Document::empty()),
            config: ArcSwap::from_pointee(Config::default()),
            problems: ArcSwap::default(),
            changing: tokio::sync::Mutex::default(),
            standings: Standings::default(),
            dashboard: Keeper::default(),
            acme_news: ArcSwap::default(),
            // Its faults have been logged already.
            given_source: source::given(hello.source.as_ref()).ok().flatten(),
            source_news: ArcSwapOption::empty(),
            slack: slack(),
            log_place: log_place::place(hello.log_file.as_deref(), &log),
            log,
        }))
    }

    /// Uses this document as the one in force.
    pub(super) fn begin_with(&self, document: Document) {
        let inner = &self.0;
        let config = partial::sound(&document, &inner.context()).unwrap_or_default();
        inner.config.store(Arc::new(config));
        inner.document.store(Arc::new(document));
    }

    /// Sends main the configuration to start with. A configuration that another version serves must be valid as a
    /// whole.
    pub(super) fn beginning(
        &self,
        document: Option<Document>,
        is_upgrade: bool,
        cause: Option<Cause>,
    ) -> FromController {
        let Some(document) = document else {
            return FromController::Begin {
                configuration: None,
                cause: None,
                set_aside: false,
                grants: Box::default(),
                certificates: BTreeMap::new(),
            };
        };
        let unfit = |faults: &Diagnostics| {
            let details: Vec<String> = faults.0.iter().map(Diagnostic::detail).collect();
            let details = details.join("; ");
            FromController::Unfit {
                message: format!("the configuration cannot be applied: {details}"),
            }
        };
        if is_upgrade && let Err(faults) = tutti_config::validate(&document, &self.0.context()) {
            return unfit(&faults);
        }
        let text = document.to_json();
        self.begin_with(document);
        FromController::Begin {
            configuration: Some(text),
            cause,
            set_aside: false,
            grants: Box::new(grants::of(&self.0.config.load())),
            certificates: BTreeMap::new(),
        }
    }

    /// Adds further problems.
    pub(super) fn add_problems(&self, faults: Diagnostics) {
        self.0.problems.store(Arc::new(faults));
    }

    /// Rejects changes from now on; completes when none is in progress.
    pub(super) async fn freeze(&self) {
        self.0.standings.freeze();
        drop(self.0.changing.lock().await);
    }

    /// Accepts changes again.
    pub(super) fn thaw(&self) {
        self.0.standings.thaw();
    }

    /// Rejects changes from now on. Main reports the result of the one in progress.
    pub(super) fn stop(&self) {
        self.0.standings.stop();
    }
}

impl Inner {
    /// Returns the context against which configurations are checked now.
    pub(super) fn context(&self) -> ValidationContext {
        self.context_with(&self.certificates.load(), &self.js_modules.load())
    }

    /// Returns the context for changes. A stored configuration is not checked for its source: a server that is started
    /// without one serves the rest.
    fn context_of_changes(&self) -> ValidationContext {
        self.context()
            .with_given_source(self.given_source.is_some())
    }

    fn context_with(&self, certificates: &Certificates, modules: &Modules) -> ValidationContext {
        context(&self.modules)
            .with_certificates(certificates.names())
            .with_js_modules(modules.clone())
    }

    /// Returns the grants of the configuration with these certificates and modules: a part that was faulty without them
    /// may be valid now.
    pub(super) fn grants_with(&self, certificates: &Certificates, modules: &Modules) -> Grants {
        let context = self.context_with(certificates, modules);
        grants::of(&partial::sound(&self.document.load(), &context).unwrap_or_default())
    }

    pub(super) fn must_take_changes(&self) -> Result<(), Diagnostics> {
        takes_changes(self.standings.now())
    }

    /// Returns the warnings.
    async fn apply(
        self: &Arc<Self>,
        document: Document,
        cause: Cause,
    ) -> Result<Diagnostics, Diagnostics> {
        let _alone = self.changing.lock().await;
        self.must_take_changes()?;
        let config = tutti_config::validate(&document, &self.context_of_changes())?;
        let certificates = self.read_certificates(&config.certificate_files).await?;
        self.keep_certificates(certificates).await?;
        let grants = grants::of(&config);
        let text = document.to_json();
        let change = Change::Configuration { text };
        let certificates = self.certificates.load_full();
        let dashboard = self.prepare_dashboard(&config, &certificates).await?;
        let by_hand = self.differs_from_fleet(&cause);
        let changed = self.have_changed(change, grants, cause, longest_start(&config));
        let mut warnings = match changed.await {
            Ok(warnings) => warnings,
            Err(faults) => {
                self.abandon_dashboard(dashboard);
                return Err(faults);
            }
        };
        self.serve_dashboard(dashboard);
        self.document.store(Arc::new(document));
        let former = self.config.swap(Arc::new(config));
        self.problems.store(Arc::default());
        self.forget_certificates().await;
        self.plan_source();
        self.plan_certificates();
        // A warning that the former configuration also had does not concern this change.
        let known = automatic::warnings(&former).0;
        let found = automatic::warnings(&self.config.load()).0;
        let is_new = |one: &Diagnostic| !known.contains(one);
        warnings.0.extend(found.into_iter().filter(is_new));
        warnings.0.extend(by_hand);
        Ok(warnings)
    }

    /// Makes main carry out a change. Main's answer is the result, even if it takes longer than allowed: by then the
    /// change may be stored.
    pub(super) async fn have_changed(
        &self,
        change: Change,
        grants: Grants,
        cause: Cause,
        longest_start: Duration,
    ) -> Result<Diagnostics, Diagnostics> {
        let make = |id| FromController::Apply {
            id,
            change: change.clone(),
            grants: Box::new(grants.clone()),
            cause: cause.clone(),
        };
        let (id, answer) = self.link.numbered_request(&make, Vec::new());
        tokio::pin!(answer);
        let done = match timeout(longest_start.saturating_add(self.slack), &mut answer).await {
            Ok(done) => done,
            Err(_) => {
                self.link.send(&FromController::Abandon { id });
                answer.await
            }
        };
        done.map(|done| faults::received(done.warnings))
            .map_err(faults_of)
    }

    /// Asks the router a question, with a time limit; returns the answer's descriptors.
    pub(super) async fn ask(
        &self,
        question: RouterQuery,
        longest: Duration,
    ) -> Result<Vec<OwnedFd>, Refused> {
        let make = |id| FromController::Ask {
            id,
            question: question.clone(),
        };
        let (id, answer) = self.link.numbered_request(&make, Vec::new());
        match timeout(longest, answer).await {
            Ok(done) => done.map(|done| done.descriptors),
            Err(_) => {
                self.link.forget(id);
                self.link.send(&FromController::Forget { id });
                Err(Refused {
                    reason: Reason::Unavailable,
                    ..Refused::new(format!(
                        "the router has not answered for {} seconds; see the log",
                        longest.as_secs()
                    ))
                })
            }
        }
    }

    /// Asks the router a question that it answers with a file; returns its content.
    pub(super) async fn ask_for_content(&self, question: RouterQuery) -> Result<Vec<u8>, String> {
        let descriptors = self.ask(question, LONGEST_STATUS).await;
        let descriptors = descriptors.map_err(|refused| refused.message)?;
        let file = descriptors.into_iter().next();
        let file = file.ok_or("the router has reported nothing")?;
        tutti_protocol::read_large(file, tutti_protocol::LONGEST_OF_ROUTER)
            .map_err(|e| e.to_string())
    }

    async fn status(&self) -> Result<Value, String> {
        let text = self.ask_for_content(RouterQuery::Status).await?;
        let mut status: Value = serde_json::from_slice(&text)
            .map_err(|error| format!("the router's report cannot be read: {error}"))?;
        if let Some(status) = status.as_object_mut() {
            status.insert("server".to_owned(), self.server_status());
            let config = self.config.load();
            if let Some(maintenance) = &config.settings.maintenance {
                status.insert("maintenance".to_owned(), maintenance_status(maintenance));
            }
            let parts = config.scopes.iter().filter_map(|scope| {
                let maintenance = scope.maintenance.as_ref()?;
                let place = scope.pointer.as_str().to_owned();
                Some((place, maintenance_status(maintenance)))
            });
            let parts: Map<String, Value> = parts.collect();
            if !parts.is_empty() {
                status.insert("maintenance_of_parts".to_owned(), parts.into());
            }
            if let Some(source) = self.source_status() {
                status.insert("source".to_owned(), source);
            }
            if let Some(certificates) = self.certificates_status() {
                status.insert("certificates".to_owned(), certificates);
            }
        }
        let own = self.problems.load();
        let dashboard = self.dashboard.problem();
        let own = own.0.iter().chain(&dashboard);
        let own =
            own.map(|fault| json!({"pointer": fault.pointer.as_str(), "message": fault.detail()}));
        let own: Vec<Value> = own.collect();
        if let (Some(status), false) = (status.as_object_mut(), own.is_empty()) {
            let problems = status.entry("problems").or_insert_with(|| json!([]));
            if let Some(problems) = problems.as_array_mut() {
                problems.extend(own);
            }
        }
        Ok(status)
    }

    /// Returns `server` of `/status`: the version, and main's process as seen by its users; values that the system does
    /// not provide are left out.
    fn server_status(&self) -> Value {
        let main = tutti_sys::process::parent();
        let mut server = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "pid": main,
            "log": self.log_place,
        });
        if let Ok(age) = tutti_sys::proc::age(main) {
            server["uptime"] = age.as_secs().into();
        }
        server
    }

    async fn jobs(&self, spooler: String, task: JobTask) -> Result<Option<Value>, String> {
        self.ask_for_value(RouterQuery::Jobs { spooler, task })
            .await
    }

    /// Asks the router a question that it answers with JSON; `None` if it does not know the object.
    pub(super) async fn ask_for_value(
        &self,
        question: RouterQuery,
    ) -> Result<Option<Value>, String> {
        let descriptors = match self.ask(question, self.slack).await {
            Ok(descriptors) => descriptors,
            Err(refused) if refused.reason == Reason::Unknown => return Ok(None),
            Err(refused) => {
                let faults = faults_of(refused);
                let why = faults.0.first().map(Diagnostic::detail);
                return Err(why.unwrap_or_default());
            }
        };
        let file = descriptors.into_iter().next();
        let file = file.ok_or("the router has reported nothing")?;
        let text = tutti_protocol::read_large(file, tutti_protocol::LONGEST_OF_ROUTER)
            .map_err(|error| error.to_string())?;
        serde_json::from_slice(&text)
            .map(Some)
            .map_err(|error| error.to_string())
    }

    async fn restart(&self, application: String) -> Result<(), RestartError> {
        let config = self.config.load_full();
        let start = config.applications.get(&application);
        let start = start.map_or(Duration::ZERO, |app| app.common.limits.start_timeout);
        let question = RouterQuery::Restart { application };
        match self.ask(question, start.saturating_add(self.slack)).await {
            Ok(_) => Ok(()),
            Err(refused) if refused.reason == Reason::Unknown => Err(RestartError::Unknown),
            Err(refused) => Err(RestartError::Failed(faults_of(refused))),
        }
    }
}

/// Returns why a controller in this state accepts no change. Nothing is wrong with the change itself: a fleet must not
/// roll it back because a node is being upgraded.
pub(super) fn takes_changes(state: RoleState) -> Result<(), Diagnostics> {
    let unavailable = |message: &str, hint: Option<&str>| {
        let mut fault = Diagnostic::apply(Pointer::default(), message);
        fault.kind = FaultKind::Unavailable;
        fault.suggestion = hint.map(str::to_owned);
        Err(Diagnostics::one(fault))
    };
    match state {
        RoleState::Running => Ok(()),
        RoleState::Frozen => unavailable(
            "the server is being upgraded",
            Some("try again in a moment"),
        ),
        RoleState::Stopping => unavailable("the server is stopping", None),
    }
}

fn maintenance_status(maintenance: &Maintenance) -> Value {
    let mut status = json!({"retry_after": maintenance.options.retry_after});
    if let Some(page) = &maintenance.options.page {
        status["page"] = page.to_string_lossy().into();
    }
    status
}

/// Returns the longest time that an application of this configuration may take to start.
fn longest_start(config: &Config) -> Duration {
    let limits = config.applications.values();
    let limits = limits.map(|application| application.common.limits.start_timeout);
    limits.max().unwrap_or_default()
}

/// Returns the faults to report to the client if main rejected the change.
fn faults_of(refused: Refused) -> Diagnostics {
    let mut faults = faults::received(refused.faults);
    if faults.0.is_empty() {
        let mut fault = Diagnostic::apply(Pointer::default(), refused.message);
        fault.suggestion = refused.hint;
        if refused.reason == Reason::Unavailable {
            fault.kind = FaultKind::Unavailable;
        }
        faults.0.push(fault);
    }
    faults
}

impl Service for ControllerService {
    fn document(&self) -> Arc<Document> {
        self.0.document.load_full()
    }

    fn apply(
        &self,
        document: Document,
        cause: Cause,
    ) -> ServiceFuture<Result<Diagnostics, Diagnostics>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.apply(document, cause).await })
    }

    fn files(&self) -> ServiceFuture<Result<Option<Document>, Diagnostics>> {
        let service = self.clone();
        Box::pin(async move {
            // Even if the configuration has not changed: a reload may follow the renewal of a certificate.
            service.renew_certificates().await?;
            files::read(&service.0.link).await
        })
    }

    fn history(&self) -> ServiceFuture<Result<Value, String>> {
        let link = Arc::clone(&self.0.link);
        Box::pin(async move { files::history(&link).await })
    }

    fn past(&self, number: u64) -> ServiceFuture<Result<Option<Document>, String>> {
        let link = Arc::clone(&self.0.link);
        Box::pin(async move { files::past(&link, number).await })
    }

    fn status(&self) -> ServiceFuture<Result<Value, String>> {
        let inner = Arc::clone(&self.0);
        Box::pin(async move { inner.status().await })
    }

    fn metrics(&self, format: ExpositionFormat) -> ServiceFuture<Result<Vec<u8>, String>> {
        let inner = Arc::clone(&self.0);
        let media_type = format.media_type().to_owned();
        Box::pin(async move {
            inner
                .ask_for_content(RouterQuery::Metrics { media_type })
                .await
        })
    }

    fn stored(&self, store: StoreKind) -> Value {
        match store {
            StoreKind::Certificates => self.0.certificates.load().description(),
            StoreKind::JsModules => js_modules::description(&self.0.js_modules.load()),
        }
    }

    fn keep(
        &self,
        store: StoreKind,
        name: &str,
        bytes: Vec<u8>,
    ) -> ServiceFuture<Result<Vec<String>, StoreError>> {
        let (inner, name) = (Arc::clone(&self.0), name.to_owned());
        Box::pin(async move {
            match store {
                StoreKind::Certificates => inner.store_certificate(name, bytes).await,
                StoreKind::JsModules => inner.store_module(name, bytes).await,
            }
        })
    }

    fn discard(&self, store: StoreKind, name: &str) -> ServiceFuture<Result<(), StoreError>> {
        let (inner, name) = (Arc::clone(&self.0), name.to_owned());
        Box::pin(async move { inner.discard(store, name).await })
    }

    fn jobs(&self, spooler: &str, task: JobTask) -> ServiceFuture<Result<Option<Value>, String>> {
        let (inner, spooler) = (Arc::clone(&self.0), spooler.to_owned());
        Box::pin(async move { inner.jobs(spooler, task).await })
    }

    fn purge(
        &self,
        store: &str,
        purge: PurgeScope,
    ) -> ServiceFuture<Result<Option<Value>, String>> {
        let (inner, store) = (Arc::clone(&self.0), Some(store.to_owned()));
        let question = RouterQuery::Purge { store, purge };
        Box::pin(async move { inner.ask_for_value(question).await })
    }

    fn restart(&self, application: &str) -> ServiceFuture<Result<(), RestartError>> {
        let (inner, name) = (Arc::clone(&self.0), application.to_owned());
        Box::pin(async move { inner.restart(name).await })
    }

    fn renew(&self, certificate: &str) -> ServiceFuture<Result<(), RenewError>> {
        let (inner, name) = (Arc::clone(&self.0), certificate.to_owned());
        Box::pin(async move { inner.renew(name).await })
    }

    fn upgrade(&self) -> ServiceFuture<Result<(), String>> {
        let make = |id| FromController::Upgrade { id };
        let upgraded = self.0.link.request(&make, Vec::new());
        Box::pin(async move { upgraded.await.map(drop).map_err(|refused| refused.message) })
    }

    fn stop(&self, kind: StopKind) -> ServiceFuture<Result<(), String>> {
        let is_graceful = kind == StopKind::Graceful;
        let make = move |id| FromController::Stop { id, is_graceful };
        let begun = self.0.link.request(&make, Vec::new());
        Box::pin(async move { begun.await.map(drop).map_err(|refused| refused.message) })
    }

    fn server_name(&self) -> &str {
        SERVER_NAME
    }
}
