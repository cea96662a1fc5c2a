//! The client of an exchange: its channel, its addresses, its deadline, and the bytes that it has not taken.
//!
//! A connection of HTTP/1 has one for all its exchanges; each HTTP/2 or HTTP/3 stream has its own, and so has a request that the server
//! makes itself, whose response is discarded. While idle, a client is this struct, a slab entry and a kernel socket: no buffer, no timer of
//! its own. A client that does not take everything has `send_timeout`, extended by progress:
//! [`SendDeadline`](tutti_conn::send_deadline::SendDeadline).
//!
//! Must never: hold state of a single exchange of a connection that continues, which would affect the next one.

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tutti_conn::address::AddressText;
use tutti_conn::buffer_space::{BufferSpace, Waiting};
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::{ConnectionEntry, NEVER};
use tutti_conn::departure::{Presence, SendingSide, Waited};
use tutti_conn::listener::{ListenerHold, Peer, inet};
use tutti_conn::output::{Gone, Output};
use tutti_conn::response_buffers::{ConnectionBuffers, EncoderCharge, OverflowFile};
use tutti_conn::send_deadline::SendDeadline;
use tutti_conn::socket::ReadResult;
use tutti_gateway::proxy_protocol::{Addresses, Proxied};
use tutti_http::Version;
use tutti_http::websocket::close_code;
use tutti_pool::Level;
use tutti_routing::ConnectionNumbers;

use crate::exchange::channel::Channel;
use crate::exchange::stream::Stream;
use crate::local::Local;

/// For [`Server::drain_gently`](crate::Server::drain_gently): how long a connection without a request stays open when an upgrade drains the
/// server: nearly all clients with another request send it sooner.
pub const LAST_REQUEST: Duration = Duration::from_secs(10);

/// The same when its listener is being closed, or the server stops.
const LAST_MOMENT: Millis = 500;

/// Maximum time to read from a client that still sends after its last response: in all, and between two reads.
const LINGER_TOTAL: Millis = 5_000;
const LINGER_PAUSE: Millis = 2_000;

/// The number of the next connection of any thread.
static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

/// The two ends of a connection, and the thread that serves it.
pub(crate) struct Ends {
    pub(crate) local: Rc<Local>,
    pub(crate) listener: ListenerHold,
    /// The other end of the socket: the client, or a proxy before it.
    pub(crate) peer: Peer,
    /// The client announced by that proxy.
    proxied: Cell<Option<Proxied>>,
    /// The number of the connection.
    number: u64,
    /// Requests on it so far, those of all its streams together.
    requests: Cell<u64>,
    /// It takes no more requests, on any stream.
    takes_no_more: Cell<bool>,
    /// The local address, read from the kernel at most once; only for listeners on any address.
    local_address: OnceCell<SocketAddr>,
    /// The addresses of the client and of the server for applications; made for the first request to one.
    address_texts: OnceCell<Box<[AddressText; 2]>>,
}

impl Ends {
    pub(crate) fn new(local: Rc<Local>, listener: ListenerHold, peer: Peer) -> Self {
        Self {
            local,
            listener,
            peer,
            proxied: Cell::default(),
            number: NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed),
            requests: Cell::default(),
            takes_no_more: Cell::default(),
            local_address: OnceCell::new(),
            address_texts: OnceCell::new(),
        }
    }

    /// Notes the local address.
    pub(crate) fn note_local_address(&self, address: SocketAddr) {
        let _ = self.local_address.set(address);
    }

    /// The same ends for exchanges that may outlive the connection, which is not counted again for them.
    fn another(&self) -> Rc<Self> {
        Rc::new(Self {
            local: Rc::clone(&self.local),
            listener: self.listener.another(),
            peer: self.peer,
            proxied: self.proxied.clone(),
            number: self.number,
            requests: self.requests.clone(),
            takes_no_more: self.takes_no_more.clone(),
            local_address: self.local_address.clone(),
            address_texts: OnceCell::new(),
        })
    }

    /// True if the connection must end with the current request.
    pub(crate) fn is_ending(&self) -> bool {
        self.takes_no_more.get() || self.listener.is_closing() || self.local.draining.get()
    }

    /// Has the connection end with the current requests.
    pub(crate) fn take_no_more(&self) {
        self.takes_no_more.set(true);
    }

    /// Counts a request.
    pub(crate) fn count_request(&self) -> ConnectionNumbers {
        self.requests.set(self.requests.get() + 1);
        self.numbers()
    }

    /// The number of the connection, and of its latest request.
    pub(crate) fn numbers(&self) -> ConnectionNumbers {
        ConnectionNumbers {
            number: self.number,
            requests: self.requests.get(),
        }
    }

    /// Both addresses announced by a proxy.
    pub(crate) fn proxied_addresses(&self) -> Option<Addresses> {
        self.proxied.get().and_then(|proxied| proxied.addresses)
    }

    /// The client's address; `None` for a unix socket.
    pub(crate) fn client_address(&self) -> Option<SocketAddr> {
        match self.proxied_addresses() {
            Some(addresses) => Some(addresses.source),
            None => self.peer.address(),
        }
    }
}

