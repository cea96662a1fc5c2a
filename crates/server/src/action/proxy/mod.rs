//! Sending a request to a server of an upstream, and its answer to the client.
//!
//! Here: which server, on which connection, and what happens when it fails. What is said on the connection is the protocol's
//! ([`http1`], [`http2`]); everything else (choosing, keeping, retrying, reporting) is the same for every protocol.
//!
//! Must never: send a request again that may have had an effect; leave a client without an answer, or the reason out of the log; go
//! on with a server for a client that has gone.

mod attempt;
mod gateway;
mod grpc;
mod head;
mod http1;
mod http2;
mod line;
mod link;
mod outgoing;
mod wait;

use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_config::model::{Balance, HttpVersion, UpstreamOptions, UpstreamProtocol};
use tutti_http::BodyLength;
use tutti_pool::Level;
use tutti_routing::{Decision, RequestInfo as _};
use tutti_upstream::{Claim, Connection, Failure, Tried, Unavailable, Upstream};

use self::attempt::{Asking, Done, Times, Trouble};
use self::grpc::{grpc_fields, is_grpc};
use self::outgoing::Upload;
use self::wait::Deadline;
use crate::body::ClientBody;
use crate::clock::{millis, now_millis};
use crate::connections::NEVER;
use crate::gateway::write_announcement;
use crate::local::Local;
use crate::output::{Gone, Output};
use crate::plan::{Changes, Destination};
use crate::request::Request;
use crate::respond::{Page, Persistence};
use crate::scratch::Scratch;
use crate::scripts::NoScript;
use crate::sessions::{Found, Lease};
use crate::step::{Step, Tunnel, UpstreamCall};

/// After this time idle connections are looked at for the first time.
const SOON: Duration = Duration::from_millis(20);

/// So often a server may say that it has not begun with a request, before that is its fault.
const REFUSALS: u32 = 3;

/// The variables in the configuration get their values now.
///
/// # Errors
/// It is known already that there is nothing to be asked for, or one of them comes from a script that failed.
pub(crate) fn destination(
    upstream: &Arc<Upstream>,
    decision: &Decision<'_>,
    request: &Request<'_>,
) -> Result<Destination, NoScript> {
    let mut key = Vec::new();
    if let Balance::Hash(template) = &upstream.model().balance {
        decision.render(template, request, &mut key)?;
    }
    Ok(Destination {
        upstream: Arc::clone(upstream),
        key,
        cgi: gateway::details(upstream, decision, request)?,
    })
}

/// True if the request's body goes to the server while it comes: where that is wished, and where both sides speak HTTP/2. CGI knows no
/// body without a length.
pub(crate) fn streams(destination: &Destination, request: &Request<'_>) -> bool {
    let upstream = &destination.upstream;
    if speaks_http2(upstream) && request.view.version_minor() == 2 {
        return true;
    }
    let length = request.view.body_length();
    let is_http = matches!(upstream.model().protocol, UpstreamProtocol::Http);
    !upstream.options().request_buffering && (is_http || matches!(length, BodyLength::Known(_)))
}

fn speaks_http2(upstream: &Upstream) -> bool {
    upstream.options().http_version == HttpVersion::Http2
}

/// Sends a request to its upstream; `body` is what is handed over while it comes, if anything. What cannot be sent to the client at once
/// is in `output`.
pub(crate) async fn run<'r>(
    request: &Request<'r>,
    call: UpstreamCall,
    body: Option<ClientBody<'r>>,
    output: &mut Output,
) -> Result<Step, Gone> {
    let send_timeout = request.snapshot.timeouts.send;
    // Earlier answers must not wait for this.
    if !output.is_empty() {
        request.connection.flush(output, send_timeout).await?;
    }
    let mut upload = body.map(Upload::new);
    let local = &request.connection.local;
    let mut scratch = local.scratch.take();
    let outcome = attempts(request, (&call, upload.as_mut()), output, &mut scratch).await;
    local.scratch.give(scratch);
    request.connection.set_deadline(NEVER);
    let step = outcome?;
    let Some(rest) = upload.and_then(Upload::rest) else {
        return Ok(step);
    };
    match step {
        Step::End(persistence) => {
            let is_read = persistence.is_open() && rest.drain(output, send_timeout).await?;
            Ok(if is_read { step } else { Step::Linger })
        }
        Step::Late(mut late) => {
            late.lingers = true;
            Ok(Step::Late(late))
        }
        _ => Ok(step),
    }
}

