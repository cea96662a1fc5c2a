//! Notes a request's client and its trace, when its head is complete and before any stage.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tutti_routing::RequestInfo as _;
use tutti_telemetry::{MAX_TEXT, Parent, Span, TraceContext, Tracer, is_tracestate};

use crate::exchange::refusals;
use crate::exchange::request::Request;
use crate::exchange::trace::{Recorded, Trace};
use crate::fields::forwarded::Origin;
use crate::fields::request_id;

/// Notes it in the exchange.
pub(crate) fn note(request: &Request<'_>) {
    if request.snapshot.believes_fields {
        note_origin(request);
    }
    if let Some(tracer) = &request.snapshot.tracer {
        begin_trace(request, tracer);
    }
}

/// Notes the client that the fields name, if the listener trusts them.
fn note_origin(request: &Request<'_>) {
    let entrance = request.entrance();
    if let Some(trusted) = entrance.and_then(|entry| entry.forwarded.as_ref()) {
        let origin = Origin::of(&request.view, request.client.client_address(), trusted);
        request.exchange.origin.set(origin);
    }
}

fn begin_trace(request: &Request<'_>, tracer: &Arc<Tracer>) {
    let (exchange, local) = (request.exchange, &request.client.local);
    let parent = parent(request);
    let given = request.given_request_id().and_then(request_id::number);
    let id = given.unwrap_or_else(|| exchange.request_id(local));
    let context = tracer.place(parent, id, exchange.span_id(local));
    let keeps_state = parent.is_some() && is_tracestate(request.view.get_all(b"tracestate"));
    let recorded = context.is_sampled().then(|| Recorded {
        tracer: Arc::clone(tracer),
        span: span(request, context, keeps_state),
    });
    exchange.traced.begin(Trace {
        context,
        keeps_state,
        recorded,
    });
}

/// Reads the parent span that the client names; several fields are ignored (W3C Trace Context §4.3).
fn parent(request: &Request<'_>) -> Option<Parent> {
    let mut values = request.view.get_all(b"traceparent");
    let value = values.next()?;
    match values.next() {
        None => Parent::parse(value),
        Some(_) => None,
    }
}

/// Makes the span of a request from its head.
fn span(request: &Request<'_>, context: TraceContext, keeps_state: bool) -> Span {
    let view = &request.view;
    let path = view.origin_target().split(|byte| *byte == b'?').next();
    let user_agent = view.get_all(b"User-Agent").next();
    Span {
        context,
        tracestate: if keeps_state {
            tracestate(request)
        } else {
            String::new()
        },
        started: SystemTime::now(),
        duration: Duration::ZERO,
        method: text(view.method_text()),
        path: text(path.unwrap_or_default()),
        is_https: request.is_https(),
        host: text(view.host_name()),
        port: request.local().map_or(0, |address| address.port()),
        protocol_version: view.version().text(),
        client: request.remote().map(|address| address.ip().to_canonical()),
        user_agent: user_agent.map(text),
        request_id: refusals::id(request).into(),
        status: None,
    }
}

/// Its fields form one list (W3C Trace Context §3.3); one that is too long to be kept whole is dropped.
fn tracestate(request: &Request<'_>) -> String {
    let values: Vec<&[u8]> = request.view.get_all(b"tracestate").collect();
    let joined = values.join(&b","[..]);
    String::from_utf8(joined)
        .ok()
        .filter(|state| state.len() <= MAX_TEXT)
        .unwrap_or_default()
}

/// Text of the client, truncated.
fn text(bytes: &[u8]) -> Box<str> {
    let kept = bytes.get(..MAX_TEXT).unwrap_or(bytes);
    String::from_utf8_lossy(kept).into()
}
