//! Listening sockets: binding, sharing a port between threads, stale unix sockets.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::error::context;
use crate::guarded;

/// Where to listen.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SocketName {
    /// An IPv4 or IPv6 address and port.
    Inet(SocketAddr),
    /// A socket in the file system.
    Path(PathBuf),
    /// A socket in the kernel's own name space.
    Abstract(Vec<u8>),
}

/// Options of a listening socket.
#[derive(Debug, Clone, Copy)]
pub struct ListenOptions {
    /// Longest queue of connections not yet accepted.
    pub backlog: i32,
    /// Allow further sockets on the same port (`SO_REUSEPORT`), each with its own queue.
    pub share_port: bool,
    /// For `[::]`: take IPv4 too. Without it an IPv6 socket is IPv6 only.
    pub dual_stack: bool,
    /// Mode of a socket in the file system.
    pub mode: Option<u32>,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        // 511: the `backlog` of NGINX Unit's reference (Linux), which nginx has too.
        ListenOptions {
            backlog: 511,
            share_port: false,
            dual_stack: false,
            mode: None,
        }
    }
}

impl std::fmt::Display for SocketName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SocketName::Inet(address) => write!(f, "{address}"),
            SocketName::Path(path) => write!(f, "unix:{}", path.display()),
            SocketName::Abstract(name) => write!(f, "unix:@{}", String::from_utf8_lossy(name)),
        }
    }
}

/// Binds and listens; the socket is close-on-exec and non-blocking.
///
/// A stale socket file, at which no process listens, is replaced; one that answers gives `AddrInUse`.
pub fn listen(endpoint: &SocketName, options: ListenOptions) -> io::Result<OwnedFd> {
    let socket = match endpoint {
        SocketName::Inet(address) => inet(*address, options)?,
        SocketName::Path(path) => unix_path(path, options)?,
        SocketName::Abstract(name) => {
            let address = std::os::unix::net::SocketAddr::from_abstract_name(name)?;
            let socket = unix_socket()?;
            let address = unix_address(&address)?;
            socket
                .bind(&address)
                .map_err(|e| context(format!("binding to `{endpoint}`"), e))?;
            socket
        }
    };
    socket
        .listen(options.backlog)
        .map_err(|e| context(format!("listening on `{endpoint}`"), e))?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Takes a listening socket that another program has made, and makes it non-blocking. Returns where it listens.
///
/// # Errors
/// When it is not a stream socket that listens, or listens at none of the places of [`Endpoint`].
pub fn adopt(socket: &OwnedFd) -> io::Result<SocketName> {
    let socket = SockRef::from(socket);
    let unfit = |what: &str| io::Error::new(io::ErrorKind::InvalidInput, what.to_owned());
    if socket.r#type()? != Type::STREAM || !socket.is_listener()? {
        return Err(unfit("it is not a stream socket that listens"));
    }
    socket.set_nonblocking(true)?;
    let address = socket.local_addr()?;
    if let Some(address) = address.as_socket() {
        return Ok(SocketName::Inet(address));
    }
    if let Some(path) = address.as_pathname() {
        return Ok(SocketName::Path(path.to_path_buf()));
    }
    let name = address.as_abstract_namespace();
    name.map(|name| SocketName::Abstract(name.to_vec()))
        .ok_or_else(|| unfit("its address is not of a kind that can be listened on"))
}

/// Allows or forbids further sockets on the port of this one, as `share_port` does when it is made.
pub fn set_port_sharing(socket: &OwnedFd, is_shared: bool) -> io::Result<()> {
    rustix::net::sockopt::set_socket_reuseport(socket, is_shared)
        .map_err(|e| context("changing the sharing of a port", e))
}

/// Changes the backlog of a socket that listens already.
pub fn set_backlog(socket: &OwnedFd, backlog: i32) -> io::Result<()> {
    rustix::net::listen(socket, backlog).map_err(|e| context("changing the backlog", e))
}

fn inet(address: SocketAddr, options: ListenOptions) -> io::Result<Socket> {
    let named = |e| context(format!("binding to `{address}`"), e);
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None).map_err(named)?;
    socket.set_reuse_address(true).map_err(named)?;
    if options.share_port {
        socket.set_reuse_port(true).map_err(named)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(!options.dual_stack).map_err(named)?;
    }
    socket.bind(&address.into()).map_err(named)?;
    Ok(socket)
}

fn unix_socket() -> io::Result<Socket> {
    Socket::new(Domain::UNIX, Type::STREAM, None).map_err(|e| context("creating a unix socket", e))
}

