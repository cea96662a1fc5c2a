//! The acme process, the hooks that run for it, and its requests that the controller is processing.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Instant;

use tutti_protocol::{ACCOUNT_DOCUMENT, AcmePlan, CERTIFICATE_DOCUMENT, FromAcme};
use tutti_sys::signal;

use super::own_process::OwnProcess;
use super::restarts::Restarts;

/// Maximum documents: a compromised process cannot fill the disk. An account has at most 5000 on-demand certificates.
const MOST_DOCUMENTS: usize = 20_000;

/// Longest document.
const MOST_BYTES: usize = 256 * 1024;

/// Everything about automatic certificates.
#[derive(Default)]
pub(super) struct Acme {
    /// The certificates to obtain; `None`: there is no process.
    pub(super) plan: Option<Box<AcmePlan>>,
    pub(super) process: Option<OwnProcess<FromAcme>>,
    /// A fleet shares the certificates.
    pub(super) is_shared: bool,
    pub(super) restarts: Restarts,
    /// Requests that the controller is processing.
    pub(super) asked: BTreeSet<u64>,
    pub(super) hooks: Vec<Hook>,
    /// Names of the stored documents.
    pub(super) kept: BTreeSet<String>,
    /// Requests for certificates, by the number that the process knows.
    pub(super) wishes: BTreeMap<u64, Asker>,
    pub(super) last_wish: u64,
}

/// The process that requests a certificate, with its request id.
#[derive(Clone, Copy)]
pub(super) enum Asker {
    /// The router with this process id, for a client.
    Router(i32, u64),
    /// The controller, for a renewal.
    Controller(u64),
}

/// A running hook.
pub(super) struct Hook {
    pub(super) pid: i32,
    pub(super) id: u64,
    pub(super) output: io::PipeReader,
    pub(super) until: Instant,
}

impl Acme {
    pub(super) fn process(&self) -> Option<&OwnProcess<FromAcme>> {
        self.process.as_ref()
    }

    /// True for a document of an account or a certificate in the configuration: no others are written.
    pub(super) fn may_keep(&self, name: &str, text: &str) -> bool {
        let Some(plan) = &self.plan else {
            return false;
        };
        let is_planned = match (
            name.strip_prefix(ACCOUNT_DOCUMENT),
            name.strip_prefix(CERTIFICATE_DOCUMENT),
        ) {
            (Some(account), _) => plan.accounts.contains_key(account),
            (None, Some(bundle)) => plan.allows(bundle),
            (None, None) => false,
        };
        let is_room = self.kept.contains(name) || self.kept.len() < MOST_DOCUMENTS;
        is_planned && is_room && text.len() <= MOST_BYTES
    }

    /// True if a router may request a certificate with this name; whether it is allowed is decided elsewhere.
    pub(super) fn may_want(&self, account: &str, name: &str) -> bool {
        let plan = self.plan.as_ref();
        plan.is_some_and(|plan| plan.on_demand(account).is_some())
            && tutti_options::acme_names::on_demand(name).as_deref() == Some(name)
    }

    /// Returns when the next task is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let hooks = self.hooks.iter().map(|hook| hook.until);
        let ending = self.process.as_ref().and_then(OwnProcess::end_deadline);
        hooks.chain(self.restarts.deadline()).chain(ending).min()
    }

    /// Kills the process, which is restarted if it is needed.
    pub(super) fn kill(&mut self) {
        for hook in self.hooks.drain(..) {
            let _ = signal::send_group(hook.pid, libc::SIGKILL);
        }
        self.asked.clear();
        self.restarts.cancel();
        if let Some(process) = self.process.take() {
            process.kill();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use tutti_protocol::{AccountPlan, CertificatePlan, ChallengeKind, OnDemandPlan};

    use super::*;

    fn account(on_demand: Option<OnDemandPlan>) -> AccountPlan {
        AccountPlan {
            directory: String::new(),
            contact: Vec::new(),
            eab: None,
            profile: None,
            challenge: ChallengeKind::Http,
            hook: None,
            nameserver: None,
            roots: None,
            on_demand,
        }
    }

    #[test]
    fn a_router_may_ask_for_names_on_demand_and_for_nothing_else() {
        let on_demand = OnDemandPlan {
            ask: "http://127.0.0.1:9000/".to_owned(),
            hourly: [1, 1, 1],
            most: 1,
            unused: 1,
        };
        let accounts = [("le", Some(on_demand)), ("inside", None)];
        let accounts = accounts.map(|(name, on_demand)| (name.to_owned(), account(on_demand)));
        let mut acme = Acme::default();
        assert!(!acme.may_want("le", "a.example.com"));
        acme.plan = Some(Box::new(AcmePlan {
            accounts: accounts.into(),
            certificates: BTreeMap::new(),
        }));
        assert!(acme.may_want("le", "a.example.com"));
        for (account, name) in [
            ("inside", "a.example.com"),
            ("other", "a.example.com"),
            ("", "a.example.com"),
            ("le", "*.example.com"),
            ("le", "A.example.com"),
            ("le", "../../etc"),
            ("le", "192.0.2.1"),
            ("le", ""),
        ] {
            assert!(!acme.may_want(account, name), "{account} {name}");
        }
        // No other document is stored for it either.
        assert!(acme.may_keep("certificate-acme:le:a.example.com", "{}"));
        for name in [
            "certificate-acme:inside:a.example.com",
            "certificate-acme:le:a.example.com+0",
            "certificate-acme:le:../x",
        ] {
            assert!(!acme.may_keep(name, "{}"), "{name}");
        }
    }

    #[test]
    fn only_documents_that_the_configuration_asks_for_are_kept() {
        let certificate = CertificatePlan {
            account: "le".to_owned(),
            names: Vec::new(),
            until: None,
            is_on_demand: false,
        };
        let plan = AcmePlan {
            accounts: BTreeMap::new(),
            certificates: BTreeMap::from([("acme:le:a".to_owned(), certificate)]),
        };
        let mut acme = Acme::default();
        assert!(!acme.may_keep("certificate-acme:le:a", ""));
        acme.plan = Some(Box::new(plan));
        assert!(acme.may_keep("certificate-acme:le:a", "{}"));
        for name in [
            "certificate-acme:le:b",
            "account-le",
            "acme:le:a",
            "",
            "../conf.json",
        ] {
            assert!(!acme.may_keep(name, "{}"), "{name}");
        }
        let long = "x".repeat(MOST_BYTES + 1);
        assert!(!acme.may_keep("certificate-acme:le:a", &long));
        acme.kept = (0..MOST_DOCUMENTS).map(|n| n.to_string()).collect();
        assert!(!acme.may_keep("certificate-acme:le:a", "{}"));
        acme.kept.insert("certificate-acme:le:a".to_owned());
        assert!(acme.may_keep("certificate-acme:le:a", "{}"));
    }
}
