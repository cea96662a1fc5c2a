//! The head of a request in place of another.

use tutti_http::edits::is_server_only_field;
use tutti_http::http2::{Opening, is_connection_specific};
use tutti_http::{
    Known, MessageLimits, Method, PathRules, PerConnection, Progress, RequestHead, RequestView,
    Version, write_field, write_request_line,
};

/// Writes the head: without a body and its fields, and for an error page without conditions and ranges, because all of the page is to be
/// sent.
pub(crate) fn write(
    view: &RequestView<'_>,
    target: &[u8],
    is_error: bool,
) -> Option<(Box<RequestHead>, Vec<u8>)> {
    let method = match view.method() {
        Method::Head => b"HEAD".as_slice(),
        _ => b"GET",
    };
    let per_connection = PerConnection::of_request(view);
    let fields = || {
        let kept = view.fields().filter(|field| {
            let is_left_out = is_of_body(field.name, field.known)
                || is_connection_specific(field.known)
                || per_connection.is_named(field.name)
                || is_server_only_field(field.name)
                || (is_error && is_condition(field.known));
            !is_left_out
        });
        kept.map(|field| (field.name, field.value))
    };
    let limits = MessageLimits {
        large_header_buffer_size: 1 << 20,
        large_header_buffers: 1,
        discard_unsafe_fields: false,
        paths: Some(PathRules::CHECKED),
        ..MessageLimits::default()
    };
    let mut head = Box::<RequestHead>::default();
    let mut bytes = Vec::new();
    if view.version() > Version::Http11 {
        let opening = Opening {
            method,
            target,
            authority: Some(view.host()).filter(|host| !host.is_empty()),
            is_checked: false,
            has_body: false,
            websocket: None,
            version: view.version(),
        };
        head.compose(&mut bytes, &opening, fields, &limits).ok()?;
        return Some((head, bytes));
    }
    write_request_line(&mut bytes, method, target);
    if view.version() == Version::Http10 {
        // The line ends in the version of the client.
        let digit = bytes.len() - "1\r\n".len();
        if let Some(digit) = bytes.get_mut(digit) {
            *digit = b'0';
        }
    }
    if !view.host().is_empty() || view.version() > Version::Http10 {
        write_field(&mut bytes, b"Host", view.host());
    }
    for (name, value) in fields() {
        write_field(&mut bytes, name, value);
    }
    bytes.extend_from_slice(b"\r\n");
    match head.parse(&bytes, &limits) {
        Ok(Progress::Complete { length }) if length == bytes.len() => Some((head, bytes)),
        _ => None,
    }
}

fn is_of_body(name: &[u8], known: Known) -> bool {
    matches!(
        known,
        Known::Host | Known::ContentLength | Known::TransferEncoding | Known::Expect | Known::Te
    ) || [
        &b"content-type"[..],
        b"content-encoding",
        b"content-language",
    ]
    .iter()
    .any(|other| name.eq_ignore_ascii_case(other))
}

fn is_condition(known: Known) -> bool {
    matches!(
        known,
        Known::IfMatch
            | Known::IfNoneMatch
            | Known::IfModifiedSince
            | Known::IfUnmodifiedSince
            | Known::IfRange
            | Known::Range
    )
}
