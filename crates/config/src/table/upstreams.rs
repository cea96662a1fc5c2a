//! Options of upstreams, their servers, and of `proxy`.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value as Json;
use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::tls::UpstreamTlsOptions;
use tutti_options::{
    OptionalLimit, Options as _, Scalar, Shape, Tree, Typed, Unread, options, words,
};

use super::gateways::{FastCgi, Scgi, Uwsgi};
use super::response_rewrite::{ResponseRewriteOptions, SameSite};

options! {
    /// A group of servers; a request goes to one of them
    pub struct UpstreamGroup: UPSTREAM = "upstream", followed_by [UpstreamOptions::ROWS] {
        /// Servers, by address: `ADDRESS:PORT`, `[IPV6]:PORT`, `NAME:PORT`, `unix:PATH`; by `NAME` alone with `service`
        /// or `kubernetes`; by `all` or `LABEL=VALUE` with `fleet`
        servers: Unread [kind(ValueKind::Map(Names::Server, &ServerOptions::KIND)), required()],
        /// Method of selecting a server: in turn by weight, the one with the fewest requests relative to its weight, or
        /// always the same one for the same `key`
        balance: BalanceWord [beyond(), default("\"round_robin\"")],
        /// The text that `hash` uses, such as `$remote_addr` or `$cookie_session`
        key: String [kind(ValueKind::String(Text::Template)), beyond(), default("\"$remote_addr\"")],
        /// Time over which a recovered server ramps up to its full share
        slow_start: Duration [kind(SECONDS), beyond(), default("0"), unit("seconds")],
        /// Requests that may wait while every server has `max_connections`; beyond that, requests get 503
        queue: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("100"), unit("requests")],
        /// Maximum time to wait; then 503
        queue_timeout: Duration [kind(SECONDS), beyond(), default("5"), unit("seconds")],
        /// Send all requests of a client to the server that responded to its first one, by a cookie
        sticky: Option<StickyOptions> [beyond()],
        /// Check regularly that each server is healthy; unhealthy servers get no requests
        health_check: Option<HealthCheckOptions> [beyond()],
        /// The servers speak FastCGI instead of HTTP
        fastcgi: Unread [kind(FastCgi::KIND), beyond()],
        /// The servers speak uwsgi instead of HTTP
        uwsgi: Unread [kind(Uwsgi::KIND), beyond()],
        /// The servers speak SCGI instead of HTTP
        scgi: Unread [kind(Scgi::KIND), beyond()],
    }
}

options! {
    /// The cookie that keeps a client at a server. Its value is a signature: it does not reveal the server, and a client
    /// cannot make one for another server
    pub struct StickyOptions: STICKY = "sticky" {
        /// Its name
        cookie: String [kind(ValueKind::String(Text::HeaderName)), beyond(), default("\"route\"")],
        /// Its `Path`
        path: String [kind(ValueKind::String(Text::Target)), beyond(), default("\"/\"")],
        /// Its `Domain`; by default the host of the request only
        domain: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
        /// Browsers send it over HTTPS only; by default if the client uses HTTPS
        secure: Option<bool> [beyond()],
        /// Scripts of a page cannot read it
        http_only: bool [beyond(), default("true")],
        /// The requests from other sites with which browsers send it; `omit`: without the attribute
        same_site: SameSite [beyond(), default("\"lax\"")],
        /// Time for which browsers keep it; 0: until the browser is closed
        max_age: OptionalLimit<Duration> [kind(SECONDS), beyond(), default("0"), unit("seconds")],
        /// Absolute path of a file with the key of the signatures, at least 32 bytes, read as root when the
        /// configuration is applied. Servers with the same key accept each other's cookies. By default, each server
        /// has a random key, which changes when it is restarted
        key_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
    }
}

