//! The proof that a peer has the key of its certificate, where the certificate itself is not checked: also for certificates of X.509
//! version 1, which rustls does not parse. Old devices and `openssl x509 -req` without extensions make them.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer};
use rustls::{CertificateError, DigitallySignedStruct, Error};
use x509_parser::asn1_rs::Sequence;
use x509_parser::prelude::{FromDer as _, X509Certificate, X509Version};

/// Verifies a signature of TLS 1.2 over `message`.
pub(crate) fn verify_tls12(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider.signature_verification_algorithms;
    let Some(old) = old(certificate) else {
        return verify_tls12_signature(message, certificate, signed, algorithms);
    };
    let key = &old.tbs_certificate.subject_pki;
    let malformed = || Error::InvalidCertificate(CertificateError::BadEncoding);
    let identifier = algorithm(key.raw).ok_or_else(malformed)?;
    let mut schemes = algorithms.mapping.iter();
    let of_scheme = schemes.find(|(scheme, _)| *scheme == signed.scheme);
    let candidates = of_scheme
        .map(|(_, candidates)| *candidates)
        .unwrap_or_default();
    // RFC 5246 §7.4.1.4.1: in TLS 1.2, a scheme does not determine the curve.
    let is_valid = candidates.iter().any(|candidate| {
        candidate.public_key_alg_id().as_ref() == identifier
            && candidate
                .verify_signature(&key.subject_public_key.data, message, signed.signature())
                .is_ok()
    });
    match is_valid {
        true => Ok(HandshakeSignatureValid::assertion()),
        false => Err(Error::InvalidCertificate(CertificateError::BadSignature)),
    }
}

/// Verifies a signature of TLS 1.3 over `message`.
pub(crate) fn verify_tls13(
    message: &[u8],
    certificate: &CertificateDer<'_>,
    signed: &DigitallySignedStruct,
    provider: &CryptoProvider,
) -> Result<HandshakeSignatureValid, Error> {
    let algorithms = &provider.signature_verification_algorithms;
    match old(certificate) {
        None => verify_tls13_signature(message, certificate, signed, algorithms),
        Some(old) => {
            let key = SubjectPublicKeyInfoDer::from(old.tbs_certificate.subject_pki.raw);
            verify_tls13_signature_with_raw_key(message, &key, signed, algorithms)
        }
    }
}

/// A certificate of version 1.
fn old<'c>(certificate: &'c CertificateDer<'_>) -> Option<X509Certificate<'c>> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    (parsed.version() == X509Version::V1).then_some(parsed)
}

/// The content of the algorithm identifier of a key (RFC 5280 §4.1.2.7).
fn algorithm(key: &[u8]) -> Option<&[u8]> {
    let (_, outer) = Sequence::from_der(key).ok()?;
    let std::borrow::Cow::Borrowed(content) = outer.content else {
        return None;
    };
    let (_, inner) = Sequence::from_der(content).ok()?;
    match inner.content {
        std::borrow::Cow::Borrowed(content) => Some(content),
        std::borrow::Cow::Owned(_) => None,
    }
}
