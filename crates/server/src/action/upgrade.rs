//! The response to a WebSocket handshake that an application has accepted.
//!
//! Must never: let the application control the protocol. Only the server sets the fields of the handshake: it has checked it, and it will
//! parse the frames.

use tutti_conn::output::Output;
use tutti_http::Known;
use tutti_pool::{ApplicationExchange, WireResponseHead};

use crate::exchange::request::Request;
use crate::exchange::respond;
use crate::exchange_step::{ExchangeStep, Upgraded};

/// Writes the response (RFC 6455 §4.2.2), and passes the exchange on.
pub(crate) fn accept(
    request: &Request<'_>,
    head: &WireResponseHead,
    exchange: ApplicationExchange,
    accept: &[u8; 28],
    output: &mut Output,
) -> ExchangeStep {
    let local = &request.client.local;
    let mut response = respond::begin(local, request.settings(), head.status);
    let fields = &mut response.fields;
    for (name, value) in head.fields() {
        if !is_ours(name) {
            fields.push(name, value);
        }
    }
    fields.push(b"Upgrade", b"websocket");
    fields.push(b"Connection", b"Upgrade");
    fields.push(b"Sec-WebSocket-Accept", accept);
    request.identify(fields);
    let head = request.put(response, output);
    ExchangeStep::WebSocket(Box::new(Upgraded { exchange, head }))
}

/// No extension is supported, so none can be negotiated.
fn is_ours(name: &[u8]) -> bool {
    let known = Known::from_name(name);
    matches!(known, Known::Date | Known::Server)
        || respond::is_framing(known)
        || [
            &b"sec-websocket-accept"[..],
            b"sec-websocket-extensions",
            b"sec-websocket-version",
        ]
        .iter()
        .any(|ours| name.eq_ignore_ascii_case(ours))
}
