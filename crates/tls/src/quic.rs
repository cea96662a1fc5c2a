//! TLS in QUIC (RFC 9001): an offer for `quinn-proto`, and the keys of tokens and resets.
//!
//! Certificates, tickets and the rule about client certificates are the listener's, as for TCP. With early data, a session is a number that
//! is valid once, in this process's own memory. Must never: begin without TLS 1.3, which QUIC requires; reveal a key; accept early data
//! twice.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::{hkdf, hmac};
use quinn_proto::crypto::rustls::QuicServerConfig;
use rustls::CipherSuite;
use rustls::crypto::aws_lc_rs::cipher_suite::TLS13_AES_128_GCM_SHA256;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert, ServerConfig};
use rustls::sign::CertifiedKey;
use tutti_config::model::TlsSession;

use crate::client_check::ClientCheck;
use crate::handshake_facts::HandshakeFacts;
use crate::sessions::Sessions;

/// The ALPN protocol of HTTP/3 (RFC 9114 §3.1).
const ALPN: &[u8] = b"h3";

/// Sessions kept for early data if the listener has no `cache_size`: some hundred bytes each, two per connection.
const EARLY_SESSIONS: usize = 8192;

/// A listener's TLS for QUIC.
#[derive(Debug)]
pub struct QuicOffer {
    config: Arc<ServerConfig>,
    clients: Option<Arc<ClientCheck>>,
    early: Option<Early>,
}

/// The memory that recognises early data, once.
#[derive(Clone, Debug)]
struct Early {
    promised: [u64; 4],
    sessions: Arc<Sessions>,
}

impl QuicOffer {
    /// `None` if `config` does not speak TLS 1.3.
    pub(crate) fn new(config: &ServerConfig, clients: Option<Arc<ClientCheck>>) -> Option<Self> {
        let mut suites = config.crypto_provider().cipher_suites.iter();
        suites.any(|suite| suite.tls13().is_some()).then(|| {
            let mut config = config.clone();
            config.alpn_protocols = vec![ALPN.to_vec()];
            Self {
                config: Arc::new(config),
                clients,
                early: None,
            }
        })
    }

    /// See [`Offer::take_early`](crate::Offer::take_early). A ticket could be used repeatedly, so there are none; and if client
    /// certificates are required, early data cannot be attributed to a client and is not accepted.
    pub(crate) fn take_early(
        &mut self,
        promised: [u64; 4],
        settings: &TlsSession,
        previous: Option<&Self>,
    ) {
        if self.clients.is_some() {
            return;
        }
        let kept = previous.and_then(|previous| previous.early.clone());
        let early = kept.filter(|kept| kept.promised == promised);
        let early = early.unwrap_or_else(|| {
            let size = match settings.options.cache_size {
                0 => EARLY_SESSIONS,
                size => size,
            };
            let sessions = Arc::new(Sessions::new(size, settings.options.timeout));
            Early { promised, sessions }
        });
        let mut config = ServerConfig::clone(&self.config);
        config.session_storage = early.sessions.clone();
        config.ticketer = Arc::new(NoTickets);
        // All or nothing (RFC 9001 §4.6.1): QUIC's windows limit the amount.
        config.max_early_data_size = u32::MAX;
        self.config = Arc::new(config);
        self.early = Some(early);
    }

    /// For packets outside connections: first packets and retries, whose keys are public (RFC 9001 §5.2, §5.8).
    pub fn common(&self) -> Option<Arc<QuicServerConfig>> {
        crypto(Arc::clone(&self.config))
    }

    /// For a new connection.
    pub fn begin(&self) -> Option<(Arc<QuicServerConfig>, QuicClient)> {
        let provider = self.config.crypto_provider();
        let suites = provider.cipher_suites.iter().map(|suite| suite.suite());
        let chooser = Arc::new(Chooser {
            inner: Arc::clone(&self.config.cert_resolver),
            suites: suites.collect(),
            prefers_own: self.config.ignore_client_order,
            heard: OnceLock::new(),
        });
        let mut config = ServerConfig::clone(&self.config);
        config.cert_resolver = chooser.clone();
        let client = QuicClient {
            chooser,
            clients: self.clients.clone(),
        };
        Some((crypto(Arc::new(config))?, client))
    }
}

