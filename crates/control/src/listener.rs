//! The control socket: a UNIX or TCP listener that main has bound.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};

use crate::api::Api;
use crate::change::Changes;
use crate::connection;
use crate::service::Service;

/// How long to wait when the process has run out of descriptors, which accept(2) reports again and again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound and listening socket.
#[derive(Debug)]
pub enum Listener {
    /// `unix:/path`
    Unix(UnixListener),
    /// `127.0.0.1:8443`
    Tcp(TcpListener),
}

impl Listener {
    /// Takes a listening socket that main passed. To be called on the runtime that will serve it.
    ///
    /// # Errors
    /// What the system says of the descriptor.
    pub fn from_fd(fd: OwnedFd) -> io::Result<Listener> {
        let address = rustix::net::getsockname(&fd)?;
        if address.address_family() == rustix::net::AddressFamily::UNIX {
            let listener = std::os::unix::net::UnixListener::from(fd);
            listener.set_nonblocking(true)?;
            Ok(Listener::Unix(UnixListener::from_std(listener)?))
        } else {
            let listener = std::net::TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            Ok(Listener::Tcp(TcpListener::from_std(listener)?))
        }
    }
}

/// Serves the API for ever, one task per connection. Who serves it again later passes the same `changes`.
pub async fn serve(listener: Listener, service: Arc<dyn Service>, changes: Arc<Changes>) {
    let api = Arc::new(Api::new(service, changes));
    loop {
        let accepted = match &listener {
            Listener::Unix(listener) => listener.accept().await.map(|(stream, _)| {
                let peer = user_of(&stream);
                tokio::spawn(connection::run(stream, peer, Arc::clone(&api)));
            }),
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, peer)| {
                // Answers are written whole: waiting to fill a segment only delays them.
                let _ = stream.set_nodelay(true);
                tokio::spawn(connection::run(stream, peer.to_string(), Arc::clone(&api)));
            }),
        };
        if accepted.is_err() {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// The user at the other end, whom the kernel knows.
fn user_of(stream: &tokio::net::UnixStream) -> String {
    match stream.peer_cred() {
        Ok(credentials) => match tutti_sys::credentials::user_name(credentials.uid()) {
            Some(name) => format!("{name} (uid {})", credentials.uid()),
            None => format!("uid {}", credentials.uid()),
        },
        Err(_) => "unknown".to_owned(),
    }
}
