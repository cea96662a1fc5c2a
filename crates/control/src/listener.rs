//! The control socket: a UNIX or TCP listener that main has bound.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tutti_protocol::{ControlAccess, Token};

use crate::access;
use crate::api::Api;
use crate::change::Changes;
use crate::connection::{self, Caller, Scope};
use crate::open_connections::OpenConnections;
use crate::service::Service;

/// Maximum connections. Commands and monitors open a few.
const MOST_CONNECTIONS: usize = 256;

/// Those of the control socket outlive its listener: the response to an upgrade or a stop is sent after that has ended.
struct Outliving(OpenConnections);

impl Drop for Outliving {
    fn drop(&mut self) {
        self.0.detach();
    }
}

/// A connection with its requests.
type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

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
    let mut connections = Outliving(OpenConnections::new(MOST_CONNECTIONS));
    loop {
        tokio::select! {
            accepted = listener.accept(&api) => match accepted {
                Ok((is_known, connection)) => connections.0.add(is_known, connection),
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            () = connections.0.one_ended() => {}
        }
    }
}

impl ControlListener {
    /// The next connection; the flag is set when its client is known.
    async fn accept(&self, api: &Arc<Api>) -> io::Result<(Arc<AtomicBool>, Connection)> {
        let api = Arc::clone(api);
        let caller = |name| Caller::new(name, &self.access);
        match &self.socket {
            Socket::Path(socket) => {
                let (stream, _) = socket.accept().await?;
                let mut caller = caller(user_of(&stream));
                caller.scope = scope_of(&stream);
                // The mode of the file has admitted it.
                caller.is_known.store(true, Ordering::Relaxed);
                Ok(connection(stream, caller, api))
            }
            Socket::Abstract(socket) | Socket::Status(socket) => {
                let (stream, _) = socket.accept().await?;
                let mut caller = caller(user_of(&stream));
                caller.scope = match &self.socket {
                    Socket::Status(_) => Scope::Status,
                    _ => scope_of(&stream),
                };
                caller.refusal = access::check_peer(&caller.access, &stream, &caller.name).err();
                Ok(connection(stream, caller, api))
            }
            Socket::Tcp(socket) => {
                let (stream, peer) = socket.accept().await?;
                // Responses are written whole: waiting to fill a segment only delays them.
                let _ = stream.set_nodelay(true);
                Ok(connection(stream, caller(peer.to_string()), api))
            }
        }
    }
}

fn connection<S>(stream: S, caller: Caller, api: Arc<Api>) -> (Arc<AtomicBool>, Connection)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let is_known = Arc::clone(&caller.is_known);
    (is_known, Box::pin(connection::run(stream, caller, api)))
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
