//! One connection as everything that serves it sees it: channel, peer, listener, deadline.
//!
//! While it waits, a connection is this struct, a slab entry and a kernel socket: no buffer, no timer of its own. Owned by its task
//! ([`connection_task`](crate::connection_task)). Must never: be counted twice, or not at all, whatever way it ends.

use std::cell::{Cell, OnceCell, RefCell};
use std::hash::BuildHasher;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tutti_conn::room::Waiting;
use tutti_gateway::proxy_protocol::{Addresses, Proxied};
use tutti_guard::Admission;
use tutti_http::websocket::close_code;
use tutti_http::{OwnedPath, Version};
use tutti_pool::Whereabouts;
use tutti_routing::RuleSet;

use crate::channel::Channel;
use crate::fields::forwarded::Origin;
use crate::local::Local;
use crate::stream::Stream;
use crate::trace::Traced;
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::Entry;
use tutti_conn::departure::{Presence, SendingSide};
use tutti_conn::listener::{ListenerHold, Peer, inet};
use tutti_conn::send_deadline::SendDeadline;
use tutti_request_log::Phases;
use tutti_request_log::{Answerer, Counts};

/// How long a connection whose listener is being closed may take to send its first request, if that has not come yet.
pub(crate) const LAST_MOMENT: Millis = 500;

/// A connection and its place in the thread.
pub(crate) struct Connection {
    pub(crate) channel: Channel,
    pub(crate) local: Rc<Local>,
    pub(crate) listener: ListenerHold,
    /// The other end of the socket: the client, or a proxy before it.
    pub(crate) peer: Peer,
    /// The client as the fields of the current request tell it.
    pub(crate) origin: Cell<Origin>,
    /// The client as that proxy announces it.
    pub(crate) proxied: Option<Proxied>,
    /// When the first byte of the current request came.
    pub(crate) begun: Cell<Instant>,
    /// A part of the next request's head has come.
    is_head_begun: Cell<bool>,
    /// When the head of the current request was complete.
    pub(crate) arrived: Cell<Instant>,
    /// Answers the current request.
    pub(crate) answerer: Cell<Answerer>,
    /// The route that the current request was looked up in last.
    pub(crate) route: Cell<Option<usize>>,
    /// The path that the current request has been given by a `rewrite`.
    pub(crate) rewritten: RefCell<Option<Rc<OwnedPath>>>,
    /// The decisions before the action of the current request.
    pub(crate) admission: Admission,
    /// The rules for the answer to the current request.
    pub(crate) rules: RefCell<RuleSet>,
    /// The trace of the current request, where requests are traced.
    pub(crate) traced: Traced,
    /// When what happened to the current request, where there is a slow log.
    pub(crate) phases: Cell<Phases>,
    /// For asking where the application stands that has the current request, where there is a slow log.
    pub(crate) whereabouts: Cell<Option<Box<Whereabouts>>>,
    /// The access log and the metrics have been told of the current request, or there is none.
    is_logged: Cell<bool>,
    /// Part of the current request's body has not come.
    is_body_coming: Cell<bool>,
    /// Number of the current request on this thread.
    serial: Cell<u64>,
    /// Where the connection came to, asked of the kernel at most once; only for listeners on any address.
    local_address: OnceCell<SocketAddr>,
    /// Bytes of its answers in memory that the client has not taken.
    pub(crate) waiting: Waiting,
    /// When a client that has not taken all there is for it is given up.
    pub(crate) send_deadline: SendDeadline,
    /// Its socket has been set up for large files.
    pub(crate) is_prepared: Cell<bool>,
    /// The end of the client's sending side, as far as it is known.
    sending_side: SendingSide,
    /// Its deadline, and how to wake its task.
    entry: Entry,
    /// Counted as idle.
    is_idle: Cell<bool>,
    /// A request has been read on it before.
    pub(crate) has_served: bool,
    /// It has been given a last moment for its first request.
    pub(crate) is_hurried: bool,
}

impl Connection {
    /// Enters the connection into its thread; `waker` wakes its task.
    pub(crate) fn new(
        channel: Channel,
        peer: Peer,
        listener: ListenerHold,
        local: Rc<Local>,
        waker: Waker,
    ) -> Self {
        let entry = local.connections.enter(waker);
        Self {
            channel,
            local,
            listener,
            peer,
            origin: Cell::default(),
            proxied: None,
            begun: Cell::new(Instant::now()),
            is_head_begun: Cell::new(false),
            arrived: Cell::new(Instant::now()),
            answerer: Cell::default(),
            route: Cell::default(),
            rewritten: RefCell::default(),
            admission: Admission::default(),
            rules: RefCell::default(),
            traced: Traced::default(),
            phases: Cell::default(),
            whereabouts: Cell::default(),
            is_logged: Cell::new(true),
            is_body_coming: Cell::new(false),
            serial: Cell::new(0),
            local_address: OnceCell::new(),
            waiting: Waiting::default(),
            send_deadline: SendDeadline::default(),
            is_prepared: Cell::new(false),
            sending_side: SendingSide::default(),
            entry,
            is_idle: Cell::new(false),
            has_served: false,
            is_hurried: false,
        }
    }

