//! What the control API can have done: the joining of configuration, pool, server and main.
//!
//! A change goes validate → prepare (sockets and logs from main, applications from the pool, routes) → store → commit.
//! Everything before the commit can fail and then leaves nothing behind; the commit cannot fail.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde_json::Value;
use tokio::sync::watch;
use tutti_config::{Config, Context, Diagnostic, Diagnostics, Document, Pointer};
use tutti_control::{BoxFuture, RestartError, Service, StoreError};
use tutti_pool::{AppStatus, Level, Manager, StartFailure};
use tutti_script::Modules;
use tutti_server::Server;
use tutti_telemetry::{Counts, Exporters};

use super::certificates::Certificates;
use super::link::Link;
use super::opening::{Fetched, Held, Running};
use super::restore::Unbound;
use super::status;
use super::{files, js_modules};
use crate::log::Log;
use crate::protocol::{Cause, Module, Store, ToMain, Totals};

/// The value of `Server` in answers of the control API.
const SERVER_NAME: &str = concat!("Tutti/", env!("CARGO_PKG_VERSION"));

/// The router's side of the control API. A handle: clones are the same thing.
#[derive(Clone)]
pub(super) struct RouterService(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) link: Arc<Link>,
    pub(super) log: Log,
    modules: Vec<Module>,
    tmpdir: PathBuf,
    pub(super) server: Arc<Server>,
    manager: Manager,
    exporters: Exporters,
    threads: u32,
    pub(super) certificates: ArcSwap<Certificates>,
    pub(super) js_modules: ArcSwap<Modules>,
    pub(super) document: ArcSwap<Document>,
    pub(super) config: ArcSwap<Config>,
    /// What of the stored configuration is not being served.
    pub(super) problems: ArcSwap<Problems>,
    /// Listeners among that which are tried again.
    pub(super) unbound: Mutex<Vec<Unbound>>,
    pub(super) held: Mutex<Held>,
    pub(super) is_stopping: watch::Sender<bool>,
    /// Held by a change, and by an upgrade that allows none.
    pub(super) changing: tokio::sync::Mutex<()>,
    pub(super) is_frozen: watch::Sender<bool>,
    /// Counted by routers that retire or have ended.
    others: Mutex<Totals>,
}

/// What of the stored configuration was not served when it was restored.
#[derive(Clone, Default)]
pub(super) struct Problems {
    pub(super) faults: Diagnostics,
    /// Applications that are tried again: problems until they have started.
    pub(super) starts: Vec<StartFailure>,
}

impl Problems {
    pub(super) fn all(&self) -> Diagnostics {
        self.left(&[])
    }

    /// What is still a problem as `applications` are now.
    fn left(&self, applications: &[(Arc<str>, AppStatus)]) -> Diagnostics {
        let starts = self.starts.iter().filter(|failure| {
            // One that is not there at all is not tried again either.
            let mut named = applications
                .iter()
                .filter(|(name, _)| **name == *failure.name);
            named.all(|(_, status)| status.last_failure.is_some())
        });
        let faults = self.faults.0.iter().cloned();
        Diagnostics(faults.chain(starts.map(start_fault)).collect())
    }
}

/// What a service is made of.
pub(super) struct Parts {
    pub(super) link: Arc<Link>,
    pub(super) log: Log,
    pub(super) modules: Vec<Module>,
    pub(super) tmpdir: PathBuf,
    pub(super) server: Arc<Server>,
    pub(super) manager: Manager,
    pub(super) exporters: Exporters,
    pub(super) certificates: Certificates,
    pub(super) js_modules: Modules,
    pub(super) threads: u32,
}

/// Whether a configuration comes from a client or from the state folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// To be stored, with this in its history.
    Client(Cause),
    Stored,
    /// In force in the router that is being replaced: all of it or nothing.
    Running,
}

