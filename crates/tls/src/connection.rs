//! One connection of a listener, with the name that its client has asked for.
//!
//! rustls tells the name only to whoever chooses the certificate, so each connection has a chooser of its own, which notes it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use rustls::Error;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;

use crate::challenges::{ACME_PROTOCOL, Challenges};
use crate::handshake_facts::HandshakeFacts;

/// rustls' state of a connection, which this derefs to.
pub struct TlsConnection {
    state: UnbufferedServerConnection,
    chooser: Arc<Chooser>,
    asks_clients: bool,
}

impl TlsConnection {
    pub(crate) fn new(
        config: &Arc<ServerConfig>,
        asks_clients: bool,
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
            // The last: nobody but an authority offers it.
            config.alpn_protocols.push(ACME_PROTOCOL.to_vec());
        }
        config.cert_resolver = chooser.clone();
        Ok(Self {
            state: UnbufferedServerConnection::new(Arc::new(config))?,
            chooser,
            asks_clients,
        })
    }

    /// True if the client could not be shown any certificate: none is there.
    pub fn found_no_certificate(&self) -> bool {
        self.chooser.found_none.load(Ordering::Relaxed)
    }

    /// The facts of the handshake if it is done.
    pub fn facts(&self) -> HandshakeFacts {
        let name = self.chooser.name.get();
        HandshakeFacts::new(&self.state, name.map(|name| &**name), self.asks_clients)
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
            // Asked twice only for the same hello.
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
