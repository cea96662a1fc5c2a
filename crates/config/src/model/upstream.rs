//! Upstreams: groups of servers that requests are sent to.

mod gateway;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;

pub use self::gateway::{Gateway, GatewayParameter, Scripts, UpstreamProtocol};
use super::tls::UpstreamTls;
use super::written_at::WrittenAt;
use crate::address::{UpstreamAddress, parse_name_server};
use crate::table::{ResolverOptions, ServerOptions, UpstreamGroup, UpstreamOptions};
use crate::template::Template;

/// A group of servers, or the one server of a `proxy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Where it was written.
    pub pointer: WrittenAt,
    /// Its name; of a `proxy`, the URL as written.
    pub name: String,
    /// In the order they were written.
    pub servers: Vec<UpstreamServer>,
    /// How one is chosen.
    pub balance: Balance,
    /// Who waits, how long, and how servers are asked whether they work.
    pub group: UpstreamGroup,
    /// The protocol they speak.
    pub protocol: UpstreamProtocol,
    /// `None`: they speak it without TLS.
    pub tls: Option<Arc<UpstreamTls>>,
    /// How to talk to the servers.
    pub options: UpstreamOptions,
}

impl Upstream {
    /// Returns a hash of the settings that decide what its servers receive and how far their responses can be trusted. Responses that
    /// were fetched with other settings are other responses, even if the name is the same.
    pub fn fetch_hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let Upstream {
            pointer: _,
            name,
            protocol,
            tls,
            options,
            // Which server answers, and when, changes nothing in the answer.
            servers: _,
            balance: _,
            group: _,
        } = self;
        name.hash(&mut hasher);
        protocol.hash(&mut hasher);
        tls.hash(&mut hasher);
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
    /// Where it listens.
    pub address: UpstreamAddress,
    /// Its share of requests, and their number.
    pub options: ServerOptions,
}

/// `settings.resolver`: how names of servers are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Name servers; empty: those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// How long one has to answer, and how long an answer holds.
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

/// How a server is chosen among those that can be used.
#[derive(Clone, Debug, PartialEq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// The one with the fewest requests, divided by its weight.
    LeastConnections,
    /// Always the same for what this gives.
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
    /// It has this value, and no other.
    Set(Template),
    /// There is one more.
    Add(Template),
    /// There is none.
    Remove,
}