impl RouterService {
    pub(super) fn new(parts: Parts) -> RouterService {
        RouterService(Arc::new(Inner {
            link: parts.link,
            log: parts.log,
            modules: parts.modules,
            tmpdir: parts.tmpdir,
            server: parts.server,
            manager: parts.manager,
            exporters: parts.exporters,
            threads: parts.threads,
            document: ArcSwap::from_pointee(Document::empty()),
            config: ArcSwap::from_pointee(Config::default()),
            problems: ArcSwap::default(),
            certificates: ArcSwap::from_pointee(parts.certificates),
            js_modules: ArcSwap::from_pointee(parts.js_modules),
            unbound: Mutex::default(),
            held: Mutex::default(),
            is_stopping: watch::Sender::new(false),
            changing: tokio::sync::Mutex::default(),
            is_frozen: watch::Sender::new(false),
            others: Mutex::default(),
        }))
    }

    /// Tells more of what is not served as it was meant, until the next change.
    pub(super) fn add_problems(&self, faults: Diagnostics) {
        let mut problems = Problems::clone(&self.0.problems.load());
        problems.faults.0.extend(faults.0);
        self.0.problems.store(Arc::new(problems));
    }

    /// Ends the change under way, if there is one, and refuses all to come.
    pub(super) fn stop(&self) {
        self.0.is_stopping.send_replace(true);
    }

    /// Refuses changes from now on; done when none is under way.
    pub(super) async fn freeze(&self) {
        self.0.is_frozen.send_replace(true);
        drop(self.0.changing.lock().await);
    }

    /// Takes changes again.
    pub(super) fn thaw(&self) {
        self.0.is_frozen.send_replace(false);
    }

    /// What other routers have counted.
    pub(super) fn count_others(&self, totals: Totals) {
        *self.0.others.lock().unwrap_or_else(PoisonError::into_inner) = totals;
    }

    /// What this one has counted.
    pub(super) fn totals(&self) -> Totals {
        self.0.own_totals()
    }

    /// How long connections may go on when the server goes; `None`: as long as they take.
    pub(super) fn drain_timeout(&self) -> Option<Duration> {
        let longest = self.0.config.load().settings.http.drain_timeout;
        (!longest.is_zero()).then_some(longest)
    }

    /// Closes all listening sockets, so that nobody new waits for an answer that will not come. Requests under way go on.
    pub(super) fn close_listeners(&self) {
        let mut config = Config::clone(&self.0.config.load());
        config.listeners.clear();
        self.replace_snapshot(&config);
    }

    /// Lets go of the configuration in force. To be called when no listen thread runs any more.
    pub(super) fn forget(&self) {
        self.replace_snapshot(&Config::default());
    }

    fn replace_snapshot(&self, config: &Config) {
        let certificates = self.0.certificates.load();
        match self.0.prepare_running(config, &certificates) {
            // Dropped at once: nothing is served any more.
            Ok(prepared) => drop(self.0.server.commit(prepared)),
            Err(faults) => {
                let details: Vec<String> = faults.0.iter().map(Diagnostic::detail).collect();
                let text = format!("cannot let go of the configuration: {}", details.join("; "));
                self.0.log.line(Level::Alert, &text);
            }
        }
    }

    /// Main has opened a log again.
    pub(super) fn replace_file(&self, path: &Path, file: OwnedFd) {
        if self.0.server.access_log_path().as_deref() == Some(path) {
            self.0.server.replace_access_log(file);
        }
    }
}

/// What configurations are checked against.
pub(super) fn context(modules: &[Module]) -> Context {
    Context::with_modules(
        modules
            .iter()
            .map(|m| (m.kind.as_str(), m.version.as_str())),
    )
}

impl Inner {
    /// Applies a change unless the server stops meanwhile: applications that are still starting must not hold that up.
    /// Returns the applications that failed to start and are tried again, which only a stored configuration may have.
    pub(super) async fn apply(
        &self,
        document: Document,
        origin: Origin,
    ) -> Result<Vec<StartFailure>, Diagnostics> {
        let mut stopping = self.is_stopping.subscribe();
        tokio::select! {
            biased;
            _ = stopping.wait_for(|is_stopping| *is_stopping) => {
                Err(Diagnostics::one(Diagnostic::apply(Pointer::default(), "the server is stopping")))
            }
            done = self.change_alone(document, origin) => done,
        }
    }

