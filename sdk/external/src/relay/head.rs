//! Heads, from ours to the program's and back: what belongs to one connection only is left out.

use tutti_http::{ResponseView, decimal};
use tutti_worker::{BodyView, RequestView};

/// Fields that speak of the client's connection (RFC 9110 §7.6.1), that are written anew, or that a client must not be able
/// to make the program believe.
const LEFT_OUT: [&[u8]; 17] = [
    b"connection",
    b"keep-alive",
    b"proxy-connection",
    b"te",
    b"trailer",
    b"transfer-encoding",
    b"upgrade",
    b"expect",
    b"content-length",
    b"forwarded",
    b"x-forwarded-for",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-proto",
    b"x-real-ip",
    b"proxy",
    b"http2-settings",
];

/// How a body is written to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    None,
    Length(u64),
    Chunked,
}

impl Framing {
    /// Appends a piece of the body; an empty one ends it.
    pub(crate) fn write_piece(self, bytes: &[u8], out: &mut Vec<u8>) {
        match self {
            Self::Chunked if bytes.is_empty() => out.extend_from_slice(tutti_http::LAST_CHUNK),
            Self::Chunked => {
                tutti_http::write_chunk_head(bytes.len(), out);
                out.extend_from_slice(bytes);
                out.extend_from_slice(b"\r\n");
            }
            _ => out.extend_from_slice(bytes),
        }
    }
}

/// How the request's body is to be written.
pub(crate) fn framing(request: &RequestView<'_>) -> Framing {
    let length = match request.body() {
        // A request that may have a body says that it has none.
        BodyView::None if request.content_length() == Some(0) => Some(0),
        BodyView::None => return Framing::None,
        BodyView::Inline(bytes) => Some(bytes.len() as u64),
        BodyView::Spool { len, .. } => Some(len),
        BodyView::Stream { len } => len,
    };
    length.map_or(Framing::Chunked, Framing::Length)
}

/// Names that the message's own `Connection` field declares to be of its connection only.
fn is_named<'a>(mut values: impl Iterator<Item = &'a [u8]>, name: &[u8]) -> bool {
    values.any(|value| {
        value
            .split(|&byte| byte == b',')
            .any(|option| option.trim_ascii().eq_ignore_ascii_case(name))
    })
}

/// Writes the request's head. `key`: of a WebSocket handshake.
pub(crate) fn write_request(
    out: &mut Vec<u8>,
    request: &RequestView<'_>,
    framing: Framing,
    key: Option<&[u8; 24]>,
) {
    let mut number = [0; 20];
    let mut line = |parts: &[&[u8]]| {
        for part in parts {
            out.extend_from_slice(part);
        }
    };
    line(&[request.method(), b" ", request.target(), b" HTTP/1.1\r\n"]);
    let options: Vec<&[u8]> = request
        .fields()
        .filter(|(name, _)| name.eq_ignore_ascii_case(b"connection"))
        .map(|(_, value)| value)
        .collect();
    for (name, value) in request.fields() {
        let lower = name.to_ascii_lowercase();
        let is_ours = LEFT_OUT.contains(&lower.as_slice())
            || (key.is_some()
                && lower.starts_with(b"sec-websocket-")
                && lower != b"sec-websocket-protocol")
            || is_named(options.iter().copied(), name);
        if !is_ours {
            line(&[name, b": ", value, b"\r\n"]);
        }
    }
    match framing {
        Framing::None => {}
        Framing::Length(length) => {
            line(&[b"Content-Length: ", decimal(length, &mut number), b"\r\n"]);
        }
        Framing::Chunked => line(&[b"Transfer-Encoding: chunked\r\n"]),
    }
    if let Some(key) = key {
        line(&[b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"]);
        line(&[b"Sec-WebSocket-Key: ", key, b"\r\n"]);
    }
    let host = request.field(b"host").unwrap_or_default();
    // A client at a UNIX socket has no address.
    if !request.remote_address().starts_with(b"unix:") && !request.remote_address().is_empty() {
        line(&[b"X-Forwarded-For: ", request.remote_address(), b"\r\n"]);
    }
    if !host.is_empty() {
        line(&[b"X-Forwarded-Host: ", host, b"\r\n"]);
    }
    let scheme: &[u8] = if request.tls() { b"https" } else { b"http" };
    line(&[b"X-Forwarded-Proto: ", scheme, b"\r\n\r\n"]);
}

/// The fields of the program's answer that are the client's.
pub(crate) fn response_fields<'a>(
    response: &ResponseView<'a>,
) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone {
    let response = *response;
    response.fields().filter_map(move |field| {
        let lower = field.name.to_ascii_lowercase();
        // A length that is not the body's would have been refused by the parser.
        let is_kept = lower == b"content-length" || !is_of_connection(&lower);
        let is_kept = is_kept && !is_named(response.get_all(b"connection"), field.name);
        is_kept.then_some((field.name, field.value))
    })
}

fn is_of_connection(lower: &[u8]) -> bool {
    matches!(
        lower,
        b"connection"
            | b"keep-alive"
            | b"proxy-connection"
            | b"te"
            | b"trailer"
            | b"transfer-encoding"
            | b"upgrade"
    )
}