/// The client of an exchange.
pub(crate) struct ClientSide {
    ends: Rc<Ends>,
    pub(crate) channel: Channel,
    /// Counts the bytes of its responses in memory that it has not taken.
    waiting: Waiting,
    /// When it is given up, if it has not taken everything.
    send_deadline: SendDeadline,
    /// Its socket has been configured for large files.
    pub(crate) is_prepared: Cell<bool>,
    /// The state of its sending side.
    sending_side: SendingSide,
    /// Its deadline, and how to wake its task; `None`: it is a stream without one.
    entry: Option<ConnectionEntry>,
}

impl std::ops::Deref for ClientSide {
    type Target = Ends;

    fn deref(&self) -> &Ends {
        &self.ends
    }
}

impl ClientSide {
    /// Registers a client with its thread; `waker` wakes its task.
    pub(crate) fn new(channel: Channel, ends: Rc<Ends>, waker: Waker) -> Self {
        let mut client = Self::without_task(channel, ends);
        client.enter(waker);
        client
    }

    fn without_task(channel: Channel, ends: Rc<Ends>) -> Self {
        Self {
            ends,
            channel,
            waiting: Waiting::default(),
            send_deadline: SendDeadline::default(),
            is_prepared: Cell::new(false),
            sending_side: SendingSide::default(),
            entry: None,
        }
    }

    /// The client of one stream of a connection; `share` is that of the connection: the limit is the same for one stream and for a hundred.
    /// Until it [has a task](Self::enter), it cannot wait.
    pub(crate) fn of_stream(
        stream: Stream,
        ends: &Rc<Ends>,
        share: &Rc<ConnectionBuffers>,
    ) -> Self {
        let mut client = Self::without_task(Channel::Stream(Box::new(stream)), Rc::clone(ends));
        client.waiting = Waiting::beside(share);
        client
    }

    /// The ends of another exchange of this client, which may outlive it.
    pub(crate) fn another_end(&self) -> Rc<Ends> {
        // Reads the address, so that it is known there.
        self.socket_address();
        self.ends.another()
    }

    /// Prepares it for streams, which have its ends and may outlive it. The former ends are returned: until they are dropped, the
    /// connection counts in the limits of its listener.
    pub(crate) fn share_ends(&mut self) -> Rc<Ends> {
        let shared = self.another_end();
        std::mem::replace(&mut self.ends, shared)
    }

    /// The ends, for a stream.
    pub(crate) fn ends(&self) -> &Rc<Ends> {
        &self.ends
    }

    /// Notes the client announced by a proxy.
    pub(crate) fn note_proxied(&self, proxied: Proxied) {
        self.proxied.set(Some(proxied));
    }

    /// The HTTP version of the answer to a client whose request could not be parsed.
    pub(crate) fn version(&self) -> Version {
        match &self.channel {
            Channel::Transport(_) | Channel::Discard => Version::Http11,
            Channel::Stream(stream) => stream.version(),
        }
    }

    /// Registers it with its thread; `waker` wakes its task.
    pub(crate) fn enter(&mut self, waker: Waker) {
        self.entry = Some(self.local.connections.enter(waker));
    }

    /// True if the deadline has passed.
    pub(crate) fn is_overdue(&self) -> bool {
        self.entry.as_ref().is_some_and(ConnectionEntry::is_overdue)
    }

    /// The state of the client while it waits for a response; wakes the task when it changes.
    pub(crate) fn presence(&self, waited: Waited, cx: &mut Context<'_>) -> Presence {
        let is_gone = match &self.channel {
            Channel::Transport(transport) => {
                return self.sending_side.presence(transport, waited, cx);
            }
            Channel::Stream(stream) => stream.poll_gone(cx).is_ready(),
            Channel::Discard => false,
        };
        match is_gone {
            true => Presence::Gone,
            false => Presence::Here,
        }
    }

    /// Called when a task waits within its response for the first time.
    pub(crate) fn note_earlier_end(&self, arrived: Instant) {
        if let Channel::Transport(transport) = &self.channel {
            self.sending_side.note_earlier_end(transport, arrived);
        }
    }

