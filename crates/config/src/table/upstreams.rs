//! Options of upstreams, their servers, and of `proxy`.

use super::kinds::STRINGS;
use tutti_options::table::{Kind, Names, Object, Opt, Text, opt};

/// One of `upstreams`.
pub static UPSTREAM: Object = Object {
    name: "upstream",
    summary: "A group of servers; a request goes to one of them",
    options: &[
        &[
            opt(
                "servers",
                Kind::Map(Names::Server, &Kind::Object(&SERVER)),
                "Servers, by address: `ADDRESS:PORT`, `[IPV6]:PORT`, `unix:PATH`",
            )
            .required(),
            opt(
                "balance",
                Kind::String(Text::Word(&["round_robin", "least_connections", "hash"])),
                "How a server is chosen: in turn by weight, the one with the fewest requests for its weight, or always the \
                 same for the same `key`",
            ).beyond()
            .default("\"round_robin\""),
            opt(
                "key",
                Kind::String(Text::Template),
                "What `hash` looks at, as `$remote_addr` or `$cookie_session`",
            ).beyond()
            .default("\"$remote_addr\""),
            opt(
                "slow_start",
                SECONDS,
                "A server that works again gets its full share after this time only",
            ).beyond()
            .default("0")
            .unit("seconds"),
            opt(
                "queue",
                Kind::Integer(0, 1_000_000),
                "Requests that may wait while every server has `max_connections`; more are answered 503",
            ).beyond()
            .default("100")
            .unit("requests"),
            opt("queue_timeout", SECONDS, "How long they may wait; then 503").beyond()
                .default("5")
                .unit("seconds"),
            opt(
                "health_check",
                Kind::Object(&HEALTH_CHECK),
                "Ask each server from time to time whether it works; one that does not gets no requests",
            )
            .beyond(),
        ],
        super::gateways::OF_UPSTREAM,
        OPTIONS,
    ],
    exactly_one: &[],
};

/// `proxy_options` of an action.
pub static PROXY_OPTIONS: Object = Object {
    name: "proxy options",
    summary: "How to talk to a server; an upstream has the same options",
    options: &[OPTIONS],
    exactly_one: &[],
};

/// One of `servers`.
pub static SERVER: Object = Object {
    name: "upstream server",
    summary: "A server of a group",
    options: &[&[
        opt(
            "weight",
            Kind::Number(0.0, 1_000_000.0),
            "Its share of requests; 0: none",
        )
        .default("1"),
        opt(
            "backup",
            Kind::Boolean,
            "Gets requests only while no other server can",
        )
        .beyond()
        .default("false"),
        opt(
            "max_connections",
            Kind::Integer(0, 1_000_000),
            "Requests it may have at once; 0: no limit",
        )
        .beyond()
        .default("0")
        .unit("requests"),
    ]],
    exactly_one: &[],
};

/// `health_check` of an upstream.
pub static HEALTH_CHECK: Object = Object {
    name: "health check",
    summary: "How servers are asked whether they work; with neither `uri` nor `grpc_service`, a connection that can be made is enough",
    options: &[&[
        opt(
            "uri",
            Kind::String(Text::Target),
            "Path and query of a GET request that the server must answer",
        )
        .beyond(),
        opt(
            "host",
            Kind::String(Text::HostName),
            "The `Host` of that request; without, the host in the server's address",
        )
        .beyond()
        .needs(&["uri"]),
        opt(
            "status",
            Kind::OneOf(&[STATUS, Kind::Array(&STATUS)]),
            "Statuses that say that it works; without, those from 200 to 399",
        )
        .beyond()
        .needs(&["uri"]),
        opt(
            "grpc_service",
            Kind::String(Text::Any),
            "Ask by gRPC's health checking protocol for this service instead; empty: for the server as a whole. Needs \
             `http_version` 2",
        )
        .beyond(),
        opt(
            "interval",
            Kind::Number(0.1, 31_536_000.0),
            "Time between two checks",
        )
        .beyond()
        .default("5")
        .unit("seconds"),
        opt(
            "timeout",
            TIMEOUT,
            "Time for a whole check: to connect, to send, to get the answer",
        )
        .beyond()
        .default("5")
        .unit("seconds"),
        opt(
            "fails",
            Kind::Integer(1, 1000),
            "Checks in a row that must fail before a server gets no requests; the very first one decides alone",
        )
        .beyond()
        .default("3")
        .unit("checks"),
        opt(
            "passes",
            Kind::Integer(1, 1000),
            "Checks in a row that must succeed before it gets requests again",
        )
        .beyond()
        .default("2")
        .unit("checks"),
    ]],
    exactly_one: &[],
};

/// The status of an answer.
const STATUS: Kind = Kind::Integer(200, 599);

