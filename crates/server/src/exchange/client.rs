//! The client of an exchange: the way of its bytes, its addresses, its deadline, and what it has not taken yet.
//!
//! A connection of HTTP/1 has one for all its exchanges; each stream of HTTP/2 or 3 has its own, and so has a request that the server makes for
//! itself, whose response is discarded. While it waits, a client is this struct, a slab entry and a kernel socket: no buffer, no timer of its own.
//! A client that has not taken all there is for it has `send_timeout`, by progress: [`SendDeadline`](tutti_conn::send_deadline::SendDeadline).
//!
//! Must never: hold anything of a single exchange of a connection that goes on, which would be there for the next one.

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::Path;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use tutti_config::model::Compressor;
use tutti_conn::buffer_space::{BufferSpace, Waiting};
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::{ConnectionEntry, NEVER};
use tutti_conn::departure::{Presence, SendingSide, Waited};
use tutti_conn::listener::{ListenerHold, Peer, inet};
use tutti_conn::output::{Gone, Output};
use tutti_conn::response_buffers::{ConnectionBuffers, EncoderCharge, OverflowFile};
use tutti_conn::send_deadline::SendDeadline;
use tutti_conn::socket::ReadResult;
use tutti_files::compression;
use tutti_gateway::proxy_protocol::{Addresses, Proxied};
use tutti_http::Version;
use tutti_http::websocket::close_code;
use tutti_pool::Level;

use crate::exchange::channel::Channel;
use crate::exchange::stream::Stream;
use crate::local::Local;

/// How long a client that still sends after its last response is listened to in all, and between two reads.
const LINGER_TOTAL: Millis = 5_000;
const LINGER_PAUSE: Millis = 2_000;

/// The two ends of a connection, and the thread that serves it.
pub(crate) struct Ends {
    pub(crate) local: Rc<Local>,
    pub(crate) listener: ListenerHold,
    /// The other end of the socket: the client, or a proxy before it.
    pub(crate) peer: Peer,
    /// The client as that proxy announces it.
    pub(crate) proxied: Option<Proxied>,
    /// Where the connection came to, asked of the kernel at most once; only for listeners on any address.
    local_address: OnceCell<SocketAddr>,
}

impl Ends {
    pub(crate) fn new(local: Rc<Local>, listener: ListenerHold, peer: Peer) -> Self {
        Self {
            local,
            listener,
            peer,
            proxied: None,
            local_address: OnceCell::new(),
        }
    }

    /// The connection came to this address.
    pub(crate) fn note_local_address(&self, address: SocketAddr) {
        let _ = self.local_address.set(address);
    }

    /// The ends of an exchange beside others of the same connection, which is not counted again.
    pub(crate) fn another(&self) -> Self {
        Self {
            local: Rc::clone(&self.local),
            listener: self.listener.another(),
            peer: self.peer,
            proxied: self.proxied,
            local_address: self.local_address.clone(),
        }
    }

    /// True if the connection must end with the current request.
    pub(crate) fn is_ending(&self) -> bool {
        self.listener.is_closing() || self.local.draining.get()
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
}

/// The client of an exchange.
pub(crate) struct ClientSide {
    ends: Ends,
    pub(crate) channel: Channel,
    /// Bytes of its responses in memory that it has not taken.
    waiting: Waiting,
    /// When it is given up, if it has not taken all there is for it.
    send_deadline: SendDeadline,
    /// Its socket has been set up for large files.
    pub(crate) is_prepared: Cell<bool>,
    /// The end of its sending side, as far as it is known.
    sending_side: SendingSide,
    /// Its deadline, and how to wake its task.
    entry: ConnectionEntry,
}

impl std::ops::Deref for ClientSide {
    type Target = Ends;

    fn deref(&self) -> &Ends {
        &self.ends
    }
}

impl ClientSide {
    /// Enters a client into its thread; `waker` wakes its task.
    pub(crate) fn new(channel: Channel, ends: Ends, waker: Waker) -> Self {
        let entry = ends.local.connections.enter(waker);
        Self {
            ends,
            channel,
            waiting: Waiting::default(),
            send_deadline: SendDeadline::default(),
            is_prepared: Cell::new(false),
            sending_side: SendingSide::default(),
            entry,
        }
    }

    /// The client of one stream of a connection; `share` is the share of the connection: a client has as much with one stream as with a hundred.
    pub(crate) fn of_stream(
        stream: Stream,
        ends: Ends,
        share: &Rc<ConnectionBuffers>,
        waker: Waker,
    ) -> Self {
        Self {
            waiting: Waiting::beside(share),
            ..Self::new(Channel::Stream(Box::new(stream)), ends, waker)
        }
    }

