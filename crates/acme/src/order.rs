//! One order of a certificate, continued from the step where a former process has left it.
//!
//! ```text
//! key stored → order created → its URL stored → names validated → finalized → certificate downloaded → stored and in
//! force → order forgotten
//! ```
//!
//! Each step can be the last of this process: the next process continues after the last stored step. Must never happen:
//! a second order while the document has one, or the loss of a key while an order for it may still succeed.

use std::net::IpAddr;
use std::time::Duration;

use instant_acme::{
    Account, AuthorizationStatus, CertificateIdentifier, ChallengeStatus, ChallengeType, Error,
    Identifier, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tutti_protocol::{
    AccountPlan, CertificatePlan, Challenge, ChallengeKind, ForController, FromAcme,
};
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::accounts;
use crate::challenges::{self, Answers, Record, RecordChange};
use crate::documents::{CertificateDocument, Documents, Issued};
use crate::failure::{Cure, OrderError, kind, words};
use crate::http::Authority;
use crate::internal::{self, Made};
use crate::line::Link;
use crate::updates;

/// An authority validates names, or issues a certificate, within this time. Otherwise the order is continued later.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));

/// Far more than the required 128 bits of a token.
const LONGEST_TOKEN: usize = 1024;

/// An attempt to obtain a certificate, with everything it uses.
pub(crate) struct Attempt<'a> {
    pub(crate) link: &'a Link,
    pub(crate) documents: &'a Documents,
    pub(crate) answers: &'a Answers,
    pub(crate) bundle: &'a str,
    pub(crate) wanted: &'a CertificatePlan,
    pub(crate) plan: &'a AccountPlan,
    /// The authority suggested it.
    pub(crate) is_advised: bool,
}

/// The challenge responses for an order, to be removed at the end.
#[derive(Default)]
struct Given {
    answers: Vec<Challenge>,
    records: Vec<Record>,
}

