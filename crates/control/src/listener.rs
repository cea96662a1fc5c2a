//! The control socket: a UNIX or TCP listener that main has bound.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tutti_protocol::{ControlAccess, Token};

use crate::access;
use crate::api::Api;
use crate::change::Changes;
use crate::connection::{self, Caller, Scope};
use crate::service::Service;

/// Pause when the process has run out of descriptors, which accept(2) then reports repeatedly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A bound and listening socket, and its access rules.
#[derive(Debug)]
pub struct ControlListener {
    socket: Socket,
    access: Arc<ControlAccess>,
}

#[derive(Debug)]
enum Socket {
    /// `unix:/path`
    Path(UnixListener),
    /// `unix:@name`
    Abstract(UnixListener),
    /// `127.0.0.1:8443`
    Tcp(TcpListener),
    /// The socket for routers, whose name only routers get.
    Status(UnixListener),
}

impl ControlListener {
    /// Takes over a listening socket that main passed. Must be called on the runtime that will serve it.
    ///
    /// # Errors
    /// The system rejects the descriptor; `PermissionDenied` for TCP without a token.
    pub fn from_fd(fd: OwnedFd, access: ControlAccess) -> io::Result<ControlListener> {
        let address = rustix::net::getsockname(&fd)?;
        let socket = if address.address_family() == rustix::net::AddressFamily::UNIX {
            let listener = std::os::unix::net::UnixListener::from(fd);
            listener.set_nonblocking(true)?;
            let has_path = listener.local_addr()?.as_pathname().is_some();
            let listener = UnixListener::from_std(listener)?;
            if has_path {
                Socket::Path(listener)
            } else {
                Socket::Abstract(listener)
            }
        } else {
            if access.token.is_none() {
                return Err(io::Error::new(
                    io::ErrorKind::PermissionDenied,
                    "it is a TCP port without a token",
                ));
            }
            let listener = std::net::TcpListener::from(fd);
            listener.set_nonblocking(true)?;
            Socket::Tcp(TcpListener::from_std(listener)?)
        };
        Ok(ControlListener {
            socket,
            access: Arc::new(access),
        })
    }

    /// Takes over the listening socket on which routers of this user read the status; their clients send the token, if
    /// there is one. Must be called on the runtime that will serve it.
    pub fn of_status(fd: OwnedFd, token: Option<Token>) -> io::Result<ControlListener> {
        let listener = std::os::unix::net::UnixListener::from(fd);
        listener.set_nonblocking(true)?;
        let access = ControlAccess {
            users: vec![tutti_sys::credentials::current_user()],
            groups: Vec::new(),
            token,
        };
        Ok(ControlListener {
            socket: Socket::Status(UnixListener::from_std(listener)?),
            access: Arc::new(access),
        })
    }
}

/// Serves the API forever, one task per connection. A later call for the same server passes the same `changes`.
pub async fn serve(listener: ControlListener, service: Arc<dyn Service>, changes: Arc<Changes>) {
    let api = Arc::new(Api::new(service, changes));
    let access = listener.access;
    loop {
        let accepted = match &listener.socket {
            Socket::Path(socket) => socket.accept().await.map(|(stream, _)| {
                let mut caller = Caller::new(user_of(&stream), &access);
                caller.scope = scope_of(&stream);
                tokio::spawn(connection::run(stream, caller, Arc::clone(&api)));
            }),
            Socket::Abstract(socket) => socket.accept().await.map(|(stream, _)| {
                let mut caller = Caller::new(user_of(&stream), &access);
                caller.scope = scope_of(&stream);
                caller.refusal = access::check_peer(&caller.access, &stream, &caller.name).err();
                tokio::spawn(connection::run(stream, caller, Arc::clone(&api)));
            }),
            Socket::Status(socket) => socket.accept().await.map(|(stream, _)| {
                let mut caller = Caller::new(user_of(&stream), &access);
                caller.scope = Scope::Status;
                caller.refusal = access::check_peer(&caller.access, &stream, &caller.name).err();
                tokio::spawn(connection::run(stream, caller, Arc::clone(&api)));
            }),
            Socket::Tcp(socket) => socket.accept().await.map(|(stream, peer)| {
                // Responses are written whole: waiting to fill a segment only delays them.
                let _ = stream.set_nodelay(true);
                let caller = Caller::new(peer.to_string(), &access);
                tokio::spawn(connection::run(stream, caller, Arc::clone(&api)));
            }),
        };
        if accepted.is_err() {
            tokio::time::sleep(ACCEPT_PAUSE).await;
        }
    }
}

/// A `proxy` to the control socket must not give clients of a listener control of the server, whichever user the router
/// runs as.
fn scope_of(stream: &tokio::net::UnixStream) -> Scope {
    match access::is_router(stream) {
        true => Scope::Status,
        false => Scope::Everything,
    }
}

/// Returns the user at the other end, as the kernel reports it.
fn user_of(stream: &tokio::net::UnixStream) -> String {
    match stream.peer_cred() {
        Ok(credentials) => match tutti_sys::credentials::user_name(credentials.uid()) {
            Some(name) => format!("{name} (uid {})", credentials.uid()),
            None => format!("uid {}", credentials.uid()),
        },
        Err(_) => "unknown".to_owned(),
    }
}
