//! Spans in the terms of OTLP and of the semantic conventions for HTTP servers
//! (<https://opentelemetry.io/docs/specs/semconv/http/http-spans/>).

use std::time::UNIX_EPOCH;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{self as proto, ResourceSpans, ScopeSpans, Status};

use crate::span::Span;

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Methods that `http.request.method` names individually (RFC 9110 §9, RFC 5789, RFC 10008).
const METHODS: [&str; 10] = [
    "GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH", "QUERY",
];

/// `SpanFlags` of the protocol: it is known that the parent is in another process.
const HAS_IS_REMOTE: u32 = 0x100;
const IS_REMOTE: u32 = 0x200;

/// Returns the content of an export.
pub(crate) fn request(service_name: &str, spans: &[Span]) -> ExportTraceServiceRequest {
    let attributes = vec![
        text("service.name", service_name),
        text("service.version", VERSION),
        text("telemetry.sdk.language", "rust"),
        text("telemetry.sdk.name", "tutti"),
        text("telemetry.sdk.version", VERSION),
    ];
    ExportTraceServiceRequest {
        resource_spans: vec![ResourceSpans {
            resource: Some(Resource {
                attributes,
                ..Resource::default()
            }),
            scope_spans: vec![ScopeSpans {
                scope: Some(InstrumentationScope {
                    name: "tutti".to_owned(),
                    version: VERSION.to_owned(),
                    ..InstrumentationScope::default()
                }),
                spans: spans.iter().map(one).collect(),
                ..ScopeSpans::default()
            }],
            ..ResourceSpans::default()
        }],
    }
}

fn one(span: &Span) -> proto::Span {
    let context = &span.context;
    let started = span.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    let nanoseconds =
        |time: std::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    let remote = context.parent.map_or(0, |_| IS_REMOTE);
    proto::Span {
        trace_id: context.trace_id.to_be_bytes().to_vec(),
        span_id: context.span_id.to_be_bytes().to_vec(),
        parent_span_id: context
            .parent
            .map_or_else(Vec::new, |parent| parent.to_be_bytes().to_vec()),
        trace_state: span.tracestate.clone(),
        flags: u32::from(context.flags) | HAS_IS_REMOTE | remote,
        // "{method}", because there is no route with few values; "HTTP" for an unknown method.
        name: known_method(span).unwrap_or("HTTP").to_owned(),
        kind: SpanKind::Server.into(),
        start_time_unix_nano: nanoseconds(started),
        end_time_unix_nano: nanoseconds(started + span.duration),
        attributes: attributes(span),
        status: error_type(span).map(|_| Status {
            code: StatusCode::Error.into(),
            ..Status::default()
        }),
        ..proto::Span::default()
    }
}

fn known_method(span: &Span) -> Option<&'static str> {
    METHODS.into_iter().find(|known| *known == &*span.method)
}

/// Returns the error on this side: a client's mistake is not an error of a server's span.
fn error_type(span: &Span) -> Option<String> {
    match span.status {
        None => Some("aborted".to_owned()),
        Some(status) if status >= 500 => Some(status.to_string()),
        Some(_) => None,
    }
}

fn attributes(span: &Span) -> Vec<KeyValue> {
    let mut attributes = Vec::with_capacity(13);
    match known_method(span) {
        Some(method) => attributes.push(text("http.request.method", method)),
        None => {
            attributes.push(text("http.request.method", "_OTHER"));
            attributes.push(text("http.request.method_original", &span.method));
        }
    }
    attributes.push(text("url.path", &span.path));
    let scheme = if span.is_https { "https" } else { "http" };
    attributes.push(text("url.scheme", scheme));
    if !span.host.is_empty() {
        attributes.push(text("server.address", &span.host));
    }
    if span.port != 0 {
        attributes.push(number("server.port", i64::from(span.port)));
    }
    attributes.push(text("network.protocol.version", span.protocol_version));
    if let Some(client) = span.client {
        attributes.push(text("client.address", &client.to_string()));
    }
    if let Some(user_agent) = &span.user_agent {
        attributes.push(text("user_agent.original", user_agent));
    }
    // Next to the trace id: a trace that was begun elsewhere has another id.
    attributes.push(text("tutti.request_id", &span.request_id));
    if let Some(status) = span.status {
        attributes.push(number("http.response.status_code", i64::from(status)));
    }
    if let Some(error) = error_type(span) {
        attributes.push(text("error.type", &error));
    }
    attributes
}

fn text(key: &str, value: &str) -> KeyValue {
    attribute(key, Value::StringValue(value.to_owned()))
}

fn number(key: &str, value: i64) -> KeyValue {
    attribute(key, Value::IntValue(value))
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue {
        key: key.to_owned(),
        value: Some(AnyValue { value: Some(value) }),
        ..KeyValue::default()
    }
}
