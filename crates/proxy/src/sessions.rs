//! The HTTP/2 connections of one thread to servers of upstreams.
//!
//! A connection takes requests up to the limit of its server; then another is opened. It takes no more when the server sends GOAWAY or
//! closes it, or when a request has timed out and nothing has come from the server meanwhile: it may be gone without a sign. It is closed
//! after `keepalive_timeout` without requests.
//!
//! Must never: open a connection while one is being opened that has room for the request, or keep anything of a server to which there is
//! no connection.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tutti_conn::clock::{Millis, now_millis};

/// Interval between checks of a connection that is not to be kept.
const SOON: Duration = Duration::from_millis(20);

/// A connection that takes requests.
pub(crate) struct Session {
    client: SendRequest<Bytes>,
    /// Open requests.
    active: Cell<usize>,
    /// Requests so far.
    served: Cell<u64>,
    /// Since when it has been idle; meaningless while it is not.
    idle_since: Cell<Millis>,
    /// When bytes last came from the server.
    heard: Rc<Cell<Millis>>,
    /// A request has timed out on it, and nothing came from the server meanwhile.
    is_silent: Cell<bool>,
    driver: AbortHandle,
}

impl Session {
    /// For a new connection with this driver, which updates `heard` whenever bytes come from the server.
    pub(crate) fn new(
        client: SendRequest<Bytes>,
        heard: Rc<Cell<Millis>>,
        driver: AbortHandle,
    ) -> Self {
        Self {
            client,
            active: Cell::new(0),
            served: Cell::new(0),
            idle_since: Cell::new(now_millis()),
            heard,
            is_silent: Cell::new(false),
            driver,
        }
    }

    /// True if it takes further requests, now or later.
    fn is_open(&self) -> bool {
        if self.is_silent.get() {
            return false;
        }
        let mut context = Context::from_waker(Waker::noop());
        !matches!(
            self.client.clone().poll_ready(&mut context),
            std::task::Poll::Ready(Err(_))
        )
    }

    fn has_room(&self) -> bool {
        self.active.get() < self.client.current_max_send_streams()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The end of a connection is announced to the server, which a silent one may never take.
        if self.is_silent.get() {
            self.driver.abort();
        }
    }
}

/// One request's stream on a connection.
pub(crate) struct Lease {
    session: Rc<Session>,
    since: Millis,
}

impl Lease {
    fn new(session: &Rc<Session>) -> Self {
        session.active.set(session.active.get() + 1);
        Self {
            session: Rc::clone(session),
            since: now_millis(),
        }
    }

    /// The handle that begins a request on it.
    pub(crate) fn client(&self) -> SendRequest<Bytes> {
        self.session.client.clone()
    }

    /// True if it has had requests before.
    pub(crate) fn is_reused(&self) -> bool {
        self.session.served.get() > 0
    }

    /// Notes that the request has been answered.
    pub(crate) fn answered(&self) {
        let served = &self.session.served;
        served.set(served.get() + 1);
    }