    async fn change_alone(
        &self,
        document: Document,
        origin: Origin,
    ) -> Result<Vec<StartFailure>, Diagnostics> {
        let _alone = self.changing.lock().await;
        self.must_not_be_frozen()?;
        self.change(document, origin).await
    }

    pub(super) fn must_not_be_frozen(&self) -> Result<(), Diagnostics> {
        if *self.is_frozen.borrow() {
            let fault = Diagnostic::apply(Pointer::default(), "the server is being upgraded");
            return Err(Diagnostics::one(fault.suggest("try again in a moment")));
        }
        Ok(())
    }

    /// Makes a configuration ready that opens nothing new.
    pub(super) fn prepare_running(
        &self,
        config: &Config,
        certificates: &Certificates,
    ) -> Result<tutti_server::Prepared, Diagnostics> {
        let mut around = Running {
            manager: &self.manager,
            tmpdir: &self.tmpdir,
            certificates,
        };
        self.server.prepare(config, &mut around)
    }

    pub(super) async fn change(
        &self,
        document: Document,
        origin: Origin,
    ) -> Result<Vec<StartFailure>, Diagnostics> {
        let certificates = self.certificates.load_full();
        let known = context(&self.modules)
            .with_certificates(certificates.names())
            .with_js_modules(Modules::clone(&self.js_modules.load()));
        let config = tutti_config::validate(&document, &known)?;
        let specs = self.specs(&config, &self.tmpdir).await?;
        let spool = self.spool(&config.settings.http).await?;
        let (mut opened, applications, failures) = match &origin {
            Origin::Client(_) | Origin::Running => {
                let (opened, applications) =
                    tokio::join!(self.open(&config, &origin), self.manager.prepare(specs));
                let (opened, applications) = both(opened, applications.map_err(start_faults))?;
                (opened, applications, Vec::new())
            }
            Origin::Stored => {
                let opened = self.open(&config, &origin).await?;
                let (applications, failures) = self.manager.prepare_what_works(specs).await;
                (opened, applications, failures)
            }
        };
        let around = &mut Fetched {
            tmpdir: &self.tmpdir,
            spool,
            opened: &mut opened,
            applications: &applications,
            certificates: &certificates,
            exporters: &self.exporters,
        };
        let prepared = self.server.prepare(&config, around)?;
        let is_new = matches!(origin, Origin::Client(_));
        if let Origin::Client(cause) = origin {
            files::store(&self.link, &document, cause).await?;
        }
        // From here on nothing can fail, and nothing waits.
        let former = self.server.commit(prepared);
        applications.commit();
        tokio::spawn(former.end());
        if is_new {
            self.document.store(Arc::new(document));
            self.problems.store(Arc::default());
            self.unbound().clear();
        }
        self.release(&config, &mut opened);
        self.note_threads(&config);
        self.config.store(Arc::new(config));
        Ok(failures)
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

    fn own_totals(&self) -> Totals {
        let totals = self.server.totals();
        Totals {
            accepted: totals.accepted,
            active: totals.active,
            idle: totals.idle,
            closed: totals.closed,
            requests: totals.requests,
        }
    }

    fn status(&self) -> Value {
        let others = *self.others.lock().unwrap_or_else(PoisonError::into_inner);
        let applications = self.manager.status();
        status::whole(&status::Parts {
            modules: &self.modules,
            totals: self.own_totals() + others,
            upstreams: self.server.upstreams(),
            problems: &self.problems.load().left(&applications),
            telemetry: (self.config.load().settings.telemetry.is_some()
                || self.exporters.counts() != Counts::default())
            .then(|| self.exporters.counts()),
            applications,
        })
    }
}

/// Both results, or the faults of both.
fn both<A, B>(a: Result<A, Diagnostics>, b: Result<B, Diagnostics>) -> Result<(A, B), Diagnostics> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(mut a), Err(b)) => {
            a.0.extend(b.0);
            Err(a)
        }
        (Err(faults), Ok(_)) | (Ok(_), Err(faults)) => Err(faults),
    }
}

pub(super) fn fault(pointer: Pointer, message: String, hint: Option<String>) -> Diagnostic {
    let fault = Diagnostic::apply(pointer, message);
    match hint {
        Some(hint) => fault.suggest(hint),
        None => fault,
    }
}

