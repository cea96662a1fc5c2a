//! The server's side of a test: its endpoint, and the requests that it received.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::{Duration, SystemTime};

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{ClientConfig, TransportConfig};
use rustls::RootCertStore;
use tokio::runtime::Runtime;
use tokio::task::LocalSet;
use tutti_config::Pointer;
use tutti_config::model::{Http3, StoredName, Tickets, Tls, TlsProtocol, TlsSession};
use tutti_config::table::TlsSessionOptions;
use tutti_conn::clock::Millis;
use tutti_conn::listener::{ListenerHold, SharedListener};
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_http::http3::{ALPN, Section};
use tutti_http::{OutgoingHead, Trailers};
use tutti_tls::{Bundle, Offer};

use super::client::{TestClient, limits};
use super::network;
use crate::{
    Datagrams, Ports, QuicConnection, QuicEndpoint, QuicOptions, QuicServer, QuicStream,
    QuicTimeouts, RequestTraits, Spoken,
};

/// The usual limits.
pub(super) const LIMITS: Http3 = Http3 {
    max_concurrent_streams: 4,
    stream_window_size: 16_384,
    connection_window_size: 65_536,
    alt_svc_max_age: 0,
    early_data: false,
};

/// The usual timeouts.
pub(super) const TIMEOUTS: QuicTimeouts = QuicTimeouts {
    head: 5_000,
    idle: 10_000,
};

/// The server's side: settings, and observations.
pub(super) struct Site {
    pub(super) listener: Arc<SharedListener>,
    offer: Offer,
    spoken: Spoken,
    pub(super) requests: RefCell<VecDeque<Request>>,
    /// Logged errors of clients.
    pub(super) logged: RefCell<Vec<String>>,
    pub(super) is_ending: Cell<bool>,
    pub(super) drains_gently: Cell<bool>,
    /// The limit of connections is reached.
    pub(super) is_full: Cell<bool>,
    pub(super) is_active: Cell<bool>,
    /// Open connections.
    pub(super) connections: Cell<usize>,
    pub(super) deadline: Cell<Millis>,
    wakers: RefCell<Vec<Waker>>,
}

/// A request.
pub(super) struct Request {
    pub(super) method: Vec<u8>,
    pub(super) stream: QuicStream,
    pub(super) manner: RequestTraits,
    /// The status with which it is to be refused.
    pub(super) refusal: Option<u16>,
}

struct Entrance(Rc<Site>);

struct Visit(Rc<Site>);

impl QuicServer for Entrance {
    type Connection = Visit;

    fn listener(&self) -> &Arc<SharedListener> {
        &self.0.listener
    }

    fn terms(&self) -> Option<QuicOptions> {
        let (crypto, client) = self.0.offer.quic()?.begin()?;
        Some(QuicOptions {
            crypto,
            client,
            spoken: self.0.spoken.clone(),
        })
    }

    fn admit(&self, _: SocketAddr) -> Option<ListenerHold> {
        (!self.0.is_full.get()).then(|| ListenerHold::new(&self.0.listener))
    }

    fn connect(&self, _: ListenerHold, _: SocketAddr, _: Option<SocketAddr>) -> Visit {
        self.0.connections.update(|count| count + 1);
        Visit(Rc::clone(&self.0))
    }

    fn log_failure(&self, reason: &str) {
        panic!("{reason}");
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.0.connections.update(|count| count - 1);
    }
}

impl QuicConnection for Visit {
    fn listener(&self) -> &SharedListener {
        &self.0.listener
    }

    fn timeouts(&self) -> QuicTimeouts {
        TIMEOUTS
    }

    fn most_bytes(&self) -> (usize, usize) {
        (4096, 4096)
    }

    fn is_ending(&self) -> bool {
        self.0.is_ending.get()
    }

    fn drains_gently(&self) -> bool {
        self.0.drains_gently.get()
    }

    fn set_waker(&self, waker: Waker) {
        let mut wakers = self.0.wakers.borrow_mut();
        if !wakers.iter().any(|known| known.will_wake(&waker)) {
            wakers.push(waker);
        }
    }

    fn set_deadline(&self, deadline: Millis) {
        self.0.deadline.set(deadline);
    }

    fn set_active(&self, is_active: bool) {
        self.0.is_active.set(is_active);
    }

    fn log_client_error(&self, text: &str) {
        self.0.logged.borrow_mut().push(text.to_owned());
    }

