//! The stored configuration at a start: all of it that can be served now, and its listeners as soon as they can be.
//!
//! `impl` blocks of the service. An address may be another program's for the moment, or come with a network that is not up yet:
//! such a listener is tried again until it listens or the configuration is changed. What must never happen: that a retry
//! touches what is served, or that `/config` shows a part for the whole.

use std::sync::Arc;
use std::time::Duration;

use tutti_config::{Diagnostic, Diagnostics, Document, Pointer};
use tutti_log::Level;
use tutti_pool::StartFailure;
use tutti_role::partial;
use tutti_role::standing::Standing;

use super::opening::Unbound;
use super::service::{Inner, Origin, Problems, RouterService};

/// Pause before a listener is tried again; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Longest pause: an address that has come back is served within half a minute.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

impl RouterService {
    /// Puts the configuration of the router before this one in force, without storing it again. Main holds the sockets of that
    /// router, so an address that cannot be had is one that it did not have either.
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
            let is_unbound = |fault: &tutti_config::Diagnostic| {
                let path: Vec<String> = fault.pointer.segments().collect();
                let unbound = inner.unbound();
                matches!(path.as_slice(), [group, name] if group == "listeners" && unbound.iter().any(|u| u.name == *name))
            };
            if !faults.0.iter().all(is_unbound) || !partial::prune(&mut left, &faults) {
                return Err(faults);
            }
            problems.extend(faults.0);
        }
        inner.document.store(Arc::new(document));
        inner.problems.store(Arc::new(Problems {
            faults: Diagnostics(problems),
            starts: Vec::new(),
        }));
        self.try_again();
        Ok(())
    }

    /// Puts the stored configuration in force, without storing it again: all of it that can be served. Returns what cannot.
    pub(super) async fn restore(&self, document: Document) -> Diagnostics {
        let restored = async {
            let _alone = self.0.changing.lock().await;
            self.0.restore_alone(document).await
        };
        tokio::select! {
            biased;
            () = self.0.standings.stopped() => Diagnostics::default(),
            problems = restored => {
                self.try_again();
                problems
            }
        }
    }

    /// Tries the listeners that could not be bound until all are, or the configuration has been changed.
    fn try_again(&self) {
        if self.0.unbound().is_empty() {
            return;
        }
        let service = self.clone();
        tokio::spawn(async move {
            let trying = async {
                let mut pause = FIRST_PAUSE;
                loop {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    if service.0.serve_bound().await {
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
    /// Prepares and commits at once what is stored already. To be called by who holds `changing`.
    async fn put_in_force(
        &self,
        document: Document,
        origin: Origin,
    ) -> Result<Vec<StartFailure>, Diagnostics> {
        let ready = self.prepare(document, origin).await?;
        Ok(self.commit(ready))
    }

    /// To be called by who holds `changing`.
    async fn restore_alone(&self, document: Document) -> Diagnostics {
        self.unbound().clear();
        let mut left = document.clone();
        let mut problems = Problems::default();
        loop {
            match self.put_in_force(left.clone(), Origin::Stored).await {
                Ok(failures) => {
                    problems.starts = failures;
                    break;
                }
                Err(faults) => {
                    let is_pruned = partial::prune(&mut left, &faults);
                    problems.faults.0.extend(faults.0);
                    if !is_pruned {
                        break;
                    }
                }
            }
        }
        // Clients read and change the whole.
        self.document.store(Arc::new(document));
        let all = problems.all();
        self.problems.store(Arc::new(problems));
        all
    }

    /// Serves the listeners whose addresses can be had by now; true when none is left to be tried.
    async fn serve_bound(&self) -> bool {
        let _alone = self.changing.lock().await;
        if self.standings.now() != Standing::Running {
            return false;
        }
        let mut bound = Vec::new();
        let tried = self.unbound().clone();
        for listener in tried {
            // Main keeps it for the asking below.
            if self.openings.can_listen(&listener.place).await {
                bound.push(listener);
            }
        }
        if !bound.is_empty() {
            self.restore_alone(Document::clone(&self.document.load()))
                .await;
        }
        for Unbound { name, place, .. } in bound {
            if self.openings.listens_at(&place) {
                let text = format!("listener `{name}` has its address now and is served");
                self.log.line(Level::Notice, &text);
            } else {
                self.openings.unlisten(place);
            }
        }
        self.unbound().is_empty()
    }
}