options! {
    /// A server of a group
    pub struct ServerOptions: SERVER = "upstream server" {
        /// Its share of the requests; 0: none
        weight: f64 [kind(ValueKind::Number(0.0, 1_000_000.0)), default("1")],
        /// Send it requests only while no other server is available
        backup: bool [beyond(), default("false")],
        /// Its own `max_fails`; by default that of the group
        max_fails: Option<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond()],
        /// Its own `fail_timeout`; by default that of the group
        fail_timeout: Option<Duration> [kind(SECONDS), beyond(), unit("seconds")],
        /// Maximum concurrent requests; 0: no limit
        max_connections: OptionalLimit<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("requests")],
        /// The name has SRV records for this service, which give the servers with their ports, weights and priorities.
        /// `http` means `_http._tcp.NAME`; a value with a dot is put before the name unchanged
        service: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
        /// The name is a Kubernetes Service, `SERVICE.NAMESPACE`: its servers are its ready endpoints, as reported by
        /// the API server (`kubernetes` of `settings`)
        kubernetes: Unread [kind(KubernetesServiceOptions::KIND), beyond()],
        /// The servers are live nodes of the fleet that this server belongs to (`source` of `settings`): all, with the
        /// name `all`, or those with a label, `LABEL=VALUE`
        fleet: Unread [kind(FleetNodesOptions::KIND), beyond()],
    }
}

options! {
    /// Nodes of the fleet as servers
    pub struct FleetNodesOptions: FLEET_NODES = "fleet nodes" {
        /// The port on which each node accepts these requests
        port: u16 [kind(ValueKind::Integer(1, 65_535)), required(), beyond()],
    }
}

options! {
    /// A Kubernetes Service
    pub struct KubernetesServiceOptions: KUBERNETES_SERVICE = "kubernetes service" {
        /// Its port: the name in the Service, or the number on which the pods listen. Not needed for a Service with one
        /// port
        port: Unread [kind(ValueKind::OneOf(&[ValueKind::Integer(1, 65_535), ValueKind::String(Text::NotEmpty)])), beyond()],
    }
}

options! {
    /// Checks of servers; with neither `uri` nor `grpc_service`, a successful connection is enough
    pub struct HealthCheckOptions: HEALTH_CHECK = "health check" {
        /// Path and query of a GET request that the server must answer
        uri: Option<String> [kind(ValueKind::String(Text::Target)), beyond()],
        /// The `Host` of that request; by default the host in the server's address
        host: Option<String> [kind(ValueKind::String(Text::HostName)), beyond(), needs(&["uri"])],
        /// Statuses of a healthy server; by default those from 200 to 399
        statuses: Vec<u16> [key("status"), kind(ValueKind::OneOf(&[STATUS, ValueKind::Array(&STATUS)])), beyond(), needs(&["uri"])],
        /// Check with gRPC's health checking protocol for this service instead; empty: for the whole server. Needs
        /// `http_version` 2
        grpc_service: Option<String> [kind(ValueKind::String(Text::Any)), beyond()],
        /// Time between two checks
        interval: Duration [kind(ValueKind::Number(0.1, 31_536_000.0)), beyond(), default("5"), unit("seconds")],
        /// Time for a whole check: connect, send, receive the response
        timeout: Duration [kind(TIMEOUT), beyond(), default("5"), unit("seconds")],
        /// Consecutive failed checks after which a server is unhealthy; the very first check decides alone
        fails: u32 [kind(ValueKind::Integer(1, 1000)), beyond(), default("3"), unit("checks")],
        /// Consecutive successful checks after which it is healthy again
        passes: u32 [kind(ValueKind::Integer(1, 1000)), beyond(), default("2"), unit("checks")],
    }
}

impl HealthCheckOptions {
    /// The question that a check asks.
    pub fn question(&self) -> HealthQuestion<'_> {
        match (&self.uri, &self.grpc_service) {
            (Some(uri), None) => HealthQuestion::Request(uri),
            (_, Some(service)) => HealthQuestion::Grpc(service),
            (None, None) => HealthQuestion::Connection,
        }
    }
}

