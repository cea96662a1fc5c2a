//! Cooperation of the nodes of a fleet: one of them carries out the due task for a certificate, and all of them apply
//! the result.
//!
//! `impl` blocks of [`Inner`]. Must never happen: that two nodes order the same certificate, or that a node does
//! anything for a certificate while it does not know whether another does.

use std::sync::Arc;

use tutti_log::Level;
use tutti_protocol::{
    AccountPlan, CertificatePlan, ForController, FromAcme, SharedAnswer, SharedNews,
};

use crate::demand;
use crate::documents::CertificateDocument;
use crate::failure::OrderError;
use crate::fleet::{Fleet, Unclaimed};
use crate::order::hand_over;
use crate::schedule;
use crate::scheduler::{Inner, Next, Scheduler, Task, unix_time};
use crate::shared::{Shared, Urgency, Work};

/// Seconds after which a document that another node works on is checked again, unless there is news before.
const CLAIM_AGAIN: i64 = 2;

/// Seconds after which applying a certificate is retried.
const TAKE_UP_AGAIN: i64 = 30;

const HOUR: i64 = 3600;

impl Scheduler {
    /// Handles news of the fleet.
    pub(crate) fn hear(&self, news: &SharedNews) {
        let Some(fleet) = &self.0.documents.fleet else {
            return;
        };
        fleet.heard(news);
        self.0.documents.heard(news.is_whole, &news.documents);
        let now = unix_time();
        let failed = {
            let state = &mut *self.0.state();
            state.shared.note_away(news.error.as_deref(), now);
            let base = state.base.clone();
            state.plan = demand::with_orders(base, &self.0.documents);
            let waited = state.demands.waited().into_iter();
            let waited = waited.filter(|bundle| !state.busy.contains(bundle));
            waited.collect::<Vec<_>>()
        };
        // Requests that wait for a certificate that another node failed to obtain fail.
        for bundle in failed {
            let document = self.0.documents.certificate(&bundle);
            let is_over = self.0.documents.owner(&bundle).is_none()
                && document.retry_at.is_some_and(|until| until > now);
            if let (true, Some((why, _))) = (is_over, document.last_error) {
                self.0.end_wishes(&bundle, Some(&why));
            }
        }
        self.0.wake.notify_one();
    }

    /// Delivers an answer of the fleet.
    pub(crate) fn answered(&self, id: u64, answer: SharedAnswer) {
        if let Some(fleet) = &self.0.documents.fleet {
            fleet.answered(id, answer);
        }
    }

    /// Records that a certificate of the fleet has been used.
    pub(crate) fn note_use_in_fleet(
        &self,
        bundle: String,
        wanted: CertificatePlan,
        account: AccountPlan,
    ) {
        // The task in progress records the use, or the next handshake does.
        if !self.0.state().busy.insert(bundle.clone()) {
            return;
        }
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move {
            if inner.is_use_news(&bundle)
                && inner.documents.claim_certificate(&bundle).await.is_ok()
            {
                inner.keep_use(&bundle, &wanted, &account).await;
                inner.documents.release_certificate(&bundle).await;
            }
            inner.state().busy.remove(&bundle);
            inner.wake.notify_one();
        });
    }
}

impl Inner {
    /// Returns the next task for a certificate that the fleet shares; `None`: only the tasks of any certificate.
    pub(crate) fn next_in_fleet(
        &self,
        shared: &Shared,
        bundle: &str,
        wanted: &CertificatePlan,
        document: &CertificateDocument,
        now: i64,
    ) -> Option<Next> {
        self.documents.fleet.as_ref()?;
        let waits = |work| shared.waits_until(bundle, work, now).map(Next::At);
        let issued = document.issued.as_ref();
        if issued.is_some_and(|issued| !shared.has(bundle, wanted, issued)) {
            return Some(waits(Work::Own).unwrap_or(Next::Do(Task::TakeUp)));
        }
        if shared.away().is_some() {
            // News wakes the scheduler.
            return Some(Next::At(i64::MAX));
        }
        let is_stored = wanted.until.is_some();
        if wanted.is_on_demand && is_stored && document.demand.is_none() {
            return Some(waits(Work::Own).unwrap_or(Next::Do(Task::Forget)));
        }
        if self.documents.owner(bundle).is_some() {
            return Some(Next::At(i64::MAX));
        }
        waits(Work::Turn)
    }

