//! Certificates that clients ask for, and renewals that the control API asks for: routers and the controller ask main, and main asks
//! the process for certificates.
//!
//! `impl` blocks of [`Supervisor`]. A router reads what strangers send, so it is believed nothing: it may only name an account that gets
//! certificates on demand, and something that is made of the letters of a name; whether that may have a certificate others decide. What
//! must never happen: that wishes of a router in wrong hands pile up here.

use std::net::IpAddr;

use tutti_log::Level;
use tutti_protocol::{Reason, ToAcme, ToRouter};

use super::acme::Asker;
use super::supervisor::Supervisor;

/// Wishes at the same time: beyond, they are refused.
const MOST_WISHES: usize = 1000;

impl Supervisor {
    /// A router wants a certificate.
    pub(super) fn want_certificate(
        &mut self,
        from: Asker,
        account: String,
        name: String,
        client: Option<IpAddr>,
    ) {
        if !self.acme.may_want(&account, &name) {
            let refusal = "the configuration lets nobody have it".to_owned();
            return self.answer_wish(from, Some(refusal));
        }
        self.wish(from, |id| ToAcme::Want {
            id,
            account,
            name,
            client,
        });
    }

    /// The controller wants a certificate to be ordered now.
    pub(super) fn renew_certificate(&mut self, id: u64, bundle: String) {
        self.wish(Asker::Controller(id), |id| ToAcme::Renew { id, bundle });
    }

    /// Passes a wish on, with a number for its answer.
    fn wish(&mut self, from: Asker, make: impl FnOnce(u64) -> ToAcme) {
        let refusal = match () {
            () if self.acme.process().is_none() => {
                "the process for certificates is not running at the moment"
            }
            () if self.acme.wishes.len() >= MOST_WISHES => {
                "too many certificates are requested at once"
            }
            () => {
                self.acme.last_wish += 1;
                let id = self.acme.last_wish;
                let before = self.acme.wishes.insert(id, from);
                assert!(before.is_none(), "an answer would reach another request");
                assert!(self.acme.wishes.len() <= MOST_WISHES, "wishes pile up");
                return self.tell_acme(&make(id), Vec::new());
            }
        };
        self.answer_wish(from, Some(refusal.to_owned()));
    }

    /// A router has used a certificate that was got on demand.
    pub(super) fn certificate_used(&mut self, account: String, name: String) {
        if self.acme.may_want(&account, &name) {
            self.tell_acme(&ToAcme::Used { account, name }, Vec::new());
        }
    }

    /// The process for certificates has an answer.
    pub(super) fn wish_done(&mut self, id: u64, error: Option<String>) {
        if let Some(from) = self.acme.wishes.remove(&id) {
            self.answer_wish(from, error);
        }
    }

    /// It has ended: nobody will answer.
    pub(super) fn wishes_unanswered(&mut self) {
        for from in std::mem::take(&mut self.acme.wishes).into_values() {
            let text = "the process for certificates has ended meanwhile";
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
        // One that has ended asks for nothing any more.
        if let Some(router) = self.router(router)
            && let Err(error) = router.send(&answer, Vec::new())
        {
            self.log(Level::Alert, &format!("cannot answer the router: {error}"));
        }
    }
}