/// Tries servers until one answers, or none is left that may be tried.
async fn attempts<'r>(
    request: &Request<'r>,
    (call, mut upload): Asking<'_, 'r>,
    output: &mut Output,
    scratch: &mut Scratch,
) -> Result<Step, Gone> {
    let options = call.upstream.options();
    let mut tried = Tried::new();
    let mut last_failure = None;
    loop {
        let claim = match claim(request, call, output, &tried).await? {
            Ok(claim) => claim,
            Err(unavailable) => {
                let status = last_failure.unwrap_or_else(|| status(unavailable));
                if last_failure.is_none() {
                    complain(request, call, None, &unavailable.to_string());
                }
                return Ok(fail(request, status, upload.as_deref(), output));
            }
        };
        let asking = (call, upload.as_deref_mut());
        let asked = if speaks_http2(&call.upstream) {
            ask_http2(request, asking, output, scratch, &claim).await
        } else {
            ask(request, asking, output, scratch, &claim).await
        };
        let (failure, may_repeat, has_begun) = match asked {
            Ok(done) => return Ok(finish(request, call, claim, done)),
            Err(Trouble::Client(gone)) => return Err(gone),
            Err(Trouble::Request(unsendable)) => {
                complain(
                    request,
                    call,
                    None,
                    &format!("was not asked: {}", unsendable.reason),
                );
                return Ok(fail(request, unsendable.status, upload.as_deref(), output));
            }
            Err(Trouble::Body(status)) if is_grpc(request) => {
                return Ok(fail(request, status, upload.as_deref(), output));
            }
            Err(Trouble::Body(status)) => {
                return Ok(request.refuse(status, &mut output.bytes));
            }
            Err(Trouble::Server {
                failure,
                was_sent,
                has_begun,
            }) => {
                let may_repeat =
                    !was_sent || (is_repeatable(request, call, upload.as_deref()) && !has_begun);
                (failure, may_repeat, has_begun)
            }
        };
        complain(
            request,
            call,
            Some(claim.server().name()),
            &failure.to_string(),
        );
        // A call whose deadline has passed says nothing against the server that ends it.
        if !failure.is_of_request() && claim.failed(now_millis()) {
            let text = format!(
                "upstream \"{}\": server {} gets no requests for {:?}",
                call.upstream.name(),
                claim.server().name(),
                options.fail_timeout
            );
            request.connection.local.log(Level::Warn, &text);
        }
        // Its libraries make of the reason what the server meant.
        let is_passed_on = matches!(failure, Failure::Reset { .. })
            && is_grpc(request)
            && request.view.version_minor() == 2;
        if has_begun || is_passed_on {
            // The client must see that the answer is not whole.
            request.finished(failure.status(), 0, b"");
            return Err(Gone::Closed);
        }
        if !may_repeat || tried.len() >= options.retries as usize {
            return Ok(fail(request, failure.status(), upload.as_deref(), output));
        }
        last_failure = Some(failure.status());
        tried.push(claim.server().id());
    }
}

/// Claims a server, waiting for one with room if it must.
async fn claim(
    request: &Request<'_>,
    call: &UpstreamCall,
    output: &mut Output,
    tried: &Tried,
) -> Result<Result<Claim, Unavailable>, Gone> {
    let upstream = &call.upstream;
    match upstream.claim(&call.key, tried, now_millis()) {
        Err(Unavailable::Full) => {}
        Err(Unavailable::Naming) => {
            let mut named = upstream.named();
            let mut naming = pin!(named.wait_for(|is_named| *is_named));
            let deadline = Deadline::new();
            deadline.set(millis(upstream.options().connect_timeout));
            // In time or not: what there is now will do.
            let _ = wait::server(request, output, &deadline, |context| {
                naming.as_mut().poll(context).map(drop)
            })
            .await?;
            match upstream.claim(&call.key, tried, now_millis()) {
                Err(Unavailable::Full) => {}
                outcome => return Ok(outcome),
            }
        }
        outcome => return Ok(outcome),
    }
    let Some(place) = upstream.wait() else {
        return Ok(Err(Unavailable::Full));
    };
    let deadline = Deadline::new();
    deadline.set(millis(upstream.model().queue_timeout));
    let claimed = wait::server(request, output, &deadline, |context| {
        upstream.poll_claim(context, &place, &call.key, tried, now_millis())
    })
    .await?;
    Ok(claimed.unwrap_or(Err(Unavailable::Full)))
}

