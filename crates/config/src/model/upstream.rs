//! Upstreams: groups of servers that requests are sent to.

mod gateway;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

pub use self::gateway::{Gateway, GatewayParameter, Scripts, UpstreamProtocol};
use super::guard::GuardFile;
use super::response_rewrite::ResponseRewrite;
use super::tls::UpstreamTls;
use super::written_at::WrittenAt;
use crate::address::{UpstreamAddress, parse_name_server};
pub use crate::computed_server::{ComputedServer, ComputedServerError};
use crate::table::{ResolverOptions, ServerOptions, UpstreamGroup, UpstreamOptions};
use crate::template::Template;

/// A group of servers, or the one server of a `proxy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// Its name; for a `proxy`, the URL as written.
    pub name: String,
    /// In the order they were written.
    pub servers: Vec<UpstreamServer>,
    /// The method of selecting a server.
    pub balance: Balance,
    /// Queueing and health checks.
    pub group: UpstreamGroup,
    /// The protocol they speak.
    pub protocol: UpstreamProtocol,
    /// `None`: without TLS.
    pub tls: Option<Arc<UpstreamTls>>,
    /// The server of a `proxy` whose address has variables; then there are no `servers`.
    pub computed: Option<Arc<ComputedServer>>,
    /// The file with the key of `sticky`.
    pub sticky_key: Option<GuardFile>,
    /// Changes of addresses and cookies in responses.
    pub rewrite: Option<Arc<ResponseRewrite>>,
    /// The options of requests to the servers.
    pub options: UpstreamOptions,
}

impl Upstream {
    /// Returns a hash of the settings that determine what its servers receive and how far their responses can be
    /// trusted. Responses that were fetched with other settings are different responses, even if the name is the same.
    pub fn fetch_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Upstream {
            pointer: _,
            name,
            protocol,
            tls,
            rewrite,
            options,
            // The server and the time of a response do not change its content.
            servers: _,
            computed: _,
            sticky_key: _,
            balance: _,
            group: _,
        } = self;
        name.hash(&mut hasher);
        protocol.hash(&mut hasher);
        tls.hash(&mut hasher);
        rewrite.hash(&mut hasher);
        options.proxy_protocol.hash(&mut hasher);
        options.forwarded_headers.hash(&mut hasher);
        hasher.finish()
    }
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamServer {
    /// As written.
    pub name: String,
    /// Its address.
    pub address: UpstreamAddress,
    /// Its share and maximum number of requests.
    pub options: ServerOptions,
}

impl UpstreamServer {
    /// The server of a `proxy`.
    pub fn at(address: UpstreamAddress) -> Self {
        UpstreamServer {
            name: address.to_string(),
            address,
            options: ServerOptions::default(),
        }
    }
}

/// `settings.resolver`: how server names are resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Name servers; empty: those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// Their timeout, and the lifetime of answers.
    pub options: ResolverOptions,
}

impl From<ResolverOptions> for Resolver {
    fn from(options: ResolverOptions) -> Self {
        let servers = options.servers.iter();
        Resolver {
            servers: servers.filter_map(|text| parse_name_server(text)).collect(),
            options,
        }
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Resolver::from(ResolverOptions::default())
    }
}

/// The method of selecting a server among the available ones.
#[derive(Clone, Debug, PartialEq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// The one with the fewest requests, divided by its weight.
    LeastConnections,
    /// Always the same for the same value of this template.
    Hash(Template),
}

/// One member of `request_headers`.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeader {
    /// As written.
    pub name: String,
    /// The change.
    pub change: RequestHeaderChange,
}

/// A change of a field of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestHeaderChange {
    /// Replaces the field.
    Set(Template),
    /// Adds a field.
    Add(Template),
    /// Removes the field.
    Remove,
}
