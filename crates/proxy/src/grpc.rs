//! The part of gRPC that the proxy must know: which requests are gRPC, and how it reports a failure.

use tutti_http::{FieldLines, Known, reason_phrase};

use crate::request::ProxyRequest;

/// True if the client speaks gRPC, which reports failures in a field, not in a page.
pub(crate) fn is_grpc(request: &ProxyRequest<'_>) -> bool {
    const TYPE: &[u8] = b"application/grpc";
    let is_type = |value: &[u8]| match value.split_at_checked(TYPE.len()) {
        Some((begin, rest)) => {
            begin.eq_ignore_ascii_case(TYPE) && matches!(rest, [] | [b'+' | b';', ..])
        }
        None => false,
    };
    request.view.get(Known::ContentType).is_some_and(is_type)
}

/// A failure as gRPC fields ("PROTOCOL-HTTP2.md", "Responses"; the codes are those of "HTTP to gRPC Status Code Mapping").
pub(crate) fn grpc_fields(status: u16) -> FieldLines {
    let code = match status {
        400 | 431 => 13,
        413 => 8,
        _ => 14,
    };
    let message = format!("{status} {}", reason_phrase(status));
    let mut fields = FieldLines::of("Content-Type", b"application/grpc");
    fields.push_number(b"grpc-status", code);
    fields.push(b"grpc-message", message.as_bytes());
    fields
}
