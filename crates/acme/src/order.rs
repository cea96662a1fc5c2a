//! One order of a certificate, from wherever the process before has left it.
//!
//! ```text
//! key kept → order made → its URL kept → names shown to be ours → finalized → certificate taken → stored and in force → order forgotten
//! ```
//!
//! Each step can be the last of this process: the next goes on behind the last that was kept. What must never happen: a second order
//! while the document knows of one, or a key that is lost while an order for it can come to an end.

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
use crate::line::Link;
use crate::updates;

/// An authority looks whether names are ours, or makes a certificate, within this time. Else the order is gone on with later.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));

/// Far more than the 128 bits that a token has to have.
const LONGEST_TOKEN: usize = 1024;

/// An attempt to get a certificate, with all it works with.
pub(crate) struct Attempt<'a> {
    pub(crate) link: &'a Link,
    pub(crate) documents: &'a Documents,
    pub(crate) answers: &'a Answers,
    pub(crate) bundle: &'a str,
    pub(crate) wanted: &'a CertificatePlan,
    pub(crate) plan: &'a AccountPlan,
}

/// The answers that an order's authority is given, to be taken back.
#[derive(Default)]
struct Given {
    answers: Vec<Challenge>,
    records: Vec<Record>,
}

impl Attempt<'_> {
    /// Gets the certificate. `document` is what is known of it, and is kept at each step.
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
        let pem = format!("{}\n{key}", chain.trim_end());
        let done = CertificateDocument {
            directory: document.directory.clone(),
            names: document.names.clone(),
            issued: Some(issued),
            demand: document.demand.clone(),
            ..CertificateDocument::default()
        };
        if self.documents.fleet.is_some() {
            // All nodes take it from there, and this one only if it is still the one that works at it.
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

    /// The order that is under way, or a new one.
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
                // Authorities forget orders after a while.
                Err(Error::Api(problem)) if is_unknown(&problem) => Err(OrderError::new(
                    "the authority does not know the order any more",
                )
                .with(Cure::NewOrder)),
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
        // It is only to be gentle with the authority's limits: after a failure it is left out.
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

    /// Brings the order to its end: the chain.
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

    /// Answers the authority for each name that is not shown to be ours yet.
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
                let text =
                    "the authority does not look whether the name is ours by this `challenge`";
                return Err(OrderError::new(text).with(Cure::NewOrder));
            };
            if !is_token(&challenge.token) {
                return Err(lie("a token that is none"));
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
                    // Before it is there: one that is half done is to be cleaned up, too.
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
                // An authority that is quick has looked already, and what it says is of this name.
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

    /// Checks that an authority asks for names of the order, and for no more.
    fn check(&self, count: usize, identifier: &Identifier) -> Result<(), OrderError> {
        if count > self.wanted.names.len() {
            return Err(lie("more names than were ordered"));
        }
        match is_wanted(&self.wanted.names, &challenges::name_of(identifier)) {
            true => Ok(()),
            false => Err(lie("a name that was not ordered")),
        }
    }

    /// Changes a record in the DNS.
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
            // A record left over harms nobody: the next order has another.
            let _ = self.record(RecordChange::Remove, record).await;
        }
    }

    /// The request for the certificate, with the order's key.
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
            "the certificate has come and cannot be put in force: {}",
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

/// True if the authority does not know what it is asked for: it says so with 404, or as it can.
fn is_unknown(problem: &instant_acme::Problem) -> bool {
    matches!(problem.status, Some(404 | 410)) || matches!(kind(problem), "orderNotFound")
}

/// Tells what the authority says of the names that it has not been shown to be ours.
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
        true => OrderError::new("the authority does not say why it has refused"),
        false => refused(&reasons),
    }
}

/// An authority asks for something that none may ask for. Nothing of it is answered.
fn lie(what: &str) -> OrderError {
    OrderError::new(format!("the authority asks for {what}")).with(Cure::NewOrder)
}

/// True for a name of the order. That of a wildcard is the name below it (RFC 8555 §7.1.4).
fn is_wanted(names: &[String], name: &str) -> bool {
    let mut names = names
        .iter()
        .map(|one| one.strip_prefix("*.").unwrap_or(one));
    names.any(|one| one.eq_ignore_ascii_case(name) || is_same_address(one, name))
}

/// True for two ways to write one address.
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

/// True for what an authority says when it has looked and not found what it asked for (RFC 8555 §6.7).
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

/// Reads from a certificate that has come the facts to be remembered.
fn describe(chain: &str) -> Result<Issued, OrderError> {
    let unreadable = || {
        OrderError::new("the authority has sent something else than a certificate")
            .with(Cure::NewOrder)
    };
    let first = CertificateDer::pem_slice_iter(chain.as_bytes()).next();
    let first = first.and_then(Result::ok).ok_or_else(unreadable)?;
    let (_, parsed) = X509Certificate::from_der(&first).map_err(|_| unreadable())?;
    let validity = parsed.validity();
    // One without a name of its authority cannot be asked about (RFC 9773 §4.1).
    let id = CertificateIdentifier::try_from(&first).ok();
    Ok(Issued {
        since: validity.not_before.timestamp(),
        until: validity.not_after.timestamp(),
        id: id.map(|id| {
            let authority = id.authority_key_identifier.into_owned();
            (authority, id.serial.into_owned())
        }),
        advised: None,
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
