//! A session of UDP: the datagrams of one client and those of the server that they are passed to.
//!
//! It has a task, which claims a server and passes on what that sends. The endpoint passes the client's datagrams to the server itself,
//! without waking the task.
//!
//! Must never: send a datagram of a server to anyone but the client of the session.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use tutti_config::model::{Balance, UdpOptions};
use tutti_conn::clock::{Millis, millis, now_millis};
use tutti_conn::connections::ConnectionEntry;
use tutti_conn::counters::{DatagramDrop, StreamOutcome};
use tutti_conn::listener::OpenStream;
use tutti_pool::Level;
use tutti_proxy::{PassedClient, PassedConnection, ServerSearch, datagram_header};
use tutti_routing::render;
use tutti_upstream::{GroupServer, ServerGroup, UpstreamDatagrams, UpstreamError};

use crate::connection::Counted;
use crate::connection::datagram_socket::{DatagramSocket, SessionKey};
use crate::connection::stream_info::{StreamEnd, StreamInfo, StreamLogs};
use crate::exchange::attempts::Attempts;
use crate::exchange::client::Ends;

/// Datagrams that a session holds until it has a server.
const MOST_HELD: usize = 1024;

/// Datagrams that are sent again to another server if the first one has answered none of them.
const MOST_REPEATED: usize = 16;

/// Datagrams of a server in a row before other tasks of the thread get a turn.
const TURNS: u32 = 16;

/// A session that must end does so when nothing has come for so long, and after [`LAST_MOMENT`] in any case.
const LAST_PAUSE: Millis = 1_000;
const LAST_MOMENT: Millis = 10_000;

/// The parts of a new session.
pub(crate) struct SessionStart {
    pub(crate) key: SessionKey,
    pub(crate) socket: Rc<DatagramSocket>,
    pub(crate) ends: Ends,
    /// The address and port that the client sends to.
    pub(crate) to: Option<SocketAddr>,
    pub(crate) options: UdpOptions,
    pub(crate) logs: StreamLogs,
}

/// The fate of a client's datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// The session has taken it.
    Yes,
    /// The session has taken it, and takes no other.
    Last,
    /// Another session must take it: the server of this one has gone.
    No,
}

/// One session.
pub(crate) struct Session {
    start: SessionStart,
    begun: Instant,
    counted: Counted,
    /// Its deadline, and how to wake its task.
    entry: ConnectionEntry,
    waker: RefCell<Waker>,
    open: OnceCell<OpenStream>,
    /// The socket to the server, once there is one.
    server: RefCell<Option<UpstreamDatagrams>>,
    /// Precedes the first datagram for a server; empty after it.
    header: RefCell<Vec<u8>>,
    /// Datagrams that may have to be sent to another server. Empty once one has answered.
    held: RefCell<Vec<Box<[u8]>>>,
    /// Why the server cannot be reached.
    failure: RefCell<Option<io::Error>>,
    attempts: Attempts,
    requests: Cell<u64>,
    responses: Cell<u64>,
    received: Cell<u64>,
    sent: Cell<u64>,
    /// When the last datagram came.
    moved: Cell<Millis>,
    /// Since when the session is to end.
    ending: Cell<Option<Millis>>,
}

impl Session {
    pub(crate) fn new(start: SessionStart) -> Rc<Self> {
        let local = &start.ends.local;
        let session = Self {
            counted: Counted::new(local),
            entry: local.connections.enter(Waker::noop().clone()),
            start,
            begun: Instant::now(),
            waker: RefCell::new(Waker::noop().clone()),
            open: OnceCell::new(),
            server: RefCell::default(),
            header: RefCell::default(),
            held: RefCell::default(),
            failure: RefCell::default(),
            attempts: Attempts::default(),
            requests: Cell::new(0),
            responses: Cell::new(0),
            received: Cell::new(0),
            sent: Cell::new(0),
            moved: Cell::new(now_millis()),
            ending: Cell::new(None),
        };
        session.counted.set_active(true);
        let open = session.start.ends.listener.count_stream();
        let _ = session.open.set(open);
        Rc::new(session)
    }

    pub(crate) fn key(&self) -> SessionKey {
        self.start.key
    }

