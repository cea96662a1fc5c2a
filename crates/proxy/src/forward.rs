//! Sends a request to a server of an upstream, and its answer to the client.
//!
//! This file decides which server gets it, on which connection, and what happens when it fails; that is the same for every protocol.
//! [`http1`] and [`http2`] implement the protocols.

use std::pin::pin;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tutti_conn::clock::{millis, now_millis};
use tutti_conn::output::Gone;
use tutti_http::websocket::PassedFrames;
use tutti_http::{NO_FIELDS, Version};
use tutti_log::Level;
use tutti_upstream::{
    ServerClaim, ServerGroup, Tried, Unavailable, UpstreamConnection, UpstreamError, WhenFull,
};

use crate::attempt::{AttemptError, Done, Forwarding, ServerFault, Times, upgrade};
use crate::cgi::frame::write_announcement;
use crate::client::Client;
use crate::grpc::{grpc_fields, is_grpc};
use crate::outgoing::Upload;
use crate::request::{ProxyRequest, speaks_http2};
use crate::resources::Resources;
use crate::sessions::{Found, Lease};
use crate::tunnel::Tunnel;
use crate::wait::Deadline;
use crate::{cgi, handover, http1, http2, wait};

/// When idle connections are checked for the first time.
const SOON: Duration = Duration::from_millis(20);

/// The number of times that a server may say that it has not begun a request before that counts as a failure.
const REFUSALS: u32 = 3;

/// The result of a request.
pub enum ForwardResult<E> {
    /// The answer was passed to the client.
    Answered(E),
    /// The connection has become a tunnel, and the client has been sent 101.
    Tunnel(Box<Tunnel>),
}

/// Sends a request to its upstream, and the answer to `client`. `body` is streamed; the part of it that the server did not take is
/// returned.
///
/// # Errors
/// The client has disconnected, or must see that its answer is incomplete.
pub async fn run<C: Client>(
    request: ProxyRequest<'_>,
    client: &mut C,
    body: Option<Box<C::Body>>,
    resources: &Rc<Resources>,
) -> Result<(ForwardResult<C::Ending>, Option<Box<C::Body>>), Gone> {
    let mut forwarding = Forwarding {
        times: Times::of(&request),
        may_pass_over: false,
        request,
        client,
        upload: body.map(Upload::new),
        resources,
        scratch: resources.scratches.take(),
    };
    let outcome = forwarding.run().await;
    resources.scratches.give(forwarding.scratch);
    Ok((outcome?, forwarding.upload.and_then(Upload::rest)))
}

