//! The task of an HTTP/3 connection: handles QUIC's events, starts requests, sends, checks deadlines.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use quinn_proto::{
    ConnectionError, ConnectionHandle, Dir, Event, ReadError, StreamEvent, StreamId,
};
use rustc_hash::FxHashMap;
use rustls::pki_types::CertificateDer;
use tokio::time::Sleep;
use tutti_conn::clock::Millis;
use tutti_conn::counters::NoTls;
use tutti_conn::udp::Train;
use tutti_http::http3::{
    ALPN, Code, Control, Http3Error, MessagePart, MessageReader, Note, Section, UniReader, varint,
    write_settings,
};
use tutti_tls::QuicClient;

use crate::environment::{now, now_millis};
use crate::fault::fault;
use crate::priorities::Priorities;
use crate::quic::Quic;
use crate::server::{QuicConnection, QuicTimeouts, RequestTraits};
use crate::shared::Shared;
use crate::stream::{Kind, QuicStream, Read};

/// Rounds of work in a row before other connections of the thread get a turn.
const TURNS: u32 = 16;

/// Bytes read from a stream at once.
const READ_BYTES: usize = 16 * 1024;

/// A request whose head is incomplete.
pub(crate) struct Coming {
    reader: MessageReader,
    pub(crate) since: Millis,
}

/// A request that waits until the handshake is complete, because until then it may be a replay.
pub(crate) struct Early {
    id: StreamId,
    section: Section,
    read: Read,
}

/// The progress of the end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaving {
    No,
    /// GOAWAY was sent at this time; requests on their way are still accepted.
    Announced(Millis),
    /// Requests from this number on are not accepted.
    From(u64),
}

pub(crate) struct Driver<C> {
    pub(crate) connection: C,
    pub(crate) endpoint: Rc<Shared>,
    pub(crate) handle: ConnectionHandle,
    pub(crate) quic: Rc<Quic>,
    client: QuicClient,
    pub(crate) timeouts: QuicTimeouts,
    pub(crate) opened: Millis,
    timer: Pin<Box<Sleep>>,
    /// Requests whose heads are incomplete.
    pub(crate) coming: FxHashMap<StreamId, Coming>,
    /// At most as many as may be open at once.
    early: Vec<Early>,
    /// The client's unidirectional streams.
    one_way: FxHashMap<StreamId, UniReader>,
    control: Control,
    priorities: Priorities,
    /// The server's control stream, and the bytes that wait for room on it.
    pub(crate) own_control: Option<StreamId>,
    pub(crate) held: Vec<u8>,
    /// The number of the next request.
    pub(crate) next: u64,
    pub(crate) leaving: Leaving,
    pub(crate) is_connected: bool,
    /// A token proved the client's address before the handshake.
    pub(crate) has_proven_address: bool,
    /// When the client was last pinged.
    pub(crate) asked: Millis,
    /// Datagrams that the socket did not accept.
    unsent: Option<(Vec<u8>, quinn_proto::Transmit)>,
}

impl<C: QuicConnection> Driver<C> {
    pub(crate) fn new(
        connection: C,
        endpoint: &Rc<Shared>,
        handle: ConnectionHandle,
        quic: &Rc<Quic>,
        client: QuicClient,
    ) -> Self {
        let now = now_millis();
        Self {
            timeouts: connection.timeouts(),
            connection,
            endpoint: Rc::clone(endpoint),
            handle,
            quic: Rc::clone(quic),
            client,
            opened: now,
            timer: Box::pin(tokio::time::sleep(std::time::Duration::ZERO)),
            coming: FxHashMap::default(),
            early: Vec::new(),
            one_way: FxHashMap::default(),
            control: Control::default(),
            priorities: Priorities::default(),
            own_control: None,
            held: Vec::new(),
            next: 0,
            leaving: Leaving::No,
            is_connected: false,
            has_proven_address: false,
            asked: now,
            unsent: None,
        }
    }

