//! The state of certificates, for `/status`.

use std::collections::BTreeMap;

use tutti_options::acme_names::INTERNAL;
use tutti_protocol::{CertificateNews, ForController, FromAcme};

use crate::scheduler::Inner;

impl Inner {
    /// Sends changes to the controller.
    pub(crate) async fn send_news(&self, now: i64) {
        let (news, is_new) = {
            let mut state = self.state();
            let plan = &state.plan;
            let wanted = plan.certificates.iter();
            let news = wanted.filter_map(|(bundle, wanted)| {
                let account = plan.accounts.get(&wanted.account)?;
                let document = self.document(bundle, wanted, account);
                let owner = self.documents.owner(bundle);
                let is_ordered_elsewhere = owner.is_some() && document.key.is_some();
                let is_ordering = state.ordering.contains(bundle) || is_ordered_elsewhere;
                let seen = self.documents.seen(wanted, &document);
                let due = || self.due(&document, plan, bundle, &seen, &state.demands, now);
                let authority = self.documents.account(&wanted.account).certificate;
                let shared = state.shared.error_of(bundle);
                let news = CertificateNews {
                    is_ordering,
                    next_order: (!is_ordering).then(due).filter(|due| *due < i64::MAX),
                    failures: document.failures,
                    last_error: shared.or_else(|| document.last_error.clone()),
                    authority: authority.filter(|_| account.directory == INTERNAL),
                };
                Some((bundle.clone(), news))
            });
            let news: BTreeMap<_, _> = news.collect();
            let is_new = std::mem::take(&mut state.is_new);
            if !is_new && state.sent.as_ref() == Some(&news) {
                return;
            }
            state.sent = Some(news.clone());
            (news, is_new)
        };
        if is_new {
            self.answers.repeat().await;
        }
        let make = |id| FromAcme::Tell {
            id,
            message: ForController::Status {
                certificates: news.clone(),
            },
        };
        if self.link.request(&make, Vec::new()).await.is_err() {
            self.state().sent = None;
        }
    }
}