impl<C: Client> Forwarding<'_, C> {
    /// Tries servers until one answers, or no other may be tried.
    async fn run(&mut self) -> Result<ForwardResult<C::Ending>, Gone> {
        let request = self.request;
        let upstream = request.upstream();
        let mut tried = Tried::new();
        let mut last_failure = None;
        loop {
            let claim = match self.claim(&tried).await? {
                Ok(claim) => claim,
                Err(unavailable) => {
                    let status = last_failure.unwrap_or_else(|| status(unavailable));
                    if last_failure.is_none() {
                        self.log_failure(None, &unavailable.to_string());
                    }
                    return Ok(self.fail(status));
                }
            };
            self.client.note_attempt(claim.server());
            let is_https = self.client.is_https();
            self.client
                .keep_at(claim.cookie(request.choice().cookie, is_https));
            self.may_pass_over = !upstream.options().retry_statuses.is_empty()
                && self.is_idempotent()
                && self.times.allow_retry()
                && upstream.has_other(&tried, claim.server(), now_millis());
            let asked = if speaks_http2(upstream) {
                self.ask_http2(&claim).await
            } else {
                self.ask(&claim).await
            };
            let fault = match asked {
                Ok(done) => return Ok(self.finish(claim, done)),
                Err(AttemptError::Client(gone)) => return Err(gone),
                Err(AttemptError::Request(unsendable)) => {
                    self.log_failure(
                        None,
                        &format!("did not get the request: {}", unsendable.reason),
                    );
                    return Ok(self.fail(unsendable.status));
                }
                Err(AttemptError::Body(status)) if is_grpc(&request) => {
                    return Ok(self.fail(status));
                }
                Err(AttemptError::Body(status)) => {
                    return Ok(ForwardResult::Answered(self.client.refuse(status)));
                }
                Err(AttemptError::Server(fault)) => fault,
            };
            self.blame(&claim, &fault.failure);
            let status = fault.failure.status();
            self.client.note_failed(status);
            // gRPC libraries derive the error from the server's code.
            let reset = match fault.failure {
                UpstreamError::Reset { code, .. } => Some(code),
                _ => None,
            };
            let is_passed_on =
                reset.is_some() && is_grpc(&request) && request.view.version() >= Version::Http2;
            if fault.has_begun || is_passed_on {
                // The client must see that the answer is incomplete.
                self.client.abandon(status, reset);
                return Err(Gone::Closed);
            }
            let may_repeat = !fault.was_sent || self.is_repeatable();
            let is_wanted = upstream.retries_after(&fault.failure, &tried);
            if !may_repeat || !is_wanted || !self.times.allow_retry() {
                return Ok(self.fail(status));
            }
            upstream.note_retry();
            last_failure = Some(status);
            tried.push(claim.server().id());
        }
    }

    /// Claims a server. Meanwhile sends to the client, and notices if it disconnects.
    async fn claim(&mut self, tried: &Tried) -> Result<Result<ServerClaim, Unavailable>, Gone> {
        let request = self.request;
        let (upstream, choice) = (request.upstream(), request.choice());
        let claimed = upstream.claim(choice, tried, now_millis());
        if !matches!(claimed, Err(Unavailable::Full | Unavailable::Naming)) {
            return Ok(claimed);
        }
        let when_full = match self.client.may_wait() {
            true => WhenFull::Wait,
            false => WhenFull::Refuse,
        };
        // Boxed: few requests wait.
        let mut waiting = Box::pin(upstream.claim_in_time(choice, tried, when_full, now_millis));
        let deadline = Deadline::new(self.times.until);
        let waited = wait::server(self.client, &deadline, |context| {
            waiting.as_mut().poll(context)
        });
        Ok(waited.await?.unwrap_or(claimed))
    }

    /// Asks the claimed server. If a reused connection turns out to be closed, that is not the server's fault: then a new one is opened.
    async fn ask(&mut self, claim: &ServerClaim) -> Result<Done<C::Ending>, AttemptError> {
        let pools = &self.resources.pools;
        let has_workers = cgi::has_workers(&self.request);
        let mut kept = pools.take(claim.server(), now_millis());
        if has_workers && kept.is_none() {
            kept = handover::wait(self.client, pools, claim).await?;
        }
        let _in_flight = has_workers.then(|| pools.begin(claim.server()));
        if !self.is_idempotent() || self.upload.is_some() {
            kept = kept.filter(UpstreamConnection::is_at_rest);
        }
        loop {
            let mut fresh = None;
            let connection = match kept.take() {
                Some(connection) => connection,
                None => {
                    fresh = has_workers.then(|| claim.server().opened());
                    self.connect(claim).await?
                }
            };
            self.client.note_connected();
            let is_reused = connection.is_reused();
            let begun = has_workers.then(Instant::now);
            match http1::attempt(self, claim.server(), connection).await {
                Ok(done) => {
                    match (begun, fresh) {
                        (Some(begun), None) => claim.server().note_kept(begun.elapsed()),
                        (Some(begun), Some(fresh)) => fresh.answered(begun.elapsed()),
                        (None, _) => {}
                    }
                    return Ok(done);
                }
                Err(AttemptError::Server(fault))
                    if is_reused
                        && !fault.has_begun
                        && fault.failure.may_be_stale()
                        && (!fault.was_sent || self.is_repeatable()) => {}
                outcome => return outcome,
            }
        }
    }

    /// Asks the claimed server in HTTP/2. A request that it reports as not begun is sent again.
    async fn ask_http2(&mut self, claim: &ServerClaim) -> Result<Done<C::Ending>, AttemptError> {
        let mut refusals = 0;
        loop {
            let lease = self.lease(claim).await?;
            self.client.note_connected();
            match http2::stream::attempt(self, claim.server(), &lease).await {
                Err(AttemptError::Server(fault))
                    if refusals < REFUSALS
                        && !fault.has_begun
                        && (!fault.was_sent
                            || (lease.is_reused()
                                && fault.failure.may_be_stale()
                                && self.is_repeatable())) =>
                {
                    refusals += 1;
                }
                outcome => return outcome,
            }
        }
    }

    /// Reserves a stream for the request on an HTTP/2 connection to the claimed server.
    async fn lease(&mut self, claim: &ServerClaim) -> Result<Lease, AttemptError> {
        let request = self.request;
        let options = request.upstream().options();
        let deadline = Deadline::new(self.times.until);
        deadline.set(self.times.connect);
        loop {
            let opened = match self.resources.sessions.find(claim.server().id()) {
                Found::Room(lease) => return Ok(lease),
                Found::Open(opening) => {
                    let connection = self.connect(claim).await?;
                    let is_tls = request.upstream().tls().is_some();
                    let buffers = &self.resources.buffers;
                    let session = http2::driver::begin(buffers, connection, options, is_tls).await;
                    let session = session.map_err(ServerFault::unsent)?;
                    let timeout = match options.keepalive {
                        0 => Duration::ZERO,
                        _ => options.keepalive_timeout,
                    };
                    return Ok(opening.done(session, timeout));
                }
                Found::Wait(opened) => opened,
            };
            let mut notified = pin!(opened.notified());
            let waited = wait::server(self.client, &deadline, |context| {
                notified.as_mut().poll(context)
            });
            if waited.await?.is_err() {
                let failure = UpstreamError::ConnectTimeout(options.connect_timeout);
                let failure = self.times.overdue().unwrap_or(failure);
                return Err(ServerFault::unsent(failure).into());
            }
        }
    }

    /// Opens a connection to the claimed server.
    async fn connect(&mut self, claim: &ServerClaim) -> Result<UpstreamConnection, AttemptError> {
        let deadline = Deadline::new(self.times.until);
        deadline.set(self.times.connect);
        let mut greeting = Vec::new();
        if let Some(version) = self.request.upstream().options().proxy_protocol {
            let ends = self.client.remote().zip(self.client.local());
            write_announcement(&mut greeting, version, ends);
        }
        let mut opening = Box::pin(UpstreamConnection::open(claim.server(), &greeting));
        let opened = wait::server(self.client, &deadline, |context| {
            opening.as_mut().poll(context)
        })
        .await?;
        let failure = match opened {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(failure)) => failure,
            Err(wait::TimedOut) => self
                .times
                .overdue()
                .unwrap_or(UpstreamError::ConnectTimeout(Duration::from_millis(
                    self.times.connect,
                ))),
        };
        Err(ServerFault::unsent(failure).into())
    }

    /// Handles a successful attempt.
    fn finish(&self, claim: ServerClaim, done: Done<C::Ending>) -> ForwardResult<C::Ending> {
        let options = self.request.upstream().options();
        let now = now_millis();
        claim.succeeded(now);
        match done {
            Done::Answered(ending, connection) => {
                let kept_as = (options, cgi::has_workers(&self.request));
                let pools = &self.resources.pools;
                if let Some(connection) = connection
                    && pools.put(claim.server(), kept_as, connection, now)
                {
                    sweep(Rc::clone(self.resources));
                }
                ForwardResult::Answered(ending)
            }
            Done::Switched {
                connection,
                received,
            } => ForwardResult::Tunnel(Box::new(Tunnel {
                claim,
                connection,
                received,
                timeout: millis(options.tunnel_timeout),
                frames: self.is_websocket().then(PassedFrames::default),
            })),
        }
    }

    /// True if the client requested WebSocket, so that an upgraded connection speaks it.
    fn is_websocket(&self) -> bool {
        upgrade(&self.request)
            .is_some_and(|protocol| protocol.trim_ascii().eq_ignore_ascii_case(b"websocket"))
    }

    /// True if the request can safely be sent once more.
    fn is_repeatable(&self) -> bool {
        self.is_idempotent() && !self.upload.as_ref().is_some_and(Upload::was_taken)
    }

    /// True if the configuration declares that repeating the request is safe. By RFC 9110 §9.2.2 PUT and DELETE are idempotent, too; but
    /// applications count, send mail, and answer 404 to a second DELETE.
    fn is_idempotent(&self) -> bool {
        let method = self.request.method_text();
        let methods = &self.request.upstream().options().retry_methods;
        methods.iter().any(|one| one.as_bytes() == method)
    }

    /// Notes a failure of the claimed server.
    fn blame(&self, claim: &ServerClaim, failure: &UpstreamError) {
        self.log_failure(Some(claim.server().name()), &failure.to_string());
        if failure.spares_server() {
            if matches!(failure, UpstreamError::Status(_)) {
                claim.server().answered(now_millis());
            }
        } else if claim.failed(now_millis()) {
            let upstream = self.request.upstream();
            self.client.log(Level::Warn, &rest_line(upstream, claim));
        }
    }

    fn log_failure(&self, server: Option<&str>, reason: &str) {
        let name = self.request.upstream().name();
        let view = self.request.view;
        let line = format!(
            "{} {}",
            String::from_utf8_lossy(view.method_text()),
            String::from_utf8_lossy(view.target())
        );
        let text = match server {
            Some(server) => format!("upstream \"{name}\": server {server}: {reason}; {line}"),
            None => format!("upstream \"{name}\" {reason}; {line}"),
        };
        self.client.log_limited(&text);
    }

    /// Answers with one of this server's own pages, or with a gRPC status.
    fn fail(&mut self, status: u16) -> ForwardResult<C::Ending> {
        let is_body_coming = self.upload.as_ref().is_some_and(Upload::is_coming);
        ForwardResult::Answered(match is_grpc(&self.request) {
            true => {
                let fields = grpc_fields(status);
                self.client.fail(200, &fields, is_body_coming)
            }
            false => self.client.fail(status, &NO_FIELDS, is_body_coming),
        })
    }
}

/// Closes idle connections of this thread in time, as long as there are any.
fn sweep(resources: Rc<Resources>) {
    tokio::task::spawn_local(async move {
        let mut pause = SOON;
        loop {
            tokio::time::sleep(pause).await;
            let Some(next) = resources.pools.sweep(now_millis()) else {
                return;
            };
            pause = next;
        }
    });
}

/// The line about a server that gets no requests for a while.
pub(crate) fn rest_line(upstream: &ServerGroup, claim: &ServerClaim) -> String {
    format!(
        "upstream \"{}\": server {} gets no requests for {:?}",
        upstream.name(),
        claim.server().name(),
        claim.fail_timeout()
    )
}

/// The status for a client that no server is available for.
pub(crate) fn status(unavailable: Unavailable) -> u16 {
    match unavailable {
        Unavailable::Full | Unavailable::Empty => 503,
        _ => 502,
    }
}
