//! Converts a listener's options to a configuration of rustls.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerConfig, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{RootCertStore, SignatureAlgorithm};
use tokio::sync::oneshot;
use tutti_config::model::{
    AcmeCertificate, Authority, Pointer, StoredName, Tickets, Tls, TlsClients, TlsSession,
};

use crate::bundle::Bundle;
use crate::challenges::Challenges;
use crate::client_check::ClientCheck;
use crate::connection::TlsConnection;
use crate::handshake_facts::HandshakeFacts;
use crate::names::Fit;
use crate::on_demand::{CertificateResult, Demands, OnDemand};
use crate::provider;
use crate::quic::QuicOffer;
use crate::sessions::Sessions;
use crate::tickets::TicketKeys;

/// Cipher suites of TLS 1.2 for certificates with ECDSA keys (IANA, "TLS Cipher Suites"); the others here are for RSA.
const ECDSA_SUITES: [u16; 3] = [0xc02b, 0xc02c, 0xcca9];
const RSA_SUITES: [u16; 3] = [0xc02f, 0xc030, 0xcca8];

/// The rule of listeners that do not ask for client certificates; different from all digests.
const NO_RULE: [u8; 32] = [0; 32];

/// Why settings cannot be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OfferError {
    /// The option at fault.
    pub pointer: Pointer,
    /// The fault.
    pub message: String,
}

impl OfferError {
    pub(crate) fn at(pointer: &Pointer, message: impl Into<String>) -> Self {
        OfferError {
            pointer: pointer.clone(),
            message: message.into(),
        }
    }
}

