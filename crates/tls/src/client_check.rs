//! The check of clients' certificates.
//!
//! If a failure does not end the handshake, the certificate is checked when it has completed: rustls does not say which connection a check
//! belongs to, and a resumed session is not checked by it at all.
//!
//! Must never: report a certificate as valid whose key the client has not used, or that no authority has signed.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};
use tutti_config::model::ClientFailure;

use crate::possession;

/// The rule of a listener about clients' certificates.
#[derive(Debug)]
pub(crate) struct ClientCheck {
    pub(crate) verifier: Arc<dyn ClientCertVerifier>,
    pub(crate) is_required: bool,
    pub(crate) failure: ClientFailure,
    /// A digest of the rule.
    pub(crate) digest: [u8; 32],
}

/// The result of the check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ClientVerdict {
    /// Clients are not asked.
    NotAsked,
    /// There is no certificate.
    Missing { is_refused: bool },
    /// It is valid.
    Valid,
    /// `FAILED:` and the reason.
    Invalid { is_refused: bool, text: String },
}

impl ClientCheck {
    /// The verifier for handshakes.
    pub(crate) fn for_handshakes(
        &self,
        provider: Arc<CryptoProvider>,
    ) -> Arc<dyn ClientCertVerifier> {
        match self.failure {
            ClientFailure::Handshake => Arc::clone(&self.verifier),
            ClientFailure::Page | ClientFailure::Report => Arc::new(Lenient {
                verifier: Arc::clone(&self.verifier),
                provider,
            }),
        }
    }

    /// Judges the certificates that a client has shown, its own first.
    pub(crate) fn judge(&self, certificates: &[CertificateDer<'_>]) -> ClientVerdict {
        let is_refused = self.failure == ClientFailure::Page;
        let Some((own, others)) = certificates.split_first() else {
            return ClientVerdict::Missing {
                is_refused: is_refused && self.is_required,
            };
        };
        if self.failure == ClientFailure::Handshake {
            // An invalid one has ended the handshake.
            return ClientVerdict::Valid;
        }
        match self
            .verifier
            .verify_client_cert(own, others, UnixTime::now())
        {
            Ok(_) => ClientVerdict::Valid,
            Err(error) => ClientVerdict::Invalid {
                is_refused,
                text: format!("FAILED:{}", reason(&error)),
            },
        }
    }
}

fn reason(error: &Error) -> String {
    let Error::InvalidCertificate(fault) = error else {
        return error.to_string();
    };
    match fault {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the certificate has expired".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the certificate is not valid yet".to_owned()
        }
        CertificateError::UnknownIssuer => "no trusted authority has signed it".to_owned(),
        CertificateError::BadEncoding => "the certificate is malformed".to_owned(),
        CertificateError::BadSignature => "the signature of its issuer is wrong".to_owned(),
        CertificateError::Revoked => "the certificate is revoked".to_owned(),
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "the certificate is not for clients".to_owned()
        }
        CertificateError::Other(other) => match other.to_string().as_str() {
            // Errors of rustls-webpki that rustls has no words for.
            "CaUsedAsEndEntity" => "the certificate is that of an authority".to_owned(),
            "UnsupportedCertVersion" => "the certificate is not of X.509 version 3".to_owned(),
            text => plain(text),
        },
        other => plain(&other.to_string()),
    }
}

/// Without what cannot be in a field of a request.
fn plain(text: &str) -> String {
    let is_plain = |one: &char| one.is_ascii_graphic() || *one == ' ';
    text.chars().filter(is_plain).collect()
}

/// Accepts any certificate, as long as the client has its key, and clients without one.
#[derive(Debug)]
struct Lenient {
    verifier: Arc<dyn ClientCertVerifier>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for Lenient {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.verifier.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        possession::verify_tls12(message, certificate, signed, &self.provider)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        possession::verify_tls13(message, certificate, signed, &self.provider)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
