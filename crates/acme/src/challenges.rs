//! Responses to an authority's challenges: on a request, in a handshake, or as a DNS record.
//!
//! The responses of all orders in progress are sent together, because the router replaces the whole set.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

use instant_acme::{Identifier, KeyAuthorization};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use tutti_protocol::{CERTIFICATE_DOCUMENT, Challenge, ForController, FromAcme};

use crate::failure::OrderError;
use crate::fleet::Fleet;
use crate::line::Link;

/// The challenge responses of all orders in progress. Clones share the same state.
#[derive(Clone)]
pub(crate) struct Answers {
    link: Arc<Link>,
    /// The fleet whose nodes all serve them.
    fleet: Option<Arc<Fleet>>,
    /// By bundle.
    given: Arc<Mutex<BTreeMap<String, Vec<Challenge>>>>,
}

/// A change of a DNS record.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum RecordChange {
    Add,
    Remove,
}

/// A DNS record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    /// `_acme-challenge.example.com`
    pub(crate) name: String,
    pub(crate) value: String,
}

impl Answers {
    pub(crate) fn new(link: Arc<Link>, fleet: Option<Arc<Fleet>>) -> Answers {
        Answers {
            link,
            fleet,
            given: Arc::default(),
        }
    }

    /// Replaces the responses for a certificate. On return, the router has them, and so have the routers of other nodes
    /// of the fleet.
    pub(crate) async fn give(
        &self,
        bundle: &str,
        answers: Vec<Challenge>,
    ) -> Result<(), OrderError> {
        self.note(bundle, answers.clone());
        if let Some(fleet) = &self.fleet {
            return fleet.give(&full(fleet, bundle), answers).await;
        }
        self.send().await
    }

    /// Removes the responses for a certificate.
    pub(crate) async fn end(&self, bundle: &str) {
        let had_some = self.note(bundle, Vec::new());
        if let (true, Some(fleet)) = (had_some, &self.fleet) {
            // Otherwise they end with the lock.
            let _ = fleet.give(&full(fleet, bundle), Vec::new()).await;
        } else if had_some {
            // The next order sends all of them again.
            let _ = self.send().await;
        }
    }

    /// Sends all of them again.
    pub(crate) async fn repeat(&self) {
        // Those of a fleet are sent by the source process.
        if self.fleet.is_none() {
            // An order that waits for one of them fails, and is retried.
            let _ = self.send().await;
        }
    }

    /// Returns whether there were some before.
    fn note(&self, bundle: &str, answers: Vec<Challenge>) -> bool {
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match answers.is_empty() {
            true => given.remove(bundle),
            false => given.insert(bundle.to_owned(), answers),
        };
        before.is_some()
    }

    async fn send(&self) -> Result<(), OrderError> {
        let challenges: Vec<Challenge> = {
            let given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
            given.values().flatten().cloned().collect()
        };
        let make = |id| FromAcme::Tell {
            id,
            message: ForController::Challenges {
                challenges: challenges.clone(),
            },
        };
        let outcome = self.link.request(&make, Vec::new()).await;
        outcome.map(drop).map_err(|refused| {
            OrderError::new(format!(
                "cannot respond to the authority: {}",
                refused.message
            ))
        })
    }

    /// Adds a DNS record with the account's hook, or removes it.
    pub(crate) async fn hook(
        &self,
        account: &str,
        change: RecordChange,
        record: &Record,
    ) -> Result<(), OrderError> {
        let make = |id| FromAcme::RunHook {
            id,
            account: account.to_owned(),
            is_present: change == RecordChange::Add,
            name: record.name.clone(),
            value: record.value.clone(),
        };
        let run = self.link.request(&make, Vec::new()).await;
        run.map(drop)
            .map_err(|refused| OrderError::new(refused.message))
    }
}

/// Returns the name of a certificate's document in the store.
fn full(fleet: &Fleet, bundle: &str) -> String {
    fleet.full(&format!("{CERTIFICATE_DOCUMENT}{bundle}"))
}

/// Returns the record that validates a name (RFC 8555 §8.4); a wildcard uses the record of the name below it.
pub(crate) fn record(identifier: &Identifier, answer: &KeyAuthorization) -> Record {
    let name = name_of(identifier);
    Record {
        name: format!("_acme-challenge.{}", name.trim_start_matches("*.")),
        value: answer.dns_value(),
    }
}

/// Returns the certificate that validates a name (RFC 8737 §3).
pub(crate) fn certificate(
    identifier: &Identifier,
    answer: &KeyAuthorization,
) -> Result<Challenge, OrderError> {
    let failed = |error: rcgen::Error| OrderError::new(error.to_string());
    let name = name_of(identifier);
    let mut params = CertificateParams::new(vec![name.clone()]).map_err(failed)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(
        answer.digest().as_ref(),
    )];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(Challenge::TlsAlpn {
        name: asked_by(&name),
        pem: format!("{}{}", certificate.pem(), key.serialize_pem()),
    })
}

pub(crate) fn name_of(identifier: &Identifier) -> String {
    match identifier {
        Identifier::Dns(name) => name.to_ascii_lowercase(),
        Identifier::Ip(address) => address.to_string(),
        _ => String::new(),
    }
}

/// Returns the server name of the handshake: an address is requested by its reverse DNS name (RFC 8738 §6).
fn asked_by(name: &str) -> String {
    match name.parse() {
        Ok(IpAddr::V4(address)) => {
            let [a, b, c, d] = address.octets();
            format!("{d}.{c}.{b}.{a}.in-addr.arpa")
        }
        Ok(IpAddr::V6(address)) => {
            let digits = address.octets().into_iter().rev();
            let digits = digits.map(|byte| format!("{:x}.{:x}.", byte & 15, byte >> 4));
            format!("{}ip6.arpa", digits.collect::<String>())
        }
        Err(_) => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_asked_for_by_their_names_in_the_dns() {
        assert_eq!(asked_by("a.example.com"), "a.example.com");
        assert_eq!(asked_by("192.0.2.1"), "1.2.0.192.in-addr.arpa");
        assert!(asked_by("2001:db8::1").starts_with("1.0.0.0."));
        assert!(asked_by("2001:db8::1").ends_with("8.b.d.0.1.0.0.2.ip6.arpa"));
    }
}