    fn begin(&self, section: &Section, stream: QuicStream, manner: RequestTraits) {
        self.0.requests.borrow_mut().push_back(Request {
            method: section.method().to_vec(),
            stream,
            manner,
            refusal: None,
        });
    }

    fn refuse(&self, stream: QuicStream, status: u16, _: &str) {
        self.0.requests.borrow_mut().push_back(Request {
            method: Vec::new(),
            stream,
            manner: RequestTraits {
                has_body: false,
                is_early: false,
            },
            refusal: Some(status),
        });
    }
}

/// A server, its clients and the clock.
pub(super) struct World {
    pub(super) site: Rc<Site>,
    endpoint: Rc<QuicEndpoint<Entrance>>,
    pub(super) clients: Vec<TestClient>,
    crypto: Arc<QuicClientConfig>,
    tasks: LocalSet,
    runtime: Runtime,
}

impl World {
    /// A server without clients.
    pub(super) fn new(http3: Http3) -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let pem = made.cert.pem() + &made.signing_key.serialize_pem();
        let bundle = Arc::new(Bundle::parse(pem.as_bytes(), SystemTime::now()).unwrap());
        let tls = Tls {
            pointer: Pointer::root(),
            certificates: vec![StoredName {
                pointer: Pointer::root().into(),
                name: "site".to_owned(),
            }],
            protocol: TlsProtocol::default(),
            session: TlsSession {
                options: TlsSessionOptions::default(),
                tickets: Tickets::Off,
            },
            clients: None,
            on_demand: None,
        };
        let offer = Offer::new(&tls, &mut |_| Ok(Arc::clone(&bundle)), &[], None).unwrap();
        let datagrams = Datagrams {
            sockets: vec![std::fs::File::open("/dev/null").unwrap().into()],
            bank: 0,
            secret: b"secret".to_vec(),
        };
        let ports = Arc::new(Ports::new(datagrams, &offer).unwrap());
        let site = Rc::new(Site {
            listener: SharedListener::without_socket("*:443", 1, 1),
            offer,
            spoken: Spoken::new(http3, 443),
            requests: RefCell::default(),
            logged: RefCell::default(),
            is_ending: Cell::new(false),
            drains_gently: Cell::new(false),
            is_full: Cell::new(false),
            is_active: Cell::new(false),
            connections: Cell::new(0),
            deadline: Cell::new(0),
            wakers: RefCell::default(),
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let tasks = LocalSet::new();
        let endpoint = QuicEndpoint::new(Entrance(Rc::clone(&site)), &ports, 0).unwrap();
        tasks.spawn_local(Rc::clone(&endpoint).run());
        let mut roots = RootCertStore::empty();
        roots.add(made.cert.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut crypto = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        crypto.alpn_protocols = vec![ALPN.to_vec()];
        Self {
            site,
            endpoint,
            clients: Vec::new(),
            crypto: Arc::new(crypto.try_into().unwrap()),
            tasks,
            runtime,
        }
    }

    /// A server with a connected client.
    pub(super) fn connected(http3: Http3) -> Self {
        Self::with_client(http3, limits(1 << 20))
    }

    /// Likewise, with these limits of the client.
    pub(super) fn with_client(http3: Http3, limits: Arc<TransportConfig>) -> Self {
        let mut world = Self::new(http3);
        world.connect(limits);
        world.settle();
        assert!(world.client().is_connected);
        world
    }

    /// Connects another client.
    pub(super) fn connect(&mut self, limits: Arc<TransportConfig>) {
        let mut config = ClientConfig::new(self.crypto.clone());
        config.transport_config(limits);
        let number = self.clients.len() as u16;
        self.clients.push(TestClient::new(config, number));
    }

    /// The first client.
    pub(super) fn client(&mut self) -> &mut TestClient {
        &mut self.clients[0]
    }

    /// Closes the listener.
    pub(super) fn close(&self) {
        self.endpoint.close();
    }

    /// Leaves new clients to another process.
    pub(super) fn hand_over(&self) {
        self.endpoint.hand_over();
    }

    /// Opens a listener on the same socket.
    pub(super) fn reopen(&self) {
        self.endpoint.reopen(Entrance(Rc::clone(&self.site)));
    }

    /// Runs the server's tasks until none is ready.
    pub(super) fn serve(&mut self) {
        let _time = self.runtime.enter();
        let flag = Flag::new();
        loop {
            flag.take();
            let waker = flag.waker();
            let mut cx = Context::from_waker(&waker);
            let _ = Pin::new(&mut self.tasks).poll(&mut cx);
            if !flag.take() {
                return;
            }
        }
    }

    /// Delivers the clients' datagrams; true if there were any.
    pub(super) fn send_to_server(&mut self) -> bool {
        let mut is_some = false;
        for client in &mut self.clients {
            client.send(|from, bytes| {
                is_some = true;
                network::send_to_server(from, bytes);
            });
        }
        is_some
    }

    /// Delivers the server's datagrams; true if there were any.
    pub(super) fn send_to_clients(&mut self) -> bool {
        let sent = network::sent_to_clients();
        for (to, bytes) in &sent {
            self.clients
                .iter_mut()
                .any(|client| client.receive(*to, bytes));
        }
        !sent.is_empty()
    }

    /// Continues until no datagram is in transit and no task is ready.
    pub(super) fn settle(&mut self) {
        loop {
            self.serve();
            let to_clients = self.send_to_clients();
            if !self.send_to_server() && !to_clients {
                return;
            }
        }
    }

    /// Advances the clock.
    pub(super) fn pass(&mut self, time: Millis) {
        let step = (time / 500).max(1);
        for _ in 0..time.div_ceil(step) {
            network::pass(Duration::from_millis(step));
            self.site.wakers.take().iter().for_each(Waker::wake_by_ref);
            self.settle();
        }
    }

    /// Advances the clock without delivering datagrams.
    pub(super) fn lose(&mut self, time: Millis) {
        network::pass(Duration::from_millis(time));
        self.site.wakers.take().iter().for_each(Waker::wake_by_ref);
        self.serve();
        network::sent_to_clients();
    }

    /// Advances the clock until the condition holds, for at most a minute.
    pub(super) fn until<T>(&mut self, mut condition: impl FnMut(&mut Self) -> Option<T>) -> T {
        self.settle();
        for _ in 0..60_000 {
            if let Some(found) = condition(self) {
                return found;
            }
            self.pass(1);
        }
        let lost: Vec<_> = self.clients.iter().map(|client| &client.lost).collect();
        panic!("it does not come: {lost:?}");
    }

    /// Waits for a request.
    pub(super) fn request(&mut self) -> Request {
        self.until(|world| world.site.requests.borrow_mut().pop_front())
    }
}

impl Request {
    /// Sends a response with a body whose length is declared; returns the part that has not gone out.
    pub(super) fn respond(&self, status: u16, length: usize) -> Output {
        let mut head = OutgoingHead::new(status);
        head.fields.push_number(b"Content-Length", length as u64);
        let mut output = Output::new(vec![b'y'; length]);
        output.push_head(head);
        let _ = self.stream.try_send(&mut output);
        output
    }

    /// Sends a complete response.
    pub(super) fn answer(&self, status: u16) {
        let output = self.respond(status, 6);
        assert!(self.stream.has_sent(&output));
        self.stream.finish();
    }

    /// Takes at most `most` bytes of the body; `None` if none have arrived.
    pub(super) fn take(&self, most: usize, flag: &Flag) -> Option<Result<ReadResult, Gone>> {
        let waker = flag.waker();
        let mut buffer = Vec::with_capacity(most);
        let mut cx = Context::from_waker(&waker);
        match self.stream.poll_receive(&mut buffer, &mut cx) {
            std::task::Poll::Ready(received) => Some(received),
            std::task::Poll::Pending => None,
        }
    }

    /// Takes the body and returns its length; `None` if it is incomplete.
    pub(super) fn take_all(&self) -> Option<usize> {
        let mut length = 0;
        loop {
            match self.take(1 << 16, &Flag::new())? {
                Ok(ReadResult::Bytes(count)) => length += count,
                Ok(_) => return Some(length),
                Err(gone) => panic!("{gone:?}"),
            }
        }
    }
}

/// A task that records that it was woken.
#[derive(Clone, Default)]
pub(super) struct Flag(Arc<Woken>);

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Flag {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn waker(&self) -> Waker {
        Arc::clone(&self.0).into()
    }

    /// True if it was woken since the last call.
    pub(super) fn take(&self) -> bool {
        self.0.0.swap(false, Ordering::Relaxed)
    }
}

/// Trailers of one field.
pub(super) fn trailers() -> Trailers {
    let mut trailers = Trailers::default();
    trailers.push(b"sum", b"42");
    trailers
}
