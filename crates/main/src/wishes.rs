//! Certificates that clients ask for: routers ask main, and main asks the process for certificates.
//!
//! `impl` blocks of [`Supervisor`]. A router reads what strangers send, so it is believed nothing: it may only name an account that gets
//! certificates on demand, and something that is made of the letters of a name; whether that may have a certificate others decide. What
//! must never happen: that wishes of a router in wrong hands pile up here.

use std::net::IpAddr;

use tutti_log::Level;
use tutti_protocol::{ToAcme, ToRouter};

use super::supervisor::Supervisor;

/// Wishes at the same time: beyond, they are refused.
const MOST_WISHES: usize = 1000;

impl Supervisor {
    /// A router wants a certificate: `from` is its process number and its number of the request.
    pub(super) fn want_certificate(
        &mut self,
        from: (i32, u64),
        account: String,
        name: String,
        client: Option<IpAddr>,
    ) {
        let refusal = match () {
            () if !self.acme.may_want(&account, &name) => "the configuration lets nobody have it",
            () if self.acme.process().is_none() => "nobody gets certificates at the moment",
            () if self.acme.wishes.len() >= MOST_WISHES => "too many names are asked for at once",
            () => {
                self.acme.last_wish += 1;
                let id = self.acme.last_wish;
                let before = self.acme.wishes.insert(id, from);
                assert!(before.is_none(), "an answer would reach another request");
                assert!(self.acme.wishes.len() <= MOST_WISHES, "wishes pile up");
                let wish = ToAcme::Want {
                    id,
                    account,
                    name,
                    client,
                };
                return self.tell_acme(&wish, Vec::new());
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

    fn answer_wish(&mut self, (router, id): (i32, u64), error: Option<String>) {
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