/// A question to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HealthQuestion<'a> {
    /// None: a successful connection is enough.
    Connection,
    /// A request for this path and query, in the protocol of the group.
    Request(&'a str),
    /// gRPC's health checking protocol, for this service.
    Grpc(&'a str),
}

/// The status of an answer.
const STATUS: ValueKind = ValueKind::Integer(200, 599);
const RETRY_STATUS: ValueKind = ValueKind::Integer(400, 599);

/// A time; more than a year is surely a mistake.
const SECONDS: ValueKind = ValueKind::Number(0.0, 31_536_000.0);
const TIMEOUT: ValueKind = ValueKind::Number(0.001, 31_536_000.0);

options! {
    /// Options for requests to the server of a `proxy`; an upstream has the same options, except `allow`
    pub struct ProxyOptions: PROXY_OPTIONS = "proxy options", followed_by [UpstreamOptions::ROWS] {
        /// Servers that an address with variables may name: names, in which `*` stands for any characters, and
        /// addresses, ranges and blocks of addresses. Each may have a port or a range of ports; otherwise the default
        /// port applies. Private, loopback and link-local addresses are permitted only by an entry with such
        /// addresses. A request for any other server gets 403
        allow: Unread [kind(ALLOW), beyond()],
    }
}

const ALLOW: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::NotEmpty),
    ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
]);

options! {
    /// Options for requests to servers
    pub struct UpstreamOptions: SERVER_REQUESTS = "requests to servers" {
        /// Time to connect
        connect_timeout: Duration [kind(TIMEOUT), beyond(), default("10"), unit("seconds")],
        /// Time between two writes of a request
        send_timeout: Duration [kind(TIMEOUT), beyond(), default("60"), unit("seconds")],
        /// Time to wait for a response, and between two reads of it; then 504
        read_timeout: Duration [kind(TIMEOUT), beyond(), default("60"), unit("seconds")],
        /// Time without traffic in either direction after which an upgraded connection (WebSocket) is closed, and time
        /// that a side may take without progress while data waits for it
        tunnel_timeout: Duration [kind(TIMEOUT), beyond(), default("600"), unit("seconds")],
        /// Idle connections to each server that each thread keeps for later requests; 0: none
        keepalive: usize [kind(ValueKind::Integer(0, 65_535)), beyond(), default("32"), unit("connections")],
        /// Time after which an idle connection is closed
        keepalive_timeout: Duration [kind(SECONDS), beyond(), default("4"), unit("seconds")],
        /// Further servers to try if a request may be repeated: nothing of it was sent, or its method is one of
        /// `retry_methods` and no part of a response arrived
        retries: u32 [kind(ValueKind::Integer(0, 1000)), beyond(), default("2")],
        /// Methods, in capitals, that are safe to send to two servers because they are idempotent. Requests with any
        /// other method are not retried once a byte was sent
        retry_methods: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::NotEmpty))), beyond(), default("[\"GET\", \"HEAD\", \"OPTIONS\", \"QUERY\"]")],
        /// Failures after which another server is tried. `error`: there is no connection, or it ends; `timeout`: the
        /// server takes too long; `malformed`: the response cannot be parsed. Empty: none
        retry_failures: Vec<RetryFailure> [kind(ValueKind::Array(&RetryFailure::KIND)), beyond(), default("[\"error\", \"timeout\", \"malformed\"]")],
        /// Statuses of responses that are discarded if another server may be tried and is available. Those of 500 and
        /// above count as failures of the server
        retry_statuses: Vec<u16> [kind(ValueKind::Array(&RETRY_STATUS)), beyond(), default("[]")],
        /// Time after which no further server is tried; 0: no limit
        retry_timeout: OptionalLimit<Duration> [kind(SECONDS), beyond(), default("0"), unit("seconds")],
        /// Time for a whole request, with all servers that are tried, until the response is complete; then 504. 0: no
        /// limit. Upgraded connections are not limited
        timeout: OptionalLimit<Duration> [kind(SECONDS), beyond(), default("0"), unit("seconds")],
        /// Failures within `fail_timeout` after which a server gets no requests for that time; 0: never. The only
        /// server of a group always gets them
        max_fails: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("1")],
        /// See `max_fails`
        fail_timeout: Duration [kind(SECONDS), beyond(), default("10"), unit("seconds")],
        /// Read the whole body of a request before contacting a server, so that a slow client does not occupy it;
        /// `false`: send the body as it arrives
        request_buffering: bool [beyond(), default("true")],
        /// Read a response as fast as the server sends it, up to `buffer_size`, even if the client is slow; `false`: no
        /// faster than the client reads. Data is passed on immediately either way
        buffering: bool [beyond(), default("true")],
        /// Bytes of a response to buffer for a slow client, so that it does not occupy the server
        buffer_size: usize [kind(ValueKind::Size(0, 1 << 30)), beyond(), default("524288"), unit("bytes")],
        /// Longest head of a response, and of its interim responses (1xx) together; otherwise 502
        max_head_size: usize [kind(ValueKind::Size(1024, 1 << 20)), beyond(), default("65536"), unit("bytes")],
        /// 1: HTTP/1.1; 2: HTTP/2, which gRPC needs: many requests on one connection, with streamed bodies
        http_version: HttpVersion [kind(ValueKind::Integer(1, 2)), default("1")],
        /// Send the client's address to the server with a PROXY protocol header of this version at the start of each
        /// connection; connections are then not kept for later requests
        proxy_protocol: Option<ProxyVersion> [beyond()],
        /// Use TLS with the servers; an address without a port then has port 443. With `proxy`, `https` in the URL
        /// enables TLS, and this sets its options
        tls: Unread [kind(TLS), default("false"), beyond()],
        /// Change addresses and cookies in responses
        rewrite_response: Unread [kind(ResponseRewriteOptions::KIND), beyond()],
        /// Send the client's address to the server in header fields that replace the client's own: `x-forwarded`:
        /// `X-Forwarded-For`, `-Proto` and `-Host`; `forwarded`: `Forwarded` (RFC 7239)
        forwarded_headers: ForwardedHeaders [beyond(), default("\"none\"")],
    }
}

