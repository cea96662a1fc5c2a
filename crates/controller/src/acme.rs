//! Automatic certificates, as the controller sees them: which ones are required, which were issued, and their part of
//! `/status`.
//!
//! The acme process reads data from strangers. So it is not trusted here: a certificate is stored only if the
//! configuration requires it, with the names that it requires; a challenge response only if it cannot be anything else.
//! Must never happen: that this process changes anything but such a certificate.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tutti_config::Diagnostic;
use tutti_config::model::{
    AcmeAccount, ChallengeWord, NameserverOptions, TsigAlgorithm, parse_name_server, written,
};
use tutti_control::{RenewError, StoreError};
use tutti_log::Level;
use tutti_protocol::{
    AccountPlan, AcmePlan, CertificatePlan, Challenge, ChallengeKind, ForController,
    FromController, NameserverPlan, OnDemandPlan, RouterQuery, StoreKind,
};
use tutti_tls::Bundle;
use tutti_unprivileged::certificates::{accounts_on_demand, is_on_demand};

use super::service::{ControllerService, Inner, News};

/// A router that has not taken the challenge responses by then hangs.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Challenge responses at the same time: an order has at most a hundred names.
const MOST_CHALLENGES: usize = 1000;

/// Longest token and challenge response: usually they have 43 and 87 characters.
const LONGEST_TOKEN: usize = 512;

/// Longest certificate of a challenge, with its key.
const LONGEST_PEM: usize = 16 * 1024;

/// Longest error message of a failure.
const LONGEST_ERROR: usize = 2000;

impl ControllerService {
    /// Sends main the list of automatic certificates.
    pub(super) fn plan_certificates(&self) {
        self.0.plan_certificates();
    }

    /// Carries out a request of the acme process.
    pub(super) async fn obey_acme(self, id: u64, message: ForController) {
        let done = match message {
            ForController::Certificate { bundle, pem } => {
                self.0.take_certificate(bundle, pem).await
            }
            ForController::Release { bundle } => self.0.release(bundle).await,
            ForController::Challenges { challenges } => self.0.answer_authorities(challenges).await,
            ForController::Status { certificates } => {
                self.0.note_news(certificates);
                Ok(())
            }
        };
        let error = done.err();
        self.0.link.send(&FromController::AcmeDone { id, error });
    }
}

impl Inner {
    pub(super) fn plan_certificates(&self) {
        let config = self.config.load();
        let stored = self.certificates.load();
        let certificates = config.acme_certificates.iter().map(|certificate| {
            let bundle = certificate.bundle();
            let plan = CertificatePlan {
                account: certificate.account.clone(),
                names: certificate.names.clone(),
                until: stored.get(&bundle).map(|bundle| bundle.expiry()),
                is_on_demand: false,
            };
            (bundle, plan)
        });
        let mut certificates: BTreeMap<_, _> = certificates.collect();
        let on_demand: BTreeSet<&str> = accounts_on_demand(&config).collect();
        for account in &on_demand {
            for (name, bundle) in stored.on_demand(account) {
                let plan = CertificatePlan {
                    account: (*account).to_owned(),
                    names: vec![name.clone()],
                    until: Some(bundle.expiry()),
                    is_on_demand: true,
                };
                let name = tutti_options::acme_names::bundle_on_demand(account, &name);
                certificates.entry(name).or_insert(plan);
            }
        }
        let is_used = |name: &str| {
            on_demand.contains(name) || certificates.values().any(|one| one.account == name)
        };
        let accounts = config.settings.acme.iter();
        let accounts = accounts.filter(|(name, _)| is_used(name));
        let accounts = accounts.map(|(name, account)| {
            let is_on_demand = on_demand.contains(name.as_str());
            (name.clone(), account_plan(account, is_on_demand))
        });
        let accounts: BTreeMap<_, _> = accounts.collect();
        let plan = (!accounts.is_empty()).then(|| {
            Box::new(AcmePlan {
                accounts,
                certificates,
            })
        });
        if plan.is_none() {
            self.acme_news.store(Arc::default());
        }
        self.link.send(&FromController::Acme { plan });
    }

