//! The stored configuration at a start: everything that can be served now, and the rest as soon as possible.
//!
//! `impl` blocks of the service. An address may be in use by another program for the moment, or belong to a network that is not up yet; a
//! folder may be on a disk that is not mounted. Missing resources are retried until all are there or the configuration is changed.
//! Listeners do not wait for applications: requests for the application do, within its limits. What must never happen: that a retry affects
//! what is served, or that `/config` shows only a part.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer};
use tutti_log::Level;
use tutti_pool::{StartFailure, Starts};
use tutti_unprivileged::grants::{datagrams_of, place_of};
use tutti_unprivileged::role_state::RoleState;
use tutti_unprivileged::{log_faults, partial};

use super::missing::{Lacking, Need};
use super::problems::{Problems, start_fault};
use super::service::{InForce, Inner, Origin, RouterService};

/// The pause before a missing resource is retried; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause: an address or a folder that is back is used within half a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// Reported once for all parts that are not served; the parts follow.
const NOT_WHOLE: &str = "parts of the stored configuration cannot be applied; the rest is served, see `problems` in /status";

impl RouterService {
    /// Puts the configuration of the previous router in force, without storing it again. Main holds that router's sockets, so an address
    /// that is unavailable was unavailable there, too.
    pub(super) async fn restore_whole(&self, document: Document) -> Result<(), Diagnostics> {
        tokio::select! {
            biased;
            () = self.0.standings.stopped() => {
                let fault = Diagnostic::apply(Pointer::default(), "the server is stopping");
                Err(Diagnostics::one(fault))
            }
            restored = self.restore_all(document) => restored,
        }
    }

    async fn restore_all(&self, document: Document) -> Result<(), Diagnostics> {
        let inner = &self.0;
        let mut left = document.clone();
        let mut problems = Vec::new();
        let _alone = inner.changing.lock().await;
        while let Err(faults) = inner.put_in_force(left.clone(), Origin::Running).await {
            let is_unbound = |fault: &Diagnostic| {
                let lacking = inner.lacking();
                let mut lacking = lacking.iter();
                lacking
                    .any(|one| one.pointer == fault.pointer && matches!(one.need, Need::Place(_)))
            };
            if !faults.0.iter().all(is_unbound) {
                return Err(faults);
            }
            let Some(dependent) = partial::prune(&mut left, &faults) else {
                return Err(faults);
            };
            problems.extend(faults.0);
            problems.extend(dependent.0);
        }
        inner.document.store(Arc::new(document));
        inner.problems.store(Arc::new(Problems {
            faults: Diagnostics(problems),
            starts: Vec::new(),
        }));
        self.try_again();
        Ok(())
    }

    /// Puts everything in force that can be served of the stored configuration, without storing it again.
    pub(super) async fn restore(&self, document: Document) {
        let restored = async {
            let _alone = self.0.changing.lock().await;
            self.0.restore_alone(document).await;
        };
        tokio::select! {
            biased;
            () = self.0.standings.stopped() => {}
            () = restored => self.try_again(),
        }
    }

    /// Retries missing resources until none is missing, or the configuration has been changed.
    pub(super) fn try_again(&self) {
        let is_needed = !self.0.lacking().is_empty();
        if !is_needed || self.0.is_trying.swap(true, Ordering::AcqRel) {
            return;
        }
        let service = self.clone();
        tokio::spawn(async move {
            let trying = async {
                let mut pause = FIRST_PAUSE;
                loop {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if service.0.use_what_has_come().await {
                        return;
                    }
                }
            };
            tokio::select! {
                () = trying => {}
                () = service.0.standings.stopped() => {}
            }
        });
    }
}

impl Inner {
    /// Prepares and commits a stored configuration at once. The caller must hold `changing`.
    async fn put_in_force(
        &self,
        document: Document,
        origin: Origin,
    ) -> Result<InForce, Diagnostics> {
        let ready = self.prepare(document, origin).await?;
        Ok(self.commit(ready))
    }