    pub(crate) fn set_deadline(&self, deadline: Millis) {
        debug_assert!(self.entry.is_some(), "only a task waits");
        if let Some(entry) = &self.entry {
            entry.set_deadline(deadline);
        }
    }

    /// Sets the deadline for what an ending connection still waits for: its handshake, its PROXY header, its first request.
    pub(crate) fn set_last_deadline(&self) {
        let patience = match self.local.drains_gently() {
            true => LAST_REQUEST.as_millis() as Millis,
            false => LAST_MOMENT,
        };
        self.set_deadline(now_millis().saturating_add(patience));
    }

    /// The status for the close frame of a WebSocket (RFC 6455 §7.4.1), if the server ends it now.
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

    /// True if the client's bytes were encrypted, on the way to this server or to a trusted proxy.
    pub(crate) fn is_https(&self) -> bool {
        self.channel.is_tls() || self.proxied.get().is_some_and(|proxied| proxied.is_tls)
    }

    /// The address the client connected to.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        match self.proxied_addresses() {
            Some(addresses) => Some(addresses.destination),
            None => self.socket_address(),
        }
    }

    /// The address of the client, and the one that it connected to, as text.
    pub(crate) fn address_texts(&self) -> &[AddressText; 2] {
        let both = || [self.client_address(), self.local_address()];
        let texts = &self.ends.address_texts;
        texts.get_or_init(|| Box::new(both().map(AddressText::of)))
    }

    /// The address the socket is connected to.
    fn socket_address(&self) -> Option<SocketAddr> {
        if let Some(address) = self.listener.local {
            return Some(address);
        }
        if !self.listener.is_inet() {
            return None;
        }
        if self.ends.local_address.get().is_none() {
            // For QUIC, it has been noted.
            let address = rustix::net::getsockname(self.channel.socket()?)
                .ok()
                .and_then(inet)?;
            let _ = self.ends.local_address.set(address);
        }
        self.ends.local_address.get().copied()
    }

    /// True if the client is on this machine, according to the addresses.
    pub(crate) fn is_local(&self) -> bool {
        let Some(peer) = self.peer.address() else {
            return true;
        };
        peer.ip().is_loopback()
            || self
                .socket_address()
                .is_some_and(|local| local.ip() == peer.ip())
    }
}

impl ClientSide {
    /// Reads at least one byte into the spare capacity of `buffer`, until `deadline`.
    pub(crate) async fn read_more(
        &self,
        buffer: &mut Vec<u8>,
        deadline: Millis,
    ) -> Result<(), Gone> {
        self.set_deadline(deadline);
        if buffer.capacity() == buffer.len() {
            buffer.reserve(buffer.len().max(tutti_conn::buffers::BUFFER_BYTES));
        }
        poll_fn(|cx| match self.channel.poll_receive(buffer, cx) {
            Poll::Ready(Ok(ReadResult::Bytes(_))) => Poll::Ready(Ok(())),
            Poll::Ready(Ok(ReadResult::End | ReadResult::Nothing)) => {
                Poll::Ready(Err(Gone::Closed))
            }
            Poll::Ready(Err(gone)) => Poll::Ready(Err(gone)),
            Poll::Pending if deadline <= now_millis() => Poll::Ready(Err(Gone::TimedOut)),
            Poll::Pending => Poll::Pending,
        })
        .await
    }