    /// Stores a certificate that the configuration requires.
    async fn take_certificate(&self, name: String, pem: String) -> Result<(), String> {
        let _alone = self.changing.lock().await;
        let config = self.config.load_full();
        let mut wanted = config.acme_certificates.iter();
        let names = match wanted.find(|wanted| wanted.bundle() == name) {
            Some(wanted) => wanted.names.clone(),
            None if is_on_demand(&config, &name) => {
                let parts = tutti_options::acme_names::parts(&name);
                parts.map(|(_, host)| host.to_owned()).into_iter().collect()
            }
            None => return Err("the configuration no longer requests it".to_owned()),
        };
        let bundle = Bundle::parse(pem.as_bytes(), SystemTime::now()).map_err(|error| {
            format!("the certificate from the authority cannot be used: {error}")
        })?;
        let known = self.certificates.load().get(&name);
        if known.is_some_and(|known| known.is_same(&bundle)) {
            // A restarted node of a fleet sends the certificate that is in force.
            return Ok(());
        }
        let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
        let mut names = names.iter();
        if let Some(missing) = names.find(|name| !is_address(name) && !bundle.is_for(name)) {
            return Err(format!(
                "the certificate from the authority is not for `{missing}`"
            ));
        }
        let checked = self.check_replacement(&name, &bundle);
        checked.map_err(|error| format!("the certificate cannot be used: {error}"))?;
        let kept = self.keep_bundle(name.clone(), pem, Arc::new(bundle)).await;
        kept.map_err(|error| match error {
            StoreError::Failed(faults) => {
                let details: Vec<String> = faults.0.iter().map(Diagnostic::detail).collect();
                details.join("; ")
            }
            _ => "it cannot be stored".to_owned(),
        })?;
        let text = format!("the certificate `{name}` was issued and is in force");
        self.log.line(Level::Notice, &text);
        Ok(())
    }

    /// Orders a certificate now, or reads it from its files again.
    pub(super) async fn renew(&self, name: String) -> Result<(), RenewError> {
        let config = self.config.load_full();
        let is_stored = self.certificates.load().get(&name).is_some();
        let mut automatic = config.acme_certificates.iter();
        let is_automatic = automatic.any(|wanted| wanted.bundle() == name);
        if is_automatic || is_stored && is_on_demand(&config, &name) {
            let make = |id| FromController::Renew {
                id,
                bundle: name.clone(),
            };
            let renewed = self.link.request(&make, Vec::new()).await;
            return renewed
                .map(drop)
                .map_err(|refused| RenewError::Failed(refused.message));
        }
        let mut files = config.certificate_files.iter();
        match files.find(|file| file.name() == name) {
            Some(file) => {
                let _alone = self.changing.lock().await;
                let renewed = self.renew_from_file(file).await;
                renewed.map_err(|faults| {
                    let details: Vec<String> = faults.0.iter().map(Diagnostic::detail).collect();
                    RenewError::Failed(details.join("; "))
                })
            }
            None if is_stored => Err(RenewError::Uploaded),
            None => Err(RenewError::Unknown),
        }
    }

    /// Deletes an on-demand certificate that is no longer used.
    async fn release(&self, name: String) -> Result<(), String> {
        if !is_on_demand(&self.config.load(), &name) {
            return Err("it was not obtained on demand".to_owned());
        }
        match self.discard(StoreKind::Certificates, name).await {
            // Otherwise it stays, and is renewed like others of its kind.
            Ok(()) | Err(StoreError::Unknown | StoreError::Used(_)) => Ok(()),
            Err(_) => Err("it cannot be deleted".to_owned()),
        }
    }

    pub(super) async fn answer_authorities(
        &self,
        challenges: Vec<Challenge>,
    ) -> Result<(), String> {
        if challenges.len() > MOST_CHALLENGES || !challenges.iter().all(is_plain) {
            return Err("these are not challenge responses".to_owned());
        }
        let question = RouterQuery::Challenges { challenges };
        match self.ask(question, LONGEST_WAIT).await {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.message),
        }
    }

    fn note_news(&self, mut news: News) {
        let config = self.config.load();
        let wanted = &config.acme_certificates;
        let wanted: BTreeSet<String> = wanted.iter().map(|wanted| wanted.bundle()).collect();
        news.retain(|name, _| wanted.contains(name) || is_on_demand(&config, name));
        for one in news.values_mut() {
            if let Some((error, _)) = &mut one.last_error {
                *error = error.chars().take(LONGEST_ERROR).collect();
            }
            one.authority = one.authority.take().filter(|pem| is_certificate(pem));
        }
        self.acme_news.store(Arc::new(news));
    }

    /// Returns `certificates` of `/status`; `None` if there are none.
    pub(super) fn certificates_status(&self) -> Option<Value> {
        let mut all = serde_json::Map::new();
        let stored = self.certificates.load();
        for (name, bundle) in stored.iter() {
            let entry = json!({"names": bundle.all_names(), "until": moment(bundle.expiry())});
            all.insert(name.to_owned(), entry);
        }
        let news = self.acme_news.load();
        let config = self.config.load();
        let wanted = config.acme_certificates.iter();
        let wanted = wanted.map(|one| (one.bundle(), one.account.clone(), one.names.clone()));
        let mut wanted: Vec<_> = wanted.collect();
        let known = news.keys().filter_map(|name| {
            let (account, host) = tutti_options::acme_names::parts(name)?;
            is_on_demand(&config, name)
                .then(|| (name.clone(), account.to_owned(), vec![host.to_owned()]))
        });
        wanted.extend(known);
        for (name, account, names) in wanted {
            let is_stored = stored.get(&name).is_some();
            let known = news.get(&name).cloned().unwrap_or_default();
            let entry = all
                .entry(name)
                .or_insert_with(|| json!({"names": names, "until": null}));
            entry["account"] = account.into();
            entry["state"] = match (known.is_ordering, is_stored) {
                (true, _) => "ordering",
                (false, true) => "valid",
                (false, false) => "missing",
            }
            .into();
            entry["next_order"] = known.next_order.map_or(Value::Null, moment);
            entry["failures"] = known.failures.into();
            if let Some(authority) = known.authority {
                entry["authority"] = authority.into();
            }
            if let Some((message, at)) = known.last_error {
                entry["last_error"] = json!({"message": message, "at": moment(at)});
            }
        }
        (!all.is_empty()).then_some(Value::Object(all))
    }
}

