//! Names that clients ask for: checked, asked about, and passed to the scheduler to be ordered like all others.

use std::sync::Arc;

use tutti_log::Level;
use tutti_protocol::OnDemandPlan;

use crate::demand::{self, DemandAction, NO_HOLDS, UNKNOWN_HOLDS, Wish};
use crate::documents::CertificateDocument;
use crate::permission::{Asker, Permission};
use crate::scheduler::{Inner, NOT_WANTED, Scheduler, unix_time};

impl Scheduler {
    /// A client asks for a name.
    pub(crate) fn want(&self, wish: Wish) {
        let bundle = tutti_options::acme_names::bundle_on_demand(&wish.account, &wish.name);
        match self.0.step(&bundle, &wish, unix_time()) {
            Err(()) => self.0.answer(wish.id, None),
            Ok(DemandAction::Refuse(why)) => self.0.answer(wish.id, Some(why)),
            Ok(DemandAction::Wait) => self.0.wake.notify_one(),
            Ok(DemandAction::Ask) => {
                let inner = Arc::clone(&self.0);
                tokio::spawn(async move { inner.look_into(&bundle, &wish).await });
            }
        }
    }

    /// Orders a certificate now, although it is not due.
    pub(crate) fn renew(&self, id: u64, bundle: &str) {
        match self.0.begin_renewal(id, bundle, unix_time()) {
            Ok(()) => self.0.wake.notify_one(),
            Err(why) => self.0.answer(id, Some(why)),
        }
    }

    /// Records that a certificate has been used.
    pub(crate) fn note_use(&self, account: &str, name: &str) {
        let bundle = tutti_options::acme_names::bundle_on_demand(account, name);
        let (wanted, account) = {
            let state = self.0.state();
            let wanted = state.plan.certificates.get(&bundle);
            let account = state.plan.accounts.get(account);
            match (wanted, account) {
                (Some(wanted), Some(account)) if wanted.is_on_demand => {
                    (wanted.clone(), account.clone())
                }
                _ => return,
            }
        };
        if self.0.documents.fleet.is_some() {
            return self.note_use_in_fleet(bundle, wanted, account);
        }
        let inner = Arc::clone(&self.0);
        tokio::spawn(async move { inner.keep_use(&bundle, &wanted, &account).await });
    }
}

/// Returns why a certificate cannot be ordered now, if the last order has failed and its pause is not over.
fn pause(document: &CertificateDocument, now: i64) -> Option<String> {
    // A pause is no longer than a week, whichever clock recorded it.
    let pause = document.retry_at.map_or(0, |until| until - now);
    (1..8 * 86_400).contains(&pause).then(|| {
        let why = document.last_error.as_ref();
        let why = why.map_or("the last order failed", |(why, _)| why);
        format!("{why}; the next order is in {pause} seconds at the earliest")
    })
}

impl Inner {
    /// Returns the next step for a request; an error if it is fulfilled already.
    fn step(&self, bundle: &str, wish: &Wish, now: i64) -> Result<DemandAction, ()> {
        let refuse = |why: &str| Ok(DemandAction::Refuse(why.to_owned()));
        let state = &mut *self.state();
        if state.plan.on_demand(&wish.account).is_none() {
            return refuse("this account has no certificates on demand in the configuration");
        }
        if tutti_options::acme_names::on_demand(&wish.name).as_deref() != Some(wish.name.as_str()) {
            return refuse("no authority accepts the name");
        }
        let wanted = state.plan.certificates.get(bundle);
        if wanted.is_some_and(|wanted| wanted.until.is_some()) {
            return Err(());
        }
        let document = self.documents.certificate(bundle);
        if self.documents.fleet.is_some() {
            if let Some(error) = state.shared.away() {
                return refuse(error);
            }
            if document.issued.is_some() {
                // It is about to be applied.
                state.demands.join(bundle, wish.id);
                return Ok(DemandAction::Wait);
            }
        }
        if let Some(why) = pause(&document, now) {
            return Ok(DemandAction::Refuse(why));
        }
        if wanted.is_some_and(|wanted| !wanted.is_on_demand) {
            state.demands.join(bundle, wish.id);
            return Ok(DemandAction::Wait);
        }
        Ok(state.demands.begin(bundle, wish.id, now))
    }

