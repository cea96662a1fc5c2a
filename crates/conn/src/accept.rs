//! Accepts connections from a listening socket in batches.
//!
//! Must never: report an error of one connection as one of the listener.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SocketFlags;

use crate::listener::{Accepted, ListenerHold, Peer, SharedListener};

/// Most connections of one batch: then other tasks of the thread get a turn.
const BATCH: usize = 32;

/// Why a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Batch {
    /// No connection is waiting.
    Empty,
    /// There may be more.
    Full,
    /// The listener has reached its limit of connections: others stay in the kernel's queue.
    Held,
    /// The system has run out of a resource, such as descriptors: connections stay in the kernel's queue.
    Lacking(Errno),
}

/// Accepts connections that wait on `socket`, which belongs to the listener, and passes each to `serve`.
pub fn accept_batch(
    listener: &Arc<SharedListener>,
    socket: &OwnedFd,
    mut serve: impl FnMut(Accepted),
) -> Batch {
    for _ in 0..BATCH {
        let Some(hold) = ListenerHold::of_connection(listener) else {
            return Batch::Held;
        };
        match rustix::net::acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, address)) => serve(Accepted {
                socket,
                peer: Peer::of(address),
                listener: hold,
            }),
            Err(Errno::AGAIN) => return Batch::Empty,
            // accept(2): pending network errors of the new connection are reported here, and should be treated like EAGAIN.
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

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_batch_ends_when_no_connection_waits_and_when_it_is_full() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        listening.set_nonblocking(true).unwrap();
        let address = listening.local_addr().unwrap();
        let listener = SharedListener::new("127.0.0.1:0", 1, listening.into(), 1);
        let socket = listener.socket().unwrap();
        let clients: Vec<TcpStream> = (0..BATCH + 1)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let mut accepted = Vec::new();
        let mut batch = || accept_batch(&listener, &socket, |one| accepted.push(one));
        assert_eq!(batch(), Batch::Full);
        assert_eq!(batch(), Batch::Empty);
        assert_eq!(accepted.len(), clients.len());
        for client in &clients {
            let here = client.local_addr().ok();
            assert!(accepted.iter().any(|one| one.peer.address() == here));
        }
        assert!(listener.is_used());
        accepted.clear();
        assert!(!listener.is_used());
    }

    #[test]
    fn connections_beyond_the_bound_wait_until_there_is_room() {
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        listening.set_nonblocking(true).unwrap();
        let address = listening.local_addr().unwrap();
        let listener = SharedListener::new("127.0.0.1:0", 1, listening.into(), 1);
        listener.bounds.set(Some(2), None);
        let socket = listener.socket().unwrap();
        let _clients: Vec<TcpStream> = (0..4)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let mut accepted = Vec::new();
        let batch =
            |accepted: &mut Vec<_>| accept_batch(&listener, &socket, |one| accepted.push(one));
        assert_eq!(batch(&mut accepted), Batch::Held);
        assert_eq!(accepted.len(), 2);
        accepted.pop();
        assert_eq!(batch(&mut accepted), Batch::Held);
        assert_eq!(accepted.len(), 2);
        listener.bounds.set(None, None);
        assert_eq!(batch(&mut accepted), Batch::Empty);
        assert_eq!(accepted.len(), 3);
        accepted.clear();
        listener.bounds.set(Some(1), None);
        listener.close();
        let _late = TcpStream::connect(address).unwrap();
        let _later = TcpStream::connect(address).unwrap();
        assert_eq!(batch(&mut accepted), Batch::Empty);
        assert_eq!(
            accepted.len(),
            2,
            "a closing listener takes all waiting connections"
        );
    }
}
