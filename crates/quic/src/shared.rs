//! The state that all connections of a UDP socket share.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};

use quinn_proto::{ConnectionEvent, ConnectionHandle, EndpointEvent, Transmit};
use rustc_hash::FxHashMap;
use tutti_conn::udp::Train;

use crate::environment::UdpSocket;
use crate::ports::Ports;
use crate::quic::Quic;

/// The state that all connections of a socket share.
pub(crate) struct Shared {
    pub(crate) socket: RefCell<UdpSocket>,
    pub(crate) state: RefCell<quinn_proto::Endpoint>,
    pub(crate) connections: RefCell<FxHashMap<ConnectionHandle, Rc<Quic>>>,
    pub(crate) handshakes: Cell<usize>,
    /// Connections that wait until the socket accepts datagrams again.
    pub(crate) blocked: RefCell<Vec<Waker>>,
    /// The buffer of the last batch, reused for the next: allocating it anew costs more than filling it.
    pub(crate) train: RefCell<Vec<u8>>,
    /// Wakes the task that receives datagrams.
    pub(crate) waker: RefCell<Option<Waker>>,
    /// Dropped after the socket: as long as they are there, the port is taken.
    pub(crate) ports: Arc<Ports>,
}

impl Shared {
    /// Adds a connection.
    pub(crate) fn enter(
        &self,
        handle: ConnectionHandle,
        state: quinn_proto::Connection,
    ) -> Rc<Quic> {
        self.handshakes.set(self.handshakes.get() + 1);
        let quic = Rc::new(Quic::new(state, Waker::noop().clone()));
        self.connections
            .borrow_mut()
            .insert(handle, Rc::clone(&quic));
        quic
    }

    /// Counts a handshake as ended, successfully or not.
    pub(crate) fn handshake_ended(&self) {
        self.handshakes.set(self.handshakes.get().saturating_sub(1));
    }

    /// Notes changes of a connection's ids, and its end.
    pub(crate) fn handle_event(
        &self,
        handle: ConnectionHandle,
        event: EndpointEvent,
    ) -> Option<ConnectionEvent> {
        if event.is_drained() {
            // Its handle may be reused from now on.
            self.connections.borrow_mut().remove(&handle);
            self.wake();
        }
        self.state.borrow_mut().handle_event(handle, event)
    }

    pub(crate) fn wake(&self) {
        if let Some(waker) = &*self.waker.borrow() {
            waker.wake_by_ref();
        }
    }

    /// Wakes waiting connections if the socket accepts datagrams again.
    pub(crate) fn wake_blocked(&self, cx: &mut Context<'_>) {
        if !self.blocked.borrow().is_empty() && self.socket.borrow().poll_room(cx).is_ready() {
            self.blocked.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Number of datagrams of `length` bytes that fit one batch.
    pub(crate) fn longest_train(&self, length: u16) -> usize {
        self.socket.borrow().longest_train(length)
    }

    /// Sends a batch; false if the socket is full: `waker` is woken when it accepts datagrams again.
    pub(crate) fn send(&self, train: &Train<'_>, waker: &Waker) -> bool {
        let is_sent = self.socket.borrow().try_send(train);
        if !is_sent {
            self.blocked.borrow_mut().push(waker.clone());
            self.wake();
        }
        is_sent
    }

    /// Sends a datagram without a connection. If the socket is full it is lost, and the client will retry.
    pub(crate) fn answer(&self, transmit: &Transmit, bytes: &[u8]) {
        let _ = self.socket.borrow().try_send(&Train {
            to: transmit.destination,
            from: transmit.src_ip,
            ecn: transmit.ecn.map(|ecn| ecn as u8),
            bytes: bytes.get(..transmit.size).unwrap_or_default(),
            each: transmit.segment_size,
        });
    }
}
