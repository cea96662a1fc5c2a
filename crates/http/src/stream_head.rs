//! The head of a response for a stream of HTTP/2 or 3.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

use crate::http2::is_connection_specific;
use crate::http3::encode_response;
use crate::token::{is_field_name, is_field_value};
use crate::{Known, OutgoingHead};

/// Most responses have no more fields.
const FIELDS: usize = 12;

/// The head of a response in HTTP/3.
#[derive(Debug)]
pub struct EncodedHead {
    /// The status, which is also in the section.
    pub status: StatusCode,
    /// Status and fields in QPACK.
    pub section: Vec<u8>,
    /// The declared length of the body.
    pub content_length: Option<u64>,
}

/// The head for HTTP/2: without fields of an HTTP/1 connection. `None` if it cannot be expressed.
pub fn stream_head(head: &OutgoingHead, is_websocket: bool) -> Option<Response<()>> {
    let status = stream_status(head.status, is_websocket)?;
    // A separate copy: header compression keeps some values for as long as the connection lives.
    let lines = Bytes::copy_from_slice(head.fields.lines());
    let mut headers = HeaderMap::with_capacity(FIELDS);
    for (name, value) in stream_fields(head, &lines, is_websocket) {
        let name = HeaderName::from_bytes(name);
        let value = HeaderValue::from_maybe_shared(lines.slice_ref(value));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Some(response)
}

/// The same for HTTP/3, encoded: its table is static, so nothing depends on the order in which heads are sent.
pub fn encoded_head(head: &OutgoingHead, is_websocket: bool) -> Option<EncodedHead> {
    let status = stream_status(head.status, is_websocket)?;
    let mut content_length = None;
    let fields = stream_fields(head, head.fields.lines(), is_websocket)
        .filter(|(name, value)| is_field_name(name) && is_field_value(value))
        .inspect(|(name, value)| {
            if content_length.is_none() && Known::from_name(name) == Known::ContentLength {
                content_length = str::from_utf8(value)
                    .ok()
                    .and_then(|value| value.parse().ok());
            }
        });
    let section = encode_response(status.as_u16(), fields);
    Some(EncodedHead {
        status,
        section,
        content_length,
    })
}

/// The status on a stream; `None` if it cannot be sent.
fn stream_status(status: u16, is_websocket: bool) -> Option<StatusCode> {
    match status {
        // RFC 8441 §5, RFC 9220 §3: acceptance is any success.
        101 if is_websocket => Some(StatusCode::OK),
        101 => None,
        // Three digits that are not a status, which `return` may send.
        status if status < 100 => Some(StatusCode::INTERNAL_SERVER_ERROR),
        status => StatusCode::from_u16(status).ok(),
    }
}

/// The fields for a stream, borrowed from `lines`. RFC 9113 §8.2.1: no white space around their values.
fn stream_fields<'h>(
    head: &'h OutgoingHead,
    lines: &'h [u8],
    is_websocket: bool,
) -> impl Iterator<Item = (&'h [u8], &'h [u8])> {
    head.fields
        .iter_in(lines)
        .filter(move |(name, _)| {
            let is_of_upgrade = is_websocket && name.eq_ignore_ascii_case(b"sec-websocket-accept");
            !is_of_upgrade && !is_connection_specific(Known::from_name(name))
        })
        .map(|(name, value)| (name, value.trim_ascii()))
}