    /// A stream of this connection, as a connection of its own: from the same client, through the same listener, not counted again.
    pub(crate) fn for_stream(&self, stream: Stream, waker: Waker) -> Self {
        let listener = self.listener.another();
        let channel = Channel::Stream(Box::new(stream));
        let mut stream = Self::new(channel, self.peer, listener, Rc::clone(&self.local), waker);
        stream.proxied = self.proxied;
        // A client has as much with one stream as with a hundred.
        stream.waiting = Waiting::beside(self.share());
        if let Some(address) = self.socket_address() {
            stream.note_local_address(address);
        }
        stream
    }

    /// The connection came to this address.
    pub(crate) fn note_local_address(&self, address: SocketAddr) {
        let _ = self.local_address.set(address);
    }

    /// A connection for a request that the server makes for itself, alike one of this connection; it is counted nowhere.
    pub(crate) fn for_itself(&self, is_https: bool) -> Self {
        let (listener, local) = (self.listener.another(), Rc::clone(&self.local));
        let waker = Waker::noop().clone();
        let mut own = Self::new(Channel::Nobody, self.peer, listener, local, waker);
        own.proxied = self.proxied;
        own.serial.set(self.local.next_serial());
        own.answerer.set(self.answerer.get());
        own.origin.set(Origin {
            is_https: Some(is_https),
            ..self.origin.get()
        });
        if let Some(address) = self.socket_address() {
            let _ = own.local_address.set(address);
        }
        own
    }

    /// The version of HTTP that a client is answered in whose request could not be read.
    pub(crate) fn version(&self) -> Version {
        match &self.channel {
            Channel::Transport(_) | Channel::Nobody => Version::Http11,
            Channel::Stream(stream) => stream.version(),
            Channel::Quic => Version::Http3,
        }
    }

    /// It is another task's from now on.
    pub(crate) fn set_waker(&self, waker: Waker) {
        self.entry.set_waker(waker);
    }

