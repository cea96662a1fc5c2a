//! HTTP/3 of a listener in one configuration: its sockets are kept from the former one, or from a listener that was removed and has connections.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tutti_config::model::Http3;
use tutti_conn::listener::SharedListener;
use tutti_quic::{Datagrams, Ports, Spoken};
use tutti_tls::Offer;

/// The UDP sockets of removed listeners, at their addresses, as long as connections are open there.
#[derive(Debug, Default)]
pub(crate) struct LeavingPorts(Mutex<Vec<(SocketAddr, Weak<Ports>)>>);

impl LeavingPorts {
    /// Notes the sockets of a removed listener.
    pub(crate) fn note(&self, address: SocketAddr, ports: &Arc<Ports>) {
        self.lock().push((address, Arc::downgrade(ports)));
    }

    /// The sockets at this address.
    fn find(&self, address: SocketAddr) -> Option<Arc<Ports>> {
        let leaving = self.lock();
        let mut there = leaving.iter().filter(|(own, _)| *own == address);
        there.find_map(|(_, ports)| ports.upgrade())
    }

    /// All that are open.
    pub(crate) fn all(&self) -> Vec<(SocketAddr, Weak<Ports>)> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(SocketAddr, Weak<Ports>)>> {
        // Entries are added and removed whole.
        let mut leaving = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        leaving.retain(|(_, ports)| ports.strong_count() > 0);
        leaving
    }
}

/// HTTP/3 of a listener: on the existing sockets, `kept`, on those of a removed one at its address, or on new ones.
///
/// # Errors
/// The sockets cannot be opened, or the listener does not offer TLS 1.3.
pub(crate) fn spoken(
    options: Http3,
    kept: Option<&Spoken>,
    offer: Option<&Offer>,
    (listener, leaving): (&SharedListener, &LeavingPorts),
    bind: impl FnOnce() -> io::Result<Datagrams>,
) -> io::Result<Spoken> {
    let address = listener.bound_address();
    let kept = kept.map(|spoken| Arc::clone(&spoken.ports));
    let ports = match kept.or_else(|| leaving.find(address?)) {
        Some(ports) => ports,
        None => {
            let offer = offer.ok_or(io::ErrorKind::Unsupported)?;
            let ports = Ports::new(bind()?, offer);
            Arc::new(ports.ok_or_else(|| io::Error::other("TLS 1.3 is not allowed"))?)
        }
    };
    Ok(Spoken::new(
        options,
        ports,
        address.map_or(0, |address| address.port()),
    ))
}