const TLS: ValueKind = ValueKind::OneOf(&[ValueKind::Boolean, UpstreamTlsOptions::KIND]);

words! {
    /// The method of selecting a server among the available ones.
    pub enum BalanceWord {
        /// In turn, by weight.
        RoundRobin = "round_robin",
        /// The one with the fewest requests, divided by its weight.
        LeastConnections = "least_connections",
        /// Always the same one for the same key.
        Hash = "hash",
    }
}

words! {
    /// A kind of failure of a server.
    pub enum RetryFailure {
        /// No connection, or it ended.
        Error = "error",
        /// It took too long.
        Timeout = "timeout",
        /// Its response cannot be read.
        Malformed = "malformed",
    }
}

words! {
    /// Versions of the PROXY protocol.
    pub enum ProxyVersion {
        /// A line of text.
        V1 = "v1",
        /// Binary.
        V2 = "v2",
    }
}

/// Versions of HTTP that can be spoken with a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2; without TLS with prior knowledge.
    Http2,
}

impl Typed for HttpVersion {
    const KIND: ValueKind = ValueKind::Integer(1, 2);
    const SHAPE: Shape = Shape::Integer(1, 2);

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        match u32::read(tree)? {
            1 => Some(HttpVersion::Http1),
            2 => Some(HttpVersion::Http2),
            _ => None,
        }
    }

    fn json(&self) -> Option<Json> {
        Some(match self {
            HttpVersion::Http1 => 1.into(),
            HttpVersion::Http2 => 2.into(),
        })
    }

    fn missing() -> Self {
        HttpVersion::Http1
    }
}

/// The fields that report the client to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ForwardedHeaders {
    /// `X-Forwarded-For`, `X-Forwarded-Proto` and `X-Forwarded-Host`.
    pub x_forwarded: bool,
    /// `Forwarded` (RFC 7239).
    pub forwarded: bool,
}

impl Typed for ForwardedHeaders {
    const KIND: ValueKind =
        ValueKind::String(Text::Word(&["none", "x-forwarded", "forwarded", "both"]));
    const SHAPE: Shape = Shape::Text;

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        let (x_forwarded, forwarded) = match tree.scalar() {
            Scalar::Text("none") => (false, false),
            Scalar::Text("x-forwarded") => (true, false),
            Scalar::Text("forwarded") => (false, true),
            Scalar::Text("both") => (true, true),
            _ => return None,
        };
        Some(ForwardedHeaders {
            x_forwarded,
            forwarded,
        })
    }

    fn json(&self) -> Option<Json> {
        let word = match (self.x_forwarded, self.forwarded) {
            (false, false) => "none",
            (true, false) => "x-forwarded",
            (false, true) => "forwarded",
            (true, true) => "both",
        };
        Some(word.into())
    }

    fn missing() -> Self {
        ForwardedHeaders::default()
    }
}
