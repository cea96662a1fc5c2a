//! Passes a request to an application.
//!
//! The body has been read before, so that a slow client occupies no worker, unless the application has it streamed (`request_buffering`).
//! [`app_response`](super::app_response) handles the response.
//!
//! Must never: leave a request without a response, or the log without the reason.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

use smallvec::SmallVec;
use tutti_cache::now;
use tutti_conn::address::AddressText;
use tutti_conn::connections::NEVER;
use tutti_conn::output::{Gone, Output};
use tutti_gateway::cgi::is_imitation;
use tutti_http::edits::{Edit, is_alias, is_server_only_field, replaces};
use tutti_http::{FieldLines, PerConnection};
use tutti_pool::{
    ApplicationExchange, ApplicationPool, ExchangeError, Level, OutgoingBody, SubmitError,
    TakenSlot, WireRequestHead,
};
use tutti_proxy::BodyStreamError;
use tutti_request_log::Phases;
use tutti_routing::RequestInfo;

use crate::action::abandon::Abandonment;
use crate::action::conversation::Conversation;
use crate::action::{app_response, upgrade};
use crate::boxed::boxed;
use crate::exchange::collector::{ActionBody, Collected};
use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::exchange_step::ExchangeStep;
use crate::internal_redirect::{self, ErrorResponse};
use crate::plan::{Called, Changes};

/// Runs a request in its application. Bytes that cannot be sent at once are in `output`.
pub(crate) async fn run<'r>(
    request: &Request<'r>,
    call: (&Called, &Changes),
    body: ActionBody<'r>,
    output: &mut Output,
) -> Result<ExchangeStep, Gone> {
    let (client, send_timeout) = (request.client, request.settings().timeouts.send);
    let (called, changes) = call;
    let (collected, body) = body.parts();
    client.set_deadline(NEVER);
    let sent = Sent {
        body: collected,
        is_stream: body.is_some(),
        is_websocket: called.upgrade.is_some(),
    };
    request.note_phase(|phases| {
        *phases = Phases {
            handed: Some(Instant::now()),
            ..Phases::default()
        };
    });
    let abandonment = Abandonment::new(request, &called.application, sent.is_websocket);
    let exchange = match submit(request, call, sent, &abandonment).await? {
        Ok(exchange) => exchange,
        Err(error) if holds_error(changes, error.status()) => {
            return Ok(app_response::held(request));
        }
        Err(error) => {
            let is_coming = body.is_some();
            return Ok(submit_failed(
                request,
                &called.application,
                &error,
                is_coming,
                output,
            ));
        }
    };
    if let Some(slow) = &request.snapshot.logs.slow
        && slow.options.backtrace
        // A program that does not answer its worker is ended.
        && !called.application.starts_programs()
    {
        let whereabouts = Box::new(exchange.whereabouts());
        request.exchange.whereabouts.set(Some(whereabouts));
    }
    let mut conversation = Conversation::new(request, exchange, body, &abandonment);
    let head = match conversation.head(request, output, send_timeout).await {
        Ok(Ok(head)) => head,
        Ok(Err(error)) if holds_error(changes, error.status()) => {
            return Ok(app_response::held(request));
        }
        Ok(Err(error)) => {
            let is_coming = conversation.is_body_coming();
            return Ok(exchange_failed(
                request,
                &called.application,
                &error,
                is_coming,
                output,
            ));
        }
        Err(BodyStreamError::Refused(status)) => {
            return Ok(internal_redirect::refuse(request, status, output));
        }
        Err(BodyStreamError::Gone(gone)) => return Err(gone),
    };
    if abandonment.is_run() {
        boxed(|| app_response::discard_all(&mut conversation, output)).await;
        return Err(Gone::Closed);
    }
    let waited = || conversation.exchange.waited();
    request.note_phase(|phases| {
        phases.queued = waited();
        phases.answered = Some(Instant::now());
    });
    if let (Some(accept), 101) = (&called.upgrade, head.status) {
        let exchange = conversation.into_exchange();
        return Ok(upgrade::accept(request, &head, exchange, accept, output));
    }
    let begun = app_response::begin(request, &head, &conversation, changes, output);
    let (mut writer, body) = match begun {
        Ok(begun) => begun,
        Err(instead) => {
            return boxed(|| app_response::replace(request, instead, conversation, output)).await;
        }
    };
    body.send(request, &mut writer, &mut conversation, output)
        .await?;
    // If that is much, it is not logged yet.
    let sent = writer.end(request, output);
    match conversation.is_body_coming() {
        true => boxed(|| app_response::end(request, sent, conversation, output)).await,
        false => Ok(sent.into()),
    }
}

