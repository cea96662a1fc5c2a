//! A UDP socket: receives batches of datagrams with their addresses and ECN marks, and sends batches that the kernel or the card
//! segments.
//!
//! Must never: block, or forget a task that waits for room.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::io::Errno;
use rustix::net::sockopt::{
    Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery, set_ip_mtu_discover, set_ipv6_mtu_discover,
};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::counters::{note_received, note_sent};
use crate::listener::canonical;
use crate::socket::watch;

/// Segmented batches received in one call.
const BATCH: usize = 8;

/// The longest batch: the largest datagram (udp(7)).
const TRAIN_BYTES: usize = 64 * 1024;

/// Bytes that the kernel accepts in one call: the largest payload of IPv4. It refuses a longer batch whole, however it would be segmented.
const MOST_SENT: usize = 65_535 - 20 - 8;

/// A received datagram.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Its sender.
    pub from: SocketAddr,
    /// The address of this machine to which it was sent.
    pub to: Option<IpAddr>,
    /// The ECN mark (RFC 3168).
    pub ecn: Option<u8>,
    /// Its bytes.
    pub bytes: &'a [u8],
}

/// Datagrams to be sent.
#[derive(Debug)]
pub struct Train<'a> {
    /// The destination.
    pub to: SocketAddr,
    /// The address of this machine to send from.
    pub from: Option<IpAddr>,
    /// The ECN mark.
    pub ecn: Option<u8>,
    /// All datagrams, one after the other.
    pub bytes: &'a [u8],
    /// The length of each but the last, if there are several.
    pub each: Option<usize>,
}

/// The socket, watched.
pub struct UdpSocket {
    io: AsyncFd<Arc<OwnedFd>>,
    state: UdpSocketState,
    room: Vec<u8>,
}

impl UdpSocket {
    /// Registers a socket with the thread's event loop.
    pub fn new(socket: Arc<OwnedFd>) -> io::Result<Self> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        Ok(Self {
            io: watch(socket, Interest::READABLE | Interest::WRITABLE)?,
            state,
            room: vec![0; BATCH * TRAIN_BYTES],
        })
    }

    /// The same for datagrams of any protocol, which are sent in fragments if they are longer than the path permits.
    pub fn with_fragments(socket: Arc<OwnedFd>) -> io::Result<Self> {
        let this = Self::new(socket)?;
        // It applies to the family of the socket only; the other call fails.
        let _ = set_ip_mtu_discover(this.io.get_ref(), Ipv4PathMtuDiscovery::WANT);
        let _ = set_ipv6_mtu_discover(this.io.get_ref(), Ipv6PathMtuDiscovery::WANT);
        Ok(this)
    }

    /// Number of datagrams of `length` bytes that fit one batch.
    pub fn longest_train(&self, length: u16) -> usize {
        let most = MOST_SENT / usize::from(length.max(1));
        self.state.max_gso_segments().min(most).max(1)
    }

    /// True if datagrams are never fragmented: then lost ones show the path MTU.
    pub fn keeps_datagrams_whole(&self) -> bool {
        !self.state.may_fragment()
    }

    /// Receives one batch, and passes each datagram to `each`.
    pub fn poll_receive(
        &mut self,
        cx: &mut Context<'_>,
        mut each: impl FnMut(Datagram<'_>),
    ) -> Poll<io::Result<()>> {
        let mut metas = [RecvMeta::default(); BATCH];
        let count = loop {
            let Poll::Ready(ready) = self.io.poll_read_ready(cx) else {
                return Poll::Pending;
            };
            let mut guard = ready?;
            let mut rooms: Vec<IoSliceMut<'_>> = self
                .room
                .chunks_exact_mut(TRAIN_BYTES)
                .map(IoSliceMut::new)
                .collect();
            let socket = UdpSockRef::from(self.io.get_ref());
            match self.state.recv(socket, &mut rooms, &mut metas) {
                Ok(count) => break count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => guard.clear_ready(),
                // A router on the way reports this about a datagram that was sent (ip(7)): it means nothing for the socket.
                Err(error) if is_of_one_datagram(&error) => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        };
        for (meta, room) in metas
            .iter()
            .zip(self.room.chunks_exact(TRAIN_BYTES))
            .take(count)
        {
            let bytes = room.get(..meta.len).unwrap_or_default();
            note_received(bytes.len());
            let datagram = |bytes| Datagram {
                from: canonical(meta.addr),
                to: meta.dst_ip,
                ecn: meta.ecn.map(|ecn| ecn as u8),
                bytes,
            };
            if bytes.is_empty() {
                each(datagram(bytes));
            }
            for piece in bytes.chunks(meta.stride.max(1)) {
                each(datagram(piece));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Sends a batch; false if the socket is full. A batch that cannot be sent at all counts as lost, which users of UDP expect.
    pub fn try_send(&self, train: &Train<'_>) -> bool {
        let transmit = Transmit {
            destination: train.to,
            ecn: train.ecn.and_then(EcnCodepoint::from_bits),
            contents: train.bytes,
            segment_size: train.each,
            src_ip: train.from,
        };
        let outcome = self.io.try_io(Interest::WRITABLE, |socket| {
            self.state.try_send(UdpSockRef::from(socket), &transmit)
        });
        match outcome {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
            Ok(()) => note_sent(train.bytes.len()),
            Err(_) => {}
        }
        true
    }

    /// Ready when the socket may have room.
    pub fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.io.poll_write_ready(cx).map(|_| ())
    }
}

fn is_of_one_datagram(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(
        errno,
        Some(
            Errno::INTR
                | Errno::CONNREFUSED
                | Errno::HOSTUNREACH
                | Errno::NETUNREACH
                | Errno::HOSTDOWN
                | Errno::NETDOWN
                | Errno::MSGSIZE
                | Errno::CONNRESET
                | Errno::PERM
        )
    )
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as Peer;

    use super::*;

    /// A batch counts as sent if the kernel refuses it, so this checks that it arrives.
    #[tokio::test]
    async fn the_longest_train_arrives() {
        for (own, peer) in [("127.0.0.1:0", "127.0.0.1:0"), ("[::1]:0", "[::1]:0")] {
            let peer = Peer::bind(peer).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size(&peer, 1 << 20).unwrap();
            let own = Peer::bind(own).unwrap();
            own.set_nonblocking(true).unwrap();
            let socket = UdpSocket::new(Arc::new(own.into())).unwrap();
            for length in [1200, 1452, 8000, 65_000] {
                let count = socket.longest_train(length);
                let bytes = vec![7; usize::from(length) * count];
                let train = Train {
                    to: peer.local_addr().unwrap(),
                    from: None,
                    ecn: None,
                    bytes: &bytes,
                    each: (count > 1).then_some(usize::from(length)),
                };
                while !socket.try_send(&train) {
                    std::future::poll_fn(|cx| socket.poll_room(cx)).await;
                }
                peer.set_read_timeout(Some(std::time::Duration::from_secs(10)))
                    .unwrap();
                let mut room = vec![0; 1 << 16];
                for number in 0..count {
                    let come = peer.recv(&mut room);
                    assert_eq!(
                        come.ok(),
                        Some(length.into()),
                        "{number} of {count} × {length}"
                    );
                }
            }
        }
    }
}