    /// True if the deadline has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        self.entry.is_overdue()
    }

    /// A part of a request's head has come.
    pub(crate) fn note_begin(&self) {
        if !self.is_head_begun.replace(true) {
            self.begun.set(Instant::now());
        }
    }

    /// A request's head is complete, or will not be.
    pub(crate) fn note_request(&self) {
        self.local.counters().requests.add(1);
        self.arrived.set(Instant::now());
        if !self.is_head_begun.replace(false) {
            self.begun.set(self.arrived.get());
        }
        self.origin.set(Origin::default());
        self.answerer.set(Answerer::Nothing);
        self.route.take();
        self.rewritten.take();
        self.admission.reset();
        self.rules.take();
        self.is_logged.set(false);
        self.is_body_coming.set(false);
        self.sending_side.note_request();
        self.serial.set(self.local.next_serial());
    }

    /// The access log and the metrics are told of the current request; false if it has been told before.
    pub(crate) fn note_logged(&self) -> bool {
        !self.is_logged.replace(true)
    }

    /// The client has all that there is for it. A request that has ended is under way no longer.
    pub(crate) fn note_sent(&self) {
        if self.is_logged.get() {
            self.admission.end();
        }
    }

    /// Counts the current request, which has been answered with this status after `took`, or ends as if it had.
    pub(crate) fn count(&self, counts: &Counts, status: u16, took: Duration) {
        let thread = self.local.thread;
        if let Some(classes) = self.listener.counters.requests.of(thread) {
            classes.add(status);
        }
        counts.note(thread, self.answerer.get(), status, took);
        if let Some(route) = self.route.get() {
            counts.note_route(thread, route, status);
        }
    }

    /// True if the access log has been told of the current request, or there is none.
    pub(crate) fn is_logged(&self) -> bool {
        self.is_logged.get()
    }

    /// The state of the client now; wakes the task when it changes.
    pub(crate) fn presence(&self, cx: &mut Context<'_>) -> Presence {
        let is_gone = match &self.channel {
            Channel::Transport(transport) => {
                return self
                    .sending_side
                    .presence(transport, self.arrived.get(), cx);
            }
            Channel::Stream(stream) => stream.poll_gone(cx).is_ready(),
            Channel::Quic => true,
            Channel::Nobody => false,
        };
        match is_gone {
            true => Presence::Gone,
            false => Presence::Here,
        }
    }

    /// Ready when the client can get no response any more; wakes the task when that happens.
    pub(crate) fn poll_gone(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.presence(cx) {
            Presence::Gone => Poll::Ready(()),
            Presence::Here | Presence::SendsNoMore { .. } => Poll::Pending,
        }
    }

    /// The response begins.
    pub(crate) fn note_response_begun(&self) {
        if let Channel::Transport(transport) = &self.channel {
            self.sending_side
                .note_response_begun(transport, self.arrived.get());
        }
    }

    /// Part of the current request's body has not come, or all of it has.
    pub(crate) fn set_body_coming(&self, is_coming: bool) {
        self.is_body_coming.set(is_coming);
    }

    /// True if part of the current request's body has not come.
    pub(crate) fn is_body_coming(&self) -> bool {
        self.is_body_coming.get()
    }

    /// No request has been read on it.
    pub(crate) fn is_new(&self) -> bool {
        self.serial.get() == 0
    }

    pub(crate) fn set_deadline(&self, deadline: Millis) {
        self.entry.set_deadline(deadline);
    }

    /// True if it must end with the current request.
    pub(crate) fn is_ending(&self) -> bool {
        self.listener.is_closing() || self.local.draining.get()
    }

    /// The status of the close frame that a WebSocket is sent now (RFC 6455 §7.4.1), if the server ends it.
    pub(crate) fn farewell(&self) -> Option<u16> {
        if !self.is_ending() {
            return None;
        }
        match (self.local.drains_gently(), self.local.is_cut()) {
            (false, _) => Some(close_code::GOING_AWAY),
            // Another process of the server accepts already.
            (true, true) => Some(close_code::SERVICE_RESTART),
            (true, false) => None,
        }
    }

    /// Both addresses that a proxy before us says.
    fn proxied_addresses(&self) -> Option<Addresses> {
        self.proxied.and_then(|proxied| proxied.addresses)
    }

    /// The client's address; `None` of a unix socket.
    pub(crate) fn client_address(&self) -> Option<SocketAddr> {
        match self.proxied_addresses() {
            Some(addresses) => Some(addresses.source),
            None => self.peer.address(),
        }
    }

    /// True if the client's bytes were encrypted, on the way to us or to a proxy before us.
    pub(crate) fn is_https(&self) -> bool {
        self.channel.is_tls() || self.proxied.is_some_and(|proxied| proxied.is_tls)
    }

    /// The address the client connected to.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self.proxied_addresses() {
            Some(addresses) => Some(addresses.destination),
            None => self.socket_address(),
        }
    }

    /// The address the socket is connected to.
    fn socket_address(&self) -> Option<SocketAddr> {
        if let Some(address) = self.listener.local {
            return Some(address);
        }
        if !self.listener.is_inet() {
            return None;
        }
        if self.local_address.get().is_none() {
            // QUIC's has been noted.
            let address = rustix::net::getsockname(self.channel.socket()?)
                .ok()
                .and_then(inet)?;
            let _ = self.local_address.set(address);
        }
        self.local_address.get().copied()
    }

    /// True if the client is on this machine, as far as addresses tell.
    pub(crate) fn is_local(&self) -> bool {
        let Some(peer) = self.peer.address() else {
            return true;
        };
        peer.ip().is_loopback()
            || self
                .socket_address()
                .is_some_and(|local| local.ip() == peer.ip())
    }

    /// Number of the current request; threads count each for themselves, so theirs are told apart by the remainder.
    pub(crate) fn number(&self) -> u64 {
        let threads = self.local.shared.counters.len() as u64;
        self.serial.get() * threads + u64::from(self.local.thread)
    }

    /// A number that no other request has and nobody can guess, the same at every call for one request.
    pub(crate) fn request_id(&self) -> u128 {
        u128::from(self.hash(0)) << 64 | u128::from(self.hash(1))
    }

    /// The same, for the request's span.
    pub(crate) fn span_id(&self) -> u64 {
        self.hash(2)
    }

    fn hash(&self, salt: u8) -> u64 {
        let parts = (self.local.thread, self.serial.get(), salt);
        self.local.identity.hash_one(parts)
    }

    pub(crate) fn set_idle(&self) {
        self.count_idle();
        let snapshot = self.local.snapshot();
        // Until its first request a connection counts as reading a head.
        let timeout = if self.has_served {
            snapshot.timeouts.idle
        } else {
            snapshot.timeouts.header_read
        };
        self.set_deadline(now_millis().saturating_add(timeout));
    }

    /// Counts it as one that waits for a request.
    pub(crate) fn count_idle(&self) {
        self.note_sent();
        if !self.is_idle.replace(true) {
            self.local.counters().idle.add(1);
        }
    }

    pub(crate) fn set_active(&self) {
        if self.is_idle.replace(false) {
            self.local.counters().idle.subtract(1);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.set_active();
        if !matches!(self.channel, Channel::Stream(_) | Channel::Nobody) {
            self.local.connection_ended();
        }
    }
}