/// True if a stored response replaces a failure of this status.
fn holds_error(changes: &Changes, status: u16) -> bool {
    let recording = changes.cache.as_ref();
    recording.is_some_and(|recording| recording.holds_error(status, now()))
}

/// The input of the application in addition to the head.
struct Sent {
    body: Collected,
    /// The body is streamed.
    is_stream: bool,
    /// Messages will follow, if it accepts.
    is_websocket: bool,
}

/// Waits for a slot of the application, and submits the request.
async fn submit(
    request: &Request<'_>,
    call: (&Called, &Changes),
    sent: Sent,
    abandonment: &Abandonment<'_>,
) -> Result<Result<ApplicationExchange, SubmitError>, Gone> {
    let is_complete = !sent.is_stream && !sent.is_websocket;
    let taken = {
        let mut taken = pin!(call.0.application.take(request.complete_at()));
        poll_fn(|cx| {
            if let Poll::Ready(taken) = taken.as_mut().poll(cx) {
                return Poll::Ready(Ok(taken));
            }
            let given_up = abandonment.poll_waiting(is_complete, cx);
            given_up.map(|()| Err(Gone::Closed))
        })
        .await?
    };
    Ok(taken.and_then(|slot| hand_over(request, call, sent, slot)))
}

/// Writes the request into the slot that was taken for it.
fn hand_over(
    request: &Request<'_>,
    (called, changes): (&Called, &Changes),
    sent: Sent,
    slot: TakenSlot<'_>,
) -> Result<ApplicationExchange, SubmitError> {
    let Sent {
        body,
        is_stream,
        is_websocket,
    } = sent;
    let view = request.view;
    let mut fields = Fields::new();
    let relays = slot.is_relayed();
    collect_fields(&mut fields, request, relays, &changes.edits);
    let [client, local] = request.client.address_texts();
    let stated = request.exchange.origin.get().address;
    let stated = stated.map(|address| AddressText::of(Some(address)));
    let remote = stated.as_ref().unwrap_or(client);
    let body_length = match &body {
        Collected::None | Collected::Job(_) => view.facts().content_length,
        Collected::Memory(bytes) => Some(bytes.len() as u64),
        Collected::Spool(region) => Some(region.len()),
    };
    let is_https = request.is_https();
    let path = changes.request_path(&view);
    let user = request.user();
    let head = WireRequestHead {
        method: view.method_text(),
        target: match relays {
            // A program that speaks HTTP has no other place for the path.
            true => path.target(),
            // Others get both, and route by the client's target.
            false => view.origin_target(),
        },
        path: path.path(),
        query: path.query().unwrap_or_default(),
        version_minor: view.version().number(),
        tls: is_https,
        scheme: if is_https { b"https" } else { b"http" },
        remote_address: remote.text(),
        remote_port: remote.port,
        local_address: local.text(),
        local_port: local.port,
        server_name: server_name(view.host_name(), local.text()),
        target_name: called.target.as_deref().unwrap_or_default().as_bytes(),
        user: &user,
        content_length: body_length,
        fields: &fields,
        arrived_ms: 0,
        deadline_ms: 0,
        websocket: is_websocket,
    };
    let body = match &body {
        _ if is_websocket => OutgoingBody::Stream { len: None },
        _ if is_stream => OutgoingBody::Stream { len: body_length },
        Collected::Memory(bytes) => OutgoingBody::Inline(bytes),
        _ => match body {
            Collected::Spool(region) => OutgoingBody::Spooled(region),
            _ => OutgoingBody::None,
        },
    };
    slot.submit(&head, body)
}

type Fields<'a> = SmallVec<[(&'a [u8], &'a [u8]); 32]>;

