//! A request as CGI variables, in the protocol of the server.

use smallvec::SmallVec;
use tutti_config::model::Gateway;
use tutti_conn::address::AddressText;
use tutti_gateway::cgi::{CgiRequest, variables};
use tutti_http::edits::{Edit, is_server_only_field, replaces};
use tutti_http::{PerConnection, Version};

use super::frame::{Put, SOFTWARE, frame, place};
use crate::client::Client;
use crate::request::{BufferedBody, ProxyRequest, Unsendable};

/// Appends a request's head. `Outgoing` adds the body.
pub(crate) fn write<C: Client>(
    out: &mut Vec<u8>,
    request: &ProxyRequest<'_>,
    client: &C,
    gateway: &Gateway,
) -> Result<(), Unsendable> {
    let view = request.view;
    let cgi = &request.destination.cgi;
    let remote = AddressText::of(client.remote());
    let local = AddressText::of(client.local());
    let per_connection = PerConnection::of_request(&view);
    let mut fields: SmallVec<[(&[u8], &[u8]); 32]> = SmallVec::new();
    for field in view.fields() {
        let is_left_out = per_connection.is_named(field.name)
            || replaces(request.edits, field.name)
            || is_server_only_field(field.name);
        if !is_left_out {
            fields.push((field.name, field.value));
        }
    }
    fields.extend(request.edits.iter().filter_map(Edit::field));
    let content_length = match request.body {
        BufferedBody::None => view.facts().content_length,
        body => Some(body.len()),
    };
    let described = CgiRequest {
        method: request.method_text(),
        target: view.origin_target(),
        query: request.path.query().unwrap_or_default(),
        protocol: if view.version() == Version::Http10 {
            b"HTTP/1.0"
        } else {
            b"HTTP/1.1"
        },
        is_https: client.is_https(),
        remote_address: remote.text(),
        remote_port: remote.port,
        local_address: local.text(),
        local_port: local.port,
        server_name: view.host_name(),
        software: SOFTWARE,
        user: request.user,
        content_length,
        fields: &fields,
    };
    let place = place(gateway, cgi.target.as_deref(), request.path.path());
    let each = |put: &mut Put<'_>| {
        let parameters = &cgi.parameters;
        let is_said = |name: &[u8]| parameters.iter().any(|(said, _)| said.as_bytes() == name);
        variables(&described, &place, is_said, put);
        for (name, value) in parameters {
            if let Some(value) = value {
                put(name.as_bytes(), &[value]);
            }
        }
    };
    let keeps = request.upstream().options().keepalive > 0;
    frame(out, gateway.kind, keeps, content_length, each)
}