    /// Carries out a due task; in a fleet only if no other node does, and if it is still due then.
    pub(crate) async fn take_turn(
        &self,
        task: Task,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
    ) {
        let is_own = matches!(task, Task::TakeUp | Task::Forget);
        if is_own || self.documents.fleet.is_none() {
            return self.carry_out(task, bundle, wanted, account).await;
        }
        let is_waited_for = self.state().demands.is_waited_for(bundle);
        if !is_waited_for {
            tokio::time::sleep(Fleet::spread(bundle)).await;
        }
        if self.documents.claim_certificate(bundle).await.is_err() {
            return self.put_off(bundle, Work::Turn, CLAIM_AGAIN);
        }
        if self.is_due(task, bundle, wanted, account) {
            self.carry_out(task, bundle, wanted, account).await;
        }
        self.documents.release_certificate(bundle).await;
    }

    /// Leaves this work for a bundle alone for so many seconds.
    pub(crate) fn put_off(&self, bundle: &str, work: Work, seconds: i64) {
        let until = unix_time().saturating_add(seconds);
        self.state().shared.put_off(bundle, work, until);
    }

    /// Puts in force a certificate that the fleet has obtained.
    pub(crate) async fn take_up(
        &self,
        bundle: &str,
        wanted: &CertificatePlan,
        account: &AccountPlan,
    ) {
        let document = self.document(bundle, wanted, account);
        let (Some(issued), Some(fleet)) = (document.issued, &self.documents.fleet) else {
            return;
        };
        let taken = match self.documents.chain(fleet, bundle).await {
            Ok(pem) => hand_over(&self.link, bundle, pem).await,
            Err(failure) => Err(failure),
        };
        match taken {
            Ok(()) => {
                self.state().shared.note_taken(bundle, &issued);
                self.note_until(bundle, issued.until);
                self.end_wishes(bundle, None);
            }
            Err(failure) => {
                let text = format!(
                    "the certificate `{bundle}` of the fleet is not in force here: {}",
                    failure.message
                );
                self.log.line(Level::Error, &text);
                self.put_off(bundle, Work::Own, TAKE_UP_AGAIN);
                let now = unix_time();
                self.state().shared.note_trouble(bundle, &text, now);
            }
        }
    }

    /// Deletes a certificate that the fleet no longer has.
    pub(crate) async fn forget_own(&self, bundle: &str, wanted: &CertificatePlan) {
        let make = |id| FromAcme::Tell {
            id,
            message: ForController::Release {
                bundle: bundle.to_owned(),
            },
        };
        if wanted.until.is_some() && self.link.request(&make, Vec::new()).await.is_err() {
            return self.put_off(bundle, Work::Own, TAKE_UP_AGAIN);
        }
        self.drop_plan(bundle);
    }

    /// Logs renewals that wait for the fleet's store, as an alert if the certificate is about to expire.
    pub(crate) fn report_waiting(&self, now: i64) {
        let state = &mut *self.state();
        let Some(error) = state.shared.away().map(str::to_owned) else {
            return;
        };
        for (bundle, wanted) in &state.plan.certificates {
            let Some(account) = state.plan.accounts.get(&wanted.account) else {
                continue;
            };
            let document = self.document(bundle, wanted, account);
            let Some(issued) = &document.issued else {
                continue;
            };
            let urgency = Urgency::of(issued, now);
            let is_due = schedule::due(&document, bundle, Some(issued), now) <= now;
            if !is_due || !state.shared.is_news(bundle, urgency, now) {
                continue;
            }
            let left = issued.until.saturating_sub(now);
            let (level, end) = match urgency {
                Urgency::Later => (Level::Warn, String::new()),
                Urgency::Soon => (
                    Level::Alert,
                    format!(", which ends in {} hours", (left / HOUR).max(0)),
                ),
            };
            let text = format!(
                "the certificate `{bundle}`{end}, is due for renewal, but no certificates are ordered at the moment: {error}"
            );
            self.log.line(level, &text);
        }
    }

    /// Records in the fleet that a client has asked for a name, unless another node already has.
    pub(crate) async fn begin_in_fleet(
        &self,
        bundle: &str,
        begun: CertificateDocument,
    ) -> Result<(), String> {
        // The task in progress has recorded it.
        if !self.state().busy.insert(bundle.to_owned()) {
            return Ok(());
        }
        let done = match self.documents.claim_certificate(bundle).await {
            Ok(()) => {
                let known = self.documents.certificate(bundle);
                let kept = match known.issued {
                    Some(_) => Ok(()),
                    None => {
                        let document = CertificateDocument {
                            demand: begun.demand.clone(),
                            ..if known.directory == begun.directory {
                                known
                            } else {
                                begun
                            }
                        };
                        self.documents.keep_certificate(bundle, &document).await
                    }
                };
                self.documents.release_certificate(bundle).await;
                kept.map_err(|failure| failure.message)
            }
            // The other node has recorded it, and its result will be received.
            Err(Unclaimed::Busy(_)) => Ok(()),
            Err(unclaimed) => Err(OrderError::from(unclaimed).message),
        };
        self.state().busy.remove(bundle);
        done
    }
}