    /// Records that a certificate must be ordered now; an error is the reason why it cannot be.
    fn begin_renewal(&self, id: u64, bundle: &str, now: i64) -> Result<(), String> {
        let state = &mut *self.state();
        let wanted = state.plan.certificates.get(bundle);
        let known = wanted.and_then(|one| Some((one, state.plan.accounts.get(&one.account)?)));
        let Some((wanted, account)) = known else {
            return Err(NOT_WANTED.to_owned());
        };
        if self.documents.fleet.is_some()
            && let Some(error) = state.shared.away()
        {
            return Err(error.to_owned());
        }
        if let Some(why) = pause(&self.document(bundle, wanted, account), now) {
            return Err(why);
        }
        match state.demands.renew(bundle, id) {
            true => Ok(()),
            false => Err("too many connections are waiting for it".to_owned()),
        }
    }

    /// Asks whether a name may have a certificate, and orders it.
    async fn look_into(&self, bundle: &str, wish: &Wish) {
        let plan = self.state().plan.on_demand(&wish.account).cloned();
        let outcome = match &plan {
            Some(plan) => self.ask(plan, wish).await,
            None => Err(("the configuration has changed".to_owned(), 0)),
        };
        self.state().demands.has_asked();
        let begun = match (outcome, &plan) {
            (Ok(()), Some(plan)) => self.begin(bundle, wish, plan).await,
            (Ok(()), None) => return,
            (Err((why, holds)), _) => {
                if holds > 0 {
                    self.state()
                        .demands
                        .note_refusal(bundle, unix_time(), holds);
                }
                Err(why)
            }
        };
        match begun {
            Ok(()) => self.wake.notify_one(),
            Err(why) => self.end_wishes(bundle, Some(&why)),
        }
    }

    /// An error is the reason why not, and the seconds for which it applies.
    async fn ask(&self, plan: &OnDemandPlan, wish: &Wish) -> Result<(), (String, i64)> {
        let asker = self.asker.get_or_init(Asker::new);
        let answer = match asker {
            Ok(asker) => asker.ask(&plan.ask, &wish.name, wish.client).await,
            Err(error) => Permission::Unknown(error.clone()),
        };
        match answer {
            Permission::Yes => Ok(()),
            Permission::No(status) => {
                let why = format!(
                    "`ask` of the account `{}` does not allow it: it responds {status}",
                    wish.account
                );
                Err((why, NO_HOLDS))
            }
            Permission::Unknown(error) => {
                let why = format!(
                    "`ask` of the account `{}` cannot be reached: {error}",
                    wish.account
                );
                let text = format!("no certificate on demand for `{}`: {why}", wish.name);
                self.log.line(Level::Warn, &text);
                Err((why, UNKNOWN_HOLDS))
            }
        }
    }

    /// Starts the first order of a name, if the limits allow it. It is on disk before it counts.
    async fn begin(&self, bundle: &str, wish: &Wish, plan: &OnDemandPlan) -> Result<(), String> {
        // Two that start at once must both be counted: the limits are checked one after the other.
        let _alone = self.beginning.lock().await;
        let now = unix_time();
        let demand = demand::demand(&wish.name, wish.client, now);
        let documents = self.documents.certificates();
        let others = documents.iter().filter(|(other, _)| {
            let account = tutti_options::acme_names::parts(other).map(|(account, _)| account);
            other != bundle && account == Some(wish.account.as_str())
        });
        demand::limit(plan, &demand, others.map(|(_, document)| document), now)?;
        let known = self.documents.certificate(bundle);
        let Some(directory) = self.directory(&wish.account) else {
            return Err("the configuration has changed".to_owned());
        };
        let is_same = known.directory == directory;
        let document = CertificateDocument {
            names: vec![wish.name.clone()],
            demand: Some(demand),
            issued: None,
            directory: directory.clone(),
            ..if is_same {
                known
            } else {
                CertificateDocument::default()
            }
        };
        if self.documents.fleet.is_some() {
            self.begin_in_fleet(bundle, document).await?;
        } else {
            let kept = self.documents.keep_certificate(bundle, &document).await;
            kept.map_err(|failure| failure.message)?;
        }
        let wanted = demand::first(&wish.account, &wish.name);
        let plan = &mut self.state().plan;
        plan.certificates.entry(bundle.to_owned()).or_insert(wanted);
        Ok(())
    }

    fn directory(&self, account: &str) -> Option<String> {
        let state = self.state();
        let account = state.plan.accounts.get(account)?;
        Some(account.directory.clone())
    }
}
