//! Reaches a peer: resolves its addresses, connects, and starts TLS.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::time::timeout;

use crate::connect::{Address, connect};
use crate::error::DialError;
use crate::stream::{DialedStream, DialedTls};

/// A peer to connect to over TCP.
#[derive(Clone, Debug)]
pub struct DialTarget<'a> {
    /// Its name or address, an IPv6 address with or without brackets.
    pub host: &'a str,
    /// Its port.
    pub port: u16,
    /// The addresses of the name; `None`: the system resolves it.
    pub addresses: Option<&'a [IpAddr]>,
    /// The TLS configuration; `None`: plain TCP.
    pub tls: Option<&'a Arc<ClientConfig>>,
    /// The name that its certificate must have, if it is not `host`.
    pub server_name: Option<&'a str>,
    /// Time limit for each of its addresses; `None`: as long as the system tries.
    pub patience: Option<Duration>,
}

/// Connects to the first address that accepts a connection, and performs the TLS handshake.
///
/// # Errors
/// The name is not valid, or the last address failed.
pub async fn dial(target: &DialTarget<'_>) -> Result<DialedStream, DialError> {
    let host = target.host.trim_start_matches('[').trim_end_matches(']');
    let tls = target.tls.map(|config| {
        let name = target.server_name.unwrap_or(host);
        let valid = ServerName::try_from(name.to_owned());
        valid
            .map(|valid| (config, valid))
            .map_err(|_| DialError::Name(name.to_owned()))
    });
    let tls = tls.transpose()?;
    let mut failure = None;
    for address in addresses(host, target).await.map_err(DialError::Connect)? {
        let attempt = async {
            let socket = connect(&Address::Inet(address))
                .await
                .map_err(DialError::Connect)?;
            match &tls {
                None => Ok(DialedStream::Plain(socket)),
                Some((config, name)) => {
                    let tls = DialedTls::open(Arc::clone(config), name.clone(), socket).await;
                    tls.map(DialedStream::Tls).map_err(DialError::Tls)
                }
            }
        };
        let attempt = match target.patience {
            None => attempt.await,
            Some(patience) => timeout(patience, attempt)
                .await
                .unwrap_or_else(|_| Err(late(patience))),
        };
        match attempt {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = Some(error),
        }
    }
    Err(failure.unwrap_or_else(|| {
        let none = format!("`{host}` has no address");
        DialError::Connect(io::Error::new(io::ErrorKind::NotFound, none))
    }))
}

fn late(patience: Duration) -> DialError {
    let text = format!("no connection within {} seconds", patience.as_secs_f64());
    DialError::Connect(io::Error::new(io::ErrorKind::TimedOut, text))
}

async fn addresses(host: &str, target: &DialTarget<'_>) -> io::Result<Vec<SocketAddr>> {
    let port = target.port;
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    match target.addresses {
        Some(known) => Ok(known.iter().map(|ip| SocketAddr::new(*ip, port)).collect()),
        None => Ok(tokio::net::lookup_host((host, port)).await?.collect()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use std::net::Ipv4Addr;

    use rustls::RootCertStore;
    use tokio::net::TcpListener;

    use super::*;
    use crate::tls::client_config;

    fn target(host: &str, port: u16) -> DialTarget<'_> {
        DialTarget {
            host,
            port,
            addresses: None,
            tls: None,
            server_name: None,
            patience: None,
        }
    }

    #[tokio::test]
    async fn the_first_address_that_takes_a_connection_is_used() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        // Only the first of these loopback addresses has the listener.
        let known = [Ipv4Addr::new(127, 0, 0, 9).into(), address.ip()];
        let known = DialTarget {
            addresses: Some(&known),
            ..target("peer.invalid", address.port())
        };
        let stream = dial(&known).await.unwrap();
        let (_, client) = listener.accept().await.unwrap();
        assert_eq!(stream.socket().local_address(), Some(client));
        assert!(dial(&target("[127.0.0.1]", address.port())).await.is_ok());
        let none = DialTarget {
            addresses: Some(&[]),
            ..target("peer.invalid", 1)
        };
        let error = dial(&none).await.unwrap_err();
        assert_eq!(error.to_string(), "`peer.invalid` has no address");
    }

    #[tokio::test]
    async fn a_peer_without_tls_and_an_invalid_name_are_distinguished() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let config = client_config(RootCertStore::empty(), None).unwrap();
        let config = Arc::new(config);
        let secure = DialTarget {
            tls: Some(&config),
            ..target("127.0.0.1", port)
        };
        let closing = async { drop(listener.accept().await) };
        let (outcome, ()) = tokio::join!(dial(&secure), closing);
        let error = outcome.unwrap_err();
        assert!(matches!(error, DialError::Tls(_)), "{error}");
        let unnamed = DialTarget {
            server_name: Some("not a name"),
            ..secure
        };
        let error = dial(&unnamed).await.unwrap_err();
        assert!(matches!(error, DialError::Name(_)), "{error}");
        drop(listener);
        let error = dial(&secure).await.unwrap_err();
        assert!(matches!(error, DialError::Connect(_)), "{error}");
    }
}
