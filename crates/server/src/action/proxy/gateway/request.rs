//! A request as CGI variables, in the protocol of the server.

use std::net::SocketAddr;

use smallvec::SmallVec;
use tutti_config::model::{Gateway, GatewayKind, ProxyVersion};
use tutti_gateway::cgi::{Place, Request as CgiRequest, variables};
use tutti_gateway::fastcgi::{ONLY_REQUEST, RequestWriter};
use tutti_gateway::proxy_protocol::{self, Addresses, Version};
use tutti_gateway::scgi::HeaderWriter;
use tutti_gateway::uwsgi::PacketWriter;
use tutti_routing::RequestInfo as _;

use super::super::head::traced;
use crate::action::app::{Address, is_ours_to_say};
use crate::request::{Collected, Request, UpstreamCall};
use crate::request_headers::{Edit, replaces};
use crate::scripts::Target;
use crate::trace::Propagated;

/// Why a request cannot be put into the protocol of its server. The client's fault.
pub(crate) struct Unsendable {
    pub(crate) status: u16,
    pub(crate) reason: String,
}

/// Takes the name and the parts of the value of a variable.
pub(crate) type Put<'p> = dyn FnMut(&[u8], &[&[u8]]) + 'p;

/// What the server calls itself to applications.
pub(crate) const SOFTWARE: &[u8] = concat!("Tutti/", env!("CARGO_PKG_VERSION")).as_bytes();

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

/// Appends the variables that `each` puts, in the protocol of the server. `keeps`: another request may follow on the connection.
pub(crate) fn frame(
    out: &mut Vec<u8>,
    kind: GatewayKind,
    keeps: bool,
    content_length: Option<u64>,
    each: impl FnOnce(&mut Put<'_>),
) -> Result<(), Unsendable> {
    match kind {
        GatewayKind::FastCgi => {
            let mut writer = RequestWriter::begin(out, ONLY_REQUEST, keeps);
            each(&mut |name, value| writer.parameter(name, value));
            writer.finish();
            Ok(())
        }
        GatewayKind::Uwsgi => {
            let mut writer = PacketWriter::begin(out);
            each(&mut |name, value| writer.variable(name, value));
            writer.finish().map_err(|error| Unsendable {
                status: 431,
                reason: error.to_string(),
            })
        }
        GatewayKind::Scgi => {
            let mut writer = HeaderWriter::begin(out, content_length.unwrap_or(0));
            each(&mut |name, value| {
                if name != b"CONTENT_LENGTH" && name != b"SCGI" {
                    writer.variable(name, value);
                }
            });
            writer.finish().map_err(|error| Unsendable {
                status: 400,
                reason: error.to_string(),
            })
        }
    }
}

/// Where in the application the request goes; `target` is the script that its path means. A path that means none is the script itself.
pub(crate) fn place<'a>(
    gateway: &'a Gateway,
    target: Option<&'a Target>,
    path: &'a [u8],
) -> Place<'a> {
    match (&gateway.scripts, target) {
        (Some(scripts), Some(target)) => Place {
            root: Some(&scripts.root),
            script_name: &target.name,
            path_info: target.path_info_at.and_then(|at| path.get(at..)),
        },
        (Some(scripts), None) => Place {
            root: Some(&scripts.root),
            script_name: path,
            path_info: None,
        },
        (None, _) => Place {
            root: None,
            script_name: b"",
            path_info: Some(path),
        },
    }
}

/// Appends the PROXY protocol header that says whose connection it is, from where and to where; without that, our own.
pub(crate) fn write_announcement(
    out: &mut Vec<u8>,
    version: ProxyVersion,
    ends: Option<(SocketAddr, SocketAddr)>,
) {
    let version = match version {
        ProxyVersion::V1 => Version::V1,
        ProxyVersion::V2 => Version::V2,
    };
    let addresses = ends.map(|(source, destination)| Addresses {
        source,
        destination,
    });
    proxy_protocol::write(out, version, addresses);
}