/// `tls` of an upstream or of `proxy_options`.
pub static UPSTREAM_TLS: Object = Object {
    name: "upstream tls",
    summary: "TLS with servers",
    options: &[&[
        opt(
            "verify",
            Kind::Boolean,
            "Whether a server must show a certificate that holds; without, anybody on the way can read and change everything, and \
             the log warns",
        )
        .default("true")
        .beyond(),
        opt(
            "ca",
            STRINGS,
            "Who vouches for servers, instead of the authorities of the system: bundles of `/certificates`, or paths of PEM files \
             (with a `/` at the front), read when the configuration is applied",
        )
        .beyond(),
        opt(
            "server_name",
            Kind::String(Text::HostName),
            "The name that is asked for (SNI) and that the certificate must have; without, the host in the server's address",
        )
        .beyond(),
        opt(
            "certificate",
            Kind::String(Text::Reference),
            "Certificate bundle of `/certificates` for servers that ask for a client's certificate",
        )
        .beyond(),
        opt(
            "conf_commands",
            Kind::Map(Names::NotEmpty, &Kind::String(Text::Any)),
            "OpenSSL configuration commands, as in `tls` of a listener",
        )
        .beyond(),
    ]],
    exactly_one: &[],
};

/// A time; beyond a year it would only be a mistake.
const SECONDS: Kind = Kind::Number(0.0, 31_536_000.0);
const TIMEOUT: Kind = Kind::Number(0.001, 31_536_000.0);

const OPTIONS: &[Opt] = &[
    opt("connect_timeout", TIMEOUT, "Time to connect").beyond()
        .default("10")
        .unit("seconds"),
    opt(
        "send_timeout",
        TIMEOUT,
        "Time between two writes of a request",
    ).beyond()
    .default("60")
    .unit("seconds"),
    opt(
        "read_timeout",
        TIMEOUT,
        "Time to wait for an answer, and between two reads of it; else 504",
    ).beyond()
    .default("60")
    .unit("seconds"),
    opt(
        "tunnel_timeout",
        TIMEOUT,
        "Time without a byte either way after which an upgraded connection (WebSocket) is closed",
    ).beyond()
    .default("600")
    .unit("seconds"),
    opt(
        "keepalive",
        Kind::Integer(0, 65_535),
        "Connections to each server that each thread keeps for later requests; 0: none",
    ).beyond()
    .default("32")
    .unit("connections"),
    opt(
        "keepalive_timeout",
        SECONDS,
        "Time after which a connection that nobody uses is closed",
    ).beyond()
    .default("4")
    .unit("seconds"),
    opt(
        "retries",
        Kind::Integer(0, 1000),
        "Further servers to try, where a request may be repeated: nothing of it was sent, or its method is one of `retry_methods` \
         and nothing of an answer came",
    ).beyond()
    .default("2"),
    opt(
        "retry_methods",
        Kind::Array(&Kind::String(Text::NotEmpty)),
        "Methods, in capitals, that may reach two servers: what they do is as good done twice. A request of any other method is not \
         sent again once a byte of it was",
    ).beyond()
    .default(r#"["GET", "HEAD", "OPTIONS"]"#),
    opt(
        "max_fails",
        Kind::Integer(0, 1_000_000),
        "Failures within `fail_timeout` after which a server gets no requests for that time; 0: never. The only server of a \
         group always gets them",
    ).beyond()
    .default("1"),
    opt("fail_timeout", SECONDS, "See `max_fails`").beyond()
        .default("10")
        .unit("seconds"),
    opt(
        "request_buffering",
        Kind::Boolean,
        "Read the whole body of a request before a server is asked, so that a slow client does not hold it; `false`: the server \
         gets it while it comes",
    ).beyond()
    .default("true"),
    opt(
        "buffering",
        Kind::Boolean,
        "Read an answer as fast as the server gives it, up to `buffer_size`, for a client that takes it slowly; `false`: no \
         faster than the client takes it. What has come is sent at once either way",
    ).beyond()
    .default("true"),
    opt(
        "buffer_size",
        Kind::Size(0, 1 << 30),
        "Bytes of an answer that are kept for a client that takes them slowly, so that it does not hold the server",
    ).beyond()
    .default("524288")
    .unit("bytes"),
    opt(
        "max_head_size",
        Kind::Size(1024, 1 << 20),
        "Longest head of an answer; else 502",
    ).beyond()
    .default("65536")
    .unit("bytes"),
    opt(
        "http_version",
        Kind::Integer(1, 2),
        "1: HTTP/1.1; 2: HTTP/2, which gRPC needs: many requests on one connection, bodies while they come",
    )
    .default("1"),
    opt(
        "proxy_protocol",
        Kind::String(Text::Word(&["v1", "v2"])),
        "Tell the server whom it answers with a PROXY protocol header of this version, at the start of each connection; then no \
         connection is kept for a later request",
    ).beyond(),
    opt(
        "tls",
        TLS,
        "Speak TLS with the servers; an address without a port then has 443. With `proxy`, the scheme says whether: `https` does, with \
         these options",
    )
    .default("false")
    .beyond(),
    opt(
        "forwarded_headers",
        Kind::String(Text::Word(&["none", "x-forwarded", "forwarded", "both"])),
        "Tell the server whom it answers, in place of what the client said: `x-forwarded`: `X-Forwarded-For`, `-Proto` and \
         `-Host`; `forwarded`: `Forwarded` (RFC 7239)",
    ).beyond()
    .default("\"none\""),
];

const TLS: Kind = Kind::OneOf(&[Kind::Boolean, Kind::Object(&UPSTREAM_TLS)]);
