//! A UDP socket of a listen thread: dispatches datagrams to their connections, accepts new ones, sends tokens and resets.
//!
//! Must never: do more for a client whose address may be forged than send a short answer, while many such arrive.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::BytesMut;
use quinn_proto::{DatagramEvent, EcnCodepoint, EndpointConfig, Incoming, ServerConfig};
use tutti_conn::listener::canonical;
use tutti_conn::udp::Datagram;

use crate::driver::Driver;
use crate::environment::{UdpSocket, now};
use crate::ids::Ids;
use crate::ports::Ports;
use crate::server::{QuicOptions, QuicServer};
use crate::shared::Shared;

/// From this many handshakes in progress on, a new client must first prove its address (RFC 9000 §8.1.2).
const RETRY_FROM: usize = 64;

/// From this many handshakes in progress on, new ones are refused.
const MOST_HANDSHAKES: usize = 2048;

/// Batches of datagrams in a row before other connections of the thread get a turn.
const BATCHES: u32 = 8;

/// The supported version of QUIC (RFC 9000).
const QUIC_1: u32 = 1;

/// One socket and its connections.
pub struct QuicEndpoint<S> {
    /// The listener of new connections. Connections of one that was removed may be open beside them.
    server: RefCell<Rc<S>>,
    shared: Rc<Shared>,
    /// The number of its socket among those of the listener.
    number: usize,
    newcomers: Cell<Newcomers>,
}

/// The treatment of new clients. An endpoint that accepts none ends with its last connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newcomers {
    Accepted,
    Refused,
    /// Another process serves them: it gets the packets that they send again.
    Ignored,
}

impl<S: QuicServer> QuicEndpoint<S> {
    /// Serves the socket with this number.
    ///
    /// # Errors
    /// The socket cannot be registered with the event loop.
    pub fn new(server: S, ports: &Arc<Ports>, number: usize) -> io::Result<Rc<Self>> {
        let socket = ports.sockets.get(number).ok_or(io::ErrorKind::NotFound)?;
        let (count, bank) = (ports.sockets.len(), ports.bank);
        let socket = UdpSocket::new(Arc::clone(socket))?;
        let mut config = EndpointConfig::new(ports.keys.resets.clone());
        config
            .cid_generator(move || Box::new(Ids::new(number, count, bank)))
            .supported_versions(vec![QUIC_1]);
        let state = quinn_proto::Endpoint::new(
            Arc::new(config),
            Some(Arc::clone(&ports.common)),
            socket.keeps_datagrams_whole(),
            None,
        );
        let shared = Shared {
            socket: RefCell::new(socket),
            state: RefCell::new(state),
            connections: RefCell::default(),
            handshakes: Cell::new(0),
            blocked: RefCell::default(),
            train: RefCell::default(),
            waker: RefCell::default(),
            ports: Arc::clone(ports),
        };
        Ok(Rc::new(Self {
            server: RefCell::new(Rc::new(server)),
            shared: Rc::new(shared),
            number,
            newcomers: Cell::new(Newcomers::Accepted),
        }))
    }

    /// Receives datagrams until the listener has been closed and the last connection has ended.
    pub async fn run(self: Rc<Self>) {
        let outcome = poll_fn(|cx| self.poll(cx)).await;
        if let Err(error) = outcome {
            self.server().log_failure(&error.to_string());
        }
    }

    fn server(&self) -> Rc<S> {
        Rc::clone(&self.server.borrow())
    }

    /// Refuses new connections from now on.
    pub fn close(&self) {
        self.leave_newcomers(Newcomers::Refused);
    }

    /// Ignores new connections from now on, because the kernel gives their packets to another process. A refusal would end those whose first
    /// packet arrived here before; without a response they send it again (RFC 9002 §6.2).
    pub fn hand_over(&self) {
        self.leave_newcomers(Newcomers::Ignored);
    }

    fn leave_newcomers(&self, newcomers: Newcomers) {
        self.newcomers.set(newcomers);
        self.shared.wake();
    }

    /// Accepts new connections again, for this listener.
    pub fn reopen(&self, server: S) {
        self.server.replace(Rc::new(server));
        self.newcomers.set(Newcomers::Accepted);
    }

    /// True if it serves one of these sockets.
    pub fn is_of(&self, ports: &Arc<Ports>) -> bool {
        Arc::ptr_eq(&self.shared.ports, ports)
    }