impl Attempt<'_> {
    /// Obtains the certificate. `document` is its current state, and is stored at each step.
    pub(crate) async fn run(
        &self,
        document: &mut CertificateDocument,
        authority: &Authority,
    ) -> Result<(), OrderError> {
        let account =
            accounts::open(self.documents, &self.wanted.account, self.plan, authority).await?;
        let mut order = self.order(&account, document).await?;
        let mut given = Given::default();
        let chain = self.finish(&mut order, document, &mut given).await;
        self.take_back(&given).await;
        let chain = chain?;
        let key = document.key.clone().unwrap_or_default();
        let issued = describe(&chain)?;
        self.settle(document, (&chain, &key), issued).await
    }

    /// Obtains the certificate from the server's own authority.
    pub(crate) async fn issue(&self, document: &mut CertificateDocument) -> Result<(), OrderError> {
        let Made { chain, key } =
            internal::issue(self.documents, &self.wanted.account, &self.wanted.names).await?;
        let issued = Issued {
            // It gives no advice.
            ask_at: i64::MAX,
            ..describe(&chain)?
        };
        self.settle(document, (&chain, &key), issued).await
    }

    /// Puts an issued certificate in force.
    async fn settle(
        &self,
        document: &mut CertificateDocument,
        (chain, key): (&str, &str),
        mut issued: Issued,
    ) -> Result<(), OrderError> {
        issued.was_advised = self.is_advised;
        let pem = format!("{}\n{key}", chain.trim_end());
        let done = CertificateDocument {
            directory: document.directory.clone(),
            names: document.names.clone(),
            issued: Some(issued),
            demand: document.demand.clone(),
            ..CertificateDocument::default()
        };
        if self.documents.fleet.is_some() {
            // All nodes apply it from there, and this one only if it still holds the claim.
            self.documents.keep_issued(self.bundle, &done, pem).await?;
            *document = done;
            return Ok(());
        }
        hand_over(self.link, self.bundle, pem).await?;
        *document = done;
        self.keep(document).await
    }

    async fn keep(&self, document: &CertificateDocument) -> Result<(), OrderError> {
        self.documents.keep_certificate(self.bundle, document).await
    }

    /// Returns the order in progress, or a new one.
    async fn order(
        &self,
        account: &Account,
        document: &mut CertificateDocument,
    ) -> Result<Order, OrderError> {
        if let (Some(url), Some(_)) = (&document.order, &document.key) {
            return match account.order(url.clone()).await {
                Ok(mut order) => match order.state().status {
                    OrderStatus::Invalid => Err(why_invalid(&mut order, self.wanted)
                        .await
                        .with(Cure::NewOrder)),
                    _ => Ok(order),
                },
                // Authorities delete orders after a while.
                Err(Error::Api(problem)) if is_unknown(&problem) => {
                    Err(OrderError::new("the authority no longer knows the order")
                        .with(Cure::NewOrder))
                }
                Err(error) => Err(error.into()),
            };
        }
        let key = KeyPair::generate().map_err(|error| OrderError::new(error.to_string()))?;
        document.key = Some(key.serialize_pem());
        document.order = None;
        self.keep(document).await?;
        let identifiers: Vec<Identifier> = self
            .wanted
            .names
            .iter()
            .map(|name| identifier(name))
            .collect();
        let mut new = NewOrder::new(&identifiers);
        if let Some(profile) = &self.plan.profile {
            new = new.profile(profile);
        }
        // This only helps with the authority's limits: after a failure it is left out.
        let before = document.issued.as_ref();
        let before = before.and_then(|issued| issued.id.as_ref());
        if let (Some((authority, serial)), 0) = (before, document.failures) {
            new = new.replaces(CertificateIdentifier {
                authority_key_identifier: authority.as_str().into(),
                serial: serial.as_str().into(),
            });
        }
        let order = account.new_order(&new).await?;
        document.order = Some(order.url().to_owned());
        self.keep(document).await?;
        Ok(order)
    }

    /// Completes the order; returns the chain.
    async fn finish(
        &self,
        order: &mut Order,
        document: &CertificateDocument,
        given: &mut Given,
    ) -> Result<String, OrderError> {
        if order.state().status == OrderStatus::Pending {
            self.answer(order, given).await?;
            let status = match order.poll_ready(&PATIENCE).await {
                Ok(status) => status,
                Err(Error::Api(_)) if order.state().status == OrderStatus::Invalid => {
                    OrderStatus::Invalid
                }
                Err(error) => return Err(error.into()),
            };
            if status == OrderStatus::Invalid {
                return Err(why_invalid(order, self.wanted).await.with(Cure::NewOrder));
            }
        }
        if order.state().status == OrderStatus::Ready {
            order.finalize_csr(&self.request(document)?).await?;
        }
        Ok(order.poll_certificate(&PATIENCE).await?)
    }

    /// Responds to the challenge for each name that is not validated yet.
    async fn answer(&self, order: &mut Order, given: &mut Given) -> Result<(), OrderError> {
        let wanted = challenge_type(self.plan.challenge);
        let mut authorizations = order.authorizations();
        let mut count = 0;
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            count += 1;
            self.check(count, authorization.identifier().identifier)?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let Some(challenge) = authorization.challenge(wanted.clone()) else {
                let text = "the authority does not offer this `challenge` for the name";
                return Err(OrderError::new(text).with(Cure::NewOrder));
            };
            if !is_token(&challenge.token) {
                return Err(lie("an invalid token"));
            }
            let (name, key) = (
                challenge.identifier().identifier.clone(),
                challenge.key_authorization(),
            );
            match self.plan.challenge {
                ChallengeKind::Http => given.answers.push(Challenge::Http {
                    token: challenge.token.clone(),
                    answer: key.as_str().to_owned(),
                }),
                ChallengeKind::TlsAlpn => given.answers.push(challenges::certificate(&name, &key)?),
                ChallengeKind::Dns => {
                    let record = challenges::record(&name, &key);
                    // Recorded before it exists: a half-added record must be removed, too.
                    given.records.push(record.clone());
                    self.record(RecordChange::Add, &record).await?;
                }
            }
        }
        if !given.answers.is_empty() {
            self.answers
                .give(self.bundle, given.answers.clone())
                .await?;
        }
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization?;
            if authorization.status != AuthorizationStatus::Pending {
                continue;
            }
            let name = challenges::name_of(authorization.identifier().identifier);
            if let Some(mut challenge) = authorization.challenge(wanted.clone())
                && challenge.status == ChallengeStatus::Pending
            {
                // A quick authority has validated the name already, and this is its result.
                challenge.set_ready().await.map_err(|error| match error {
                    Error::Api(problem) if is_of_challenge(&problem) => {
                        refused(&[format!("`{name}`: {}", words(&problem))]).with(Cure::NewOrder)
                    }
                    error => error.into(),
                })?;
            }
        }
        Ok(())
    }

    /// Checks that an authority asks for names of the order, and for no others.
    fn check(&self, count: usize, identifier: &Identifier) -> Result<(), OrderError> {
        if count > self.wanted.names.len() {
            return Err(lie("more names than were ordered"));
        }
        match is_wanted(&self.wanted.names, &challenges::name_of(identifier)) {
            true => Ok(()),
            false => Err(lie("a name that was not ordered")),
        }
    }

    /// Changes a DNS record.
    async fn record(&self, change: RecordChange, record: &Record) -> Result<(), OrderError> {
        match &self.plan.nameserver {
            Some(nameserver) => updates::change(nameserver, record, change).await,
            None => {
                let account = &self.wanted.account;
                self.answers.hook(account, change, record).await
            }
        }
    }

    async fn take_back(&self, given: &Given) {
        self.answers.end(self.bundle).await;
        for record in &given.records {
            // A record left behind is harmless: the next order has another one.
            let _ = self.record(RecordChange::Remove, record).await;
        }
    }

    /// Returns the certificate signing request, with the order's key.
    fn request(&self, document: &CertificateDocument) -> Result<Vec<u8>, OrderError> {
        let failed = |error: rcgen::Error| OrderError::new(error.to_string());
        let key = document.key.as_deref().unwrap_or_default();
        let key = KeyPair::from_pem(key).map_err(failed)?;
        let mut params = CertificateParams::new(self.wanted.names.clone()).map_err(failed)?;
        params.distinguished_name = DistinguishedName::new();
        let request = params.serialize_request(&key).map_err(failed)?;
        Ok(request.der().to_vec())
    }
}

