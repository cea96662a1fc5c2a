//! A certificate bundle: a chain and its key, checked when it is uploaded, so that using it cannot fail later.

use std::sync::Arc;
use std::time::SystemTime;

use rustls::crypto::aws_lc_rs::sign;
use rustls::pki_types::CertificateDer;
use rustls::sign::{CertifiedKey, SigningKey};
use serde_json::{Value, json};
use x509_parser::prelude::X509Certificate;
use x509_parser::time::ASN1Time;

use crate::error::BundleError;
use crate::names::Names;
use crate::validity::Validity;
use crate::{chain, describe, pem};

/// A chain with its key, or authorities without one.
#[derive(Debug)]
pub struct Bundle {
    chain: Vec<CertificateDer<'static>>,
    /// `None`: certificates of authorities, for verifying clients.
    key: Option<Arc<CertifiedKey>>,
    names: Names,
    description: Value,
    warnings: Vec<String>,
    expiry: i64,
    validity: Validity,
}

impl Bundle {
    /// True if it has the same certificate and chain, and so the same key.
    pub fn is_same(&self, other: &Bundle) -> bool {
        self.chain == other.chain && self.key.is_some() == other.key.is_some()
    }

    /// Reads a PEM file: a chain in any order and its key, or only certificates of authorities.
    pub fn parse(file: &[u8], now: SystemTime) -> Result<Bundle, BundleError> {
        let pem::Contents { certificates, key } = pem::read(file)?;
        if certificates.is_empty() {
            return Err(match key {
                Some(_) => BundleError::NoCertificate,
                None => BundleError::Nothing,
            });
        }
        let (chain, key) = match key {
            Some(key) => {
                let key = sign::any_supported_type(&key)
                    .map_err(|error| BundleError::Key(error.to_string()))?;
                let leaf = certificate_of(&*key, &certificates)?;
                let chain = chain::order(certificates, leaf)?;
                (chain, Some(key))
            }
            None => (certificates, None),
        };
        let parsed: Vec<X509Certificate<'_>> = chain
            .iter()
            .enumerate()
            .map(|(index, der)| chain::parse(index + 1, der))
            .collect::<Result<_, _>>()?;
        if key.is_none() && !parsed.iter().all(describe::is_authority) {
            return Err(BundleError::NoKey);
        }
        let description = json!({
            "key": key.as_ref().and(parsed.first()).map(describe::key),
            "chain": parsed.iter().map(describe::certificate).collect::<Vec<_>>(),
        });
        let warnings = parsed.iter().filter_map(|one| outdated(one, now)).collect();
        let expiry = |one: &X509Certificate<'_>| one.validity().not_after.timestamp();
        let expiry = parsed.iter().map(expiry).min().unwrap_or_default();
        let validity = |one: &X509Certificate<'_>| Validity {
            since: one.validity().not_before.timestamp(),
            until: one.validity().not_after.timestamp(),
        };
        let validity = parsed.first().map(validity).unwrap_or_default();
        let names = parsed.first().map(names_of).unwrap_or_default();
        drop(parsed);
        let key = key.map(|key| Arc::new(CertifiedKey::new(chain.clone(), key)));
        Ok(Bundle {
            chain,
            key,
            names,
            description,
            warnings,
            expiry,
            validity,
        })
    }

    /// The description for the control API.
    pub fn description(&self) -> &Value {
        &self.description
    }

    /// When the first of its certificates expires, in seconds since 1970.
    pub fn expiry(&self) -> i64 {
        self.expiry
    }

    /// When its first certificate, the one of its key, is valid.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// True if it is valid for this name or wildcard.
    pub fn is_for(&self, name: &str) -> bool {
        self.names.fit(&name.to_ascii_lowercase()).is_some()
    }

    /// The names and addresses in it, unchanged.
    pub fn all_names(&self) -> Vec<&str> {
        let subject = self.description.pointer("/chain/0/subject");
        let names = subject.and_then(|subject| subject.get("alt_names"));
        let names = names.and_then(Value::as_array).into_iter().flatten();
        let mut names: Vec<&str> = names.filter_map(Value::as_str).collect();
        if names.is_empty() {
            let common = subject.and_then(|subject| subject.get("common_name"));
            names.extend(common.and_then(Value::as_str));
        }
        names
    }

    /// Problems that do not prevent its use.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    pub(crate) fn key(&self) -> Option<&Arc<CertifiedKey>> {
        self.key.as_ref()
    }

    pub(crate) fn names(&self) -> &Names {
        &self.names
    }

    pub(crate) fn chain(&self) -> &[CertificateDer<'static>] {
        &self.chain
    }
}

/// The index of the certificate that belongs to the key.
fn certificate_of(
    key: &dyn SigningKey,
    certificates: &[CertificateDer<'static>],
) -> Result<usize, BundleError> {
    let public = key.public_key();
    let mut first = String::new();
    for (index, der) in certificates.iter().enumerate() {
        let certificate = chain::parse(index + 1, der)?;
        let is_its = public
            .as_ref()
            .is_some_and(|public| public.as_ref() == certificate.public_key().raw);
        if is_its {
            return Ok(index);
        }
        if index == 0 {
            first = certificate.subject().to_string();
        }
    }
    Err(BundleError::Mismatch(first))
}

/// The names of a certificate: alternative ones, or else the common name.
fn names_of(certificate: &X509Certificate<'_>) -> Names {
    let names = describe::dns_names(certificate);
    if names.is_empty() {
        return Names::new(describe::common_name(certificate.subject()));
    }
    Names::new(names.iter().map(String::as_str))
}

fn outdated(certificate: &X509Certificate<'_>, now: SystemTime) -> Option<String> {
    let seconds = now
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |elapsed| elapsed.as_secs());
    let now = ASN1Time::from_timestamp(i64::try_from(seconds).unwrap_or(i64::MAX)).ok()?;
    let validity = certificate.validity();
    let subject = certificate.subject();
    if validity.not_after < now {
        let until = describe::time(&validity.not_after);
        return Some(format!(
            "the certificate of `{subject}` has expired: {until}"
        ));
    }
    if validity.not_before > now {
        let since = describe::time(&validity.not_before);
        return Some(format!(
            "the certificate of `{subject}` is not valid before {since}"
        ));
    }
    None
}