    /// True if it serves the one with this number.
    pub fn is_at(&self, ports: &Arc<Ports>, number: usize) -> bool {
        self.is_of(ports) && self.number == number
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.waker.replace(Some(cx.waker().clone()));
        self.shared.wake_blocked(cx);
        for _ in 0..BATCHES {
            let is_closing = self.newcomers.get() != Newcomers::Accepted;
            if is_closing && self.shared.connections.borrow().is_empty() {
                return Poll::Ready(Ok(()));
            }
            // Collected first: connections send through the socket, which is borrowed here.
            let mut come = Vec::new();
            let received = self
                .shared
                .socket
                .borrow_mut()
                .poll_receive(cx, |datagram| {
                    if !datagram.bytes.is_empty() {
                        come.push(Came::of(&datagram));
                    }
                });
            match received {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
            let now = now();
            come.into_iter()
                .for_each(|datagram| self.take(datagram, now));
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take(&self, came: Came, now: Instant) {
        let mut answer = Vec::new();
        let event = self.shared.state.borrow_mut().handle(
            now,
            came.from,
            came.to,
            came.ecn,
            came.bytes,
            &mut answer,
        );
        match event {
            None => {}
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                let quic = self.shared.connections.borrow().get(&handle).map(Rc::clone);
                if let Some(quic) = quic {
                    quic.state.borrow_mut().handle_event(event);
                    quic.wake();
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => self.meet(incoming, now),
            Some(DatagramEvent::Response(transmit)) => self.shared.answer(&transmit, &answer),
        }
    }

    /// Handles a new connection.
    fn meet(&self, incoming: Incoming, now: Instant) {
        let mut answer = Vec::new();
        let state = &self.shared.state;
        let handshakes = self.shared.handshakes.get();
        match self.newcomers.get() {
            Newcomers::Ignored => return state.borrow_mut().ignore(incoming),
            Newcomers::Accepted if handshakes < MOST_HANDSHAKES => {}
            Newcomers::Accepted | Newcomers::Refused => {
                let transmit = state.borrow_mut().refuse(incoming, &mut answer);
                return self.shared.answer(&transmit, &answer);
            }
        }
        let server = self.server();
        let listener = server.listener();
        // Connections are counted per address, so an address must be proven first: a forged one could use up another client's limit.
        let counts = listener.bounds.counts_clients();
        if (handshakes >= RETRY_FROM || counts) && !incoming.remote_address_validated() {
            let retried = state.borrow_mut().retry(incoming, &mut answer);
            return match retried {
                Ok(transmit) => self.shared.answer(&transmit, &answer),
                // The client has returned a token already, and it is not valid any more.
                Err(error) => state.borrow_mut().ignore(error.into_incoming()),
            };
        }
        let Some(terms) = server.terms() else {
            return state.borrow_mut().ignore(incoming);
        };
        let from = canonical(incoming.remote_address());
        let port = listener.bound_address();
        let port = port.map_or(0, |address| address.port());
        let to = incoming.local_ip().map(|ip| canonical((ip, port).into()));
        let Some(hold) = server.admit(from) else {
            let transmit = state.borrow_mut().refuse(incoming, &mut answer);
            return self.shared.answer(&transmit, &answer);
        };
        let config = self.config(&terms);
        let has_proven_address = incoming.remote_address_validated();
        let accepted = state
            .borrow_mut()
            .accept(incoming, now, &mut answer, Some(config));
        match accepted {
            Ok((handle, state)) => {
                let connection = server.connect(hold, from, to);
                let quic = self.shared.enter(handle, state);
                let mut driver = Driver::new(connection, &self.shared, handle, &quic, terms.client);
                driver.has_proven_address = has_proven_address;
                tokio::task::spawn_local(driver.run());
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    self.shared.answer(&transmit, &answer);
                }
            }
        }
    }

    /// The configuration of a new connection: the certificates and limits in force now.
    fn config(&self, terms: &QuicOptions) -> Arc<ServerConfig> {
        let mut config = ServerConfig::clone(&self.shared.ports.common);
        config.crypto = terms.crypto.clone();
        config.transport_config(Arc::clone(&terms.spoken.transport));
        Arc::new(config)
    }
}

/// A received datagram.
struct Came {
    from: SocketAddr,
    to: Option<IpAddr>,
    ecn: Option<EcnCodepoint>,
    bytes: BytesMut,
}

impl Came {
    fn of(datagram: &Datagram<'_>) -> Self {
        Self {
            from: datagram.from,
            to: datagram.to,
            ecn: datagram.ecn.and_then(EcnCodepoint::from_bits),
            bytes: BytesMut::from(datagram.bytes),
        }
    }
}
