//! Listening sockets and accepted connections: shared by all threads, kept from one configuration to the next.
//!
//! `TCP_NODELAY` is set on the listening socket and inherited, which saves a call per connection. Must never: keep a socket open that
//! is no longer part of the configuration.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::net::SocketAddrAny;

use crate::connection_limits::{ClientKey, ConnectionLimits};
use crate::counters::ListenerCounters;

/// UDP sockets that share an address, in the kernel's order.
pub type DatagramSockets = Arc<[Arc<OwnedFd>]>;

/// The sockets of a listener.
#[derive(Debug)]
enum Sockets {
    /// It is closing, or gets its connections from the server itself.
    None,
    /// It accepts connections.
    Listening(Arc<OwnedFd>),
    /// It receives datagrams.
    Datagrams(DatagramSockets),
}

/// A listening socket, shared by all threads. It outlives the configurations that name it.
#[derive(Debug)]
pub struct SharedListener {
    /// Name in the configuration: `*:8080`, `unix:/run/site.sock`.
    pub name: Box<str>,
    /// Identifies the listener; never reused.
    pub id: u64,
    /// None once it is closing: connections and sessions may outlive it, and requests keep its configuration, but no new client may connect,
    /// and the address must become free.
    sockets: Mutex<Sockets>,
    /// The address it is bound to; `None` for a unix socket.
    bound: Option<SocketAddr>,
    /// The address it is bound to, unless that is a wildcard.
    pub local: Option<SocketAddr>,
    /// No longer part of the configuration: its connections end with their current request.
    closing: AtomicBool,
    /// It receives datagrams instead of accepting connections.
    receives_datagrams: bool,
    /// Connections that depend on its configuration, and threads that may still accept some.
    connections: AtomicUsize,
    /// Limits on its connections.
    pub bounds: ConnectionLimits,
    /// Its counters.
    pub counters: ListenerCounters,
}

/// A hold on a listener: a connection's, from acceptance to its end; a thread's, until it has accepted all waiting connections.
#[derive(Debug)]
pub struct ListenerHold {
    listener: Arc<SharedListener>,
    /// Counted in the limits of the listener, in all and perhaps for a client.
    counted: Option<Option<ClientKey>>,
    /// The connection does not depend on the configuration of the listener any more.
    is_independent: Cell<bool>,
}

impl ListenerHold {
    /// Holds on to `listener`.
    pub fn new(listener: &Arc<SharedListener>) -> Self {
        listener.connections.fetch_add(1, Ordering::Relaxed);
        Self {
            listener: Arc::clone(listener),
            counted: None,
            is_independent: Cell::new(false),
        }
    }

    /// Counts the connection as one that is only passed on, until the result is dropped. It has all that it needs: the configuration of
    /// its listener is not kept for it.
    pub fn count_stream(&self) -> OpenStream {
        // In this order, so that a removed listener never seems to be without connections.
        let open = OpenStream::new(&self.listener);
        self.set_independent();
        open
    }

    fn set_independent(&self) {
        if !self.is_independent.replace(true) {
            self.listener.connections.fetch_sub(1, Ordering::Release);
        }
    }

    /// The hold of a connection; `None`: the limit is reached. A closing listener accepts all waiting connections: no thread will do it
    /// later.
    pub fn of_connection(listener: &Arc<SharedListener>) -> Option<Self> {
        if listener.is_closing() {
            listener.bounds.force();
        } else if !listener.bounds.enter() {
            return None;
        }
        let mut hold = Self::new(listener);
        hold.counted = Some(None);
        Some(hold)
    }

    /// Counts the connection for its client; false: the client's limit is reached.
    pub fn count_client(&mut self, client: ClientKey) -> bool {
        let has_room = self.listener.bounds.enter_client(client);
        if has_room && let Some(counted) = &mut self.counted {
            *counted = Some(client);
        }
        has_room
    }

    /// Another hold on the same listener.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(&self.listener)
    }

    /// Releases the hold; returns the listener.
    pub fn release(self) -> Arc<SharedListener> {
        Arc::clone(&self.listener)
    }
}

/// A connection or a session that is being passed on, in the counters of its listener.
#[derive(Debug)]
pub struct OpenStream(Arc<SharedListener>);

impl OpenStream {
    fn new(listener: &Arc<SharedListener>) -> Self {
        let open = &listener.counters.streams.open;
        open.fetch_add(1, Ordering::Release);
        Self(Arc::clone(listener))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let open = &self.0.counters.streams.open;
        open.fetch_sub(1, Ordering::Release);
    }
}

impl std::ops::Deref for ListenerHold {
    type Target = SharedListener;

    fn deref(&self) -> &SharedListener {
        &self.listener
    }
}

impl Drop for ListenerHold {
    fn drop(&mut self) {
        if let Some(client) = self.counted {
            if let Some(client) = client {
                self.listener.bounds.leave_client(client);
            }
            self.listener.bounds.leave();
        }
        self.set_independent();
    }
}