    /// The ends of another exchange of this client.
    pub(crate) fn another_end(&self) -> Ends {
        // So that it is known there.
        self.socket_address();
        self.ends.another()
    }

    /// A proxy before us says who the client is.
    pub(crate) fn note_proxied(&mut self, proxied: Proxied) {
        self.ends.proxied = Some(proxied);
    }

    /// The version of HTTP that a client is answered in whose request could not be read.
    pub(crate) fn version(&self) -> Version {
        match &self.channel {
            Channel::Transport(_) | Channel::Discard => Version::Http11,
            Channel::Stream(stream) => stream.version(),
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

    /// The state of the client while a response is waited for; wakes the task when it changes.
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

    /// The response to a request that has waited so long begins.
    pub(crate) fn note_response_begun(&self, waited: Waited) {
        if let Channel::Transport(transport) = &self.channel {
            self.sending_side.note_response_begun(transport, waited);
        }
    }

    pub(crate) fn set_deadline(&self, deadline: Millis) {
        self.entry.set_deadline(deadline);
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
        if self.ends.local_address.get().is_none() {
            // QUIC's has been noted.
            let address = rustix::net::getsockname(self.channel.socket()?)
                .ok()
                .and_then(inet)?;
            let _ = self.ends.local_address.set(address);
        }
        self.ends.local_address.get().copied()
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
}

impl ClientSide {
    /// Reads at least one byte behind what `buffer` has, until `deadline`.
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

    /// Calls `attempt` whenever the channel may take something, until it got on, or the client is given up.
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

    /// Nothing goes out before the client takes some: it has until `deadline`.
    fn wait_for_client(&self, deadline: Millis) -> Poll<Result<(), Gone>> {
        if deadline <= now_millis() {
            return Poll::Ready(Err(Gone::TimedOut));
        }
        self.set_deadline(deadline);
        Poll::Pending
    }

    /// Sends some of `output`: ready when something has gone out, or nothing is left.
    pub(crate) fn poll_send(
        &self,
        output: &mut Output,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Gone>> {
        let before = self.channel.unsent(output);
        let polled = self.channel.poll_send(output, cx);
        self.note_taken(before.saturating_sub(self.channel.unsent(output)));
        polled
    }

    /// The client has taken so many bytes of what there is for it.
    pub(crate) fn note_taken(&self, bytes: u64) {
        self.send_deadline.note_taken(bytes);
    }

    /// The client has taken all there was.
    pub(crate) fn note_all_taken(&self) {
        self.send_deadline.note_all_taken();
    }

    /// When a client is given up that has not taken all there is for it, which is so at least since now.
    pub(crate) fn owes(&self, send_timeout: Millis) -> Millis {
        if let Channel::Stream(stream) = &self.channel {
            self.note_taken(stream.taken_beside());
        }
        self.send_deadline.owes(send_timeout)
    }

    /// When a client is given up that has not taken all of `output`; [`NEVER`] if it has.
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
    /// The share of the client's connection.
    pub(crate) fn share(&self) -> &Rc<ConnectionBuffers> {
        self.waiting.share(&self.local.shared.holdings)
    }

    /// Counts the memory of an encoder; `None` if there is none left for another.
    pub(crate) fn charge_encoder(&self, compressor: &Compressor) -> Option<EncoderCharge> {
        let bytes = compression::encoder_bytes(compressor);
        EncoderCharge::take(&self.local.shared.holdings, bytes)
    }

    /// Notes how much of `output` waits in memory.
    pub(crate) fn note_held(&self, output: &Output) {
        self.waiting.note(output, &self.local.shared.holdings);
    }

    /// Notes how much of `output` waits in memory; returns how much of `most` it may have there.
    pub(crate) fn allowance(&self, output: &Output, most: usize) -> usize {
        self.waiting
            .allowance(output, most, &self.local.shared.holdings)
    }

    /// Makes room for more of an answer whose beginning waits in `output`. Alone it may have `most` bytes in memory; the rest goes to
    /// `store`.
    pub(crate) fn room(
        &self,
        output: &mut Output,
        most: usize,
        store: Option<&OverflowFile>,
    ) -> BufferSpace {
        let all = &self.local.shared.holdings;
        let outcome = self.waiting.room(output, most, store, all);
        outcome.unwrap_or_else(|error| {
            let folder = store.map_or(Path::new(""), |store| store.spool.folder());
            self.local.complain(
                Level::Warn,
                &format!(
                    "an answer cannot wait in `{}` for a slow client, so its sender waits: {error}",
                    folder.display()
                ),
            );
            BufferSpace::None
        })
    }

    /// Tells the client that nothing more will come, and listens for a while to what it still sends: closing a socket with unread bytes
    /// resets the connection, and the reset may overtake the answer (RFC 9112 §9.6).
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