    /// Calls `attempt` whenever the channel may accept bytes, until it makes progress, or the client is given up.
    pub(crate) async fn attempt(
        &self,
        mut attempt: impl FnMut(&mut Context<'_>) -> Poll<Result<(), Gone>>,
        send_timeout: Millis,
    ) -> Result<(), Gone> {
        poll_fn(|cx| match attempt(cx) {
            Poll::Pending => self.wait_for_client(self.owes(send_timeout)),
            polled => polled,
        })
        .await
    }

    /// Waits until the client takes bytes, at most until `deadline`.
    fn wait_for_client(&self, deadline: Millis) -> Poll<Result<(), Gone>> {
        if deadline <= now_millis() {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        self.set_deadline(deadline);
        Poll::Pending
    }

    /// Sends some of `output`: ready when bytes have been sent, or nothing is left.
    pub(crate) fn poll_send(
        &self,
        output: &mut Output,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        if output.poll_pace(cx).is_pending() {
            // It has taken what it was given.
            self.note_all_taken();
            if let Channel::Stream(stream) = &self.channel {
                stream.pass_room_on();
            }
            return Poll::Pending;
        }
        let before = self.channel.unsent(output);
        let polled = self.channel.poll_send(output, cx);
        self.note_taken(before.saturating_sub(self.channel.unsent(output)));
        if polled.is_pending() && output.is_paused() {
            // Other responses have used up what there was; this arranges the wake-up.
            let _ = output.poll_pace(cx);
        }
        polled
    }

    /// Counts the bytes that the client has taken.
    pub(crate) fn note_taken(&self, bytes: u64) {
        self.send_deadline.note_taken(bytes);
    }

    /// Notes that the client has taken everything.
    pub(crate) fn note_all_taken(&self) {
        self.send_deadline.note_all_taken();
    }

    /// When a client that has not taken everything is given up; that state begins now at the latest.
    pub(crate) fn owes(&self, send_timeout: Millis) -> Millis {
        if let Channel::Stream(stream) = &self.channel {
            self.note_taken(stream.taken_beside());
        }
        self.send_deadline.owes(send_timeout)
    }

    /// When a client that has not taken all of `output` is given up; [`NEVER`] if it has.
    pub(crate) fn owes_of(&self, output: &Output, send_timeout: Millis) -> Millis {
        if self.channel.has_sent(output) {
            self.note_all_taken();
            return NEVER;
        }
        self.owes(send_timeout)
    }

    /// Sends all of `output`.
    pub(crate) async fn flush(
        &self,
        output: &mut Output,
        send_timeout: Millis,
    ) -> Result<(), Gone> {
        let is_sent = self.channel.try_send(output)?;
        if !is_sent {
            poll_fn(|cx| {
                while !self.channel.has_sent(output) {
                    if self.poll_send(output, cx)?.is_pending() {
                        self.note_held(output);
                        return self.wait_for_client(self.owes(send_timeout));
                    }
                }
                Poll::Ready(Ok(()))
            })
            .await?;
        }
        self.note_held(output);
        self.note_all_taken();
        Ok(())
    }
}

impl ClientSide {
    /// The share of the client's connection in the limits.
    pub(crate) fn share(&self) -> &Rc<ConnectionBuffers> {
        self.waiting.share(&self.local.shared.holdings)
    }

    /// Counts memory for encoding or decoding a response; `None` if the limit is reached.
    pub(crate) fn charge(&self, bytes: usize) -> Option<EncoderCharge> {
        EncoderCharge::take(&self.local.shared.holdings, bytes)
    }

    /// Counts how much of `output` is in memory.
    pub(crate) fn note_held(&self, output: &Output) {
        self.waiting.note(output, &self.local.shared.holdings);
    }

    /// Counts how much of `output` is in memory; returns how much of `most` it may have there.
    pub(crate) fn allowance(&self, output: &Output, most: usize) -> usize {
        self.waiting
            .allowance(output, most, &self.local.shared.holdings)
    }

    /// Makes room for more of a response whose beginning waits in `output`: its own limit in memory is `most` bytes, the rest goes to
    /// `store`, and without room there, the client has to take some. The caller decides how long it may take.
    pub(crate) fn poll_room(
        &self,
        output: &mut Output,
        (most, store): (usize, Option<&OverflowFile>),
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        loop {
            match self.room(output, most, store) {
                BufferSpace::Some => return Poll::Ready(Ok(())),
                BufferSpace::Made => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                BufferSpace::None => {}
            }
            if self.poll_send(output, cx)?.is_pending() {
                return Poll::Pending;
            }
        }
    }

    fn room(&self, output: &mut Output, most: usize, store: Option<&OverflowFile>) -> BufferSpace {
        let all = &self.local.shared.holdings;
        let outcome = self.waiting.room(output, most, store, all);
        outcome.unwrap_or_else(|error| {
            let folder = store.map_or(Path::new(""), |store| store.spool.folder());
            self.local.log_failure(
                Level::Warn,
                &format!(
                    "a response for a slow client cannot be buffered in `{}`, so its sender waits: {error}",
                    folder.display()
                ),
            );
            BufferSpace::None
        })
    }

    /// Shuts down the sending side, and reads for a while: closing a socket with unread bytes resets the connection, and the reset may
    /// overtake the response (RFC 9112 §9.6).
    pub(crate) async fn linger(&self) {
        if !self.channel.shutdown() {
            return;
        }
        let end = now_millis().saturating_add(LINGER_TOTAL);
        let mut buffer = self.local.buffers.take();
        loop {
            buffer.clear();
            let deadline = end.min(now_millis().saturating_add(LINGER_PAUSE));
            if self.read_more(&mut buffer, deadline).await.is_err() || now_millis() >= end {
                break;
            }
        }
        self.local.buffers.give(buffer);
    }
}
