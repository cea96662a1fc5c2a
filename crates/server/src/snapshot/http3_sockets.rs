//! The UDP sockets of listeners with HTTP/3: those of a changed listener are kept, as are those of a removed one while it has connections.
//!
//! Must never: give a snapshot a share in them. Each request keeps its snapshot, a WebSocket for days, and would keep the port of a removed
//! listener with it.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use tutti_config::model;
use tutti_conn::listener::SharedListener;
use tutti_quic::{Ports, Spoken};

use crate::snapshot::entry_points::ListenerEntry;
use crate::snapshot::environment::SnapshotEnvironment;

/// A listener with HTTP/3, and its sockets.
pub(crate) type Http3Listener = (Arc<SharedListener>, Arc<Ports>);

/// The sockets of listeners that are in force, and of removed ones.
#[derive(Default)]
pub(crate) struct Http3Sockets(Mutex<State>);

#[derive(Default)]
struct State {
    in_force: Vec<Http3Listener>,
    /// At their addresses, as long as connections are open there.
    leaving: Vec<(SocketAddr, Weak<Ports>)>,
}

/// The difference that a commit makes.
pub(crate) struct Http3Changes {
    /// New connections are refused here from now on.
    pub(crate) left: Vec<Http3Listener>,
    /// New connections are accepted here from now on.
    pub(crate) taken: Vec<Http3Listener>,
}

impl Http3Sockets {
    /// The sockets of this listener, or of a removed one at its address.
    fn find(&self, listener: &SharedListener) -> Option<Arc<Ports>> {
        let state = self.lock();
        let mut in_force = state.in_force.iter();
        if let Some((_, ports)) = in_force.find(|(own, _)| own.id == listener.id) {
            return Some(Arc::clone(ports));
        }
        let address = listener.bound_address()?;
        let mut there = state.leaving.iter().filter(|(own, _)| *own == address);
        there.find_map(|(_, ports)| ports.upgrade())
    }

    /// Puts exactly these in force.
    pub(crate) fn commit(&self, listeners: Vec<Http3Listener>) -> Http3Changes {
        let is_in = |all: &[Http3Listener], (_, wanted): &Http3Listener| {
            all.iter().any(|(_, ports)| Arc::ptr_eq(ports, wanted))
        };
        let mut state = self.lock();
        let mut left = std::mem::replace(&mut state.in_force, listeners.clone());
        let mut taken = listeners;
        taken.retain(|one| !is_in(&left, one));
        left.retain(|one| !is_in(&state.in_force, one));
        for (listener, ports) in &left {
            if let Some(address) = listener.bound_address() {
                state.leaving.push((address, Arc::downgrade(ports)));
            }
        }
        Http3Changes { left, taken }
    }

    /// Those of removed listeners that are open.
    pub(crate) fn leaving(&self) -> Vec<(SocketAddr, Weak<Ports>)> {
        self.lock().leaving.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Entries are added and removed whole.
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let leaving = &mut state.leaving;
        leaving.retain(|(_, ports)| ports.strong_count() > 0);
        state
    }
}

/// Gives a listener HTTP/3, if it is to have it: on its existing sockets, on those of a removed one at its address, or on new ones.
///
/// # Errors
/// The sockets cannot be opened, or the listener does not offer TLS 1.3.
pub(crate) fn begin(
    wanted: &model::Listener,
    entry: &mut ListenerEntry,
    sockets: &Http3Sockets,
    around: &mut dyn SnapshotEnvironment,
) -> io::Result<Option<Http3Listener>> {
    let Some(options) = wanted.options.http3.on() else {
        return Ok(None);
    };
    let ports = match sockets.find(&entry.listener) {
        Some(ports) => ports,
        None => {
            let offer = entry.offer.as_deref().ok_or(io::ErrorKind::Unsupported)?;
            let ports = Ports::new(around.bind_datagrams(wanted)?, offer);
            Arc::new(ports.ok_or_else(|| io::Error::other("TLS 1.3 is not allowed"))?)
        }
    };
    let address = entry.listener.bound_address();
    entry.http3 = Some(Spoken::new(
        options,
        address.map_or(0, |address| address.port()),
    ));
    Ok(Some((Arc::clone(&entry.listener), ports)))
}