fn crypto(config: Arc<ServerConfig>) -> Option<Arc<QuicServerConfig>> {
    let initial = TLS13_AES_128_GCM_SHA256.tls13()?.quic_suite()?;
    QuicServerConfig::with_initial(config, initial)
        .ok()
        .map(Arc::new)
}

/// Makes no tickets.
#[derive(Debug)]
struct NoTickets;

impl ProducesTickets for NoTickets {
    fn enabled(&self) -> bool {
        false
    }

    fn lifetime(&self) -> u32 {
        0
    }

    fn encrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }

    fn decrypt(&self, _: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// The contents of a client's first message.
#[derive(Debug)]
pub struct QuicClient {
    chooser: Arc<Chooser>,
    clients: Option<Arc<ClientCheck>>,
}

impl QuicClient {
    /// The facts of the completed handshake, in which the client has shown these certificates.
    pub fn facts(&self, certificates: &[CertificateDer<'static>]) -> HandshakeFacts {
        let heard = self.chooser.heard.get();
        let name = heard.and_then(|heard| heard.name.as_deref());
        let suite = heard.and_then(|heard| heard.suite);
        HandshakeFacts::of_quic(suite, name, self.clients.as_deref(), certificates)
    }
}

/// Selects the certificate and records other parameters of the same message, which `quinn-proto` does not report.
#[derive(Debug)]
struct Chooser {
    inner: Arc<dyn ResolvesServerCert>,
    /// In order of preference.
    suites: Vec<CipherSuite>,
    /// That order overrides the client's.
    prefers_own: bool,
    heard: OnceLock<Heard>,
}

#[derive(Debug)]
struct Heard {
    name: Option<Box<str>>,
    suite: Option<CipherSuite>,
}

impl ResolvesServerCert for Chooser {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offered = client.cipher_suites();
        // Only TLS 1.3, which QUIC requires (RFC 8446 §B.4).
        let is_known = |suite: &&CipherSuite| {
            u16::from(**suite) >> 8 == 0x13
                && self.suites.contains(suite)
                && offered.contains(suite)
        };
        let suite = match self.prefers_own {
            true => self.suites.iter().find(is_known),
            false => offered.iter().find(is_known),
        };
        // Called twice only for the same ClientHello.
        let _ = self.heard.set(Heard {
            name: client.server_name().map(Into::into),
            suite: suite.copied(),
        });
        self.inner.resolve(client)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.inner.only_raw_public_keys()
    }
}

/// The keys of address tokens and of stateless resets (RFC 9000 §8.1.3, §10.3): all threads have the same, and so have the previous and the
/// next router.
pub struct QuicKeys {
    /// Seals tokens.
    pub tokens: Arc<hkdf::Prk>,
    /// Makes the token by which a client recognises a reset.
    pub resets: Arc<hmac::Key>,
}

impl std::fmt::Debug for QuicKeys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("QuicKeys")
    }
}

impl QuicKeys {
    /// Derives the keys from a secret.
    pub fn new(secret: &[u8]) -> Self {
        let salt = |text: &[u8]| hkdf::Salt::new(hkdf::HKDF_SHA256, text);
        let mut reset = [0; 32];
        let made = salt(b"tutti quic resets 1").extract(secret);
        // Fails only if the requested length is too large.
        if let Ok(output) = made.expand(&[b"key"], hkdf::HKDF_SHA256) {
            let _ = output.fill(&mut reset);
        }
        Self {
            tokens: Arc::new(salt(b"tutti quic tokens 1").extract(secret)),
            resets: Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &reset)),
        }
    }
}