    /// Serves the connection until it has ended.
    pub(crate) async fn run(mut self) {
        self.connection.set_active(true);
        poll_fn(|cx| self.poll(cx)).await;
        self.note_handshake_over();
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.quic.waker.borrow_mut().clone_from(cx.waker());
        self.connection.set_waker(cx.waker().clone());
        for _ in 0..TURNS {
            let now = now();
            let due = self.quic.state.borrow_mut().poll_timeout();
            if due.is_some_and(|due| due <= now) {
                self.quic.state.borrow_mut().handle_timeout(now);
            }
            let had_events = self.take_events();
            self.notify_endpoint();
            if self.quic.state.borrow().is_drained() {
                self.quic.end();
                return Poll::Ready(());
            }
            self.leave_if_due(now_millis());
            self.send_held();
            let has_sent = self.transmit(now);
            if !had_events && !has_sent {
                return self.settle(cx);
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Waits for the next event.
    fn settle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.quic.has_ended.get() {
            self.check_deadlines(now_millis());
        }
        let due = self.quic.state.borrow_mut().poll_timeout();
        let Some(due) = due else {
            return Poll::Pending;
        };
        let due = tokio::time::Instant::from_std(due);
        if self.timer.deadline() != due {
            self.timer.as_mut().reset(due);
        }
        if self.timer.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Handles QUIC's events; true if there were any.
    fn take_events(&mut self) -> bool {
        let mut had_some = false;
        loop {
            let event = self.quic.state.borrow_mut().poll();
            let Some(event) = event else {
                return had_some;
            };
            had_some = true;
            match event {
                Event::Connected => self.connected(),
                Event::ConnectionLost { reason } => self.lost(&reason),
                Event::Stream(event) if !self.quic.has_ended.get() => {
                    self.stream_event(event);
                }
                _ => {}
            }
        }
    }

    fn notify_endpoint(&mut self) {
        loop {
            let event = self.quic.state.borrow_mut().poll_endpoint_events();
            let Some(event) = event else {
                return;
            };
            if let Some(answer) = self.endpoint.handle_event(self.handle, event) {
                self.quic.state.borrow_mut().handle_event(answer);
            }
        }
    }

    /// Sends what QUIC has ready; true if anything was sent.
    fn transmit(&mut self, now: Instant) -> bool {
        let mut has_sent = false;
        for _ in 0..TURNS {
            if self.unsent.is_none() {
                let mut bytes = self.endpoint.train.take();
                bytes.clear();
                let mut state = self.quic.state.borrow_mut();
                let most = self.endpoint.longest_train(state.current_mtu());
                let train = state.poll_transmit(now, most, &mut bytes);
                drop(state);
                let Some(train) = train else {
                    self.endpoint.train.replace(bytes);
                    return has_sent;
                };
                self.unsent = Some((bytes, train));
            }
            let Some((bytes, train)) = &self.unsent else {
                return has_sent;
            };
            let train = Train {
                to: train.destination,
                from: train.src_ip,
                ecn: train.ecn.map(|ecn| ecn as u8),
                bytes: bytes.get(..train.size).unwrap_or_default(),
                each: train.segment_size,
            };
            if !self.endpoint.send(&train, &self.quic.waker.borrow()) {
                return has_sent;
            }
            if let Some((bytes, _)) = self.unsent.take() {
                self.endpoint.train.replace(bytes);
            }
            has_sent = true;
        }
        has_sent
    }

    /// Called when the handshake is complete.
    fn connected(&mut self) {
        self.is_connected = true;
        let counters = &self.connection.listener().counters;
        counters.handshakes.fetch_add(1, Ordering::Relaxed);
        self.endpoint.handshake_ended();
        if !self.speaks_http3() {
            return self.quic.close(Code::GENERAL_PROTOCOL_ERROR, "not HTTP/3");
        }
        self.own_control = self.quic.state.borrow_mut().streams().open(Dir::Uni);
        let (most, _) = self.connection.most_bytes();
        // The stream type: control.
        varint::write(0, &mut self.held);
        write_settings(most as u64, &mut self.held);
        for early in std::mem::take(&mut self.early) {
            self.start(early);
        }
    }

    /// Notes the client's identity by the handshake, and returns whether the client speaks HTTP/3.
    fn speaks_http3(&self) -> bool {
        let state = self.quic.state.borrow();
        let session = state.crypto_session();
        let data = session.handshake_data().and_then(|data| {
            data.downcast::<quinn_proto::crypto::rustls::HandshakeData>()
                .ok()
        });
        let speaks = data.is_some_and(|data| data.protocol.as_deref() == Some(ALPN));
        let shown = session
            .peer_identity()
            .and_then(|shown| shown.downcast::<Vec<CertificateDer<'static>>>().ok());
        let shown = shown.map_or_else(Vec::new, |shown| *shown);
        // Set already if the client's first request came early: then the client has no certificate.
        let _ = self.quic.facts.set(Rc::new(self.client.facts(&shown)));
        speaks
    }

    fn note_handshake_over(&mut self) {
        if !std::mem::replace(&mut self.is_connected, true) {
            self.endpoint.handshake_ended();
        }
    }

    /// Called when the connection is lost.
    pub(crate) fn lost(&mut self, reason: &ConnectionError) {
        if !self.is_connected {
            let counters = &self.connection.listener().counters;
            counters.note_no_tls(match reason {
                ConnectionError::TimedOut => NoTls::Timeout,
                ConnectionError::TransportError(_) => NoTls::Protocol,
                _ => NoTls::Closed,
            });
            let text = format!(
                "no QUIC with {} on \"{}\": {reason}",
                self.peer(),
                self.connection.listener().name
            );
            self.connection.log_client_error(&text);
        }
        self.note_handshake_over();
        self.coming.clear();
        self.early.clear();
        self.one_way.clear();
        self.quic.end();
    }

    /// The client's address for the log.
    fn peer(&self) -> String {
        self.quic.state.borrow().remote_address().ip().to_string()
    }

    fn stream_event(&mut self, event: StreamEvent) {
        match event {
            StreamEvent::Opened { dir: Dir::Bi } => self.accept_requests(),
            StreamEvent::Opened { dir: Dir::Uni } => self.accept_one_way(),
            StreamEvent::Readable { id } if id.dir() == Dir::Uni => self.read_one_way(id),
            StreamEvent::Readable { id } if self.coming.contains_key(&id) => {
                self.read_head(id);
            }
            StreamEvent::Readable { id } => {
                self.quic.notify(id, |waits| [waits.read.take(), None]);
            }
            StreamEvent::Writable { id } => {
                self.quic.resume_end(id);
                self.quic.notify(id, |waits| [waits.write.take(), None]);
            }
            StreamEvent::Stopped { id, .. } if Some(id) == self.own_control => {
                let reason = "the control stream is not wanted";
                self.quic.close(Code::CLOSED_CRITICAL_STREAM, reason);
            }
            StreamEvent::Stopped { id, .. } => {
                if self.quic.note_reset().is_ok() {
                    self.quic.give_up_end(id);
                    self.quic
                        .notify(id, |waits| [waits.write.take(), waits.gone.take()]);
                }
            }
            StreamEvent::Finished { id } => {
                self.quic.stop_listening(id);
                self.quic.notify(id, |waits| [waits.read.take(), None]);
                self.quic.idle_since.set(None);
            }
            StreamEvent::Available { .. } => {}
        }
    }

    fn accept_requests(&mut self) {
        loop {
            let accepted = self.quic.state.borrow_mut().streams().accept(Dir::Bi);
            let Some(id) = accepted else {
                return;
            };
            if let Leaving::From(first) = self.leaving
                && u64::from(id) >= first
            {
                self.quic.give_up(id, Code::REQUEST_REJECTED);
                continue;
            }
            self.next = self.next.max(u64::from(id) + 4);
            let (most, _) = self.connection.most_bytes();
            let coming = Coming {
                reader: MessageReader::new(most),
                since: now_millis(),
            };
            self.coming.insert(id, coming);
            self.quic.idle_since.set(None);
            self.read_head(id);
            if self.quic.has_ended.get() {
                return;
            }
        }
    }

    /// Reads a request until its head is complete.
    fn read_head(&mut self, id: StreamId) {
        let Some(mut coming) = self.coming.remove(&id) else {
            return;
        };
        let quic = Rc::clone(&self.quic);
        let mut state = quic.state.borrow_mut();
        let mut stream = state.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return;
        };
        let outcome = loop {
            match chunks.next(READ_BYTES) {
                Ok(Some(chunk)) => {
                    let mut rest = &chunk.bytes[..];
                    match coming.reader.next(&mut rest) {
                        Ok(Some(MessagePart::Head(block))) => {
                            break Ok(Some((block, chunk.bytes.slice_ref(rest))));
                        }
                        Ok(_) => {}
                        Err(fault) => break Err(fault),
                    }
                }
                Ok(None) => match coming.reader.finish() {
                    Ok(()) => break Err(Http3Error::Stream(Code::REQUEST_INCOMPLETE)),
                    Err(fault) => break Err(fault),
                },
                Err(ReadError::Blocked) => break Ok(None),
                Err(ReadError::Reset(_)) => {
                    drop(chunks);
                    drop(state);
                    // The response is not sent either.
                    quic.give_up(id, Code::REQUEST_CANCELLED);
                    let _ = quic.note_reset();
                    return;
                }
            }
        };
        let has_ended = matches!(outcome, Ok(Some((_, ref raw))) if raw.is_empty())
            && matches!(chunks.next(0), Ok(None));
        drop(chunks);
        drop(state);
        let idle = coming.reader.take_idle_frames();
        if idle > 0 && quic.spend(idle.into()).is_err() {
            return;
        }
        match outcome {
            Ok(Some((block, raw))) => {
                let read = Read {
                    reader: coming.reader,
                    raw,
                    has_ended,
                };
                self.begin(id, &block, read);
            }
            Ok(None) => {
                self.coming.insert(id, coming);
            }
            Err(Http3Error::HeadTooLarge) => {
                let read = Read {
                    reader: coming.reader,
                    raw: bytes::Bytes::new(),
                    has_ended: false,
                };
                self.refuse(id, read);
            }
            Err(fault) => self.fail(id, fault),
        }
    }

    /// Starts a request, or lets it wait for the handshake.
    fn begin(&mut self, id: StreamId, block: &[u8], read: Read) {
        let (most, _) = self.connection.most_bytes();
        let section = match Section::of_request(block, most) {
            Ok(section) => section,
            Err(error) => match fault(error) {
                Http3Error::HeadTooLarge => return self.refuse(id, read),
                fault => return self.fail(id, fault),
            },
        };
        let early = Early { id, section, read };
        // A GET or HEAD without a body is safe to replay (RFC 8470 §2.1); others wait until the handshake is complete. All wait for it if
        // the address may be forged, because routes, limits and logs would believe it.
        let is_safe = matches!(early.section.method(), b"GET" | b"HEAD") && early.read.has_ended;
        if self.is_connected || is_safe && self.has_proven_address {
            self.start(early);
        } else {
            self.early.push(early);
        }
    }

    /// Starts a request whose head is complete.
    fn start(&mut self, request: Early) {
        let Early { id, section, read } = request;
        if !self.is_connected && !self.speaks_http3() {
            return self.quic.close(Code::GENERAL_PROTOCOL_ERROR, "not HTTP/3");
        }
        let (_, most_trailers) = self.connection.most_bytes();
        let kind = Kind {
            is_head: section.method() == b"HEAD",
            is_websocket: section.protocol() == Some(b"websocket"),
            most_trailers,
        };
        let manner = RequestTraits {
            has_body: !read.has_ended,
            is_early: !self.is_connected,
        };
        self.priorities
            .begin(&mut self.quic.state.borrow_mut(), id, &section);
        let stream = QuicStream::new(&self.quic, id, kind, read);
        self.connection.begin(&section, stream, manner);
    }

    /// Refuses a request whose head is too large.
    fn refuse(&self, id: StreamId, read: Read) {
        let kind = Kind {
            is_head: false,
            is_websocket: false,
            most_trailers: 0,
        };
        let stream = QuicStream::new(&self.quic, id, kind, read);
        let reason = "the head is too large";
        self.connection.refuse(stream, 431, reason);
    }

    /// Ends the stream or the connection after an error; the end of a connection is logged.
    fn fail(&self, id: StreamId, fault: Http3Error) {
        if let Http3Error::Connection(_, reason) = fault {
            let text = format!("HTTP/3 connection from {} closed: {reason}", self.peer());
            self.connection.log_client_error(&text);
        }
        self.quic.fail(id, fault);
        let _ = self.quic.note_reset();
    }

    fn accept_one_way(&mut self) {
        loop {
            let accepted = self.quic.state.borrow_mut().streams().accept(Dir::Uni);
            let Some(id) = accepted else {
                return;
            };
            self.one_way.insert(id, UniReader::default());
            self.read_one_way(id);
            if self.quic.has_ended.get() {
                return;
            }
        }
    }

    /// Reads a unidirectional stream of the client.
    fn read_one_way(&mut self, id: StreamId) {
        let Some(reader) = self.one_way.get_mut(&id) else {
            return;
        };
        let mut state = self.quic.state.borrow_mut();
        let mut stream = state.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return;
        };
        let (mut idle, mut is_unknown) = (0, false);
        let mut changed = Vec::new();
        let mut note = |note| match note {
            Note::Idle => idle += 1,
            Note::Unknown => is_unknown = true,
            Note::Settings(_) => {}
            Note::Priority(stream, priority) => changed.push((stream, priority)),
        };
        let outcome = loop {
            match chunks.next(READ_BYTES) {
                Ok(Some(chunk)) => {
                    let read = reader.receive(&chunk.bytes, &mut self.control, &mut note);
                    if let Err(fault) = read {
                        break Err(fault);
                    }
                }
                Ok(None) | Err(ReadError::Reset(_)) => break reader.finish().map(|()| true),
                Err(ReadError::Blocked) => break Ok(false),
            }
        };
        drop(chunks);
        for (stream, priority) in changed {
            self.priorities.note(&mut state, stream, priority);
        }
        drop(state);
        if matches!(outcome, Ok(true)) || is_unknown {
            self.one_way.remove(&id);
            // Each useless stream counts as idle work, or a client could open them without end.
            idle += 1;
        }
        if is_unknown && matches!(outcome, Ok(false)) {
            self.quic.give_up(id, Code::STREAM_CREATION_ERROR);
        }
        if let Err(fault) = outcome {
            self.fail(id, fault);
        } else if idle > 0 {
            let _ = self.quic.spend(idle);
        }
    }

    /// Sends what waits for room on the control stream.
    fn send_held(&mut self) {
        let Some(id) = self.own_control.filter(|_| !self.held.is_empty()) else {
            return;
        };
        let written = self
            .quic
            .state
            .borrow_mut()
            .send_stream(id)
            .write(&self.held);
        self.held.drain(..written.unwrap_or(0));
    }
}
