//! A request's head as Java takes it apart (`Head.java`): numbers in network order, texts with their lengths before them.

use tutti_worker::{BodyRef, Exchange, target};

/// `flags`: the connection is encrypted.
const SECURE: u8 = 1;
/// The request opens a WebSocket.
const WEBSOCKET: u8 = 2;
/// The body comes while the request is served.
const STREAMED: u8 = 4;
/// There is no body.
const EMPTY: u8 = 8;

/// Writes the head of the exchange's request, and the number that Java knows the exchange by.
pub(crate) fn encode(exchange: &Exchange, number: u64, into: &mut Vec<u8>) {
    let view = exchange.request();
    into.clear();
    into.extend(number.to_be_bytes());
    let mut flags = 0;
    let told = [
        (view.tls() || view.scheme() == b"https", SECURE),
        (view.is_websocket(), WEBSOCKET),
        (matches!(view.body(), BodyRef::Stream { .. }), STREAMED),
        (matches!(view.body(), BodyRef::None), EMPTY),
    ];
    for (is_so, flag) in told {
        flags |= u8::from(is_so) * flag;
    }
    into.push(flags);
    into.push(view.version_minor());
    into.extend(view.remote_port().to_be_bytes());
    into.extend(view.local_port().to_be_bytes());
    let length = view
        .content_length()
        .and_then(|length| i64::try_from(length).ok());
    into.extend(length.unwrap_or(-1).to_be_bytes());
    for text in [
        view.method(),
        &target(&view),
        view.scheme(),
        view.remote_address(),
        view.local_address(),
        view.server_name(),
        // Two names that are no UTF-8 could become one name: then there is no user.
        std::str::from_utf8(view.user()).map_or(&b""[..], str::as_bytes),
    ] {
        put(text, into);
    }
    let at = into.len();
    into.extend([0; 4]);
    let mut count: u32 = 0;
    for (name, value) in view.fields() {
        // No extension is spoken here: Jetty would agree on one.
        if view.is_websocket() && name.eq_ignore_ascii_case(b"sec-websocket-extensions") {
            continue;
        }
        put(name, into);
        put(value, into);
        count += 1;
    }
    if let Some(place) = into.get_mut(at..at + 4) {
        place.copy_from_slice(&count.to_be_bytes());
    }
}

fn put(text: &[u8], into: &mut Vec<u8>) {
    // The router's limits keep every text of a head far below this.
    let length = u32::try_from(text.len()).unwrap_or_default();
    into.extend(length.to_be_bytes());
    into.extend(text.iter().take(length as usize));
}
