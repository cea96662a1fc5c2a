//! The head of a request as another HTTP server gets it.
//!
//! It is written from the parsed request, never copied: the line in origin form, one `Host`, the client's fields without those of its
//! connection, the configured changes, the fields about the client, and the framing of the body. Each protocol has its [`HeadWriter`].

use std::fmt::Write as _;

use tutti_config::model::{ForwardedHeaders, UpstreamAddress};
use tutti_http::edits::{Edit, has_edit_of, is_alias, is_server_only_field, replaces};
use tutti_http::{
    Known, PerConnection, RequestFraming, port_or_default, write_field, write_request_framing,
    write_request_line,
};
use tutti_upstream::GroupServer;

use crate::client::Client;
use crate::request::ProxyRequest;

/// Writes a head in one protocol: the line, the fields, then the end.
pub(crate) trait HeadWriter {
    fn line(&mut self, method: &[u8], target: &[u8]);
    /// Writes a field that comes from a parsed head, or that [`tutti_http::is_field_name`] and [`tutti_http::is_field_value`] accept.
    fn field(&mut self, name: &[u8], value: &[u8]);
    /// Writes the framing of the body and ends the head.
    fn framing(&mut self, framing: RequestFraming);
    fn end(&mut self);
}

/// HTTP/1: text.
impl HeadWriter for Vec<u8> {
    fn line(&mut self, method: &[u8], target: &[u8]) {
        write_request_line(self, method, target);
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        write_field(self, name, value);
    }

    fn framing(&mut self, framing: RequestFraming) {
        write_request_framing(self, framing);
    }

    fn end(&mut self) {
        self.extend_from_slice(b"\r\n");
    }
}

/// The properties of a request besides its fields.
pub(crate) struct HeadOptions<'u> {
    pub(crate) framing: RequestFraming,
    /// The protocol that the client requests, if that is passed on.
    pub(crate) upgrade: Option<&'u [u8]>,
    /// The body is sent after the server's 100 (Continue).
    pub(crate) expects_continue: bool,
}

/// Writes the head.
pub(crate) fn write<C: Client>(
    out: &mut impl HeadWriter,
    request: &ProxyRequest<'_>,
    client: &C,
    server: &GroupServer,
    terms: &HeadOptions<'_>,
) {
    let view = request.view;
    out.line(request.method_text(), request.path.target());
    let connection = PerConnection::of_request(&view);
    let forwarded = request.upstream().options().forwarded_headers;
    let edits = request.edits;
    let set = edits.iter().find(|edit| is_host(edit));
    let set = set.and_then(Edit::field).map(|(_, value)| value);
    // HTTP/1.0 has none, HTTP/1.1 must have one (RFC 9112 §3.2).
    match set.unwrap_or(view.host()) {
        b"" => out.field(b"Host", own_name(server).as_bytes()),
        host => out.field(b"Host", host),
    }
    for field in view.fields() {
        let is_left_out = connection.has(field.name, field.known)
            || matches!(field.known, Known::Host | Known::Expect)
            || is_own(request, field.name);
        if !is_left_out {
            out.field(field.name, field.value);
        }
    }
    for (name, value) in edits
        .iter()
        .filter(|edit| !is_host(edit))
        .filter_map(Edit::field)
    {
        out.field(name, value);
    }
    write_forwarded(out, request, client, forwarded);
    out.framing(terms.framing);
    if terms.expects_continue {
        out.field(b"Expect", b"100-continue");
    }
    if terms.upgrade.is_none() && view.asks_for_trailers() {
        // `Connection` must name it, because it is for this connection only (RFC 9110 §10.1.4).
        out.field(b"TE", b"trailers");
        out.field(b"Connection", b"TE");
    }
    if let Some(protocol) = terms.upgrade {
        out.field(b"Connection", b"Upgrade");
        out.field(b"Upgrade", protocol);
    }
    out.end();
}

/// True for fields that this server sets or removes: those of the client are not sent, in the head or after the body.
pub(crate) fn is_own(request: &ProxyRequest<'_>, name: &[u8]) -> bool {
    is_replaced(name, request.upstream().options().forwarded_headers)
        || is_server_only_field(name)
        || replaces(request.edits, name)
}

/// The name of the server, for requests without a host.
fn own_name(server: &GroupServer) -> String {
    match server.address() {
        UpstreamAddress::Inet(address) if server.host().is_some() => {
            format!("{}:{}", server.host().unwrap_or_default(), address.port())
        }
        UpstreamAddress::Inet(address) => address.to_string(),
        _ => "localhost".to_owned(),
    }
}

/// True for fields about the client that this server sets itself.
fn is_replaced(name: &[u8], sent: ForwardedHeaders) -> bool {
    const X_FORWARDED: [&[u8]; 4] = [
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-port",
    ];
    (sent.x_forwarded || sent.forwarded)
        && (is_alias(b"forwarded", name) || X_FORWARDED.iter().any(|known| is_alias(known, name)))
}

/// Writes the fields about the client. A field set by `request_headers` is not written: the server must not get two that differ.
fn write_forwarded<C: Client>(
    out: &mut impl HeadWriter,
    request: &ProxyRequest<'_>,
    client: &C,
    sent: ForwardedHeaders,
) {
    if !sent.x_forwarded && !sent.forwarded {
        return;
    }
    let address = client.remote().map(|address| address.ip().to_canonical());
    let is_https = client.is_https();
    let scheme = if is_https { "https" } else { "http" };
    let host = request.view.host();
    let is_ours = |name: &str| !has_edit_of(request.edits, name);
    let mut value = String::new();
    // Writing to a string cannot fail.
    if sent.x_forwarded {
        if is_ours("X-Forwarded-For") {
            let _ = match address {
                Some(address) => write!(value, "{address}"),
                None => write!(value, "unix:"),
            };
            out.field(b"X-Forwarded-For", value.as_bytes());
        }
        if is_ours("X-Forwarded-Proto") {
            out.field(b"X-Forwarded-Proto", scheme.as_bytes());
        }
        if is_ours("X-Forwarded-Port") {
            let port = port_or_default(host, is_https);
            out.field(b"X-Forwarded-Port", port);
        }
        if !host.is_empty() && is_ours("X-Forwarded-Host") {
            out.field(b"X-Forwarded-Host", host);
        }
    }
    if sent.forwarded && is_ours("Forwarded") {
        value.clear();
        let _ = match address {
            Some(std::net::IpAddr::V6(address)) => write!(value, "for=\"[{address}]\""),
            Some(address) => write!(value, "for={address}"),
            None => write!(value, "for=unknown"),
        };
        let _ = write!(value, ";proto={scheme}");
        // A valid host has neither a quote nor a backslash, and is ASCII.
        if let Ok(host) = std::str::from_utf8(host)
            && !host.is_empty()
        {
            let _ = write!(value, ";host=\"{host}\"");
        }
        out.field(b"Forwarded", value.as_bytes());
    }
}

/// True for changes of `Host`, which is written first and once.
fn is_host(edit: &Edit) -> bool {
    edit.is_of("host")
}
