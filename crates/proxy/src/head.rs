//! The head of a request as another HTTP server gets it.
//!
//! Written anew from the parsed request, never copied: the line in origin form, one `Host`, the client's fields without those of its
//! connection, the configured changes, what is told about the client, and the framing of the body as it is sent.

use std::io::Write as _;

use tutti_config::model::{ForwardedHeaders, UpstreamAddress};
use tutti_http::edits::{Edit, is_ours_to_say, mentions, replaces};
use tutti_http::{
    Known, PerConnection, RequestFraming, TargetForm, told_port, write_field,
    write_request_framing, write_request_line,
};
use tutti_upstream::Server;

use crate::client::Client;
use crate::request::Request;

/// The properties of a request besides its fields.
pub(crate) struct Terms<'u> {
    pub(crate) framing: RequestFraming,
    /// The protocol the client asks for, if that is passed on.
    pub(crate) upgrade: Option<&'u [u8]>,
    /// The body comes when the server has said 100 (Continue).
    pub(crate) expects_continue: bool,
}

/// Writes the head.
pub(crate) fn write<C: Client>(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    client: &C,
    server: &Server,
    terms: &Terms<'_>,
) {
    let view = request.view;
    write_line(out, request);
    let connection = PerConnection::of(view.fields());
    let forwarded = request.upstream().options().forwarded_headers;
    let edits = request.edits;
    let set = edits.iter().find(|edit| is_host(edit));
    let set = set.and_then(Edit::field).map(|(_, value)| value);
    // HTTP/1.0 has none, HTTP/1.1 must have one (RFC 9112 §3.2).
    match set.unwrap_or(view.host()) {
        b"" => write_field(out, b"Host", own_name(server).as_bytes()),
        host => write_field(out, b"Host", host),
    }
    for field in view.fields() {
        let is_left_out = connection.has(field.name, field.known)
            || matches!(field.known, Known::Host | Known::Expect)
            || is_replaced(field.name, forwarded)
            || is_ours_to_say(field.name)
            || replaces(edits, field.name);
        if !is_left_out {
            write_field(out, field.name, field.value);
        }
    }
    for (name, value) in edits
        .iter()
        .filter(|edit| !is_host(edit))
        .filter_map(Edit::field)
    {
        write_field(out, name, value);
    }
    write_forwarded(out, request, client, forwarded);
    write_request_framing(out, terms.framing);
    if terms.expects_continue {
        write_field(out, b"Expect", b"100-continue");
    }
    if terms.upgrade.is_none() && view.asks_for_trailers() {
        // Beside it because it is for this connection (RFC 9110 §10.1.4).
        write_field(out, b"TE", b"trailers");
        write_field(out, b"Connection", b"TE");
    }
    if let Some(protocol) = terms.upgrade {
        write_field(out, b"Connection", b"Upgrade");
        write_field(out, b"Upgrade", protocol);
    }
    out.extend_from_slice(b"\r\n");
}

fn write_line(out: &mut Vec<u8>, request: &Request<'_>) {
    let view = request.view;
    if let Some(rewritten) = request.rewritten {
        return write_request_line(out, view.method_text(), rewritten.target);
    }
    let target = view.origin_target();
    if view.target_form() == TargetForm::Absolute && target.first() != Some(&b'/') {
        // `http://host?query` has the path `/` (RFC 9110 §4.2.3).
        let mut whole = Vec::with_capacity(target.len() + 1);
        whole.push(b'/');
        whole.extend_from_slice(target.strip_prefix(b"/").unwrap_or(target));
        return write_request_line(out, view.method_text(), &whole);
    }
    write_request_line(out, view.method_text(), target);
}

/// The name of the server where the client named nobody.
fn own_name(server: &Server) -> String {
    match server.address() {
        UpstreamAddress::Inet(address) if server.host().is_some() => {
            format!("{}:{}", server.host().unwrap_or_default(), address.port())
        }
        UpstreamAddress::Inet(address) => address.to_string(),
        _ => "localhost".to_owned(),
    }
}

/// True for fields in which the client speaks of itself, where we do.
fn is_replaced(name: &[u8], told: ForwardedHeaders) -> bool {
    const X_FORWARDED: [&[u8]; 4] = [
        b"x-forwarded-for",
        b"x-forwarded-proto",
        b"x-forwarded-host",
        b"x-forwarded-port",
    ];
    (told.x_forwarded || told.forwarded)
        && (name.eq_ignore_ascii_case(b"forwarded")
            || X_FORWARDED
                .iter()
                .any(|known| name.eq_ignore_ascii_case(known)))
}

/// Tells the server about the client. A field that `request_headers` names is left to it: the server must not get two that differ.
fn write_forwarded<C: Client>(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    client: &C,
    told: ForwardedHeaders,
) {
    if !told.x_forwarded && !told.forwarded {
        return;
    }
    let address = client.remote().map(|address| address.ip().to_canonical());
    let is_https = client.is_https();
    let scheme = if is_https { "https" } else { "http" };
    let host = request.view.host();
    let is_ours = |name: &str| !mentions(request.edits, name);
    // Writing to a vector cannot fail.
    if told.x_forwarded {
        if is_ours("X-Forwarded-For") {
            let _ = match address {
                Some(address) => write!(out, "X-Forwarded-For: {address}\r\n"),
                None => write!(out, "X-Forwarded-For: unix:\r\n"),
            };
        }
        if is_ours("X-Forwarded-Proto") {
            write_field(out, b"X-Forwarded-Proto", scheme.as_bytes());
        }
        if is_ours("X-Forwarded-Port") {
            let port = told_port(host, is_https);
            write_field(out, b"X-Forwarded-Port", port);
        }
        if !host.is_empty() && is_ours("X-Forwarded-Host") {
            write_field(out, b"X-Forwarded-Host", host);
        }
    }
    if told.forwarded && is_ours("Forwarded") {
        let _ = match address {
            Some(std::net::IpAddr::V6(address)) => write!(out, "Forwarded: for=\"[{address}]\""),
            Some(address) => write!(out, "Forwarded: for={address}"),
            None => write!(out, "Forwarded: for=unknown"),
        };
        let _ = write!(out, ";proto={scheme}");
        if !host.is_empty() {
            // A valid host has neither a quote nor a backslash.
            out.extend_from_slice(b";host=\"");
            out.extend_from_slice(host);
            out.push(b'"');
        }
        out.extend_from_slice(b"\r\n");
    }
}

/// There is one `Host`, and it comes first.
fn is_host(edit: &Edit) -> bool {
    edit.is_of("host")
}
