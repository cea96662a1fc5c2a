//! UDP of a listener with a `stream`: receives the datagrams of clients, and finds or begins the session of each.
//!
//! The kernel distributes datagrams over the sockets of a listener by their addresses, so all those of one client come to one thread.
//!
//! Must never: hold anything for a client beyond its session, whose number is limited: the addresses of datagrams may be forged.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tutti_conn::clock::now_millis;
use tutti_conn::counters::{DatagramDrop, StreamOutcome};
use tutti_conn::listener::{DatagramSockets, ListenerHold, Peer, SharedListener, canonical};
use tutti_conn::udp::Datagram;
use tutti_log::LineLimit;
use tutti_pool::Level;

use crate::connection::accept;
use crate::connection::datagram_session::{Session, SessionStart, Taken};
use crate::connection::datagram_socket::{DatagramSocket, SessionKey};
use crate::connection::stream_info::logs_of;
use crate::exchange::client::Ends;
use crate::local::Local;

/// Batches of datagrams in a row before other tasks of the thread get a turn.
const BATCHES: u32 = 8;

/// Minimum interval between log lines about too many sessions.
const LINE_WINDOW: Duration = Duration::from_secs(60);

/// A UDP socket of a listener on this thread, and its sessions.
pub(crate) struct DatagramEndpoint {
    local: Rc<Local>,
    socket: Rc<DatagramSocket>,
    /// Clients choose their addresses: the hashes of this map cannot be predicted.
    sessions: RefCell<HashMap<SessionKey, Rc<Session>>>,
    is_closing: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    full: LineLimit,
}

/// Receives this thread's share of the datagrams: sockets and threads have corresponding numbers.
pub(crate) fn begin(
    local: &Rc<Local>,
    listener: &Arc<SharedListener>,
    sockets: &DatagramSockets,
) -> Vec<Rc<DatagramEndpoint>> {
    let threads = local.shared.inboxes.len().max(1);
    let own = sockets.iter().skip(local.thread as usize).step_by(threads);
    let begin = |socket: &Arc<OwnedFd>| match DatagramEndpoint::new(local, listener, socket) {
        Ok(endpoint) => {
            tokio::task::spawn_local(Rc::clone(&endpoint).run());
            Some(endpoint)
        }
        Err(error) => {
            let name = &listener.name;
            let line = format!("cannot receive datagrams at \"{name}\": {error}");
            local.log(Level::Alert, &line);
            None
        }
    };
    own.filter_map(begin).collect()
}

impl DatagramEndpoint {
    fn new(
        local: &Rc<Local>,
        listener: &Arc<SharedListener>,
        socket: &Arc<OwnedFd>,
    ) -> io::Result<Rc<Self>> {
        Ok(Rc::new(Self {
            local: Rc::clone(local),
            socket: Rc::new(DatagramSocket::new(listener, socket)?),
            sessions: RefCell::default(),
            is_closing: Cell::new(false),
            waker: RefCell::default(),
            full: LineLimit::new(LINE_WINDOW, 1),
        }))
    }

    pub(crate) fn listener(&self) -> &Arc<SharedListener> {
        &self.socket.listener
    }

