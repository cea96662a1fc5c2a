//! The response to a WebSocket handshake that an application has accepted.
//!
//! Must never: let the application speak for the protocol. What belongs to the handshake is the server's to say: it has checked it, and
//! it will parse the frames.

use tutti_http::Known;
use tutti_pool::{Exchange, ResponseHead};

use super::app_response;
use crate::output::Output;
use crate::request::Request;
use crate::respond;
use crate::step::{Step, Upgraded};

/// Writes the response (RFC 6455 §4.2.2), and hands the exchange on.
pub(crate) fn accept(
    request: &Request<'_>,
    head: &ResponseHead,
    exchange: Exchange,
    accept: &[u8; 28],
    output: &mut Output,
) -> Step {
    let out = &mut output.bytes;
    let start = out.len();
    let own = respond::Own::ALL;
    let local = &request.connection.local;
    respond::begin_with(out, local, request.snapshot, head.status, own);
    for (name, value) in head.fields() {
        if !is_ours(name) {
            out.extend_from_slice(name);
            out.extend_from_slice(b": ");
            out.extend_from_slice(value);
            out.extend_from_slice(b"\r\n");
        }
    }
    respond::field(out, "Upgrade", b"websocket");
    respond::field(out, "Connection", b"Upgrade");
    respond::field(out, "Sec-WebSocket-Accept", accept);
    out.extend_from_slice(b"\r\n");
    request.connection.traced.tell(out, start);
    let keeps_head = request.snapshot.access_log.is_some();
    let head = if keeps_head {
        out.get(start..).unwrap_or_default().to_vec()
    } else {
        Vec::new()
    };
    Step::WebSocket(Box::new(Upgraded { exchange, head }))
}

/// No extension is spoken here, so none can have been agreed on.
fn is_ours(name: &[u8]) -> bool {
    let is_own = matches!(Known::from_name(name), Known::Date | Known::Server);
    is_own
        || app_response::is_ours(name)
        || [
            &b"sec-websocket-accept"[..],
            b"sec-websocket-extensions",
            b"sec-websocket-version",
        ]
        .iter()
        .any(|ours| name.eq_ignore_ascii_case(ours))
}