    /// Takes a datagram of the client.
    pub(crate) fn take(&self, bytes: &[u8]) -> Taken {
        let (socket, options) = (&self.start.socket, &self.start.options);
        if bytes.len() > options.max_datagram_size as usize {
            socket.note_dropped(DatagramDrop::Size);
            return Taken::Yes;
        }
        match &*self.server.borrow() {
            Some(server) => {
                if self.responses.get() == 0 {
                    self.hold(bytes);
                    self.keep_few();
                }
                if let Err(error) = self.send(server, bytes) {
                    self.fail(error);
                    if self.responses.get() > 0 {
                        return Taken::No;
                    }
                }
            }
            None => {
                if !self.hold(bytes) {
                    socket.note_dropped(DatagramDrop::Unsent);
                }
            }
        }
        self.count(bytes.len() as u64);
        if self.is_complete() {
            self.waker.borrow().wake_by_ref();
        }
        let most = options.requests.map(|most| u64::from(most.get()));
        match most.is_some_and(|most| self.requests.get() >= most) {
            true => Taken::Last,
            false => Taken::Yes,
        }
    }

    /// Counts a datagram of the client.
    fn count(&self, length: u64) {
        self.requests.set(self.requests.get() + 1);
        self.received.set(self.received.get() + length);
        let counters = &self.start.ends.listener.counters.streams;
        counters.received.fetch_add(length, Ordering::Relaxed);
        self.moved.set(now_millis());
    }

    /// Keeps a datagram until a server has answered; false: there is no room.
    fn hold(&self, bytes: &[u8]) -> bool {
        let mut held = self.held.borrow_mut();
        let has_room = held.len() < MOST_HELD && self.start.socket.reserve(bytes.len());
        if has_room {
            held.push(bytes.into());
        }
        has_room
    }

    /// Holds nothing for another server once this one has got many: it may have used them without an answer.
    fn keep_few(&self) {
        if self.held.borrow().len() > MOST_REPEATED {
            self.release_held();
        }
    }

    fn release_held(&self) {
        let held = self.held.take();
        let bytes = held.iter().map(|datagram| datagram.len()).sum();
        self.start.socket.release(bytes);
    }