/// Has a certificate stored and put in force.
pub(crate) async fn hand_over(link: &Link, bundle: &str, pem: String) -> Result<(), OrderError> {
    let make = |id| FromAcme::Tell {
        id,
        message: ForController::Certificate {
            bundle: bundle.to_owned(),
            pem: pem.clone(),
        },
    };
    let done = link.request(&make, Vec::new()).await;
    done.map(drop).map_err(|refused| {
        OrderError::new(format!(
            "the certificate was issued but cannot be applied: {}",
            refused.message
        ))
    })
}

fn challenge_type(kind: ChallengeKind) -> ChallengeType {
    match kind {
        ChallengeKind::Http => ChallengeType::Http01,
        ChallengeKind::TlsAlpn => ChallengeType::TlsAlpn01,
        ChallengeKind::Dns => ChallengeType::Dns01,
    }
}

fn identifier(name: &str) -> Identifier {
    match name.parse() {
        Ok(address) => Identifier::Ip(address),
        Err(_) => Identifier::Dns(name.to_owned()),
    }
}

/// True if the authority does not know the object: it responds 404, or with a problem type.
fn is_unknown(problem: &instant_acme::Problem) -> bool {
    matches!(problem.status, Some(404 | 410)) || matches!(kind(problem), "orderNotFound")
}

