//! Heads, from ours to the program's and back: what belongs to one connection only is left out.

use tutti_http::{
    Known, PerConnection, RequestFraming, port_or_default, write_chunk_head, write_field,
    write_request_line,
};
use tutti_worker::{BodyRef, WireRequestView};

/// Fields that are not for the program, beside those of every connection: of the client's connection, and one that libraries take for the
/// proxy of their own requests (CVE-2016-5385).
const LEFT_OUT: [&[u8]; 2] = [b"proxy", b"http2-settings"];

/// Appends a piece of the body; an empty one ends it.
pub(crate) fn write_piece(framing: RequestFraming, bytes: &[u8], out: &mut Vec<u8>) {
    match framing {
        RequestFraming::Chunked if bytes.is_empty() => {
            out.extend_from_slice(tutti_http::LAST_CHUNK)
        }
        RequestFraming::Chunked => {
            write_chunk_head(bytes.len(), out);
            out.extend_from_slice(bytes);
            out.extend_from_slice(b"\r\n");
        }
        _ => out.extend_from_slice(bytes),
    }
}

/// The framing of the request's body.
pub fn framing(request: &WireRequestView<'_>) -> RequestFraming {
    let length = match request.body() {
        // A request that may have a body says that it has none.
        BodyRef::None if request.content_length() == Some(0) => Some(0),
        BodyRef::None => return RequestFraming::None,
        BodyRef::Inline(bytes) => Some(bytes.len() as u64),
        BodyRef::Spool { len, .. } => Some(len),
        BodyRef::Stream { len } => len,
    };
    length.map_or(RequestFraming::Chunked, RequestFraming::Length)
}

/// The field that tells a preloaded module who the client is; it is the first, and no other of this name gets through.
const CLIENT: &[u8] = b"Tutti-Client";

/// Writes the request's head. `key`: of a WebSocket handshake. `tells_client`: in the field [`CLIENT`].
pub(crate) fn write_request(
    out: &mut Vec<u8>,
    request: &WireRequestView<'_>,
    framing: RequestFraming,
    key: Option<&[u8; 24]>,
    tells_client: bool,
) {
    write_request_line(out, request.method(), request.target());
    if tells_client {
        let mut value = Vec::with_capacity(64);
        write_client(&mut value, request);
        write_field(out, CLIENT, &value);
    }
    each_field(request, framing, key, tells_client, |name, value| {
        write_field(out, name, value);
    });
    out.extend_from_slice(b"\r\n");
}

/// Calls `visit` with each field of the request, in order, as the program gets it. `hides_client`: the client's own field of the name
/// [`CLIENT`] is left out.
pub fn each_field(
    request: &WireRequestView<'_>,
    framing: RequestFraming,
    key: Option<&[u8; 24]>,
    hides_client: bool,
    mut visit: impl FnMut(&[u8], &[u8]),
) {
    // The router has left out what the client's `Connection` names: a field that is there may be the server's own.
    let connection = PerConnection::default();
    let mut host = None;
    for (name, value) in request.fields() {
        let known = Known::from_name(name);
        if known == Known::Host && host.is_none() {
            host = Some(value);
        }
        let is_left_out = known == Known::Expect
            || connection.has(name, known)
            || (hides_client && name.eq_ignore_ascii_case(CLIENT))
            || (known == Known::Other && is_ours(name, key.is_some()));
        if !is_left_out {
            visit(name, value);
        }
    }
    if host.is_none() {
        visit(b"Host", &own_host(request));
    }
    match framing {
        RequestFraming::None => {}
        RequestFraming::Length(length) => {
            let mut digits = itoa::Buffer::new();
            visit(b"Content-Length", digits.format(length).as_bytes());
        }
        RequestFraming::Chunked => visit(b"Transfer-Encoding", b"chunked"),
    }
    if let Some(key) = key {
        visit(b"Connection", b"Upgrade");
        visit(b"Upgrade", b"websocket");
        visit(b"Sec-WebSocket-Version", b"13");
        visit(b"Sec-WebSocket-Key", key);
    }
    each_forwarded(request, host.unwrap_or_default(), visit);
}

/// The `Host` of a request in which the client has named none, which HTTP/1.0 allows: the address that it came to. The program gets a request
/// of HTTP/1.1, where a server refuses one without (RFC 9112 §3.2).
fn own_host(request: &WireRequestView<'_>) -> Vec<u8> {
    let address = request.local_address();
    // A UNIX socket has none.
    if address.is_empty() || address.starts_with(b"unix:") {
        return b"localhost".to_vec();
    }
    let mut host = match address.contains(&b':') {
        true => [b"[", address, b"]"].concat(),
        false => address.to_vec(),
    };
    host.extend_from_slice(format!(":{}", request.local_port()).as_bytes());
    host
}

/// Appends `ADDRESS PORT ADDRESS PORT TLS`: the client's end, the listener's, and 1 for TLS; `-` for the address of a UNIX socket.
pub fn write_client(value: &mut Vec<u8>, request: &WireRequestView<'_>) {
    for (address, port) in [
        (request.remote_address(), request.remote_port()),
        (request.local_address(), request.local_port()),
    ] {
        let is_address = address
            .iter()
            .all(|byte| byte.is_ascii_hexdigit() || b".:".contains(byte));
        let address = match address {
            b"" => b"-",
            address if is_address => address,
            _ => b"-",
        };
        value.extend_from_slice(address);
        let mut digits = itoa::Buffer::new();
        value.push(b' ');
        value.extend_from_slice(digits.format(port).as_bytes());
        value.push(b' ');
    }
    value.push(if request.tls() { b'1' } else { b'0' });
}

/// Calls `visit` with the fields that tell the program about its client. The router has left out what the client says under these names, so one that is there is the
/// configuration's, and stays.
fn each_forwarded(request: &WireRequestView<'_>, host: &[u8], mut visit: impl FnMut(&[u8], &[u8])) {
    // A client at a UNIX socket has no address.
    let address = match request.remote_address() {
        address if address.starts_with(b"unix:") => b"",
        address => address,
    };
    let scheme: &[u8] = if request.tls() { b"https" } else { b"http" };
    let port = port_or_default(host, request.tls());
    for (name, value) in [
        (&b"X-Forwarded-For"[..], address),
        (b"X-Forwarded-Host", host),
        (b"X-Forwarded-Port", port),
        (b"X-Forwarded-Proto", scheme),
    ] {
        if !value.is_empty() && request.field(name).is_none() {
            visit(name, value);
        }
    }
}

/// True if the client's field of this name is not for the program. A handshake is made anew but for the subprotocols.
fn is_ours(name: &[u8], is_handshake: bool) -> bool {
    let is = |other: &&[u8]| name.eq_ignore_ascii_case(other);
    let begins_as = |prefix: &[u8]| {
        name.get(..prefix.len())
            .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    LEFT_OUT.iter().any(is)
        || (is_handshake && begins_as(b"sec-websocket-") && !is(&&b"sec-websocket-protocol"[..]))
}
