//! Accepting: one task per listener and listen thread.
//!
//! All threads wait on the same listening socket, and a connection is served by the thread that accepted it unless that one holds
//! clearly more connections than another; then the descriptor is handed over. Measured against one `SO_REUSEPORT` socket per thread:
//! the kernel's hash leaves 64 connections unevenly spread over two threads, and changing the number of threads loses what waits
//! in a closed socket's queue. `TCP_NODELAY` is set on the listening socket and inherited, which saves a call per connection.
//!
//! Must never: stop accepting for good. Whatever `accept` says, the task goes on, after a pause where the system lacks something.

use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{SocketAddrAny, SocketFlags};
use tokio::io::Interest;
use tutti_pool::Level;

use crate::clock::{Millis, now_millis};
use crate::sender;
use crate::thread::Local;

/// Connections taken before other tasks of the thread get a turn.
const BATCH: usize = 32;

/// Pause after an error such as `EMFILE`: connections stay in the kernel's queue meanwhile.
const PAUSE: Duration = Duration::from_millis(100);

/// The same complaint is logged at most this often.
const COMPLAINT_INTERVAL: Millis = 60_000;

/// A listening socket as all threads share it. It outlives the configurations that name it.
#[derive(Debug)]
pub struct Listener {
    /// Name in the configuration: `*:8080`, `unix:/run/site.sock`.
    pub(crate) name: Box<str>,
    /// Identifies the listener to snapshots; never reused.
    pub(crate) id: u64,
    /// `None` once it is closing: connections may outlive it, but nobody may connect any more.
    socket: Mutex<Option<Arc<OwnedFd>>>,
    /// The address it is bound to; `None` of a unix socket.
    bound: Option<SocketAddr>,
    /// The address it is bound to, unless that is a wildcard.
    pub(crate) local: Option<SocketAddr>,
    /// No longer part of the configuration: its connections end with their current request.
    closing: AtomicBool,
}

impl Listener {
    /// Takes a bound, listening, non-blocking socket.
    pub(crate) fn new(name: &str, id: u64, socket: OwnedFd) -> Arc<Self> {
        let bound = rustix::net::getsockname(&socket).ok().and_then(inet);
        if bound.is_some() {
            // Fails for no stream socket of the internet families.
            let _ = rustix::net::sockopt::set_tcp_nodelay(&socket, true);
        }
        Arc::new(Self {
            name: name.into(),
            id,
            socket: Mutex::new(Some(Arc::new(socket))),
            bound,
            local: bound.filter(|address| !address.ip().is_unspecified()),
            closing: AtomicBool::new(false),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<OwnedFd>>> {
        // Only ever replaced as a whole.
        self.socket.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The socket, unless it is closing.
    fn socket(&self) -> Option<Arc<OwnedFd>> {
        self.lock().clone()
    }

    /// It is no longer part of the configuration.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Relaxed);
        *self.lock() = None;
    }

    /// It takes connections of the internet families.
    pub(crate) fn is_inet(&self) -> bool {
        self.bound.is_some()
    }

    /// The address bound to, with the port the kernel chose where 0 was asked for; `None` for unix sockets.
    pub fn bound_address(&self) -> Option<SocketAddr> {
        self.bound
    }

    /// The name in the configuration.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes the length of the kernel's queue; -1 is cut to the system's maximum (listen(2)).
    pub(crate) fn set_backlog(&self, backlog: Option<i32>) {
        // Calling listen again on a listening socket cannot fail.
        if let Some(socket) = self.socket() {
            let _ = rustix::net::listen(&*socket, backlog.unwrap_or(i32::MAX));
        }
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }
}

/// Who is at the other end.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    Inet(SocketAddr),
    Unix,
}

impl Peer {
    fn of(address: Option<SocketAddrAny>) -> Self {
        address.and_then(inet).map_or(Self::Unix, Self::Inet)
    }

    /// The address; `None` of a unix socket.
    pub(crate) fn address(self) -> Option<SocketAddr> {
        match self {
            Self::Inet(address) => Some(address),
            Self::Unix => None,
        }
    }

    /// Whether the client is on this machine, as far as its address tells.
    pub(crate) fn is_loopback(self) -> bool {
        match self {
            Self::Inet(address) => address.ip().is_loopback(),
            Self::Unix => true,
        }
    }
}

/// An internet address; an IPv4 address that came through an IPv6 socket is IPv4.
pub(crate) fn inet(address: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address).ok()?;
    Some(match address.ip() {
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(IpAddr::V4(ip), address.port()),
            None => address,
        },
        IpAddr::V4(_) => address,
    })
}

/// A connection on its way to the thread that will serve it.
pub(crate) struct Accepted {
    pub(crate) socket: OwnedFd,
    pub(crate) peer: Peer,
    pub(crate) listener: Arc<Listener>,
}

/// Accepts until the task is aborted.
pub(crate) async fn accept_forever(local: Rc<Local>, listener: Arc<Listener>) {
    let Some(socket) = listener.socket() else {
        return;
    };
    let socket = match sender::watch(socket, Interest::READABLE) {
        Ok(socket) => socket,
        Err(error) => {
            local.log(
                Level::Alert,
                &format!("cannot watch listener \"{}\": {error}", listener.name),
            );
            return;
        }
    };
    let complaint = Complaint::default();
    loop {
        let Ok(mut guard) = socket.readable().await else {
            return;
        };
        match accept_batch(&local, &listener, socket.get_ref()) {
            Batch::Empty => guard.clear_ready(),
            Batch::Full => tokio::task::yield_now().await,
            Batch::Lacking(errno) => {
                complaint.log(&local, &listener, errno);
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

enum Batch {
    /// Nobody waits any more.
    Empty,
    /// There may be more.
    Full,
    /// The system lacks something.
    Lacking(Errno),
}

fn accept_batch(local: &Rc<Local>, listener: &Arc<Listener>, socket: &OwnedFd) -> Batch {
    for _ in 0..BATCH {
        match rustix::net::acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, address)) => {
                local.counters().accepted.add(1);
                local.place(Accepted {
                    socket,
                    peer: Peer::of(address),
                    listener: Arc::clone(listener),
                });
            }
            Err(Errno::AGAIN) => return Batch::Empty,
            // accept(2): pending network errors of the new connection are passed on, to be treated like EAGAIN by retrying.
            Err(
                Errno::INTR
                | Errno::CONNABORTED
                | Errno::NETDOWN
                | Errno::PROTO
                | Errno::NOPROTOOPT
                | Errno::HOSTDOWN
                | Errno::HOSTUNREACH
                | Errno::OPNOTSUPP
                | Errno::NETUNREACH
                | Errno::PERM
                | Errno::TIMEDOUT,
            ) => {}
            Err(errno) => return Batch::Lacking(errno),
        }
    }
    Batch::Full
}

/// Rate limit of a log line.
#[derive(Default)]
struct Complaint {
    last: Cell<Option<Millis>>,
}

impl Complaint {
    fn log(&self, local: &Local, listener: &Listener, errno: Errno) {
        let now = now_millis();
        if self
            .last
            .get()
            .is_some_and(|last| now.saturating_sub(last) < COMPLAINT_INTERVAL)
        {
            return;
        }
        self.last.set(Some(now));
        let hint = match errno {
            Errno::MFILE => "; raise the limit of open files (LimitNOFILE, ulimit -n)",
            Errno::NFILE => "; raise fs.file-max",
            _ => "",
        };
        let message = format!(
            "cannot accept on \"{}\": {}; connections wait{hint}",
            listener.name,
            std::io::Error::from(errno)
        );
        local.log(Level::Alert, &message);
    }
}
