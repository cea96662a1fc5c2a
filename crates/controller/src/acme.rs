//! Automatic certificates, as the controller sees them: what is to be got, what has come, and what `/status` says of it.
//!
//! The process that gets them reads what strangers send. So nothing that it says is believed here: a certificate is stored only where
//! the configuration asks for one, for the names it asks for; an answer to an authority only if it can be nothing else. What must never
//! happen: that this process changes anything but such a certificate.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tutti_config::Diagnostic;
use tutti_config::model::{AcmeAccount, ChallengeWord, written};
use tutti_control::StoreError;
use tutti_log::Level;
use tutti_protocol::{
    AccountPlan, AcmePlan, CertificatePlan, Challenge, ChallengeKind, ForController,
    FromController, Question,
};
use tutti_tls::Bundle;

use super::service::{ControllerService, Inner, News};

/// A router that has not taken the answers by then hangs.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// Answers at the same time: an order has at most a hundred names.
const MOST_CHALLENGES: usize = 1000;

/// Longest token and answer: they have 43 and 87 characters where authorities keep to what is usual.
const LONGEST_TOKEN: usize = 512;

/// Longest certificate with its key, of an answer.
const LONGEST_PEM: usize = 16 * 1024;

/// Longest reason of a failure.
const LONGEST_ERROR: usize = 2000;

impl ControllerService {
    /// Tells main which certificates are to be got by themselves.
    pub(super) fn plan_certificates(&self) {
        self.0.plan_certificates();
    }

    /// Does what the process for automatic certificates wants.
    pub(super) async fn obey_acme(self, id: u64, message: ForController) {
        let done = match message {
            ForController::Certificate { bundle, pem } => {
                self.0.take_certificate(bundle, pem).await
            }
            ForController::Challenges { challenges } => self.0.answer_authorities(challenges).await,
            ForController::Status { certificates } => {
                self.0.note_news(certificates);
                Ok(())
            }
        };
        let error = done.err();
        self.0.link.tell(&FromController::AcmeDone { id, error });
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
                is_stored: stored.get(&bundle).is_some(),
            };
            (bundle, plan)
        });
        let certificates: BTreeMap<_, _> = certificates.collect();
        let is_used = |name: &str| certificates.values().any(|one| one.account == name);
        let accounts = config.settings.acme.iter();
        let accounts = accounts.filter(|(name, _)| is_used(name));
        let accounts = accounts.map(|(name, account)| (name.clone(), account_plan(account)));
        let accounts = accounts.collect();
        let plan = (!certificates.is_empty()).then(|| {
            Box::new(AcmePlan {
                accounts,
                certificates,
            })
        });
        if plan.is_none() {
            self.acme_news.store(Arc::default());
        }
        self.link.tell(&FromController::Acme { plan });
    }

    /// Stores a certificate that the configuration waits for.
    async fn take_certificate(&self, name: String, pem: String) -> Result<(), String> {
        let _alone = self.changing.lock().await;
        let config = self.config.load_full();
        let mut wanted = config.acme_certificates.iter();
        let wanted = wanted.find(|wanted| wanted.bundle() == name);
        let wanted = wanted.ok_or("the configuration does not ask for it any more")?;
        let bundle = Bundle::parse(pem.as_bytes(), SystemTime::now())
            .map_err(|error| format!("what the authority sent cannot be used: {error}"))?;
        let is_address = |name: &str| name.parse::<IpAddr>().is_ok();
        let mut names = wanted.names.iter();
        if let Some(missing) = names.find(|name| !is_address(name) && !bundle.is_for(name)) {
            return Err(format!("what the authority sent is not for `{missing}`"));
        }
        let kept = self.keep_bundle(name.clone(), pem, Arc::new(bundle)).await;
        kept.map_err(|error| match error {
            StoreError::Failed(faults) => {
                let details: Vec<String> = faults.0.iter().map(Diagnostic::detail).collect();
                details.join("; ")
            }
            _ => "it cannot be stored".to_owned(),
        })?;
        let text = format!("the certificate `{name}` has come and is in force");
        self.log.line(Level::Notice, &text);
        Ok(())
    }

    async fn answer_authorities(&self, challenges: Vec<Challenge>) -> Result<(), String> {
        if challenges.len() > MOST_CHALLENGES || !challenges.iter().all(is_plain) {
            return Err("these are no answers to an authority".to_owned());
        }
        let question = Question::Challenges { challenges };
        match self.ask(question, LONGEST_WAIT).await {
            Ok(_) => Ok(()),
            Err(refused) => Err(refused.message),
        }
    }

    fn note_news(&self, mut news: News) {
        let config = self.config.load();
        let wanted = &config.acme_certificates;
        news.retain(|name, _| wanted.iter().any(|wanted| wanted.bundle() == *name));
        for one in news.values_mut() {
            if let Some((error, _)) = &mut one.last_error {
                *error = error.chars().take(LONGEST_ERROR).collect();
            }
        }
        self.acme_news.store(Arc::new(news));
    }

    /// `certificates` of `/status`; `None` where there are none.
    pub(super) fn certificates_status(&self) -> Option<Value> {
        let mut all = serde_json::Map::new();
        let stored = self.certificates.load();
        for (name, bundle) in stored.iter() {
            let entry = json!({"names": bundle.all_names(), "until": moment(bundle.expiry())});
            all.insert(name.to_owned(), entry);
        }
        let news = self.acme_news.load();
        for wanted in &self.config.load().acme_certificates {
            let name = wanted.bundle();
            let is_stored = stored.get(&name).is_some();
            let known = news.get(&name).cloned().unwrap_or_default();
            let entry = all
                .entry(name)
                .or_insert_with(|| json!({"names": wanted.names, "until": null}));
            entry["account"] = wanted.account.clone().into();
            entry["state"] = match (known.is_ordering, is_stored) {
                (true, _) => "ordering",
                (false, true) => "valid",
                (false, false) => "missing",
            }
            .into();
            entry["next_order"] = known.next_order.map_or(Value::Null, moment);
            entry["failures"] = known.failures.into();
            if let Some((message, at)) = known.last_error {
                entry["last_error"] = json!({"message": message, "at": moment(at)});
            }
        }
        (!all.is_empty()).then_some(Value::Object(all))
    }
}

fn account_plan(account: &AcmeAccount) -> AccountPlan {
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
        roots: options.roots.clone(),
    }
}

/// True if it can be nothing but an answer to an authority.
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

/// A time as people and programs read it.
fn moment(seconds: i64) -> Value {
    let seconds = u64::try_from(seconds).unwrap_or(0);
    written(seconds.saturating_mul(1000)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
