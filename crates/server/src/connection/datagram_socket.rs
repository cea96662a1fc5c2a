//! A UDP socket of a listener with a `stream`, as its endpoint and its sessions share it on one thread.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tutti_conn::counters::DatagramDrop;
use tutti_conn::listener::SharedListener;
use tutti_conn::udp::{Train, UdpSocket};

/// Bytes of datagrams that all sessions of a socket may hold for servers that have not answered.
pub(crate) const HELD_BYTES: usize = 4 * 1024 * 1024;

/// The longest datagram.
const LONGEST: usize = 65_536;

/// The identity of a session: the client, and the address that it sends to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    pub(crate) client: SocketAddr,
    pub(crate) local: Option<IpAddr>,
}

/// The socket, and what its sessions share.
pub(crate) struct DatagramSocket {
    pub(crate) listener: Arc<SharedListener>,
    /// The endpoint receives on it, sessions send.
    pub(crate) socket: RefCell<UdpSocket>,
    /// Room for a datagram of a server.
    pub(crate) room: RefCell<Vec<u8>>,
    /// Bytes that sessions hold.
    held: Cell<usize>,
}

impl DatagramSocket {
    /// Registers the socket with the thread's event loop.
    pub(crate) fn new(listener: &Arc<SharedListener>, socket: &Arc<OwnedFd>) -> io::Result<Self> {
        Ok(Self {
            listener: Arc::clone(listener),
            socket: RefCell::new(UdpSocket::with_fragments(Arc::clone(socket))?),
            room: RefCell::new(vec![0; LONGEST]),
            held: Cell::new(0),
        })
    }

    /// Sends a datagram to the client of a session, from the address that it sends to.
    pub(crate) fn answer(&self, key: SessionKey, bytes: &[u8]) {
        let train = Train {
            to: key.client,
            from: key.local,
            ecn: None,
            bytes,
            each: None,
        };
        if !self.socket.borrow().try_send(&train) {
            self.note_dropped(DatagramDrop::Unsent);
        }
    }

    /// Counts a datagram that is dropped.
    pub(crate) fn note_dropped(&self, reason: DatagramDrop) {
        self.listener.counters.streams.note_dropped(reason);
    }

    /// Reserves room for bytes that a session holds; false: there is none.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        let after = self.held.get().saturating_add(bytes);
        let has_room = after <= HELD_BYTES;
        if has_room {
            self.held.set(after);
        }
        has_room
    }

    /// Releases such room.
    pub(crate) fn release(&self, bytes: usize) {
        self.held.set(self.held.get().saturating_sub(bytes));
    }
}
