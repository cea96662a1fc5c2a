//! Connections of a listener with a `stream`: its steps pass them on, close them, or have TLS terminated here.
//!
//! Called once for each accepted connection, after the PROXY protocol header and before anything else is read. The first
//! message of a TLS client is only peeked at, so that the server behind, or the handshake here, finds it in the socket.
//!
//! Must never: wait for a client without a deadline; treat a connection by a step whose condition could not be
//! evaluated, or by a later one.

use std::cell::{Cell, OnceCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Instant;

use tutti_config::model::{Balance, OutOfSteps, Patterns, StreamAction, StreamStep};
use tutti_conn::client_hello::{PeekError, poll_client_hello};
use tutti_conn::clock::{Millis, now_millis};
use tutti_conn::connections::NEVER;
use tutti_conn::counters::StreamOutcome;
use tutti_conn::output::{Gone, Output};
use tutti_conn::socket::ReadResult;
use tutti_pool::Level;
use tutti_proxy::{PassedClient, PassedConnection, Tunnel, TunnelClient, open_tunnel};
use tutti_routing::render;
use tutti_tls::{HelloError, TlsHello};
use tutti_upstream::{GroupServer, ServerGroup};

use crate::connection::TcpConnection;
use crate::connection::stream_info::{StreamEnd, StreamInfo, StreamLogs, logs_of};
use crate::exchange::attempts::Attempts;
use crate::exchange::client::ClientSide;
use crate::exchange::route_log;
use crate::snapshot::{CompiledStream, Snapshot};

/// Carries out the steps of the listener's stream, if it has one. True: the connection is to be read as HTTP.
pub(crate) async fn is_http(connection: &TcpConnection) -> bool {
    let client = &connection.client;
    let snapshot = client.local.snapshot_of(&client.listener);
    let Some(stream) = snapshot.stream_of(client.listener.id).cloned() else {
        return true;
    };
    connection.counted.set_active(true);
    let passed = Passed::new(client, &snapshot);
    drop(snapshot);
    let is_http = Box::pin(passed.run(stream)).await;
    if is_http {
        // The handshake has the time that it always has.
        connection.set_idle();
    }
    is_http
}

/// The decision about a connection.
enum Decision {
    Pass(Arc<ServerGroup>),
    Terminate,
    Close,
    /// Why it is closed: its first bytes are wrong, or did not come.
    Invalid(Option<PeekError>),
    /// A pattern could not be evaluated.
    Undecided,
}

/// A connection on its way through the steps.
struct Passed<'c> {
    client: &'c ClientSide,
    logs: StreamLogs,
    /// The time for which it is passed on after its listener has been removed.
    drain: Millis,
    begun: Instant,
    /// The first message of the client, once it has been read; `None`: it does not speak TLS.
    hello: OnceCell<Option<TlsHello>>,
    /// The servers that were tried.
    attempts: Attempts,
    received: Cell<u64>,
    sent: Cell<u64>,
    /// When the connection must end, because its listener has been removed.
    until: Cell<Option<Millis>>,
    /// The client has sent the last bytes, so that it may wait for those of the server.
    awaits: Cell<bool>,
}

impl<'c> Passed<'c> {
    fn new(client: &'c ClientSide, snapshot: &Snapshot) -> Self {
        Self {
            client,
            logs: logs_of(snapshot, client.listener.id),
            drain: snapshot.stream_drain,
            begun: Instant::now(),
            hello: OnceCell::new(),
            attempts: Attempts::default(),
            received: Cell::new(0),
            sent: Cell::new(0),
            until: Cell::new(None),
            awaits: Cell::new(false),
        }
    }

