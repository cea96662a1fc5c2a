//! A request as CGI variables, in the protocol of the server.

use smallvec::SmallVec;
use tutti_config::model::Gateway;
use tutti_gateway::cgi::{Request as CgiRequest, variables};
use tutti_routing::RequestInfo as _;

use super::super::head::traced;
use crate::address::Address;
use crate::collector::Collected;
use crate::gateway::{Put, SOFTWARE, Unsendable, frame, place};
use crate::request::Request;
use crate::request_headers::{Edit, is_ours_to_say, replaces};
use crate::step::UpstreamCall;
use crate::trace::Propagated;

/// Appends a request's head. Its body follows as `Outgoing` has it.
pub(in super::super) fn write(
    out: &mut Vec<u8>,
    request: &Request<'_>,
    call: &UpstreamCall,
    gateway: &Gateway,
) -> Result<(), Unsendable> {
    let view = request.view;
    let remote = Address::of(request.remote());
    let local = Address::of(request.connection.local_address());
    let traced = traced(request, call);
    let mut fields: SmallVec<[(&[u8], &[u8]); 32]> = SmallVec::new();
    for field in view.fields() {
        let is_left_out = replaces(&call.changes.edits, field.name)
            || is_ours_to_say(field.name)
            || traced
                .as_ref()
                .is_some_and(|traced| traced.replaces(field.name));
        if !is_left_out {
            fields.push((field.name, field.value));
        }
    }
    fields.extend(traced.as_ref().map(Propagated::field));
    fields.extend(call.changes.edits.iter().filter_map(Edit::field));
    let rewritten = call.changes.rewritten.as_deref();
    let path = rewritten.map_or_else(|| view.path(), |rewritten| &rewritten.path);
    let content_length = match &call.body {
        Collected::None => view.facts().content_length,
        body => Some(body.len()),
    };
    let cgi = CgiRequest {
        method: view.method_text(),
        target: view.origin_target(),
        query: view.query().unwrap_or_default(),
        protocol: if view.version_minor() == 0 {
            b"HTTP/1.0"
        } else {
            b"HTTP/1.1"
        },
        is_https: request.is_https(),
        remote_address: remote.text(),
        remote_port: remote.port,
        local_address: local.text(),
        local_port: local.port,
        server_name: view.host_name(),
        software: SOFTWARE,
        content_length,
        fields: &fields,
    };
    let place = place(gateway, call.cgi.target.as_deref(), path);
    let each = |put: &mut Put<'_>| {
        let parameters = &call.cgi.parameters;
        let is_said = |name: &[u8]| parameters.iter().any(|(said, _)| said.as_bytes() == name);
        variables(&cgi, &place, is_said, put);
        for (name, value) in parameters {
            if let Some(value) = value {
                put(name.as_bytes(), &[value]);
            }
        }
    };
    let keeps = call.upstream.options().keepalive > 0;
    frame(out, gateway.kind, keeps, content_length, each)
}
