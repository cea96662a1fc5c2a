//! Upstreams: groups of servers that requests are sent to.

mod gateway;

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

pub use self::gateway::{Gateway, GatewayParameter, Scripts, UpstreamProtocol};
use super::tls::UpstreamTls;
use super::written_at::WrittenAt;
use crate::address::{UpstreamAddress, parse_name_server};
use crate::table::{ResolverOptions, ServerOptions, UpstreamOptions};
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
    /// Time in which a server that works again gets its full share; zero: at once.
    pub slow_start: Duration,
    /// Requests that may wait for a server with room.
    pub queue: u32,
    /// How long they may.
    pub queue_timeout: Duration,
    /// The protocol they speak.
    pub protocol: UpstreamProtocol,
    /// `None`: they speak it without TLS.
    pub tls: Option<Arc<UpstreamTls>>,
    /// How they are asked whether they work; `None`: they are not.
    pub health_check: Option<HealthCheck>,
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
            slow_start: _,
            queue: _,
            queue_timeout: _,
            health_check: _,
        } = self;
        name.hash(&mut hasher);
        protocol.hash(&mut hasher);
        tls.hash(&mut hasher);
        options.proxy_protocol.hash(&mut hasher);
        options.forwarded_headers.hash(&mut hasher);
        hasher.finish()
    }
}

/// How servers are asked whether they work.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthCheck {
    /// The question.
    pub question: HealthQuestion,
    /// Time between two checks.
    pub interval: Duration,
    /// Time for one.
    pub timeout: Duration,
    /// Checks in a row that must fail before a server gets no requests.
    pub fails: u32,
    /// Checks in a row that must succeed before it gets requests again.
    pub passes: u32,
}

/// A question to a server.
#[derive(Clone, Debug, PartialEq)]
pub enum HealthQuestion {
    /// Nothing: that it can be connected to is enough.
    Connection,
    /// A request, in the protocol of the group.
    Request {
        /// Path and query.
        uri: String,
        /// Its `Host`; `None`: that of the server's address.
        host: Option<String>,
        /// Statuses that the answer may have; empty: 200 to 399.
        statuses: Vec<u16>,
    },
    /// gRPC's health checking protocol, for this service.
    Grpc(String),
}

/// One server.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamServer {
    /// As written.
    pub name: String,
    /// Where it listens.
    pub address: UpstreamAddress,
    /// Its share of requests, 0 to 1,000,000.
    pub weight: f64,
    /// Only used where no other can be.
    pub backup: bool,
    /// Requests it may have at once; `None`: no limit.
    pub max_connections: Option<u32>,
}

/// `settings.resolver`: how names of servers are looked up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Name servers; empty: those of `/etc/resolv.conf`.
    pub servers: Vec<SocketAddr>,
    /// How long one has to answer.
    pub timeout: Duration,
    /// Shortest and longest time that an answer holds, whatever it says.
    pub min_ttl: Duration,
    /// See `min_ttl`.
    pub max_ttl: Duration,
}

impl From<&ResolverOptions> for Resolver {
    fn from(options: &ResolverOptions) -> Self {
        let servers = options.servers.iter();
        Resolver {
            servers: servers.filter_map(|text| parse_name_server(text)).collect(),
            timeout: options.timeout,
            min_ttl: options.min_ttl,
            max_ttl: options.max_ttl.max(options.min_ttl),
        }
    }
}

impl Default for Resolver {
    fn default() -> Self {
        Resolver::from(&ResolverOptions::default())
    }
}

impl UpstreamServer {
    pub(crate) fn new(name: String, address: UpstreamAddress, options: &ServerOptions) -> Self {
        UpstreamServer {
            name,
            address,
            weight: options.weight,
            backup: options.backup,
            max_connections: options.max_connections.0,
        }
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