    /// True if the connection is to be read as HTTP.
    async fn run(&self, stream: Arc<CompiledStream>) -> bool {
        let decision = self.decide(&stream).await;
        // A connection may last for days: it keeps its servers, not the configuration of its listener.
        drop(stream);
        let (outcome, status) = match decision {
            Decision::Terminate => {
                self.count(StreamOutcome::Terminated);
                return true;
            }
            Decision::Pass(upstream) => {
                let _open = self.client.listener.count_stream();
                match self.open(&upstream).await {
                    Ok(tunnel) => {
                        drop(upstream);
                        self.count(StreamOutcome::Passed);
                        self.carry(tunnel).await;
                        return false;
                    }
                    Err(status) => (StreamOutcome::Failed, status),
                }
            }
            Decision::Close => (StreamOutcome::Closed, 403),
            Decision::Undecided => (StreamOutcome::Closed, 500),
            // A port check.
            Decision::Invalid(Some(PeekError::Untouched)) => return false,
            Decision::Invalid(error) => {
                let reason = error.map_or_else(
                    || "the client took too long".to_owned(),
                    |error| error.to_string(),
                );
                self.log_closed(&reason);
                (StreamOutcome::Invalid, 400)
            }
        };
        self.count(outcome);
        self.log_access(status);
        false
    }

    /// The action of the first step that matches. A step that needs the client's first message waits for it.
    async fn decide(&self, stream: &CompiledStream) -> Decision {
        let source = self.client.client_address();
        let destination = self.client.local_address();
        for step in stream.steps_between(source, destination) {
            let model = &step.model;
            if model.needs_hello() {
                if self.hello.get().is_none()
                    && let Err(error) = self.read_hello(stream).await
                {
                    return Decision::Invalid(error);
                }
                match self.is_wanted(model) {
                    Ok(true) => {}
                    Ok(false) => continue,
                    Err(out_of_steps) => {
                        self.log_closed(&route_log::undecided(out_of_steps, &model.pointer));
                        return Decision::Undecided;
                    }
                }
            }
            return match (&model.action, &step.upstream) {
                (StreamAction::Terminate, _) => Decision::Terminate,
                (StreamAction::Pass(_), Some(upstream)) => Decision::Pass(Arc::clone(upstream)),
                (StreamAction::Pass(_) | StreamAction::Close, _) => Decision::Close,
            };
        }
        Decision::Close
    }

    /// Reads the client's first message; `Err(None)`: it did not come in time.
    async fn read_hello(&self, stream: &CompiledStream) -> Result<(), Option<PeekError>> {
        let mut is_hurried = false;
        let hello = poll_fn(|cx| {
            let Some(io) = self.client.channel.plain() else {
                return Poll::Ready(Err(Some(PeekError::Closed)));
            };
            if let Poll::Ready(outcome) = poll_client_hello(io, cx) {
                return Poll::Ready(outcome.map_err(Some));
            }
            if self.client.is_overdue() {
                return Poll::Ready(Err(None));
            }
            if self.client.is_ending() && !std::mem::replace(&mut is_hurried, true) {
                self.client.set_last_deadline();
            }
            Poll::Pending
        });
        let hello = match hello.await {
            Ok(hello) => Some(hello),
            Err(Some(PeekError::Hello(HelloError::NotTls))) if stream.distinguishes_tls => None,
            Err(error) => return Err(error),
        };
        let _ = self.hello.set(hello);
        Ok(())
    }