/// Collects the header fields for the application: the client's without those it may not set, and the configured ones.
fn collect_fields<'a>(
    fields: &mut Fields<'a>,
    request: &'a Request<'_>,
    relays: bool,
    edits: &'a [Edit],
) {
    let view = request.view;
    let names = || view.fields().map(|field| field.name);
    let per_connection = PerConnection::of_request(&view);
    let is_left_out = |name: &[u8]| {
        is_server_only_field(name)
            || per_connection.is_named(name)
            || replaces(edits, name)
            || is_imitation(name, names())
            || (relays && is_set_by_relay(name))
    };
    let sent = view.fields().filter(|field| !is_left_out(field.name));
    fields.extend(sent.map(|field| (field.name, field.value)));
    let facts = request.client.channel.facts();
    if let Some(certificate) = facts.and_then(|facts| facts.client_certificate())
        && !certificate.is_empty()
        && !replaces(edits, b"Client-Cert")
    {
        fields.push((b"Client-Cert", certificate));
    }
    fields.extend(edits.iter().filter_map(Edit::field));
}

/// The host that the client requested. CGI-like interfaces require one (RFC 3875 §4.1.14, PEP 3333): without one, it is the server's own
/// address.
fn server_name<'a>(asked: &'a [u8], address: &'a [u8]) -> &'a [u8] {
    match (asked, address) {
        (b"", b"unix:") => b"localhost",
        (b"", address) => address,
        (asked, _) => asked,
    }
}

/// Fields about the client for a program that speaks HTTP: it trusts all fields, because its only client is its relay. They come from the
/// relay, or from the configuration, never from the client.
fn is_set_by_relay(name: &[u8]) -> bool {
    const SET: [&[u8]; 6] = [
        b"forwarded",
        b"x-forwarded-for",
        b"x-forwarded-host",
        b"x-forwarded-port",
        b"x-forwarded-proto",
        b"x-real-ip",
    ];
    SET.iter().any(|own| is_alias(own, name))
}

fn submit_failed(
    request: &Request<'_>,
    application: &ApplicationPool,
    error: &SubmitError,
    is_body_coming: bool,
    output: &mut Output,
) -> ExchangeStep {
    let level = match error {
        SubmitError::QueueFull { .. } | SubmitError::Timeout | SubmitError::Stopped => Level::Warn,
        _ => Level::Error,
    };
    let (status, retry_after) = (error.status(), error.retry_after());
    log_failure(request, application, level, status, error);
    fail(request, status, retry_after, is_body_coming, output)
}

fn exchange_failed(
    request: &Request<'_>,
    application: &ApplicationPool,
    error: &ExchangeError,
    is_body_coming: bool,
    output: &mut Output,
) -> ExchangeStep {
    // The pool has logged deaths and timeouts of its workers, with more details.
    if matches!(
        error,
        ExchangeError::Aborted
            | ExchangeError::Timeout { begun: false }
            | ExchangeError::QueueWait
            | ExchangeError::StartFailed(_)
    ) {
        log_failure(request, application, Level::Error, error.status(), error);
    }
    let (status, retry_after) = (error.status(), error.retry_after());
    fail(request, status, retry_after, is_body_coming, output)
}

fn log_failure(
    request: &Request<'_>,
    application: &ApplicationPool,
    level: Level,
    status: u16,
    error: &dyn std::fmt::Display,
) {
    let (name, origin) = (application.name(), refusals::origin(request));
    let message = format!("\"{name}\": {error}; answered {status}, {origin}");
    let local = &request.client.local;
    local.log_failure_of(level, &message, || refusals::id(request));
}

fn fail(
    request: &Request<'_>,
    status: u16,
    retry_after: Option<Duration>,
    is_body_coming: bool,
    output: &mut Output,
) -> ExchangeStep {
    let mut fields = FieldLines::new();
    if let Some(wait) = retry_after {
        fields.push_number(b"Retry-After", wait.as_secs().max(1));
    }
    let failure = ErrorResponse {
        status,
        fields: &fields,
        is_body_coming,
    };
    internal_redirect::fail(request, &failure, &Changes::default(), output)
}
