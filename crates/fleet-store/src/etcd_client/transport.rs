//! A connection to a member: TCP, TLS if configured, HTTP/2 with keep-alive.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use tokio::task::JoinSet;
use tutti_dialer::{DialTarget, authorities, client_config, dial, error_chain, system_authorities};

use super::error::EtcdError;
use super::outgoing::Outgoing;

/// The address of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdEndpoint {
    /// It uses TLS.
    pub is_secure: bool,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for EtcdEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// TLS with members. Texts are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EtcdTls {
    /// The CA certificates for members; `None`: those of the system.
    pub ca: Option<String>,
    /// The client certificate with its chain, and the key.
    pub identity: Option<(String, String)>,
    /// The name that their certificates must have, if it is not the endpoint's.
    pub server_name: Option<String>,
}

/// Options of the connections to an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterOptions {
    /// Its members.
    pub endpoints: Vec<EtcdEndpoint>,
    /// TLS for the `https` members.
    pub tls: EtcdTls,
    /// User and password.
    pub user: Option<(String, String)>,
    /// Time limit for a member to connect or answer, and for silence of a watch before it asks for its progress.
    pub patience: Duration,
}

/// A connection of HTTP/2. Dropping it ends it.
pub(crate) struct Transport {
    pub(crate) sender: SendRequest<Outgoing>,
    /// The local address of the connection.
    pub(crate) local: Option<IpAddr>,
    /// Runs the connection until this is dropped.
    _driver: JoinSet<hyper::Result<()>>,
}

impl Transport {
    /// Connects.
    ///
    /// # Errors
    /// The member cannot be reached, or is not trusted.
    pub(crate) async fn connect(
        endpoint: &EtcdEndpoint,
        options: &ClusterOptions,
    ) -> Result<Transport, EtcdError> {
        let tls = match endpoint.is_secure {
            true => Some(Arc::new(
                tls_config(&options.tls).map_err(EtcdError::Unusable)?,
            )),
            false => None,
        };
        let target = DialTarget {
            host: &endpoint.host,
            port: endpoint.port,
            addresses: None,
            tls: tls.as_ref(),
            server_name: options.tls.server_name.as_deref(),
            patience: None,
        };
        let stream = dial(&target).await.map_err(|error| match error {
            tutti_dialer::DialError::Name(_) => EtcdError::Unusable(error.to_string()),
            _ => EtcdError::Connection(error.to_string()),
        })?;
        let local = stream.socket().local_address();
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(options.patience)
            .keep_alive_timeout(options.patience)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| EtcdError::Connection(error_chain(&error)))?;
        // The next caller notices its end.
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        Ok(Transport {
            sender,
            local: local.map(|address| address.ip()),
            _driver: driver,
        })
    }
}

fn tls_config(tls: &EtcdTls) -> Result<ClientConfig, String> {
    let roots = match &tls.ca {
        Some(text) => authorities(text.as_bytes()).map_err(|error| format!("`ca`: {error}"))?,
        None => system_authorities().map_err(|why| format!("{why}, or name a file in `ca`"))?,
    };
    let identity = tls.identity.as_ref();
    let identity = identity.map(|(chain, key)| (chain.as_bytes(), key.as_bytes()));
    let mut config = client_config(roots, identity)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}