/// Asks the claimed server. A connection that was kept and turns out to have been closed meanwhile is not its fault: then on a new one.
async fn ask<'r>(
    request: &Request<'r>,
    (call, mut upload): Asking<'_, 'r>,
    output: &mut Output,
    scratch: &mut Scratch,
    claim: &Claim,
) -> Result<Done, Trouble> {
    let times = Times::of(call);
    let local = &request.connection.local;
    let has_workers = gateway::has_workers(call);
    let mut kept = local.upstreams.take(claim.server(), now_millis());
    if has_workers && kept.is_none() {
        kept = line::wait(request, output, claim).await?;
    }
    let _turn = has_workers.then(|| local.upstreams.begin(claim.server()));
    if !is_idempotent(request, call) || upload.is_some() {
        kept = kept.filter(Connection::is_at_rest);
    }
    loop {
        let mut fresh = None;
        let connection = match kept.take() {
            Some(connection) => connection,
            None => {
                fresh = has_workers.then(|| claim.server().opened());
                connect(request, output, (call.upstream.options(), claim), &times).await?
            }
        };
        let is_reused = connection.is_reused();
        let server = (&**claim.server(), connection);
        let asking = (call, upload.as_deref_mut());
        let begun = has_workers.then(Instant::now);
        match http1::exchange(request, asking, &times, output, server, scratch).await {
            Ok(done) => {
                match (begun, fresh) {
                    (Some(begun), None) => claim.server().note_kept(begun.elapsed()),
                    (Some(begun), Some(fresh)) => fresh.answered(begun.elapsed()),
                    (None, _) => {}
                }
                return Ok(done);
            }
            Err(Trouble::Server {
                failure,
                was_sent,
                has_begun: false,
            }) if is_reused
                && failure.may_be_stale()
                && (!was_sent || is_repeatable(request, call, upload.as_deref())) => {}
            outcome => return outcome,
        }
    }
}

/// Asks the claimed server in HTTP/2. What it says it has not begun with is asked again.
async fn ask_http2<'r>(
    request: &Request<'r>,
    (call, mut upload): Asking<'_, 'r>,
    output: &mut Output,
    scratch: &mut Scratch,
    claim: &Claim,
) -> Result<Done, Trouble> {
    let times = Times::of(call);
    let mut refusals = 0;
    loop {
        let lease = lease(request, call, output, claim, &times).await?;
        let server = (&**claim.server(), &lease);
        let asking = (call, upload.as_deref_mut());
        let outcome =
            http2::exchange::exchange(request, asking, &times, output, server, scratch).await;
        match outcome {
            Err(Trouble::Server {
                failure,
                was_sent,
                has_begun: false,
            }) if refusals < REFUSALS
                && (!was_sent
                    || (lease.is_reused()
                        && failure.may_be_stale()
                        && is_repeatable(request, call, upload.as_deref()))) =>
            {
                refusals += 1;
            }
            outcome => return outcome,
        }
    }
}

/// A place for the request on an HTTP/2 connection to the claimed server.
async fn lease(
    request: &Request<'_>,
    call: &UpstreamCall,
    output: &mut Output,
    claim: &Claim,
    times: &Times,
) -> Result<Lease, Trouble> {
    let options = call.upstream.options();
    let local = &request.connection.local;
    let deadline = Deadline::new();
    deadline.set(times.connect);
    loop {
        let opened = match local.sessions.find(claim.server().id()) {
            Found::Room(lease) => return Ok(lease),
            Found::Open(opening) => {
                let connection = connect(request, output, (options, claim), times).await?;
                let is_tls = call.upstream.tls().is_some();
                let session = http2::driver::begin(local, connection, options, is_tls).await;
                let session = session.map_err(|failure| Trouble::Server {
                    failure,
                    was_sent: false,
                    has_begun: false,
                })?;
                let timeout = match options.keepalive {
                    0 => Duration::ZERO,
                    _ => options.keepalive_timeout,
                };
                return Ok(opening.done(session, timeout));
            }
            Found::Wait(opened) => opened,
        };
        let mut told = pin!(opened.notified());
        let waited = wait::server(request, output, &deadline, |context| {
            told.as_mut().poll(context)
        });
        if waited.await?.is_err() {
            return Err(Trouble::Server {
                failure: Failure::ConnectTimeout(options.connect_timeout),
                was_sent: false,
                has_begun: false,
            });
        }
    }
}