/// Where a certificate comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateSource<'a> {
    /// The bundle with this name.
    Stored(&'a str),
    /// This file.
    File(&'a Path),
}

/// Finds certificates, or returns why not.
pub type Find<'a> = &'a mut dyn FnMut(CertificateSource<'_>) -> Result<Arc<Bundle>, String>;

/// A listener's TLS, for connections of any thread.
#[derive(Debug)]
pub struct Offer {
    config: Arc<ServerConfig>,
    choice: Arc<Choice>,
    quic: Option<QuicOffer>,
    memory: Memory,
    clients: Option<Arc<ClientCheck>>,
}

/// Keys and cache for resuming sessions. Kept from one configuration to the next while none of its options change.
#[derive(Clone, Debug)]
struct Memory {
    settings: TlsSession,
    rule: [u8; 32],
    sessions: Arc<Sessions>,
    tickets: Option<Arc<TicketKeys>>,
}

impl Offer {
    /// Makes the TLS for these options, with certificates from `find`. Sessions that began under `previous`, the same listener before a
    /// change, can be resumed if the change does not affect them. `protocols` are the application protocols, the preferred first (RFC
    /// 7301).
    ///
    /// # Errors
    /// Certificates that do not exist or have no key, no usable ciphers.
    pub fn new(
        tls: &Tls,
        find: Find<'_>,
        protocols: &[&[u8]],
        previous: Option<&Offer>,
    ) -> Result<Offer, OfferError> {
        let choice = Arc::new(choice(tls, find)?);
        let provider = provider::limited(&tls.protocol);
        let fault = |error: rustls::Error| OfferError::at(&tls.pointer, error.to_string());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&provider::versions(&tls.protocol))
            .map_err(fault)?;
        let (builder, clients, rule) = match &tls.clients {
            None => (builder.with_no_client_auth(), None, NO_RULE),
            Some(clients) => {
                let (roots, rule) = authorities(clients, find)?;
                let verifier = WebPkiClientVerifier::builder_with_provider(
                    roots.into(),
                    Arc::clone(&provider),
                );
                let verifier = if clients.is_required {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                let verifier = verifier
                    .build()
                    .map_err(|error| OfferError::at(&tls.pointer, error.to_string()))?;
                let check = ClientCheck {
                    verifier,
                    is_required: clients.is_required,
                    failure: clients.failure,
                    digest: rule,
                };
                let builder = builder.with_client_cert_verifier(check.for_handshakes(provider));
                (builder, Some(Arc::new(check)), rule)
            }
        };
        let mut config = builder.with_cert_resolver(choice.clone());
        let memory = match previous.map(|previous| &previous.memory) {
            Some(memory) if memory.settings == tls.session && memory.rule == rule => memory.clone(),
            _ => memory(tls, rule)?,
        };
        config.session_storage = match memory.settings.options.cache_size {
            0 => Arc::new(NoServerSessionStorage {}),
            _ => memory.sessions.clone(),
        };
        if let Some(tickets) = &memory.tickets {
            config.ticketer = tickets.clone();
        }
        config.ignore_client_order = tls.protocol.is_server_preferred;
        config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
        Ok(Offer {
            quic: QuicOffer::new(&config, clients.clone()),
            config: Arc::new(config),
            choice,
            memory,
            clients,
        })
    }

    /// True if a connection was checked by the rule about client certificates of this offer, or if there is none. A connection may be from
    /// before a change of the rule, or of plain HTTP.
    pub fn has_checked(&self, facts: Option<&HandshakeFacts>) -> bool {
        self.clients
            .as_ref()
            .is_none_or(|clients| facts.is_some_and(|facts| facts.rule() == Some(&clients.digest)))
    }

    /// A digest of the rule about client certificates; `None`: clients are not asked.
    pub fn client_rule(&self) -> Option<[u8; 32]> {
        self.clients.as_ref().map(|clients| clients.digest)
    }

    /// The configuration for code that uses rustls directly: it belongs to one listener, so there is one rule about client certificates.
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }

    /// The same for QUIC; `None` without TLS 1.3.
    pub fn quic(&self) -> Option<&QuicOffer> {
        self.quic.as_ref()
    }

    /// Accepts early data over QUIC. A client remembers the limits it was `promised`, and relies on them: if they have changed, it must
    /// begin anew. `previous` is the same listener before a change.
    pub fn take_early(&mut self, promised: [u64; 4], previous: Option<&Offer>) {
        let before = previous.filter(|previous| previous.memory.settings == self.memory.settings);
        let before = before.and_then(|previous| previous.quic.as_ref());
        if let Some(quic) = &mut self.quic {
            quic.take_early(promised, &self.memory.settings, before);
        }
    }

    /// Certificates on demand, if configured.
    pub fn on_demand(&self) -> Option<&OnDemand> {
        self.choice.on_demand.as_ref()
    }

    /// Sets the existing certificates on demand. Called once, before there is a connection.
    pub fn begin_demands(&self, demands: Demands) {
        if let Some(on_demand) = self.on_demand() {
            on_demand.begin(demands);
        }
    }

    /// Requests the certificate for a client's name, if it can be obtained on demand; `None`: there is nothing to wait for.
    pub fn want(
        &self,
        name: &str,
        client: Option<IpAddr>,
    ) -> Option<oneshot::Receiver<CertificateResult>> {
        let mut bundles = self.choice.bundles.iter();
        if bundles.any(|(bundle, _)| bundle.names().fit(name).is_some()) {
            return None;
        }
        self.on_demand()?.want(name, client)
    }

    /// Begins a connection. Authorities are answered from `challenges`.
    pub fn begin(
        &self,
        challenges: Option<&Arc<Challenges>>,
    ) -> Result<TlsConnection, rustls::Error> {
        TlsConnection::new(&self.config, self.clients.clone(), challenges)
    }
}

fn memory(tls: &Tls, rule: [u8; 32]) -> Result<Memory, OfferError> {
    let timeout = tls.session.options.timeout;
    let tickets =
        match &tls.session.tickets {
            Tickets::Off => None,
            Tickets::Keys(keys) => Some(TicketKeys::given(keys, timeout, rule)),
            Tickets::Random => Some(TicketKeys::random(timeout, rule).ok_or_else(|| {
                OfferError::at(&tls.pointer, "the system provides no random bytes")
            })?),
        };
    Ok(Memory {
        settings: tls.session.clone(),
        rule,
        sessions: Arc::new(Sessions::new(tls.session.options.cache_size, timeout)),
        tickets: tickets.map(Arc::new),
    })
}

pub(crate) fn found(bundle: &StoredName, find: Find<'_>) -> Result<Arc<Bundle>, OfferError> {
    find(CertificateSource::Stored(&bundle.name))
        .map_err(|message| OfferError::at(&bundle.pointer, message))
}

/// The certificates of an authority, and where it is named.
pub(crate) fn authority_of<'a>(
    authority: &'a Authority,
    find: Find<'_>,
) -> Result<(&'a Pointer, Arc<Bundle>), OfferError> {
    match authority {
        Authority::Bundle(name) => Ok((&name.pointer, found(name, find)?)),
        Authority::File(file) => {
            let read = find(CertificateSource::File(&file.path));
            let fault = |message| OfferError::at(&file.pointer, message);
            Ok((&file.pointer, read.map_err(fault)?))
        }
    }
}

