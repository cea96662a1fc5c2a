//! The listening socket: accepts, uses TLS if configured, and limits the connections.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tutti_control::OpenConnections;

use crate::connection::{self, Client};
use crate::reply::Security;
use crate::site::Site;

/// Maximum connections: a browser opens six.
const MOST_CONNECTIONS: usize = 64;

/// Time for a TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// Pause when the process has run out of descriptors, which accept(2) then reports repeatedly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves the pages forever. Dropping it ends every connection.
pub async fn serve(socket: OwnedFd, site: Arc<Site>) -> io::Result<()> {
    let listener = std::net::TcpListener::from(socket);
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let mut connections = OpenConnections::new(MOST_CONNECTIONS);
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Replies are written whole: waiting to fill a segment only delays them.
                    let _ = stream.set_nodelay(true);
                    let is_known = Arc::new(AtomicBool::new(false));
                    let connection =
                        run(stream, peer.to_string(), Arc::clone(&site), Arc::clone(&is_known));
                    connections.add(is_known, connection);
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            () = connections.one_ended() => {}
        }
    }
}

async fn run(stream: TcpStream, peer: String, site: Arc<Site>, is_known: Arc<AtomicBool>) {
    let Some(tls) = site.door.tls() else {
        let client = Client {
            peer,
            security: Security::Plain,
        };
        return connection::run(stream, client, site, is_known).await;
    };
    let client = Client {
        peer,
        security: tls.security(),
    };
    let accepted = timeout(HANDSHAKE, TlsAcceptor::from(tls.config).accept(stream)).await;
    if let Ok(Ok(stream)) = accepted {
        connection::run(stream, client, site, is_known).await;
    }
}