fn start_faults(failures: Vec<StartFailure>) -> Diagnostics {
    Diagnostics(failures.iter().map(start_fault).collect())
}

/// A failed start with the application's own last words, where they say more than the message.
fn start_fault(failure: &StartFailure) -> Diagnostic {
    let mut message = format!(
        "application `{}` failed to start ({}): {}",
        failure.name, failure.step, failure.message
    );
    let words = failure.stderr.trim();
    if !words.is_empty() && !failure.message.contains(words) {
        message = format!("{message}; its last words: {words}");
    }
    fault(
        Pointer::from_escaped(&failure.pointer),
        message,
        failure.hint.clone(),
    )
}

impl Service for RouterService {
    fn document(&self) -> Arc<Document> {
        self.0.document.load_full()
    }

    fn apply(
        &self,
        document: Document,
        cause: tutti_control::Cause,
    ) -> BoxFuture<Result<(), Diagnostics>> {
        let inner = Arc::clone(&self.0);
        let origin = Origin::Client(Cause {
            by: cause.by,
            change: cause.change,
        });
        Box::pin(async move { inner.apply(document, origin).await.map(drop) })
    }

    fn files(&self) -> BoxFuture<Result<Option<Document>, Diagnostics>> {
        let link = Arc::clone(&self.0.link);
        Box::pin(async move { files::read(&link).await })
    }

    fn history(&self) -> BoxFuture<Result<Value, String>> {
        let link = Arc::clone(&self.0.link);
        Box::pin(async move { files::history(&link).await })
    }

    fn past(&self, number: u64) -> BoxFuture<Result<Option<Document>, String>> {
        let link = Arc::clone(&self.0.link);
        Box::pin(async move { files::past(&link, number).await })
    }

    fn status(&self) -> Value {
        self.0.status()
    }

    fn stored(&self, store: tutti_control::Store) -> Value {
        match Store::from(store) {
            Store::Certificates => self.0.certificates.load().description(),
            Store::JsModules => js_modules::description(&self.0.js_modules.load()),
        }
    }

    fn keep(
        &self,
        store: tutti_control::Store,
        name: &str,
        bytes: Vec<u8>,
    ) -> BoxFuture<Result<Vec<String>, StoreError>> {
        let (inner, name) = (Arc::clone(&self.0), name.to_owned());
        Box::pin(async move {
            match Store::from(store) {
                Store::Certificates => inner.store_certificate(name, bytes).await,
                Store::JsModules => inner.store_module(name, bytes).await,
            }
        })
    }

    fn discard(
        &self,
        store: tutti_control::Store,
        name: &str,
    ) -> BoxFuture<Result<(), StoreError>> {
        let (inner, name) = (Arc::clone(&self.0), name.to_owned());
        Box::pin(async move { inner.discard(store.into(), name).await })
    }

    fn restart(&self, application: &str) -> BoxFuture<Result<(), RestartError>> {
        let manager = self.0.manager.clone();
        let name = application.to_owned();
        Box::pin(async move {
            match manager.restart(&name).await {
                Ok(()) => Ok(()),
                Err(tutti_pool::RestartError::Failed(failure)) => {
                    Err(RestartError::Failed(start_faults(vec![failure])))
                }
                Err(_) => Err(RestartError::Unknown),
            }
        })
    }

    fn upgrade(&self) -> BoxFuture<Result<(), String>> {
        let upgraded = self
            .0
            .link
            .request(&|id| ToMain::Upgrade { id }, Vec::new());
        Box::pin(async move { upgraded.await.map(drop).map_err(|refused| refused.message) })
    }

    fn server_name(&self) -> &str {
        SERVER_NAME
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_both_sides_are_told() {
        let one = |text: &str| Diagnostics::one(Diagnostic::apply(Pointer::default(), text));
        let faults = both::<(), ()>(Err(one("a")), Err(one("b"))).err().unwrap();
        assert_eq!(faults.0.len(), 2);
        assert!(both::<(), ()>(Ok(()), Err(one("b"))).is_err());
    }
}
