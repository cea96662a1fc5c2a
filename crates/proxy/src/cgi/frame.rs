//! FastCGI, uwsgi, SCGI and the PROXY protocol towards servers: common to requests of clients and [health checks](crate::health).

use std::net::SocketAddr;

use tutti_config::model::{Gateway, GatewayKind, ProxyVersion};
use tutti_gateway::cgi::ScriptLocation;
use tutti_gateway::fastcgi::{ONLY_REQUEST, RequestWriter};
use tutti_gateway::proxy_protocol::{self, Addresses, ProxyHeaderVersion};
use tutti_gateway::scgi::HeaderWriter;
use tutti_gateway::uwsgi::PacketWriter;

use crate::request::Unsendable;
use crate::scripts::ScriptTarget;

/// The prefix that distinguishes an HTTP answer, which uWSGI sends, from a CGI one.
pub(crate) const HTTP: &[u8] = b"HTTP/";

/// Receives the name and the parts of the value of a variable.
pub(crate) type Put<'p> = dyn FnMut(&[u8], &[&[u8]]) + 'p;

/// The name of this server for applications.
pub(crate) const SOFTWARE: &[u8] = concat!("Tutti/", env!("CARGO_PKG_VERSION")).as_bytes();

/// Appends the variables that `each` puts, in the protocol of the server. `keeps`: the connection stays open for another request.
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

/// Returns the script and path of a request; `target` is the script for its path. Without one, the path itself is the script.
pub(crate) fn place<'a>(
    gateway: &'a Gateway,
    target: Option<&'a ScriptTarget>,
    path: &'a [u8],
) -> ScriptLocation<'a> {
    match (&gateway.scripts, target) {
        (Some(scripts), Some(target)) => ScriptLocation {
            root: Some(&scripts.root),
            script_name: &target.name,
            path_info: target.path_info_at.and_then(|at| path.get(at..)),
        },
        (Some(scripts), None) => ScriptLocation {
            root: Some(&scripts.root),
            script_name: path,
            path_info: None,
        },
        (None, _) => ScriptLocation {
            root: None,
            script_name: b"",
            path_info: Some(path),
        },
    }
}

/// Appends the PROXY protocol header with the client's addresses, or with our own if there is no client.
pub(crate) fn write_announcement(
    out: &mut Vec<u8>,
    version: ProxyVersion,
    ends: Option<(SocketAddr, SocketAddr)>,
) {
    let version = match version {
        ProxyVersion::V1 => ProxyHeaderVersion::V1,
        ProxyVersion::V2 => ProxyHeaderVersion::V2,
    };
    let addresses = ends.map(|(source, destination)| Addresses {
        source,
        destination,
    });
    proxy_protocol::write(out, version, addresses);
}
