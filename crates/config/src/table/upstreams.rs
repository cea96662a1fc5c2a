//! Options of upstreams, their servers, and of `proxy`.

use std::time::Duration;

use tutti_options::table::{Names, Text, ValueKind};
use tutti_options::{
    OptionalLimit, Options as _, Scalar, Shape, Tree, Typed, Unread, options, words,
};

use serde_json::Value as Json;

use super::gateways::{FastCgi, Scgi, Uwsgi};
use tutti_options::tls::UpstreamTlsOptions;

options! {
    /// A group of servers; a request goes to one of them
    pub struct UpstreamGroup: UPSTREAM = "upstream", followed_by [UpstreamOptions::ROWS] {
        /// Servers, by address: `ADDRESS:PORT`, `[IPV6]:PORT`, `NAME:PORT`, `unix:PATH`; by `NAME` alone with `service` or
        /// `kubernetes`; by `all` or `LABEL=VALUE` with `fleet`
        servers: Unread [kind(ValueKind::Map(Names::Server, &ServerOptions::KIND)), required()],
        /// How a server is chosen: in turn by weight, the one with the fewest requests for its weight, or always the
        /// same for the same `key`
        balance: BalanceWord [beyond(), default("\"round_robin\"")],
        /// The text that `hash` looks at, as `$remote_addr` or `$cookie_session`
        key: String [kind(ValueKind::String(Text::Template)), beyond(), default("\"$remote_addr\"")],
        /// A server that works again gets its full share after this time only
        slow_start: Duration [kind(SECONDS), beyond(), default("0"), unit("seconds")],
        /// Requests that may wait while every server has `max_connections`; more are answered 503
        queue: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("100"), unit("requests")],
        /// How long they may wait; then 503
        queue_timeout: Duration [kind(SECONDS), beyond(), default("5"), unit("seconds")],
        /// Ask each server from time to time whether it works; one that does not gets no requests
        health_check: Option<HealthCheckOptions> [beyond()],
        /// Its servers speak FastCGI, not HTTP
        fastcgi: Unread [kind(FastCgi::KIND), beyond()],
        /// Its servers speak uwsgi, not HTTP
        uwsgi: Unread [kind(Uwsgi::KIND), beyond()],
        /// Its servers speak SCGI, not HTTP
        scgi: Unread [kind(Scgi::KIND), beyond()],
    }
}

options! {
    /// A server of a group
    pub struct ServerOptions: SERVER = "upstream server" {
        /// Its share of requests; 0: none
        weight: f64 [kind(ValueKind::Number(0.0, 1_000_000.0)), default("1")],
        /// Gets requests only while no other server can
        backup: bool [beyond(), default("false")],
        /// Requests it may have at once; 0: no limit
        max_connections: OptionalLimit<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("requests")],
        /// The name has SRV records for this service: they say which servers it has, with their ports, weights and
        /// priorities. `http` means those of `_http._tcp.NAME`; with a dot in it, it is put before the name as it is
        service: Option<String> [kind(ValueKind::String(Text::HostName)), beyond()],
        /// The name is a Service of Kubernetes, `SERVICE.NAMESPACE`: its servers are those of its endpoints that are ready, as the API
        /// server tells them (`kubernetes` of `settings`)
        kubernetes: Unread [kind(KubernetesServiceOptions::KIND), beyond()],
        /// Its servers are nodes of the fleet that this server is one of (`source` of `settings`): all that are there, with the name `all`, or
        /// those with a label, `LABEL=VALUE`
        fleet: Unread [kind(FleetNodesOptions::KIND), beyond()],
    }
}

options! {
    /// Nodes of the fleet as servers
    pub struct FleetNodesOptions: FLEET_NODES = "fleet nodes" {
        /// The port at which each of them takes these requests
        port: u16 [kind(ValueKind::Integer(1, 65_535)), required(), beyond()],
    }
}

options! {
    /// A Service of Kubernetes
    pub struct KubernetesServiceOptions: KUBERNETES_SERVICE = "kubernetes service" {
        /// Its port: the name in the Service, or the number at which the pods listen. A Service with one port needs none
        port: Unread [kind(ValueKind::OneOf(&[ValueKind::Integer(1, 65_535), ValueKind::String(Text::NotEmpty)])), beyond()],
    }
}

