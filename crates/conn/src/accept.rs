//! Accepts connections from a listening socket in batches.
//!
//! Must never: report an error of one connection as one of the listener.

use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::SocketFlags;
use tutti_sys::proc::open_files_limit;
pub use tutti_sys::remedy;

use crate::listener::{Accepted, ListenerHold, Peer, SharedListener};

/// Most connections of one batch: then other tasks of the thread get a turn.
const BATCH: usize = 32;

/// Most descriptors that connections leave unused: with a limit below 2,048 it is an eighth of the limit, and never more than half of
/// those that were unused when the listener began.
const MOST_RESERVED: u64 = 256;

/// The number from which on a descriptor is not for an accepted connection.
///
/// The kernel gives each new descriptor the lowest unused number (open(2)), so a number tells how many are in use. The rest is for
/// what is needed to serve the connections: files, connections to upstreams, and the descriptors that main sends.
#[derive(Clone, Copy, Debug)]
pub struct DescriptorCeiling(RawFd);

impl DescriptorCeiling {
    /// No ceiling: connections may use all descriptors.
    pub const NONE: DescriptorCeiling = DescriptorCeiling(RawFd::MAX);

    /// Returns the ceiling for a listener that begins now; `any` is a descriptor to duplicate.
    pub fn of_now(any: &OwnedFd) -> DescriptorCeiling {
        match any.try_clone() {
            Ok(newest) => DescriptorCeiling::below(open_files_limit(), &newest),
            Err(_) => DescriptorCeiling::NONE,
        }
    }

    /// `newest`: the descriptor that was opened last.
    fn below(limit: Option<u64>, newest: &impl AsRawFd) -> DescriptorCeiling {
        let Some(limit) = limit else {
            return DescriptorCeiling::NONE;
        };
        let unused = limit.saturating_sub(u64::from(newest.as_raw_fd().unsigned_abs()));
        let ceiling = limit - MOST_RESERVED.min(limit / 8).min(unused / 2);
        DescriptorCeiling(RawFd::try_from(ceiling).unwrap_or(RawFd::MAX))
    }

    fn is_reached_by(self, descriptor: &OwnedFd) -> bool {
        descriptor.as_raw_fd() >= self.0
    }

    /// True if there is a descriptor below the ceiling; finds out by duplicating one.
    pub fn has_room(self, any: &OwnedFd) -> bool {
        any.try_clone().is_ok_and(|copy| !self.is_reached_by(&copy))
    }
}

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

/// Accepts connections that wait on `socket`, which belongs to the listener, and passes each to `serve`, until one reaches the ceiling.
pub fn accept_batch(
    listener: &Arc<SharedListener>,
    socket: &OwnedFd,
    ceiling: DescriptorCeiling,
    mut serve: impl FnMut(Accepted),
) -> Batch {
    for _ in 0..BATCH {
        let Some(hold) = ListenerHold::of_connection(listener) else {
            return Batch::Held;
        };
        match rustix::net::acceptfrom_with(socket, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC) {
            Ok((socket, address)) => {
                let is_last = ceiling.is_reached_by(&socket);
                serve(Accepted {
                    socket,
                    peer: Peer::of(address),
                    listener: hold,
                });
                if is_last {
                    return Batch::Lacking(Errno::MFILE);
                }
            }
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
        let ceiling = DescriptorCeiling::NONE;
        let mut batch = || accept_batch(&listener, &socket, ceiling, |one| accepted.push(one));
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
        let ceiling = DescriptorCeiling::NONE;
        let batch = |accepted: &mut Vec<_>| {
            accept_batch(&listener, &socket, ceiling, |one| accepted.push(one))
        };
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

    #[test]
    fn connections_leave_a_reserve_of_descriptors() {
        let ceiling = |limit, newest: RawFd| DescriptorCeiling::below(limit, &newest).0;
        assert_eq!(ceiling(Some(160), 30), 140);
        assert_eq!(ceiling(Some(160), 150), 155);
        assert_eq!(ceiling(Some(1 << 20), 30), (1 << 20) - 256);
        assert_eq!(ceiling(None, 30), RawFd::MAX);
        let listening = TcpListener::bind("127.0.0.1:0").unwrap();
        listening.set_nonblocking(true).unwrap();
        let address = listening.local_addr().unwrap();
        let listener = SharedListener::new("127.0.0.1:0", 1, listening.into(), 1);
        let socket = listener.socket().unwrap();
        let _clients: Vec<TcpStream> = (0..2)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        let mut accepted = Vec::new();
        let low = DescriptorCeiling(0);
        assert!(!low.has_room(&socket) && DescriptorCeiling::NONE.has_room(&socket));
        let batch = accept_batch(&listener, &socket, low, |one| accepted.push(one));
        assert_eq!(batch, Batch::Lacking(Errno::MFILE));
        assert_eq!(accepted.len(), 1, "the one that reaches it is served");
    }
}