    /// Sends a datagram to the server, behind the header if it is the first one. The error: nothing receives there.
    fn send(&self, server: &UpstreamDatagrams, bytes: &[u8]) -> io::Result<()> {
        let mut header = self.header.borrow_mut();
        let sent = match header.is_empty() {
            true => server.send(bytes),
            false => server.send(&[&header, bytes].concat()),
        };
        if sent.is_ok() {
            header.clear();
        }
        match sent {
            Err(error) if is_of_server(&error) => Err(error),
            // As in any router on the way: the socket is full, or the datagram is too long.
            Err(_) => {
                self.start.socket.note_dropped(DatagramDrop::Unsent);
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }

    fn fail(&self, error: io::Error) {
        self.failure.replace(Some(error));
        self.waker.borrow().wake_by_ref();
    }

    /// Passes datagrams on until the session ends.
    pub(crate) async fn run(&self, upstream: Arc<ServerGroup>) {
        poll_fn(|cx| {
            self.waker.replace(cx.waker().clone());
            self.entry.set_waker(cx.waker().clone());
            Poll::Ready(())
        })
        .await;
        let status = match self.pass(&upstream).await {
            Ok(()) => 200,
            Err(status) => status,
        };
        let is_passed = status == 200 || self.responses.get() > 0;
        let counters = &self.start.ends.listener.counters.streams;
        counters.note(match is_passed {
            true => StreamOutcome::Passed,
            false => StreamOutcome::Failed,
        });
        let end = StreamEnd {
            begun: self.begun,
            status,
            sent: self.sent.get(),
        };
        self.info().log_access(&self.start.logs, end);
    }

    /// Passes the datagrams to a server, or to another one while none has answered.
    async fn pass(&self, upstream: &Arc<ServerGroup>) -> Result<(), u16> {
        let mut key = Vec::new();
        if let Balance::Hash(template) = &upstream.model().balance {
            render(template, &self.info(), &mut key).map_err(|_| 500_u16)?;
        }
        let connection = PassedConnection {
            upstream,
            key: &key,
            ends: Some(self.start.key.client).zip(self.start.to),
        };
        let timeout = millis(upstream.options().tunnel_timeout);
        let mut search = ServerSearch::new(connection);
        loop {
            let claim = search.next(self).await?;
            let outcome = match UpstreamDatagrams::open(claim.server()) {
                Ok(server) => {
                    self.attempts.connected();
                    self.header.replace(datagram_header(&connection));
                    self.failure.take();
                    if self.send_held(&server) {
                        // Silence is not a failure, so after a rest other clients need not wait for an answer.
                        claim.server().answered(now_millis());
                    }
                    self.keep_few();
                    self.server.replace(Some(server));
                    let note = || claim.succeeded(now_millis());
                    poll_fn(|cx| self.poll(cx, timeout, &note)).await
                }
                Err(failure) => Err(failure),
            };
            self.server.take();
            let Err(failure) = outcome else {
                self.attempts.ended();
                return Ok(());
            };
            if self.responses.get() > 0 {
                search.end();
            }
            search.failed(self, &claim, &failure)?;
        }
    }

    /// Sends what has come before there was a server; false if the server cannot be reached.
    fn send_held(&self, server: &UpstreamDatagrams) -> bool {
        for datagram in &*self.held.borrow() {
            if let Err(error) = self.send(server, datagram) {
                self.fail(error);
                return false;
            }
        }
        true
    }

    /// Passes on what the server sends, until the session ends.
    fn poll(
        &self,
        cx: &mut Context<'_>,
        timeout: Millis,
        note_answered: &dyn Fn(),
    ) -> Poll<Result<(), UpstreamError>> {
        if let Some(error) = self.failure.take() {
            return Poll::Ready(Err(UpstreamError::Connect(error)));
        }
        for _ in 0..TURNS {
            let mut room = self.start.socket.room.borrow_mut();
            let server = self.server.borrow();
            let Some(server) = &*server else {
                return Poll::Ready(Ok(()));
            };
            match server.poll_receive(cx, &mut room) {
                Poll::Ready(Ok(length)) => {
                    self.answer(room.get(..length).unwrap_or_default(), note_answered);
                }
                Poll::Ready(Err(error)) if is_of_server(&error) => {
                    return Poll::Ready(Err(UpstreamError::Connect(error)));
                }
                // About a datagram that was too long for the path: the next ones are sent in fragments.
                Poll::Ready(Err(_)) => {}
                Poll::Pending => return self.poll_end(timeout),
            }
            if self.is_complete() {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Called when nothing has come: ready if the session has ended.
    fn poll_end(&self, timeout: Millis) -> Poll<Result<(), UpstreamError>> {
        if self.is_complete() {
            return Poll::Ready(Ok(()));
        }
        let now = now_millis();
        let mut deadline = self.moved.get().saturating_add(timeout);
        if self.start.ends.is_ending() {
            let since = self.ending.get().unwrap_or(now);
            self.ending.set(Some(since));
            deadline = deadline.min(since.saturating_add(LAST_MOMENT));
            if self.start.options.responses.is_none() {
                let pause = self.moved.get().max(since).saturating_add(LAST_PAUSE);
                deadline = deadline.min(pause);
            }
        }
        if deadline <= now || (self.start.ends.is_ending() && self.start.ends.local.is_cut()) {
            return Poll::Ready(Ok(()));
        }
        self.entry.set_deadline(deadline);
        Poll::Pending
    }

    /// Passes a datagram to the client.
    fn answer(&self, bytes: &[u8], note_answered: &dyn Fn()) {
        if self.responses.get() == 0 {
            note_answered();
            self.release_held();
        }
        self.responses.set(self.responses.get() + 1);
        self.moved.set(now_millis());
        if bytes.len() > self.start.options.max_datagram_size as usize {
            return self.start.socket.note_dropped(DatagramDrop::Size);
        }
        self.start.socket.answer(self.start.key, bytes);
        let length = bytes.len() as u64;
        self.sent.set(self.sent.get() + length);
        self.attempts.received(bytes.len());
        let counters = &self.start.ends.listener.counters.streams;
        counters.sent.fetch_add(length, Ordering::Relaxed);
    }

    /// True if the server has sent all that was expected.
    fn is_complete(&self) -> bool {
        let each = self.start.options.responses;
        each.is_some_and(|each| self.responses.get() >= self.requests.get() * u64::from(each))
    }

    fn info(&self) -> StreamInfo<'_> {
        StreamInfo {
            ends: &self.start.ends,
            local: self.start.to,
            server_name: "",
            attempts: &self.attempts,
            received: self.received.get(),
        }
    }
}

/// True if an error says that nothing receives at the server's address, or that it cannot be reached.
fn is_of_server(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::NetworkDown
    )
}

impl PassedClient for Session {
    fn note_attempt(&self, server: &Arc<GroupServer>) {
        self.attempts.begin(server, false);
    }

    fn note_connected(&self) {
        self.attempts.connected();
    }

    fn note_failed(&self, status: u16) {
        self.attempts.failed(status);
    }

    fn log(&self, level: Level, line: &str) {
        self.start.ends.local.log(level, line);
    }

    fn log_limited(&self, line: &str) {
        self.start.ends.local.log_failure(Level::Error, line);
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.release_held();
    }
}
