//! One connection of a listener, with the server name that its client requests.
//!
//! rustls passes the name only to the resolver that selects the certificate, so each connection has its own resolver, which records it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustls::Error;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;

use crate::challenges::{ACME_PROTOCOL, Challenges};
use crate::client_check::ClientCheck;
use crate::handshake_facts::HandshakeFacts;

/// rustls' state of a connection, to which this dereferences.
pub struct TlsConnection {
    state: UnbufferedServerConnection,
    chooser: Arc<Chooser>,
    clients: Option<Arc<ClientCheck>>,
}

impl TlsConnection {
    pub(crate) fn new(
        config: &Arc<ServerConfig>,
        clients: Option<Arc<ClientCheck>>,
        challenges: Option<&Arc<Challenges>>,
    ) -> Result<Self, Error> {
        let challenges = challenges.filter(|challenges| !challenges.is_empty());
        let chooser = Arc::new(Chooser {
            inner: Arc::clone(&config.cert_resolver),
            name: OnceLock::new(),
            found_none: AtomicBool::new(false),
            challenges: challenges.cloned(),
        });
        let mut config = ServerConfig::clone(config);
        if challenges.is_some() {
            // Last in the list: only authorities offer it.
            config.alpn_protocols.push(ACME_PROTOCOL.to_vec());
        }
        config.cert_resolver = chooser.clone();
        Ok(Self {
            state: UnbufferedServerConnection::new(Arc::new(config))?,
            chooser,
            clients,
        })
    }

    /// True if no certificate was available for the client.
    pub fn found_no_certificate(&self) -> bool {
        self.chooser.found_none.load(Ordering::Relaxed)
    }

    /// The facts of a completed handshake.
    pub fn facts(&self) -> HandshakeFacts {
        let name = self.chooser.name.get();
        HandshakeFacts::new(
            &self.state,
            name.map(|name| &**name),
            self.clients.as_deref(),
        )
    }
}

impl Deref for TlsConnection {
    type Target = UnbufferedServerConnection;

    fn deref(&self) -> &UnbufferedServerConnection {
        &self.state
    }
}

impl DerefMut for TlsConnection {
    fn deref_mut(&mut self) -> &mut UnbufferedServerConnection {
        &mut self.state
    }
}

#[derive(Debug)]
struct Chooser {
    inner: Arc<dyn ResolvesServerCert>,
    name: OnceLock<Box<str>>,
    found_none: AtomicBool,
    challenges: Option<Arc<Challenges>>,
}

impl ResolvesServerCert for Chooser {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(name) = client.server_name() {
            // Called twice only for the same ClientHello.
            let _ = self.name.set(name.into());
        }
        let challenges = self.challenges.as_ref();
        if let Some(answer) = challenges.and_then(|challenges| challenges.answer(&client)) {
            return answer;
        }
        let found = self.inner.resolve(client);
        if found.is_none() {
            self.found_none.store(true, Ordering::Relaxed);
        }
        found
    }

    fn only_raw_public_keys(&self) -> bool {
        self.inner.only_raw_public_keys()
    }
}
