//! The facts of a handshake, for variables and applications.

use std::cell::OnceCell;

use aws_lc_rs::digest::{SHA256, digest};
use data_encoding::{BASE64, HEXLOWER, HEXUPPER};
use rustls::pki_types::CertificateDer;
use rustls::{CipherSuite, CommonState, HandshakeKind, ProtocolVersion};
use tutti_config::model::TlsVariable;
use x509_parser::prelude::{FromDer, X509Certificate};

use crate::client_check::{ClientCheck, ClientVerdict};
use crate::distinguished::text;

/// The negotiated protocol and cipher, and the client's certificate.
#[derive(Debug)]
pub struct HandshakeFacts {
    protocol: &'static str,
    cipher: String,
    server_name: String,
    /// `r` if the session was resumed, else `.`; empty if that is not known.
    session: &'static str,
    verdict: ClientVerdict,
    /// The digest of the rule about client certificates that the verdict is by.
    rule: Option<[u8; 32]>,
    certificate: Option<CertificateDer<'static>>,
    /// Computed on demand.
    client: OnceCell<ClientCertificate>,
    /// The value of `ClientCertificate-Cert`, likewise.
    field: OnceCell<Vec<u8>>,
}

/// A description of a client's certificate; all empty if there is none.
#[derive(Debug, Default)]
struct ClientCertificate {
    subject: String,
    issuer: String,
    serial: String,
    fingerprint: String,
}

impl HandshakeFacts {
    pub(crate) fn new(
        state: &CommonState,
        server_name: Option<&str>,
        clients: Option<&ClientCheck>,
    ) -> Self {
        let suite = state.negotiated_cipher_suite();
        let certificates = state.peer_certificates().unwrap_or_default();
        Self {
            protocol: match state.protocol_version() {
                Some(ProtocolVersion::TLSv1_2) => "TLSv1.2",
                Some(ProtocolVersion::TLSv1_3) => "TLSv1.3",
                _ => "",
            },
            cipher: cipher_name(suite.map(|suite| suite.suite())),
            server_name: server_name.unwrap_or_default().to_owned(),
            session: match state.handshake_kind() {
                Some(HandshakeKind::Resumed) => "r",
                Some(_) => ".",
                None => "",
            },
            verdict: verdict(clients, certificates),
            rule: clients.map(|clients| clients.digest),
            certificate: certificates.first().map(|one| one.clone().into_owned()),
            client: OnceCell::new(),
            field: OnceCell::new(),
        }
    }

    /// The facts of a QUIC connection, which uses TLS 1.3.
    pub(crate) fn of_quic(
        suite: Option<CipherSuite>,
        server_name: Option<&str>,
        clients: Option<&ClientCheck>,
        certificates: &[CertificateDer<'static>],
    ) -> Self {
        Self {
            protocol: "TLSv1.3",
            cipher: cipher_name(suite),
            server_name: server_name.unwrap_or_default().to_owned(),
            // `quinn-proto` does not tell.
            session: "",
            verdict: verdict(clients, certificates),
            rule: clients.map(|clients| clients.digest),
            certificate: certificates.first().cloned(),
            client: OnceCell::new(),
            field: OnceCell::new(),
        }
    }

    /// If clients are asked for certificates: the value of `ClientCertificate-Cert` (RFC 9440 §2.2), empty if this client sent no valid one.
    pub fn client_certificate(&self) -> Option<&[u8]> {
        let valid = || {
            let certificate = self.certificate.as_ref();
            certificate.filter(|_| self.verdict == ClientVerdict::Valid)
        };
        let field = || {
            valid().map_or_else(Vec::new, |der| {
                format!(":{}:", BASE64.encode(der)).into_bytes()
            })
        };
        (self.verdict != ClientVerdict::NotAsked).then(|| self.field.get_or_init(field).as_slice())
    }

    pub(crate) fn rule(&self) -> Option<&[u8; 32]> {
        self.rule.as_ref()
    }

    /// Why the requests of this client are refused with a page; `None`: they are not.
    pub fn client_refusal(&self) -> Option<&str> {
        match &self.verdict {
            ClientVerdict::Missing { is_refused: true } => {
                Some("the client has shown no certificate")
            }
            ClientVerdict::Invalid {
                is_refused: true,
                text,
            } => Some(text),
            _ => None,
        }
    }

    /// The value of a variable; empty if it has none.
    pub fn value(&self, variable: TlsVariable) -> &[u8] {
        let value = match variable {
            TlsVariable::Protocol => self.protocol,
            TlsVariable::Cipher => &self.cipher,
            TlsVariable::ServerName => &self.server_name,
            TlsVariable::SessionReused => self.session,
            TlsVariable::ClientVerify => match &self.verdict {
                ClientVerdict::NotAsked => "",
                ClientVerdict::Missing { .. } => "NONE",
                ClientVerdict::Valid => "SUCCESS",
                ClientVerdict::Invalid { text, .. } => text,
            },
            TlsVariable::ClientSubject => &self.client().subject,
            TlsVariable::ClientIssuer => &self.client().issuer,
            TlsVariable::ClientSerial => &self.client().serial,
            TlsVariable::ClientFingerprint => &self.client().fingerprint,
        };
        value.as_bytes()
    }

    fn client(&self) -> &ClientCertificate {
        self.client.get_or_init(|| match &self.certificate {
            Some(der) => ClientCertificate::of(der),
            None => ClientCertificate::default(),
        })
    }
}

fn verdict(clients: Option<&ClientCheck>, certificates: &[CertificateDer<'_>]) -> ClientVerdict {
    clients.map_or(ClientVerdict::NotAsked, |check| check.judge(certificates))
}

/// rustls prefixes those of TLS 1.3; IANA does not ("TLS Cipher Suites").
fn cipher_name(suite: Option<CipherSuite>) -> String {
    let name = suite.and_then(|suite| suite.as_str());
    name.map_or_else(String::new, |name| name.replacen("TLS13_", "TLS_", 1))
}

impl ClientCertificate {
    fn of(der: &[u8]) -> Self {
        let fingerprint = HEXLOWER.encode(digest(&SHA256, der).as_ref());
        let Ok((_, certificate)) = X509Certificate::from_der(der) else {
            // This is another parser than the one that verifies.
            return Self {
                fingerprint,
                ..Self::default()
            };
        };
        let serial = match certificate.raw_serial() {
            // A zero that only marks the number as not negative (X.690 §8.3).
            [0, rest @ ..] if !rest.is_empty() => rest,
            serial => serial,
        };
        Self {
            subject: text(certificate.subject()),
            issuer: text(certificate.issuer()),
            serial: HEXUPPER.encode(serial),
            fingerprint,
        }
    }
}