fn account_plan(account: &AcmeAccount, is_on_demand: bool) -> AccountPlan {
    let options = &account.options;
    let eab = account.eab.as_ref();
    AccountPlan {
        directory: options.directory.clone(),
        contact: options.contact.clone(),
        eab: eab.map(|eab| (eab.kid.clone(), eab.key.clone())),
        profile: options.profile.clone(),
        challenge: match options.challenge {
            ChallengeWord::Http => ChallengeKind::Http,
            ChallengeWord::TlsAlpn => ChallengeKind::TlsAlpn,
            ChallengeWord::Dns => ChallengeKind::Dns,
        },
        hook: options.hook.clone(),
        nameserver: account.nameserver.as_ref().and_then(nameserver_plan),
        roots: options.roots.clone(),
        on_demand: account
            .on_demand
            .as_ref()
            .filter(|_| is_on_demand)
            .map(|on_demand| OnDemandPlan {
                ask: on_demand.ask.clone(),
                hourly: [
                    on_demand.hourly,
                    on_demand.hourly_per_domain,
                    on_demand.hourly_per_client,
                ],
                most: on_demand.most,
                unused: i64::from(on_demand.unused) * 86_400,
            }),
    }
}

fn nameserver_plan(options: &NameserverOptions) -> Option<NameserverPlan> {
    let algorithm = match options.algorithm {
        TsigAlgorithm::HmacSha256 => "hmac-sha256",
        TsigAlgorithm::HmacSha384 => "hmac-sha384",
        TsigAlgorithm::HmacSha512 => "hmac-sha512",
    };
    Some(NameserverPlan {
        // The configuration has been checked.
        server: parse_name_server(&options.server)?,
        zone: options.zone.clone(),
        key: options.key.clone(),
        algorithm: algorithm.to_owned(),
        secret_file: options.secret_file.clone(),
    })
}

/// True if it cannot be anything but a challenge response.
fn is_plain(challenge: &Challenge) -> bool {
    let is_word = |text: &str| {
        let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        !text.is_empty() && text.len() <= LONGEST_TOKEN && text.bytes().all(is_letter)
    };
    match challenge {
        Challenge::Http { token, answer } => {
            is_word(token) && is_word(answer) && answer.starts_with(token.as_str())
        }
        Challenge::TlsAlpn { name, pem } => is_word(name) && pem.len() <= LONGEST_PEM,
    }
}

/// True for one certificate in PEM, and nothing else.
fn is_certificate(pem: &str) -> bool {
    let inner = pem.trim().strip_prefix("-----BEGIN CERTIFICATE-----");
    let inner = inner.and_then(|rest| rest.strip_suffix("-----END CERTIFICATE-----"));
    let is_digit = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=\r\n".contains(&byte);
    pem.len() <= LONGEST_PEM && inner.is_some_and(|inner| inner.bytes().all(is_digit))
}

/// Formats a time for people and programs.
fn moment(seconds: i64) -> Value {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    written(seconds.saturating_mul(1000)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_one_certificate() {
        let (begin, end) = (
            "-----BEGIN CERTIFICATE-----\n",
            "\n-----END CERTIFICATE-----\n",
        );
        assert!(is_certificate(&format!("{begin}AA+/=\r\nBB{end}")));
        for wrong in [
            String::new(),
            "AA".to_owned(),
            format!("{begin}AA"),
            format!("{begin}<script>{end}"),
            format!("{begin}AA{end}{begin}AA{end}"),
            format!("{begin}{}{end}", "A".repeat(LONGEST_PEM)),
        ] {
            assert!(!is_certificate(&wrong), "{wrong}");
        }
    }

    #[test]
    fn only_what_looks_like_an_answer_is_given() {
        let http = |token: &str, answer: &str| Challenge::Http {
            token: token.to_owned(),
            answer: answer.to_owned(),
        };
        assert!(is_plain(&http("abc-_9", "abc-_9.thumb")));
        for (token, answer) in [
            ("", ""),
            ("a/b", "a/b.c"),
            ("abc", "<script>"),
            ("abc", "other.thumb"),
            ("a b", "a b.c"),
        ] {
            assert!(!is_plain(&http(token, answer)), "{token} {answer}");
        }
        let long = "x".repeat(LONGEST_TOKEN + 1);
        assert!(!is_plain(&http(&long, &long)));
    }
}