fn unix_address(address: &std::os::unix::net::SocketAddr) -> io::Result<SockAddr> {
    if let Some(path) = address.as_pathname() {
        return SockAddr::unix(path);
    }
    let mut bytes = vec![0u8];
    bytes.extend_from_slice(address.as_abstract_name().unwrap_or_default());
    SockAddr::unix(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&bytes))
}

fn unix_path(path: &Path, options: ListenOptions) -> io::Result<Socket> {
    let named = |e| context(format!("binding to `unix:{}`", path.display()), e);
    let socket = unix_socket()?;
    let address = SockAddr::unix(path).map_err(named)?;
    let bound = match bind_with_mode(&socket, &address, options.mode) {
        Err(e) if e.kind() == io::ErrorKind::AddrInUse && is_stale(path) => {
            guarded::named(path)
                .and_then(|name| name.remove_socket())
                .map_err(named)?;
            bind_with_mode(&socket, &address, options.mode)
        }
        bound => bound,
    };
    bound.map_err(named)?;
    Ok(socket)
}

/// The file has its mode from the start, and never by its name: in a folder of another user the name may mean another file
/// by then. The mode is that of the socket less the mask (unix(7) does not say it; `unix_bind` does).
fn bind_with_mode(socket: &Socket, address: &SockAddr, mode: Option<u32>) -> io::Result<()> {
    let Some(mode) = mode else {
        return socket.bind(address);
    };
    rustix::fs::fchmod(socket, rustix::fs::Mode::from_raw_mode(mode))?;
    let former = crate::process::set_umask(0);
    let bound = socket.bind(address);
    crate::process::set_umask(former);
    bound
}

/// True if `path` is a socket at which no process listens.
pub fn is_stale(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    is_socket
        && matches!(UnixStream::connect(path), Err(e) if e.kind() == io::ErrorKind::ConnectionRefused)
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use tutti_testkit::wait_until;

    use super::*;

    #[test]
    fn a_port_can_be_shared_only_when_asked() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let options = ListenOptions {
            share_port: true,
            ..ListenOptions::default()
        };
        let first = TcpListener::from(listen(&SocketName::Inet(any), options).unwrap());
        let same = SocketName::Inet(first.local_addr().unwrap());
        let _second = listen(&same, options).unwrap();
        let error = listen(&same, ListenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert!(error.to_string().contains(&same.to_string()), "{error}");
        TcpStream::connect(first.local_addr().unwrap()).unwrap();
    }

    #[test]
    fn stale_socket_is_replaced_and_a_live_one_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let endpoint = SocketName::Path(folder.path().join("s"));
        let first = listen(&endpoint, ListenOptions::default()).unwrap();
        assert_eq!(
            listen(&endpoint, ListenOptions::default())
                .unwrap_err()
                .kind(),
            io::ErrorKind::AddrInUse
        );
        drop(first);
        let options = ListenOptions {
            mode: Some(0o600),
            ..ListenOptions::default()
        };
        // A child that another test has just forked holds the first one until it executes its program.
        let mut second = None;
        wait_until("the stale socket is replaced", || {
            second = listen(&endpoint, options).ok();
            second.is_some()
        });
        UnixStream::connect(folder.path().join("s")).unwrap();
        let mode = folder.path().join("s").metadata().unwrap().permissions();
        assert_eq!(
            std::os::unix::fs::PermissionsExt::mode(&mode) & 0o777,
            0o600
        );
    }

    #[test]
    fn a_plain_file_is_never_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("precious");
        std::fs::write(&path, "data").unwrap();
        assert!(listen(&SocketName::Path(path.clone()), ListenOptions::default()).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"data");
    }

    #[test]
    fn a_socket_made_by_another_gives_where_it_listens() {
        let folder = tempfile::tempdir().unwrap();
        let name = format!("tutti-sys-adopted-{}", std::process::id()).into_bytes();
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = SocketName::Inet(port.local_addr().unwrap());
        assert_eq!(adopt(&port.into()).unwrap(), address);
        for endpoint in [
            SocketName::Path(folder.path().join("s")),
            SocketName::Abstract(name),
        ] {
            let socket = listen(&endpoint, ListenOptions::default()).unwrap();
            assert_eq!(adopt(&socket).unwrap(), endpoint);
        }
        let (one, _other) = UnixStream::pair().unwrap();
        let datagrams = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        for unfit in [OwnedFd::from(one), OwnedFd::from(datagrams)] {
            assert!(adopt(&unfit).is_err());
        }
    }

    #[test]
    fn abstract_name_works() {
        let name = format!("tutti-sys-test-{}", std::process::id()).into_bytes();
        let _socket = listen(
            &SocketName::Abstract(name.clone()),
            ListenOptions::default(),
        )
        .unwrap();
        let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
        UnixStream::connect_addr(&address).unwrap();
    }
}
