//! The server's own authority: a root certificate that it makes itself, and the certificates that it signs with it, for names that no
//! public authority knows.
//!
//! The key of the root is a document of the account, which main keeps, readable only by root; no router ever has it. Must never happen: a
//! certificate that can sign others, or that outlives its root.

use std::time::{SystemTime, UNIX_EPOCH};

use data_encoding::BASE64URL_NOPAD;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use tutti_options::acme_names::{INTERNAL, digest};
use x509_parser::prelude::{FromDer as _, X509Certificate};
use x509_parser::time::ASN1Time;

use crate::accounts::{claim, pkcs8};
use crate::documents::{AccountDocument, Documents};
use crate::failure::OrderError;

const DAY: i64 = 86_400;

/// The life of a root: clients must trust each anew.
const ROOT_DAYS: i64 = 3650;

/// A root that ends sooner gets a successor.
const ROOT_LEAST_DAYS: i64 = 90;

/// The life of a certificate. It is renewed after two thirds of it.
const DAYS: i64 = 30;

/// Clocks of clients differ.
const BEFORE: i64 = 3600;

/// The longest common name (RFC 5280, appendix A.1).
const LONGEST_NAME: usize = 64;

/// Held while the root is looked for: of two that are made at once, one would be lost, with the trust in its certificates.
static OPENING: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A certificate and its key, in PEM.
pub(crate) struct Made {
    pub(crate) chain: String,
    pub(crate) key: String,
}

/// Issues a certificate for these names by the authority of an account, which is made if there is none yet.
pub(crate) async fn issue(
    documents: &Documents,
    account: &str,
    names: &[String],
) -> Result<Made, OrderError> {
    let _alone = OPENING.lock().await;
    let is_there = || is_usable(&documents.account(account), now());
    let claim = claim(documents, (account, INTERNAL), is_there).await?;
    let document = open(documents, account).await;
    if claim.is_some() {
        documents.release_account(account).await;
    }
    let document = document?;
    let key = KeyPair::try_from(&pkcs8(&document)?).map_err(failed)?;
    sign(&key, names, now()).map_err(failed)
}

/// Returns the root, and makes it if there is none that can be used.
async fn open(documents: &Documents, account: &str) -> Result<AccountDocument, OrderError> {
    let document = documents.account(account);
    if is_usable(&document, now()) {
        return Ok(document);
    }
    let document = root(now()).map_err(failed)?;
    documents.keep_account(account, &document).await?;
    Ok(document)
}

fn failed(error: rcgen::Error) -> OrderError {
    OrderError::new(error.to_string())
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since.unwrap_or_default().as_secs()).unwrap_or(i64::MAX)
}

/// True if a root is there, and lasts for a while.
fn is_usable(document: &AccountDocument, now: i64) -> bool {
    let Some(pem) = document
        .certificate
        .as_ref()
        .filter(|_| document.directory == INTERNAL)
    else {
        return false;
    };
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else {
        return false;
    };
    let parsed = X509Certificate::from_der(&der);
    parsed.is_ok_and(|(_, root)| {
        root.validity().not_after.timestamp() > now.saturating_add(ROOT_LEAST_DAYS * DAY)
    })
}

/// Makes a key and its root certificate.
fn root(now: i64) -> Result<AccountDocument, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = authority(&key);
    set_validity(&mut params, now, ROOT_DAYS);
    let certificate = params.self_signed(&key)?;
    Ok(AccountDocument {
        directory: INTERNAL.to_owned(),
        key: BASE64URL_NOPAD.encode(&key.serialize_der()),
        certificate: Some(certificate.pem()),
        ..AccountDocument::default()
    })
}

/// The parameters of a root, always the same for a key.
fn authority(key: &KeyPair) -> CertificateParams {
    let number = digest(&BASE64URL_NOPAD.encode(key.der_bytes()));
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(
        DnType::CommonName,
        format!("Tutti local authority {number}"),
    );
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

fn sign(root: &KeyPair, names: &[String], now: i64) -> Result<Made, rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut params = CertificateParams::new(names.to_vec())?;
    params.distinguished_name = DistinguishedName::new();
    if let Some(first) = names.first().filter(|name| name.len() <= LONGEST_NAME) {
        params
            .distinguished_name
            .push(DnType::CommonName, first.as_str());
    }
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    set_validity(&mut params, now, DAYS);
    let issuer = Issuer::new(authority(root), root);
    let certificate = params.signed_by(&key, &issuer)?;
    Ok(Made {
        chain: certificate.pem(),
        key: key.serialize_pem(),
    })
}

fn set_validity(params: &mut CertificateParams, now: i64, days: i64) {
    let time = |seconds| ASN1Time::from_timestamp(seconds).map(|time| time.to_datetime());
    // A clock that is beyond all dates leaves rcgen's own.
    if let (Ok(since), Ok(until)) = (time(now - BEFORE), time(now + days * DAY)) {
        (params.not_before, params.not_after) = (since, until);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_signs_certificates_that_sign_none() {
        let now = now();
        let document = root(now).unwrap();
        assert!(is_usable(&document, now));
        assert!(!is_usable(
            &document,
            now + (ROOT_DAYS - ROOT_LEAST_DAYS) * DAY
        ));
        assert!(!is_usable(&AccountDocument::default(), now));
        let key = KeyPair::try_from(&pkcs8(&document).unwrap()).unwrap();
        let names = ["nas", "*.home.test", "192.168.1.2"].map(str::to_owned);
        let made = sign(&key, &names, now).unwrap();
        let [root, leaf] = [document.certificate.as_ref().unwrap(), &made.chain]
            .map(|pem| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap());
        let (_, root) = X509Certificate::from_der(&root).unwrap();
        let (_, leaf) = X509Certificate::from_der(&leaf).unwrap();
        assert_eq!(leaf.issuer(), root.subject());
        assert!(root.is_ca() && !leaf.is_ca());
        assert!(leaf.validity().not_after < root.validity().not_after);
        assert!(!made.chain.contains("PRIVATE") && made.key.contains("PRIVATE"));
        // Another one has another key and another number.
        let other = sign(&key, &names, now).unwrap();
        assert_ne!(other.key, made.key);
        assert_ne!(other.chain, made.chain);
    }
}
