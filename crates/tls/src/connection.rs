//! One connection of a listener, with the name that its client has asked for.
//!
//! rustls tells the name only to whoever chooses the certificate, so each connection has a chooser of its own, which notes it.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, OnceLock};

use rustls::Error;
use rustls::server::{ClientHello, ResolvesServerCert, ServerConfig, UnbufferedServerConnection};
use rustls::sign::CertifiedKey;

use crate::facts::Facts;

/// rustls' state of a connection, which this derefs to.
pub struct Connection {
    state: UnbufferedServerConnection,
    chooser: Arc<Chooser>,
    asks_clients: bool,
}

impl Connection {
    pub(crate) fn new(config: &Arc<ServerConfig>, asks_clients: bool) -> Result<Self, Error> {
        let chooser = Arc::new(Chooser {
            inner: Arc::clone(&config.cert_resolver),
            name: OnceLock::new(),
        });
        let mut config = ServerConfig::clone(config);
        config.cert_resolver = chooser.clone();
        Ok(Self {
            state: UnbufferedServerConnection::new(Arc::new(config))?,
            chooser,
            asks_clients,
        })
    }

    /// The facts of the handshake if it is done.
    pub fn facts(&self) -> Facts {
        let name = self.chooser.name.get();
        Facts::new(&self.state, name.map(|name| &**name), self.asks_clients)
    }
}

impl Deref for Connection {
    type Target = UnbufferedServerConnection;

    fn deref(&self) -> &UnbufferedServerConnection {
        &self.state
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut UnbufferedServerConnection {
        &mut self.state
    }
}

#[derive(Debug)]
struct Chooser {
    inner: Arc<dyn ResolvesServerCert>,
    name: OnceLock<Box<str>>,
}

impl ResolvesServerCert for Chooser {
    fn resolve(&self, client: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        if let Some(name) = client.server_name() {
            // Asked twice only for the same hello.
            let _ = self.name.set(name.into());
        }
        self.inner.resolve(client)
    }

    fn only_raw_public_keys(&self) -> bool {
        self.inner.only_raw_public_keys()
    }
}