    /// Notes that the request has timed out, for which the server had time since `start`. If nothing has come from the server since then, or
    /// since the request began, the connection takes no more requests. The end of that time does not matter: a timer may be late.
    pub(crate) fn timed_out(&self, start: Millis) {
        if self.session.heard.get() <= start.max(self.since) {
            self.session.is_silent.set(true);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Session {
            active, idle_since, ..
        } = &*self.session;
        active.set(active.get().saturating_sub(1));
        idle_since.set(now_millis());
    }
}

/// The connections to one server.
#[derive(Default)]
struct Server {
    open: Vec<Rc<Session>>,
    /// A connection is being opened.
    is_opening: bool,
    /// Notified when it is open, or has failed.
    opened: Rc<Notify>,
}

/// The connections of a thread.
#[derive(Default)]
pub(crate) struct Sessions {
    servers: RefCell<FxHashMap<u64, Server>>,
}

/// A stream for a request, or how to get one.
pub(crate) enum Found {
    /// A place.
    Room(Lease),
    /// None: the caller must open a connection.
    Open(Opening),
    /// None, but another request is opening a connection: wait for its notification.
    Wait(Rc<Notify>),
}

/// The right to open a connection; dropping it lets another request open one.
pub(crate) struct Opening {
    sessions: Rc<Sessions>,
    server: u64,
}

impl Drop for Opening {
    fn drop(&mut self) {
        let mut servers = self.sessions.servers.borrow_mut();
        if let Some(server) = servers.get_mut(&self.server) {
            server.is_opening = false;
            server.opened.notify_waiters();
            if server.open.is_empty() {
                servers.remove(&self.server);
            }
        }
    }
}

impl Opening {
    /// Adds the open connection; returns a stream for the request that opened it. `timeout` is how long it may be idle.
    pub(crate) fn done(self, session: Session, timeout: Duration) -> Lease {
        let session = Rc::new(session);
        let lease = Lease::new(&session);
        let mut servers = self.sessions.servers.borrow_mut();
        let weak = Rc::downgrade(&session);
        servers.entry(self.server).or_default().open.push(session);
        drop(servers);
        let watch = watch(Rc::clone(&self.sessions), self.server, weak, timeout);
        tokio::task::spawn_local(watch);
        lease
    }
}

impl Sessions {
    /// Finds a stream for a request to the server with this id, or returns how to get one.
    pub(crate) fn find(self: &Rc<Self>, id: u64) -> Found {
        let mut servers = self.servers.borrow_mut();
        let server = servers.entry(id).or_default();
        server.open.retain(|session| session.is_open());
        if let Some(session) = server.open.iter().find(|session| session.has_room()) {
            return Found::Room(Lease::new(session));
        }
        if server.is_opening {
            return Found::Wait(Rc::clone(&server.opened));
        }
        server.is_opening = true;
        Found::Open(Opening {
            sessions: Rc::clone(self),
            server: id,
        })
    }

    /// Takes no more requests to servers that are not `used` any more. Requests in progress continue.
    pub(crate) fn keep_only(&self, used: impl Fn(u64) -> bool) {
        self.servers
            .borrow_mut()
            .retain(|id, server| server.is_opening || used(*id));
    }

    /// Removes a connection: it ends with its last request.
    fn remove(&self, id: u64, session: &Rc<Session>) {
        let mut servers = self.servers.borrow_mut();
        if let Some(server) = servers.get_mut(&id) {
            server.open.retain(|one| !Rc::ptr_eq(one, session));
            if server.open.is_empty() && !server.is_opening {
                servers.remove(&id);
            }
        }
    }
}

/// Closes a connection that is idle for `timeout`.
async fn watch(sessions: Rc<Sessions>, id: u64, session: Weak<Session>, timeout: Duration) {
    let limit = Millis::try_from(timeout.as_millis()).unwrap_or(Millis::MAX);
    let timeout = timeout.max(SOON);
    let mut pause = timeout;
    loop {
        tokio::time::sleep(pause).await;
        let Some(session) = session.upgrade() else {
            return;
        };
        let idle = now_millis().saturating_sub(session.idle_since.get());
        if session.active.get() > 0 {
            pause = timeout;
        } else if idle >= limit || !session.is_open() {
            return sessions.remove(id, &session);
        } else {
            pause = Duration::from_millis(limit - idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use h2::client::handshake;
    use tokio::task::{LocalSet, spawn_local};

    use super::*;

    /// A connection with other answers took no more requests if the timer of one fired late.
    #[tokio::test]
    async fn a_connection_is_silent_if_nothing_comes_after_the_start_of_a_timeout() {
        let judge = async {
            let (near, _far) = tokio::io::duplex(1 << 16);
            let (client, connection) = handshake(near).await.unwrap();
            let driver = spawn_local(async { drop(connection.await) }).abort_handle();
            let heard = Rc::new(Cell::new(0));
            let session = Rc::new(Session::new(client, Rc::clone(&heard), driver));
            let mut lease = Lease::new(&session);
            // Long ago, as are the others: the timer is late.
            lease.since = 5;
            for (heard_at, start, is_open) in [(11, 10, true), (10, 10, false), (5, 3, false)] {
                session.is_silent.set(false);
                heard.set(heard_at);
                lease.timed_out(start);
                assert_eq!(session.is_open(), is_open, "{heard_at} {start}");
            }
        };
        LocalSet::new().run_until(judge).await;
    }

    #[test]
    fn servers_that_accept_no_connection_are_not_kept() {
        let sessions = Rc::<Sessions>::default();
        for id in 0..100 {
            let Found::Open(opening) = sessions.find(id) else {
                panic!("there is a connection to server {id}");
            };
            assert!(matches!(sessions.find(id), Found::Wait(_)));
            drop(opening);
        }
        assert_eq!(sessions.servers.borrow().len(), 0);
    }
}
