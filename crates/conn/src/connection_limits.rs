//! Limits on the open connections of a listener: in all, and per client.
//!
//! A client is an IPv4 address or an IPv6 network of 64 bits, all addresses of which one client controls (RFC 6177). There is an entry only
//! for clients with counted connections.
//!
//! Must never: count a connection that has ended, or exceed the limit because another thread accepts at the same time.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The unit that counts as one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClientKey {
    /// An IPv4 address.
    V4([u8; 4]),
    /// A network of IPv6.
    V6([u8; 8]),
}

impl ClientKey {
    /// The client at an address.
    pub fn at(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.octets()),
            IpAddr::V6(address) => {
                let [a, b, c, d, e, f, g, h, ..] = address.octets();
                Self::V6([a, b, c, d, e, f, g, h])
            }
        }
    }

    /// Appends the key of the client at an address; a local client has none.
    pub fn write(address: Option<IpAddr>, key: &mut Vec<u8>) {
        match address {
            Some(address) => key.extend_from_slice(Self::at(address).octets()),
            None => key.extend_from_slice(b"unix:"),
        }
    }

    /// Its address, or its network prefix.
    pub fn octets(&self) -> &[u8] {
        match self {
            Self::V4(octets) => octets,
            Self::V6(octets) => octets,
        }
    }
}

/// The limits of one listener, and the counts.
#[derive(Debug, Default)]
pub struct ConnectionLimits {
    /// Connections in all; 0: unlimited.
    most: AtomicU32,
    /// Connections per client; 0: unlimited.
    each: AtomicU32,
    open: AtomicU32,
    clients: Mutex<HashMap<ClientKey, u32>>,
}

impl ConnectionLimits {
    /// Sets both. Open connections stay.
    pub fn set(&self, most: Option<u32>, each: Option<u32>) {
        self.most.store(most.unwrap_or(0), Ordering::Relaxed);
        self.each.store(each.unwrap_or(0), Ordering::Relaxed);
    }

    /// True if there is a limit per client.
    pub fn counts_clients(&self) -> bool {
        self.each.load(Ordering::Relaxed) != 0
    }

    /// Counts a connection; false: the limit is reached.
    pub(crate) fn enter(&self) -> bool {
        let most = self.most.load(Ordering::Relaxed);
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let has_room = most == 0 || before < most;
        if !has_room {
            self.leave();
        }
        has_room
    }

    /// Counts a connection regardless of the limit.
    pub(crate) fn force(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn leave(&self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a connection for its client; false: the client's limit is reached.
    pub(crate) fn enter_client(&self, client: ClientKey) -> bool {
        let each = self.each.load(Ordering::Relaxed);
        let mut clients = self.clients();
        let number = clients.entry(client).or_default();
        let has_room = each == 0 || *number < each;
        *number += u32::from(has_room);
        has_room
    }

    pub(crate) fn leave_client(&self, client: ClientKey) {
        let mut clients = self.clients();
        if let Some(number) = clients.get_mut(&client) {
            *number = number.saturating_sub(1);
            if *number == 0 {
                clients.remove(&client);
            }
        }
    }

    fn clients(&self) -> MutexGuard<'_, HashMap<ClientKey, u32>> {
        // Each number changes in one step.
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(text: &str) -> ClientKey {
        ClientKey::at(text.parse().unwrap())
    }

    #[test]
    fn a_network_of_ipv6_is_one_client_and_an_ipv4_address_is_one_however_it_is_written() {
        assert_eq!(client("2001:db8:0:1::1"), client("2001:db8:0:1:ffff::2"));
        assert_ne!(client("2001:db8:0:1::1"), client("2001:db8:0:2::1"));
        assert_eq!(client("::ffff:192.0.2.1"), client("192.0.2.1"));
        assert_ne!(client("192.0.2.1"), client("192.0.2.2"));
    }

    #[test]
    fn a_limit_holds_across_threads_and_closed_connections_make_room() {
        let bounds = ConnectionLimits::default();
        bounds.set(Some(7), None);
        let entered: usize = std::thread::scope(|scope| {
            let tries = || (0..100).filter(|_| bounds.enter()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(tries)).collect();
            threads.into_iter().map(|one| one.join().unwrap()).sum()
        });
        // A refused attempt is counted for a moment, in which another may be refused, too.
        assert!((1..=7).contains(&entered), "{entered}");
        while bounds.enter() {}
        bounds.leave();
        assert!(bounds.enter());
        assert!(!bounds.enter());
        bounds.set(None, None);
        assert!(bounds.enter());
    }

    #[test]
    fn a_client_has_its_own_count_and_none_after_its_last_connection() {
        let bounds = ConnectionLimits::default();
        bounds.set(None, Some(2));
        let (one, other) = (client("192.0.2.1"), client("192.0.2.2"));
        assert!(bounds.enter_client(one) && bounds.enter_client(one));
        assert!(!bounds.enter_client(one));
        assert!(bounds.enter_client(other));
        bounds.leave_client(one);
        assert!(bounds.enter_client(one));
        for client in [one, one, other] {
            bounds.leave_client(client);
        }
        assert!(bounds.clients().is_empty());
    }
}
