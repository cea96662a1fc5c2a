//! The listening socket: accepts, uses TLS if configured, and limits the connections.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use crate::connection;
use crate::site::Site;

/// Maximum connections: a browser opens six. Beyond that the oldest is closed, unauthenticated ones first, so that a
/// stranger with many connections does not keep others out.
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
    let mut connections = Connections::default();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    // Replies are written whole: waiting to fill a segment only delays them.
                    let _ = stream.set_nodelay(true);
                    connections.add(stream, peer.to_string(), Arc::clone(&site));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.tasks.join_next() => {}
        }
    }
}

#[derive(Default)]
struct Connections {
    /// Ends them all when it is dropped.
    tasks: JoinSet<()>,
    /// The oldest first.
    open: VecDeque<Open>,
}

struct Open {
    task: AbortHandle,
    /// The client is authenticated.
    is_known: Arc<AtomicBool>,
}

impl Connections {
    fn add(&mut self, stream: TcpStream, peer: String, site: Arc<Site>) {
        self.open.retain(|open| !open.task.is_finished());
        if self.open.len() >= MOST_CONNECTIONS {
            let stranger = self
                .open
                .iter()
                .position(|open| !open.is_known.load(Ordering::Relaxed));
            if let Some(open) = self.open.remove(stranger.unwrap_or_default()) {
                open.task.abort();
            }
        }
        let is_known = Arc::new(AtomicBool::new(false));
        let known = Arc::clone(&is_known);
        let task = self.tasks.spawn(async move {
            run(stream, peer, site, known).await;
        });
        self.open.push_back(Open { task, is_known });
    }
}

async fn run(stream: TcpStream, peer: String, site: Arc<Site>, is_known: Arc<AtomicBool>) {
    let Some(config) = site.door.tls() else {
        return connection::run(stream, peer, site, is_known).await;
    };
    let accepted = timeout(HANDSHAKE, TlsAcceptor::from(config).accept(stream)).await;
    if let Ok(Ok(stream)) = accepted {
        connection::run(stream, peer, site, is_known).await;
    }
}