options! {
    /// How servers are asked whether they work; with neither `uri` nor `grpc_service`, a connection that can be made is
    /// enough
    pub struct HealthCheckOptions: HEALTH_CHECK = "health check" {
        /// Path and query of a GET request that the server must answer
        uri: Option<String> [kind(ValueKind::String(Text::Target)), beyond()],
        /// The `Host` of that request; without, the host in the server's address
        host: Option<String> [kind(ValueKind::String(Text::HostName)), beyond(), needs(&["uri"])],
        /// Statuses that say that it works; without, those from 200 to 399
        statuses: Vec<u16> [key("status"), kind(ValueKind::OneOf(&[STATUS, ValueKind::Array(&STATUS)])), beyond(), needs(&["uri"])],
        /// Ask by gRPC's health checking protocol for this service instead; empty: for the server as a whole. Needs
        /// `http_version` 2
        grpc_service: Option<String> [kind(ValueKind::String(Text::Any)), beyond()],
        /// Time between two checks
        interval: Duration [kind(ValueKind::Number(0.1, 31_536_000.0)), beyond(), default("5"), unit("seconds")],
        /// Time for a whole check: to connect, to send, to get the answer
        timeout: Duration [kind(TIMEOUT), beyond(), default("5"), unit("seconds")],
        /// Checks in a row that must fail before a server gets no requests; the very first one decides alone
        fails: u32 [kind(ValueKind::Integer(1, 1000)), beyond(), default("3"), unit("checks")],
        /// Checks in a row that must succeed before it gets requests again
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
    /// Nothing: that it can be connected to is enough.
    Connection,
    /// A request for this path and query, in the protocol of the group.
    Request(&'a str),
    /// gRPC's health checking protocol, for this service.
    Grpc(&'a str),
}

/// The status of an answer.
const STATUS: ValueKind = ValueKind::Integer(200, 599);

/// A time; beyond a year it would only be a mistake.
const SECONDS: ValueKind = ValueKind::Number(0.0, 31_536_000.0);
const TIMEOUT: ValueKind = ValueKind::Number(0.001, 31_536_000.0);

options! {
    /// How to talk to a server; an upstream has the same options
    pub struct UpstreamOptions: PROXY_OPTIONS = "proxy options" {
        /// Time to connect
        connect_timeout: Duration [kind(TIMEOUT), beyond(), default("10"), unit("seconds")],
        /// Time between two writes of a request
        send_timeout: Duration [kind(TIMEOUT), beyond(), default("60"), unit("seconds")],
        /// Time to wait for an answer, and between two reads of it; else 504
        read_timeout: Duration [kind(TIMEOUT), beyond(), default("60"), unit("seconds")],
        /// Time without a byte either way after which an upgraded connection (WebSocket) is closed; a side that does not take
        /// what waits for it has as long, by progress
        tunnel_timeout: Duration [kind(TIMEOUT), beyond(), default("600"), unit("seconds")],
        /// Connections to each server that each thread keeps for later requests; 0: none
        keepalive: usize [kind(ValueKind::Integer(0, 65_535)), beyond(), default("32"), unit("connections")],
        /// Time after which a connection that nobody uses is closed
        keepalive_timeout: Duration [kind(SECONDS), beyond(), default("4"), unit("seconds")],
        /// Further servers to try, where a request may be repeated: nothing of it was sent, or its method is one of
        /// `retry_methods` and nothing of an answer came
        retries: u32 [kind(ValueKind::Integer(0, 1000)), beyond(), default("2")],
        /// Methods, in capitals, that may reach two servers: what they do is as good done twice. A request of any other
        /// method is not sent again once a byte of it was
        retry_methods: Vec<String> [kind(ValueKind::Array(&ValueKind::String(Text::NotEmpty))), beyond(), default("[\"GET\", \"HEAD\", \"OPTIONS\", \"QUERY\"]")],
        /// Failures within `fail_timeout` after which a server gets no requests for that time; 0: never. The only
        /// server of a group always gets them
        max_fails: u32 [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("1")],
        /// See `max_fails`
        fail_timeout: Duration [kind(SECONDS), beyond(), default("10"), unit("seconds")],
        /// Read the whole body of a request before a server is asked, so that a slow client does not hold it; `false`:
        /// the server gets it while it comes
        request_buffering: bool [beyond(), default("true")],
        /// Read an answer as fast as the server gives it, up to `buffer_size`, for a client that takes it slowly;
        /// `false`: no faster than the client takes it. What has come is sent at once either way
        buffering: bool [beyond(), default("true")],
        /// Bytes of an answer that are kept for a client that takes them slowly, so that it does not hold the server
        buffer_size: usize [kind(ValueKind::Size(0, 1 << 30)), beyond(), default("524288"), unit("bytes")],
        /// Longest head of an answer; else 502
        max_head_size: usize [kind(ValueKind::Size(1024, 1 << 20)), beyond(), default("65536"), unit("bytes")],
        /// 1: HTTP/1.1; 2: HTTP/2, which gRPC needs: many requests on one connection, bodies while they come
        http_version: HttpVersion [kind(ValueKind::Integer(1, 2)), default("1")],
        /// Tell the server whom it answers with a PROXY protocol header of this version, at the start of each
        /// connection; then no connection is kept for a later request
        proxy_protocol: Option<ProxyVersion> [beyond()],
        /// Speak TLS with the servers; an address without a port then has 443. With `proxy`, the scheme says whether:
        /// `https` does, with these options
        tls: Unread [kind(TLS), default("false"), beyond()],
        /// Tell the server whom it answers, in place of what the client said: `x-forwarded`: `X-Forwarded-For`,
        /// `-Proto` and `-Host`; `forwarded`: `Forwarded` (RFC 7239)
        forwarded_headers: ForwardedHeaders [beyond(), default("\"none\"")],
    }
}

const TLS: ValueKind = ValueKind::OneOf(&[ValueKind::Boolean, UpstreamTlsOptions::KIND]);

words! {
    /// How a server is chosen among those that can be used.
    pub enum BalanceWord {
        /// In turn, by weight.
        RoundRobin = "round_robin",
        /// The one with the fewest requests, divided by its weight.
        LeastConnections = "least_connections",
        /// Always the same for the same key.
        Hash = "hash",
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

/// Which fields tell a server about the client.
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