    /// True if what the client asks for matches the step.
    fn is_wanted<'s>(&self, step: &'s StreamStep) -> Result<bool, OutOfSteps<'s>> {
        let hello = self.hello.get().and_then(Option::as_ref);
        if step.tls.is_some_and(|tls| tls != hello.is_some()) {
            return Ok(false);
        }
        let Some(hello) = hello else {
            return Ok(step.server_name.is_none() && step.alpn.is_none());
        };
        let name = hello.server_name.as_bytes();
        let is_named = |patterns: &'s Patterns| patterns.matches(name);
        let is_offered = |patterns: &'s Patterns| {
            let none: &[u8] = b"";
            let offered = hello.protocols.iter().map(Vec::as_slice);
            let has_none = hello.protocols.is_empty();
            patterns.matches_any(offered.chain(has_none.then_some(none)))
        };
        Ok(step.server_name.as_ref().map_or(Ok(true), is_named)?
            && step.alpn.as_ref().map_or(Ok(true), is_offered)?)
    }

    /// Connects to a server.
    async fn open(&self, upstream: &Arc<ServerGroup>) -> Result<Tunnel, u16> {
        // Until then, only the timeouts of the upstream apply.
        self.client.set_deadline(NEVER);
        let mut key = Vec::new();
        if let Balance::Hash(template) = &upstream.model().balance {
            render(template, &self.info(), &mut key).map_err(|_| 500_u16)?;
        }
        let ends = self.client.client_address();
        let connection = PassedConnection {
            upstream,
            key: &key,
            ends: ends.zip(self.client.local_address()),
        };
        open_tunnel(connection, self).await
    }

    /// Copies bytes until both sides have finished.
    async fn carry(&self, tunnel: Tunnel) {
        let mut output = Output::default();
        tunnel.carry(self, Vec::new(), &mut output).await;
        self.attempts.ended();
        self.log_access(200);
    }

    /// True if the server ends, and the time for its connections is over.
    fn is_cut_off(&self) -> bool {
        let local = &self.client.local;
        self.client.is_ending() && local.draining.get() && local.is_cut()
    }

    fn count(&self, outcome: StreamOutcome) {
        self.client.listener.counters.streams.note(outcome);
    }

    /// Logs why a connection is closed that the configuration would not close.
    fn log_closed(&self, reason: &str) {
        let from = self.client.client_address();
        let from = from.map_or_else(|| "unix:".to_owned(), |address| address.to_string());
        let name = &self.client.listener.name;
        let line = format!("connection from {from} on \"{name}\" closed: {reason}");
        self.client.local.log_client_error(Level::Info, &line);
    }

    fn info(&self) -> StreamInfo<'_> {
        let hello = self.hello.get().and_then(Option::as_ref);
        StreamInfo {
            ends: self.client,
            local: self.client.local_address(),
            server_name: hello.map_or("", |hello| &hello.server_name),
            attempts: &self.attempts,
            received: self.received.get(),
        }
    }

    fn log_access(&self, status: u16) {
        let end = StreamEnd {
            begun: self.begun,
            status,
            sent: self.sent.get(),
        };
        self.info().log_access(&self.logs, end);
    }
}

impl PassedClient for Passed<'_> {
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
        self.client.local.log(level, line);
    }

    fn log_limited(&self, line: &str) {
        self.client.local.log_failure(Level::Error, line);
    }
}

impl TunnelClient for Passed<'_> {
    fn poll_receive(
        &self,
        context: &mut Context<'_>,
        input: &mut Vec<u8>,
    ) -> Poll<Result<ReadResult, Gone>> {
        let received = self.client.channel.poll_receive(input, context);
        if let Poll::Ready(Ok(ReadResult::Bytes(count))) = received {
            self.awaits.set(true);
            let counters = &self.client.listener.counters.streams;
            counters.received.fetch_add(count as u64, Ordering::Relaxed);
            self.received.set(self.received.get() + count as u64);
        }
        received
    }

    fn poll_send(&self, context: &mut Context<'_>, output: &mut Output) -> Poll<Result<(), Gone>> {
        let before = self.client.channel.unsent(output);
        let polled = self.client.poll_send(output, context);
        let count = before.saturating_sub(self.client.channel.unsent(output));
        if count > 0 {
            self.awaits.set(false);
        }
        let counters = &self.client.listener.counters.streams;
        counters.sent.fetch_add(count, Ordering::Relaxed);
        self.attempts.received(usize::try_from(count).unwrap_or(0));
        self.sent.set(self.sent.get() + count);
        polled
    }

    fn has_sent(&self, output: &Output) -> bool {
        self.client.channel.has_sent(output)
    }

    fn finish(&self) -> bool {
        self.client.channel.shutdown()
    }

    /// A connection goes on until the time for draining is over. When the server stops, only one whose client may wait for bytes does.
    fn farewell(&self) -> Option<u16> {
        let local = &self.client.local;
        if !self.client.is_ending() {
            return None;
        }
        let is_over = if local.draining.get() {
            !local.drains_gently() && !self.awaits.get()
        } else {
            let now = now_millis();
            let until = now.saturating_add(self.drain);
            let until = self.until.get().unwrap_or(until);
            self.until.set(Some(until));
            until <= now
        };
        // Only the close frame of a WebSocket has a status.
        is_over.then_some(0)
    }

    fn owes(&self, output: &Output, timeout: Millis) -> Millis {
        if self.is_cut_off() {
            return 0;
        }
        self.client.owes_of(output, timeout)
    }

    fn wake_at(&self, time: Millis) {
        let until = self.until.get().filter(|until| *until > now_millis());
        self.client.set_deadline(time.min(until.unwrap_or(NEVER)));
    }
}