impl SharedListener {
    /// Takes a bound, listening, non-blocking socket, on which this many threads will accept.
    pub fn new(name: &str, id: u64, socket: OwnedFd, threads: usize) -> Arc<Self> {
        let bound = rustix::net::getsockname(&socket).ok().and_then(inet);
        if bound.is_some() {
            // Fails for other sockets than TCP.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        }
        Arc::new(Self {
            sockets: Mutex::new(Sockets::Listening(Arc::new(socket))),
            ..Self::at(name, id, bound, threads)
        })
    }

    /// Takes bound, non-blocking sockets that share an address, on which the threads receive datagrams.
    pub fn of_datagrams(name: &str, id: u64, sockets: Vec<OwnedFd>, threads: usize) -> Arc<Self> {
        let bound = sockets.first().map(rustix::net::getsockname);
        let bound = bound.and_then(Result::ok).and_then(inet);
        let sockets = sockets.into_iter().map(Arc::new).collect();
        Arc::new(Self {
            sockets: Mutex::new(Sockets::Datagrams(sockets)),
            receives_datagrams: true,
            ..Self::at(name, id, bound, threads)
        })
    }

    /// A listener without a socket: the server passes it connections of its own.
    pub fn without_socket(name: &str, id: u64, threads: usize) -> Arc<Self> {
        Arc::new(Self::at(name, id, None, threads))
    }

    fn at(name: &str, id: u64, bound: Option<SocketAddr>, threads: usize) -> Self {
        Self {
            name: name.into(),
            id,
            sockets: Mutex::new(Sockets::None),
            bound,
            local: bound.filter(|address| !address.ip().is_unspecified()),
            receives_datagrams: false,
            closing: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            bounds: ConnectionLimits::default(),
            counters: ListenerCounters::new(threads),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Sockets> {
        // They are only replaced as a whole.
        self.sockets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True if connections that came through it are open and depend on its configuration.
    pub fn is_used(&self) -> bool {
        self.connections.load(Ordering::Acquire) > 0
    }

    /// True if connections that came through it are open, including those that are only passed on.
    pub fn has_connections(&self) -> bool {
        self.is_used() || self.counters.streams.open.load(Ordering::Acquire) > 0
    }

    /// True if it receives datagrams instead of accepting connections.
    pub fn receives_datagrams(&self) -> bool {
        self.receives_datagrams
    }

    /// The socket on which it accepts connections, unless it is closing.
    pub fn socket(&self) -> Option<Arc<OwnedFd>> {
        match &*self.lock() {
            Sockets::Listening(socket) => Some(Arc::clone(socket)),
            Sockets::Datagrams(_) | Sockets::None => None,
        }
    }

    /// The sockets on which it receives datagrams, unless it is closing.
    pub fn datagrams(&self) -> Option<DatagramSockets> {
        match &*self.lock() {
            Sockets::Datagrams(sockets) => Some(Arc::clone(sockets)),
            Sockets::Listening(_) | Sockets::None => None,
        }
    }

    /// Closes it: it is no longer part of the configuration.
    pub fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        *self.lock() = Sockets::None;
    }

    /// True if it accepts TCP connections.
    pub fn is_inet(&self) -> bool {
        self.bound.is_some()
    }

    /// The address bound to, with the port that the kernel chose for port 0; `None` for unix sockets.
    pub fn bound_address(&self) -> Option<SocketAddr> {
        self.bound
    }

    /// The name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes the length of the kernel's queue, which is limited to the system's maximum (listen(2)).
    pub fn set_backlog(&self, backlog: i32) {
        // Calling listen again on a listening socket cannot fail.
        if let Some(socket) = self.socket() {
            let _ = rustix::net::listen(&*socket, backlog);
        }
    }

    /// True once it is no longer part of the configuration.
    pub fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub enum Peer {
    /// A program at an internet address.
    Inet(SocketAddr),
    /// A program on this machine, through a unix socket.
    Unix,
}

impl Peer {
    /// The peer at an address that `accept` gave.
    pub fn of(address: Option<SocketAddrAny>) -> Self {
        address.and_then(inet).map_or(Self::Unix, Self::Inet)
    }

    /// The address; `None` for a unix socket.
    pub fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(address),
            Self::Unix => None,
        }
    }
}

/// An internet address; an IPv4 address on an IPv6 socket becomes IPv4.
pub fn inet(address: SocketAddrAny) -> Option<SocketAddr> {
    SocketAddr::try_from(address).ok().map(canonical)
}

/// The same address, as IPv4 if it is a mapped one.
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip() {
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
            None => address,
        },
        IpAddr::V4(_) => address,
    }
}

/// A connection on its way to the thread that will serve it.
#[derive(Debug)]
pub struct Accepted {
    /// Its socket, non-blocking.
    pub socket: OwnedFd,
    /// The other end.
    pub peer: Peer,
    /// The listener it came through.
    pub listener: ListenerHold,
}