/// After an exchange that went well.
fn finish(request: &Request<'_>, call: &UpstreamCall, claim: Claim, done: Done) -> Step {
    let options = call.upstream.options();
    let local = &request.connection.local;
    let now = now_millis();
    claim.succeeded(now);
    match done {
        Done::Answered(persistence, connection, late) => {
            let has_workers = gateway::has_workers(call);
            if let Some(connection) = connection
                && local
                    .upstreams
                    .put(claim.server(), (options, has_workers), connection, now)
            {
                sweep(Rc::clone(local));
            }
            late.map_or(Step::End(persistence), Step::Late)
        }
        Done::Upgraded {
            connection,
            received,
            head,
        } => Step::Tunnel(Box::new(Tunnel {
            claim,
            connection,
            received,
            head,
            timeout: millis(options.tunnel_timeout),
        })),
    }
}

/// Opens a connection to the claimed server.
async fn connect(
    request: &Request<'_>,
    output: &mut Output,
    (options, claim): (&UpstreamOptions, &Claim),
    times: &Times,
) -> Result<Connection, Trouble> {
    let deadline = Deadline::new();
    deadline.set(times.connect);
    let mut greeting = Vec::new();
    if let Some(version) = options.proxy_protocol {
        write_announcement(
            &mut greeting,
            version,
            request.remote().zip(request.local()),
        );
    }
    let mut opening = Box::pin(Connection::open(claim.server(), &greeting));
    let opened = wait::server(request, output, &deadline, |context| {
        opening.as_mut().poll(context)
    })
    .await?;
    let failure = match opened {
        Ok(Ok(connection)) => return Ok(connection),
        Ok(Err(failure)) => failure,
        Err(wait::TimedOut) => Failure::ConnectTimeout(Duration::from_millis(times.connect)),
    };
    Err(Trouble::Server {
        failure,
        was_sent: false,
        has_begun: false,
    })
}

/// True if it can be sent once more, and that does no harm.
fn is_repeatable(request: &Request<'_>, call: &UpstreamCall, upload: Option<&Upload<'_>>) -> bool {
    is_idempotent(request, call) && !upload.is_some_and(Upload::was_taken)
}

/// True if doing it twice is as good as doing it once, by the user's word. RFC 9110 §9.2.2 says so of PUT and DELETE too; applications
/// count, send mail and answer 404 to the second DELETE all the same.
fn is_idempotent(request: &Request<'_>, call: &UpstreamCall) -> bool {
    let method = request.view.method_text();
    let methods = &call.upstream.options().retry_methods;
    methods.iter().any(|one| one.as_bytes() == method)
}

/// Closes idle connections of this thread in time, as long as there are any.
fn sweep(local: Rc<Local>) {
    tokio::task::spawn_local(async move {
        let mut pause = SOON;
        loop {
            tokio::time::sleep(pause).await;
            let Some(next) = local.upstreams.sweep(now_millis()) else {
                return;
            };
            pause = next;
        }
    });
}

fn status(unavailable: Unavailable) -> u16 {
    match unavailable {
        Unavailable::Full => 503,
        _ => 502,
    }
}

fn complain(request: &Request<'_>, call: &UpstreamCall, server: Option<&str>, what: &str) {
    let name = call.upstream.name();
    let view = request.view;
    let line = format!(
        "{} {}",
        String::from_utf8_lossy(view.method_text()),
        String::from_utf8_lossy(view.target())
    );
    let text = match server {
        Some(server) => format!("upstream \"{name}\": server {server}: {what}; {line}"),
        None => format!("upstream \"{name}\" {what}; {line}"),
    };
    request.connection.local.complain(Level::Error, &text);
}

fn fail(
    request: &Request<'_>,
    status: u16,
    upload: Option<&Upload<'_>>,
    output: &mut Output,
) -> Step {
    let is_body_coming = upload.is_some_and(Upload::is_coming);
    let persistence = match is_body_coming {
        true => Persistence::Close,
        false => request.persistence(),
    };
    let grpc = is_grpc(request).then(|| grpc_fields(status));
    let page = Page {
        status: if grpc.is_some() { 200 } else { status },
        is_head: request.is_head(),
        persistence,
        fields: grpc.as_deref().unwrap_or_default().as_bytes(),
    };
    request.page(&page, &Changes::default(), &mut output.bytes);
    Step::End(persistence)
}
