//! The head of a response for a stream of HTTP/2 or 3.

use crate::http2::is_connection_specific;
use crate::{Known, OutgoingHead};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};

/// Fields that most responses do not exceed.
const FIELDS: usize = 12;

/// The head as HTTP/2 and 3 have it: without the fields that speak of an HTTP/1 connection. `None` if they cannot express it.
pub fn stream_head(head: &OutgoingHead, is_websocket: bool) -> Option<Response<()>> {
    let status = match head.status {
        // RFC 8441 §5, RFC 9220 §3: acceptance is any success.
        101 if is_websocket => StatusCode::OK,
        101 => return None,
        // Three digits that are no status, which `return` may give.
        status if status < 100 => StatusCode::INTERNAL_SERVER_ERROR,
        status => StatusCode::from_u16(status).ok()?,
    };
    // A copy that holds nothing else: header compression keeps some values for as long as the connection lives.
    let lines = Bytes::copy_from_slice(head.fields.lines());
    let mut headers = HeaderMap::with_capacity(FIELDS);
    for (name, value) in head.fields.iter_in(&lines) {
        if is_connection_specific(Known::from_name(name)) {
            continue;
        }
        let name = HeaderName::from_bytes(name);
        // RFC 9113 §8.2.1: no white space around it.
        let value = HeaderValue::from_maybe_shared(lines.slice_ref(value.trim_ascii()));
        if let (Ok(name), Ok(value)) = (name, value)
            && !(is_websocket && name == "sec-websocket-accept")
        {
            headers.append(name, value);
        }
    }
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    Some(response)
}