/// Describes why the authority could not validate the names.
async fn why_invalid(order: &mut Order, wanted: &CertificatePlan) -> OrderError {
    let mut reasons = Vec::new();
    let mut authorizations = order.authorizations();
    for _ in &wanted.names {
        let Some(Ok(mut authorization)) = authorizations.next().await else {
            break;
        };
        let name = challenges::name_of(authorization.identifier().identifier);
        let Ok(state) = authorization.refresh().await else {
            continue;
        };
        let problems = state
            .challenges
            .iter()
            .filter_map(|challenge| challenge.error.as_ref());
        reasons.extend(problems.map(|problem| format!("`{name}`: {}", words(problem))));
    }
    if let (true, Some(problem)) = (reasons.is_empty(), &order.state().error) {
        reasons.push(words(problem));
    }
    match reasons.is_empty() {
        true => OrderError::new("the authority gives no reason for refusing"),
        false => refused(&reasons),
    }
}

/// The failure for an authority that asks for something that it must not. No response is served for it.
fn lie(what: &str) -> OrderError {
    OrderError::new(format!("the authority requires {what}")).with(Cure::NewOrder)
}

/// True for a name of the order. A wildcard is represented by the name below it (RFC 8555 §7.1.4).
fn is_wanted(names: &[String], name: &str) -> bool {
    let mut names = names
        .iter()
        .map(|one| one.strip_prefix("*.").unwrap_or(one));
    names.any(|one| one.eq_ignore_ascii_case(name) || is_same_address(one, name))
}

/// True for two notations of the same address.
fn is_same_address(one: &str, other: &str) -> bool {
    let address = |text: &str| text.parse::<IpAddr>().ok();
    address(one).is_some_and(|one| address(other) == Some(one))
}

/// True for the characters that a token may have (RFC 8555 §8.1): it becomes part of a page and of a path.
fn is_token(token: &str) -> bool {
    let is_one = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=LONGEST_TOKEN).contains(&token.len()) && token.bytes().all(is_one)
}

fn refused(reasons: &[String]) -> OrderError {
    OrderError::new(format!("the authority has refused: {}", reasons.join("; ")))
}

/// True for the problems of a failed validation (RFC 8555 §6.7).
fn is_of_challenge(problem: &instant_acme::Problem) -> bool {
    let kinds = [
        "caa",
        "connection",
        "dns",
        "incorrectResponse",
        "tls",
        "unauthorized",
    ];
    kinds.contains(&kind(problem))
}

/// Reads the facts to remember from an issued certificate.
fn describe(chain: &str) -> Result<Issued, OrderError> {
    let unreadable = || {
        OrderError::new("the authority sent something other than a certificate")
            .with(Cure::NewOrder)
    };
    let first = CertificateDer::pem_slice_iter(chain.as_bytes()).next();
    let first = first.and_then(Result::ok).ok_or_else(unreadable)?;
    let (_, parsed) = X509Certificate::from_der(&first).map_err(|_| unreadable())?;
    let validity = parsed.validity();
    // A certificate without an authority key identifier has no identifier (RFC 9773 §4.1).
    let id = CertificateIdentifier::try_from(&first).ok();
    Ok(Issued {
        since: validity.not_before.timestamp(),
        until: validity.not_after.timestamp(),
        id: id.map(|id| {
            let authority = id.authority_key_identifier.into_owned();
            (authority, id.serial.into_owned())
        }),
        advised: None,
        was_advised: false,
        ask_at: 0,
        serial: parsed.raw_serial_as_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_the_order_and_sound_tokens_are_answered() {
        let names = ["a.example", "*.b.example", "2001:db8::1"].map(str::to_owned);
        for name in ["a.example", "A.example", "b.example", "2001:db8:0::1"] {
            assert!(is_wanted(&names, name), "{name}");
        }
        for name in ["c.example", "x.b.example", "", "example", "2001:db8::2"] {
            assert!(!is_wanted(&names, name), "{name}");
        }
        assert!(is_token("evaGxfADs6pSRb2LAv9IZf17Dt3juxGJ-PCt92wr_oA"));
        for token in ["", "a/b", "<b>", "a.b", "a b", "\u{e9}", &"a".repeat(2000)] {
            assert!(!is_token(token), "{token}");
        }
    }
}
