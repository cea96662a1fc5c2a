//! Upstreams: groups of servers that requests are sent to.

mod gateway;

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use self::gateway::{Gateway, GatewayKind, GatewayParameter, Scripts, UpstreamProtocol};
use super::{Action, ActionKind, Pointer, Routes, Template, UpstreamTls};

/// A group of servers, or the one server of a `proxy`.
#[derive(Clone, Debug, PartialEq)]
pub struct Upstream {
    /// Where it was written.
    pub pointer: Pointer,
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
    /// What they speak.
    pub protocol: UpstreamProtocol,
    /// `None`: they speak it without TLS.
    pub tls: Option<Arc<UpstreamTls>>,
    /// How they are asked whether they work; `None`: they are not.
    pub health_check: Option<HealthCheck>,
    /// How to talk to the servers.
    pub options: UpstreamOptions,
}

/// How servers are asked whether they work.
#[derive(Clone, Debug, PartialEq)]
pub struct HealthCheck {
    /// What is asked.
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

/// What a server is asked.
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
        /// What the status of the answer may be; empty: 200 to 399.
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

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamAddress {
    /// IPv4 or IPv6, and port.
    Inet(SocketAddr),
    /// A name, whose addresses are looked up, and port.
    Name {
        /// In small letters.
        host: String,
        /// The same for all addresses.
        port: u16,
    },
    /// A unix socket's path.
    Unix(PathBuf),
    /// A unix socket's name in the abstract namespace, without the `@`.
    Abstract(String),
}

impl fmt::Display for UpstreamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UpstreamAddress::Inet(address) => write!(f, "{address}"),
            UpstreamAddress::Name { host, port } => write!(f, "{host}:{port}"),
            UpstreamAddress::Unix(path) => write!(f, "unix:{}", path.display()),
            UpstreamAddress::Abstract(name) => write!(f, "unix:@{name}"),
        }
    }
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

impl Default for Resolver {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            timeout: Duration::from_secs(2),
            min_ttl: Duration::from_secs(1),
            max_ttl: Duration::from_secs(300),
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

/// Which fields tell a server about the client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardedHeaders {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239).
    pub forwarded: bool,
}

/// Versions of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProxyVersion {
    /// A line of text.
    V1,
    /// Binary.
    V2,
}

/// Versions of HTTP that can be spoken with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS with prior knowledge.
    Http2,
}

/// How to talk to the servers of an upstream.
#[derive(Clone, Debug, PartialEq)]
pub struct UpstreamOptions {
    /// Time to connect.
    pub connect_timeout: Duration,
    /// Time between two writes of a request.
    pub send_timeout: Duration,
    /// Time to wait for an answer, and between two reads of it.
    pub read_timeout: Duration,
    /// Time without a byte on an upgraded connection.
    pub tunnel_timeout: Duration,
    /// Idle connections that each thread keeps to each server.
    pub keepalive: usize,
    /// How long they are kept.
    pub keepalive_timeout: Duration,
    /// Further servers to try.
    pub retries: u32,
    /// Methods of requests that may be sent again once a server has got some.
    pub retry_methods: Vec<String>,
    /// Failures within `fail_timeout` that take a server out; 0: none do.
    pub max_fails: u32,
    /// For how long.
    pub fail_timeout: Duration,
    /// A request's body is read before a server is asked.
    pub request_buffering: bool,
    /// An answer is read as fast as the server gives it, up to `buffer_size`.
    pub buffering: bool,
    /// Bytes of an answer kept for a slow client.
    pub buffer_size: usize,
    /// Longest head of an answer.
    pub max_head_size: usize,
    /// Which HTTP is spoken with them.
    pub http_version: HttpVersion,
    /// Version of the PROXY protocol header at the start of a connection.
    pub proxy_protocol: Option<ProxyVersion>,
    /// What is told about the client.
    pub forwarded_headers: ForwardedHeaders,
}

/// One member of `request_headers`.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestHeader {
    /// As written.
    pub name: String,
    /// What is done.
    pub change: RequestHeaderChange,
}

/// What is done to a field of a request.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestHeaderChange {
    /// It has this value, and no other.
    Set(Template),
    /// There is one more.
    Add(Template),
    /// There is none.
    Remove,
}

impl Routes {
    /// The servers of every `proxy`, those of fallbacks among them.
    pub fn proxies(&self) -> impl Iterator<Item = &Arc<Upstream>> {
        let steps = self.list.iter().flat_map(|route| &route.steps);
        steps.filter_map(|step| step.action.proxy())
    }
}

impl Action {
    /// The server of its `proxy`, or of that of its fallback.
    fn proxy(&self) -> Option<&Arc<Upstream>> {
        match &self.kind {
            ActionKind::Proxy(upstream) => Some(upstream),
            ActionKind::Share(share) => share.fallback.as_ref()?.proxy(),
            ActionKind::Pass(_) | ActionKind::Return(_) => None,
        }
    }
}
