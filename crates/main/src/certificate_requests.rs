//! Requests for certificates, from clients through routers and from the control API through the controller: main
//! forwards them to the acme process.
//!
//! `impl` blocks of [`Supervisor`]. A router reads data from strangers, so it is not trusted: it may only name an
//! account with on-demand certificates, and something made of the characters of a name; whether that may have a
//! certificate is decided elsewhere. Must never happen: that requests of a compromised router pile up here.

use std::net::IpAddr;

use tutti_log::Level;
use tutti_protocol::{Reason, ToAcme, ToRouter};

use super::acme::Asker;
use super::supervisor::Supervisor;

/// Maximum requests at the same time: beyond that they are rejected.
const MOST_WISHES: usize = 1000;

impl Supervisor {
    /// A router requests a certificate.
    pub(super) fn want_certificate(
        &mut self,
        from: Asker,
        account: String,
        name: String,
        client: Option<IpAddr>,
    ) {
        if !self.acme.may_want(&account, &name) {
            let refusal = "the configuration does not allow a certificate for it".to_owned();
            return self.answer_wish(from, Some(refusal));
        }
        self.wish(from, |id| ToAcme::Want {
            id,
            account,
            name,
            client,
        });
    }

    /// The controller requests that a certificate is ordered now.
    pub(super) fn renew_certificate(&mut self, id: u64, bundle: String) {
        self.wish(Asker::Controller(id), |id| ToAcme::Renew { id, bundle });
    }

    /// Forwards a request, with a number for its answer.
    fn wish(&mut self, from: Asker, make: impl FnOnce(u64) -> ToAcme) {
        let refusal = match () {
            () if self.acme.process().is_none() => {
                "the certificate process is not running at the moment"
            }
            () if self.acme.wishes.len() >= MOST_WISHES => "too many names are requested at once",
            () => {
                self.acme.last_wish += 1;
                let id = self.acme.last_wish;
                let before = self.acme.wishes.insert(id, from);
                assert!(before.is_none(), "an answer would reach another request");
                assert!(self.acme.wishes.len() <= MOST_WISHES, "wishes pile up");
                return self.send_to_acme(&make(id), Vec::new());
            }
        };
        self.answer_wish(from, Some(refusal.to_owned()));
    }

    /// A router has used an on-demand certificate.
    pub(super) fn certificate_used(&mut self, account: String, name: String) {
        if self.acme.may_want(&account, &name) {
            self.send_to_acme(&ToAcme::Used { account, name }, Vec::new());
        }
    }

    /// The acme process has answered.
    pub(super) fn wish_done(&mut self, id: u64, error: Option<String>) {
        if let Some(from) = self.acme.wishes.remove(&id) {
            self.answer_wish(from, error);
        }
    }

    /// It has ended: its requests will not be answered.
    pub(super) fn wishes_unanswered(&mut self) {
        for from in std::mem::take(&mut self.acme.wishes).into_values() {
            let text = "the certificate process has ended in the meantime";
            self.answer_wish(from, Some(text.to_owned()));
        }
    }

    fn answer_wish(&mut self, from: Asker, error: Option<String>) {
        let (router, id) = match (from, error.as_ref()) {
            (Asker::Router(router, id), _) => (router, id),
            (Asker::Controller(id), None) => return self.answer(id, Vec::new()),
            (Asker::Controller(id), Some(error)) => {
                return self.refuse(id, Reason::Refused, error);
            }
        };
        let answer = match error {
            None => ToRouter::Done { id, pid: None },
            Some(message) => ToRouter::Failed {
                id,
                message,
                hint: None,
                option: None,
            },
        };
        // A process that has ended needs no answer.
        if let Some(router) = self.router(router)
            && let Err(error) = router.send(&answer, Vec::new())
        {
            self.log(Level::Alert, &format!("cannot answer the router: {error}"));
        }
    }
}