    /// Receives nothing more. Sessions may still send the datagrams of servers.
    pub(crate) fn close(&self) {
        self.is_closing.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn run(self: Rc<Self>) {
        let outcome = poll_fn(|cx| self.poll(cx)).await;
        if let Err(error) = outcome {
            let name = &self.socket.listener.name;
            let line = format!("cannot receive datagrams at \"{name}\": {error}");
            self.local.log(Level::Alert, &line);
        }
    }

    fn poll(self: &Rc<Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.waker.replace(Some(cx.waker().clone()));
        for _ in 0..BATCHES {
            if self.is_closing.get() {
                return Poll::Ready(Ok(()));
            }
            // Sessions send to servers here; their tasks send to clients.
            let mut socket = self.socket.socket.borrow_mut();
            let received = socket.poll_receive(cx, |datagram| self.take(&datagram));
            match received {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(())) => {}
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    fn take(self: &Rc<Self>, datagram: &Datagram<'_>) {
        // An answer to port 0 cannot be sent.
        if datagram.from.port() == 0 {
            return self.socket.note_dropped(DatagramDrop::Unsent);
        }
        let key = SessionKey {
            client: datagram.from,
            local: datagram.to,
        };
        let known = self.sessions.borrow().get(&key).map(Rc::clone);
        match known.map(|session| (session.take(datagram.bytes), session)) {
            Some((Taken::Yes, _)) => {}
            Some((Taken::Last, session)) => self.forget(&session),
            Some((Taken::No, _)) | None => self.meet(key, datagram.bytes),
        }
    }

    /// Begins a session with its first datagram.
    fn meet(self: &Rc<Self>, key: SessionKey, bytes: &[u8]) {
        let listener = &self.socket.listener;
        let snapshot = self.local.snapshot_of(listener);
        let entry = snapshot.entry_of(listener.id);
        let Some((entry, stream)) = entry.and_then(|entry| Some((entry, entry.stream.as_ref()?)))
        else {
            return;
        };
        let options = entry.options.udp.unwrap_or_default();
        if bytes.len() > options.max_datagram_size as usize {
            return self.socket.note_dropped(DatagramDrop::Size);
        }
        let port = listener.bound_address();
        let port = port.map_or(0, |address| address.port());
        let to = key.local.map(|ip| canonical((ip, port).into()));
        let mut steps = stream.steps_between(Some(key.client), to);
        let Some(upstream) = steps.next().and_then(|step| step.upstream.as_ref()) else {
            listener.counters.streams.note(StreamOutcome::Closed);
            return;
        };
        let Some(hold) = self.admit(key.client) else {
            return self.socket.note_dropped(DatagramDrop::Sessions);
        };
        let session = Session::new(SessionStart {
            key,
            socket: Rc::clone(&self.socket),
            ends: Ends::new(Rc::clone(&self.local), hold, Peer::Inet(key.client)),
            to,
            options,
            logs: logs_of(&snapshot, listener.id),
        });
        self.sessions.borrow_mut().insert(key, Rc::clone(&session));
        if session.take(bytes) == Taken::Last {
            self.forget(&session);
        }
        let (endpoint, upstream) = (Rc::clone(self), Arc::clone(upstream));
        tokio::task::spawn_local(async move {
            // Removed from the table even after a panic.
            let running = Running { endpoint, session };
            running.session.run(upstream).await;
        });
    }

    /// Counts the session of a new client; `None`: there are too many.
    fn admit(&self, client: SocketAddr) -> Option<ListenerHold> {
        let listener = &self.socket.listener;
        let Some(mut hold) = ListenerHold::of_connection(listener) else {
            let name = &listener.name;
            let line = format!(
                "listener \"{name}\" has `max_sessions` open; datagrams of further clients are dropped"
            );
            if self.full.admit(&line, now_millis()).is_some() {
                self.local.log(Level::Warn, &line);
            }
            return None;
        };
        if !accept::has_room(&self.local, &mut hold, Peer::Inet(client)) {
            return None;
        }
        let counters = self.local.counters();
        counters.accepted.add(1);
        counters.open.fetch_add(1, Ordering::Relaxed);
        listener.counters.accepted.fetch_add(1, Ordering::Relaxed);
        Some(hold)
    }

    /// The next datagram of the client begins another session.
    fn forget(&self, session: &Rc<Session>) {
        let mut sessions = self.sessions.borrow_mut();
        let key = session.key();
        let known = sessions.get(&key);
        if known.is_some_and(|known| Rc::ptr_eq(known, session)) {
            sessions.remove(&key);
        }
    }
}

/// A session with its task.
struct Running {
    endpoint: Rc<DatagramEndpoint>,
    session: Rc<Session>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.endpoint.forget(&self.session);
    }
}