/// The authorities trusted for clients, and a digest that identifies this rule.
fn authorities(
    clients: &TlsClients,
    find: Find<'_>,
) -> Result<(RootCertStore, [u8; 32]), OfferError> {
    let mut roots = RootCertStore::empty();
    let mut digest = Context::new(&SHA256);
    digest.update(&[1, u8::from(clients.is_required), clients.failure as u8]);
    for authority in &clients.authorities {
        let (pointer, bundle) = authority_of(authority, find)?;
        for certificate in bundle.chain() {
            digest.update(&(certificate.len() as u64).to_be_bytes());
            digest.update(certificate);
            roots.add(certificate.clone()).map_err(|error| {
                let message =
                    format!("a certificate in it cannot be used to verify clients: {error}");
                OfferError::at(pointer, message)
            })?;
        }
    }
    let mut rule = [0; 32];
    rule.copy_from_slice(digest.finish().as_ref());
    Ok((roots, rule))
}

fn choice(tls: &Tls, find: Find<'_>) -> Result<Choice, OfferError> {
    let mut bundles = Vec::new();
    for name in &tls.certificates {
        let bundle = match found(name, find) {
            Ok(bundle) => bundle,
            // An automatic certificate that has not been issued yet. Until then, clients get neither another one nor a self-signed one.
            Err(_) if AcmeCertificate::is_named_by(&name.name) => continue,
            Err(error) => return Err(error),
        };
        let Some(key) = bundle.key().cloned() else {
            let message = format!(
                "the certificate bundle `{}` has no private key: it can only be used in `client_ca`",
                name.name
            );
            return Err(OfferError::at(&name.pointer, message));
        };
        bundles.push((bundle, key));
    }
    Ok(Choice {
        bundles,
        on_demand: tls.on_demand.as_ref().map(OnDemand::new),
        allows_tls13: tls.protocol.allows_tls13,
    })
}

/// Selects the certificate by the client's name and capabilities.
#[derive(Debug)]
struct Choice {
    bundles: Vec<(Arc<Bundle>, Arc<CertifiedKey>)>,
    on_demand: Option<OnDemand>,
    allows_tls13: bool,
}

impl Choice {
    fn can_use(&self, key: &CertifiedKey, client: &ClientHello<'_>) -> bool {
        let schemes = client.signature_schemes();
        if key.key.choose_scheme(schemes).is_none() {
            return false;
        }
        // In TLS 1.3 ciphers are independent of keys; its suites have their own numbers (RFC 8446 §B.4).
        let suites = client.cipher_suites();
        let has = |numbers: &[u16]| {
            suites
                .iter()
                .any(|suite| numbers.contains(&u16::from(*suite)))
        };
        if self.allows_tls13 && suites.iter().any(|suite| u16::from(*suite) >> 8 == 0x13) {
            return true;
        }
        match key.key.algorithm() {
            SignatureAlgorithm::RSA => has(&RSA_SUITES),
            _ => has(&ECDSA_SUITES),
        }
    }
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // Documented: an exact name precedes a wildcard, then the order of the list counts; without a match the first bundle is used.
        if let ([(_, only)], None) = (self.bundles.as_slice(), &self.on_demand) {
            return Some(Arc::clone(only));
        }
        let usable = || {
            self.bundles
                .iter()
                .filter(|(_, key)| self.can_use(key, &client))
        };
        let asked = client.server_name().map(str::to_ascii_lowercase);
        let named = asked.as_ref().and_then(|asked| {
            [Fit::Exact, Fit::Wildcard]
                .into_iter()
                .find_map(|fit| usable().find(|(bundle, _)| bundle.names().fit(asked) == Some(fit)))
        });
        if let (None, Some(on_demand), Some(asked)) = (named, &self.on_demand, &asked) {
            // Another certificate would only hide that there is none.
            return on_demand.key(asked).cloned();
        }
        let chosen = named.or_else(|| usable().next()).or(self.bundles.first());
        chosen.map(|(_, key)| Arc::clone(key))
    }
}