    /// Like `restore`; the caller must hold `changing`. Reports the parts that are not served.
    pub(super) async fn restore_alone(self: &Arc<Self>, document: Document) {
        self.lacking().clear();
        let mut left = document.clone();
        let mut faults = Vec::new();
        let mut starts = Starts::default();
        loop {
            match self.put_in_force(left.clone(), Origin::Stored).await {
                Ok(in_force) => {
                    faults.extend(in_force.forgiven);
                    starts = in_force.starts;
                    break;
                }
                Err(found) => {
                    let dependent = partial::prune(&mut left, &found);
                    faults.extend(found.0);
                    match dependent {
                        Some(dependent) => faults.extend(dependent.0),
                        None => {
                            self.refuse_connections(&left);
                            break;
                        }
                    }
                }
            }
        }
        // Clients read and change the whole.
        self.document.store(Arc::new(document));
        let before = self.problems.swap(Arc::new(Problems {
            faults: Diagnostics(faults.clone()),
            starts: Vec::new(),
        }));
        faults.retain(|fault| !before.faults.0.contains(fault));
        if !faults.is_empty() {
            self.log.line(Level::Alert, NOT_WHOLE);
            log_faults(&self.log, &Diagnostics(faults));
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            starts
                .each_failure(|failure| inner.note_failed_start(failure))
                .await;
        });
    }

    /// Called when nothing can be put in force: sockets that main has kept would accept connections that get no answer.
    fn refuse_connections(&self, document: &Document) {
        let config = partial::sound(document, &self.known());
        for listener in config.into_iter().flat_map(|config| config.listeners) {
            let place = place_of(&listener.address).map(Need::Place);
            let datagrams = datagrams_of(&listener).map(Need::Datagrams);
            for need in place.into_iter().chain(datagrams) {
                self.openings.give_back(need);
            }
        }
    }

    /// Notes that an application of the stored configuration does not start. Its start is repeated.
    fn note_failed_start(&self, failure: StartFailure) {
        self.log.line(Level::Alert, NOT_WHOLE);
        log_faults(&self.log, &Diagnostics::one(start_fault(&failure)));
        self.problems.rcu(|problems| {
            let mut problems = Problems::clone(problems);
            problems.starts.push(failure.clone());
            problems
        });
    }

    /// Uses the resources that are available now; true when none is missing any more.
    async fn use_what_has_come(self: &Arc<Self>) -> bool {
        let _alone = self.changing.lock().await;
        if self.standings.now() != RoleState::Running {
            return false;
        }
        let mut come = Vec::new();
        let tried = self.lacking().clone();
        for lacking in tried {
            // Main keeps it open for the next request.
            if self.openings.can_have(&lacking.need).await {
                come.push(lacking);
            }
        }
        if !come.is_empty() {
            self.restore_alone(Document::clone(&self.document.load()))
                .await;
        }
        for lacking in come {
            let is_missing = self.lacking().contains(&lacking);
            if !is_missing {
                self.log_available(&lacking);
            }
            self.openings.give_back(lacking.need);
        }
        let is_complete = self.lacking().is_empty();
        if is_complete {
            self.is_trying.store(false, Ordering::Release);
        }
        is_complete
    }

    fn log_available(&self, lacking: &Lacking) {
        let place = lacking.pointer.as_str();
        let text = match &lacking.need {
            Need::Place(_) => {
                let name = lacking.pointer.segments().last().unwrap_or_default();
                format!("listener `{name}` has its address now and is served")
            }
            Need::Datagrams(address) => format!("datagrams are received at {address} now"),
            Need::Log(path) => format!("the log `{}` is written now", path.display()),
            Need::Cache(cache) => format!("the cache `{}` has its file now", cache.name),
            Need::Jobs => "the file of jobs can be opened now".to_owned(),
        };
        self.log.line(Level::Notice, &format!("{text} ({place})"));
    }
}
