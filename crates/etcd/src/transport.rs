//! A connection to a member: TCP, TLS where it is asked for, HTTP/2 with keep-alive.

use std::fmt;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;

use crate::error::Error;
use crate::outgoing::Outgoing;

/// Where a member is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// It speaks TLS.
    pub is_secure: bool,
    /// Its name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.is_secure { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

/// How members are reached over TLS. Texts are PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Who vouches for members; `None`: the authorities of the system.
    pub ca: Option<String>,
    /// The certificate that is shown to them, with its chain, and the key.
    pub identity: Option<(String, String)>,
    /// The name that their certificates are for, where that is not the endpoint's.
    pub server_name: Option<String>,
}

/// How an etcd is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Its members.
    pub endpoints: Vec<Endpoint>,
    /// How those with `https` are reached.
    pub tls: Tls,
    /// Name and password.
    pub user: Option<(String, String)>,
    /// How long a member may take to connect or to answer, and a watch be silent before it is asked.
    pub patience: Duration,
}

/// A connection of HTTP/2. Dropping it ends it.
pub(crate) struct Transport {
    pub(crate) sender: SendRequest<Outgoing>,
    /// The address that this end of it has.
    pub(crate) local: Option<IpAddr>,
    driver: JoinHandle<()>,
}

impl Drop for Transport {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Transport {
    /// Connects.
    ///
    /// # Errors
    /// Nobody is there, or nobody who can be trusted.
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        options: &Options,
    ) -> Result<Transport, Error> {
        let failed = |error: &dyn fmt::Display| Error::Connection(error.to_string());
        let stream = TcpStream::connect((endpoint.host.as_str(), endpoint.port))
            .await
            .map_err(|error| failed(&error))?;
        let local = stream.local_addr().ok().map(|address| address.ip());
        // Small messages that somebody waits for.
        let _ = stream.set_nodelay(true);
        if !endpoint.is_secure {
            return Transport::over(stream, local, options.patience).await;
        }
        let name = options.tls.server_name.as_deref().unwrap_or(&endpoint.host);
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| Error::Unusable(format!("`{name}`: {error}")))?;
        let config = Arc::new(tls_config(&options.tls)?);
        let stream = TlsConnector::from(config)
            .connect(name, stream)
            .await
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => failed(
                    &"the connection ended within the TLS handshake: does this member speak TLS?",
                ),
                _ => failed(&format!("TLS: {error}")),
            })?;
        Transport::over(stream, local, options.patience).await
    }

    async fn over<S>(
        stream: S,
        local: Option<IpAddr>,
        patience: Duration,
    ) -> Result<Transport, Error>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (sender, connection) = Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(patience)
            .keep_alive_timeout(patience)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| Error::Connection(told(&error)))?;
        // Its end is noticed by whoever calls next.
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Transport {
            sender,
            local,
            driver,
        })
    }
}

/// The whole of an error: the outermost words seldom say what was wrong.
pub(crate) fn told(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

fn tls_config(tls: &Tls) -> Result<ClientConfig, Error> {
    let identity = tls.identity.as_ref();
    let identity = identity.map(|(chain, key)| (chain.as_bytes(), key.as_bytes()));
    let config = trusted(tls.ca.as_deref())
        .and_then(|roots| tutti_tls::client_config(roots, identity, "etcd"));
    let mut config = config.map_err(Error::Unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

fn trusted(ca: Option<&str>) -> Result<RootCertStore, String> {
    match ca {
        Some(text) => tutti_tls::authorities(text.as_bytes()),
        None => {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            Ok(roots)
        }
    }
}
