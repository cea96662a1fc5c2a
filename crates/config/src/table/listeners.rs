//! The whole configuration, and options of listeners.

use super::kinds::ADDRESSES;
use super::routes::STEP;
use super::settings::{ACCESS_LOG, SETTINGS};
use super::tls::TLS;
use super::upstreams::UPSTREAM;
use tutti_options::table::{Kind, Names, Object, Text, opt};

/// The whole configuration.
pub static ROOT: Object = Object {
    name: "configuration",
    summary: "The whole configuration",
    options: &[&[
        opt(
            "$schema",
            Kind::String(Text::Any),
            "For editors: where the schema of this file is; the server does nothing with it",
        )
        .beyond(),
        opt(
            "listeners",
            Kind::Map(Names::Listener, &Kind::Object(&LISTENER)),
            "Sockets to accept requests on, by address",
        ),
        opt(
            "routes",
            Kind::OneOf(&[
                Kind::Array(&Kind::Object(&STEP)),
                Kind::Map(Names::Any, &Kind::Array(&Kind::Object(&STEP))),
            ]),
            "The route called `routes` (an array of steps), or several with names (an object of arrays)",
        ),
        opt(
            "applications",
            Kind::Map(Names::NotEmpty, &Kind::Application),
            "Applications, by name",
        ),
        opt(
            "upstreams",
            Kind::Map(Names::NotEmpty, &Kind::Object(&UPSTREAM)),
            "Groups of servers to balance requests between, by name",
        ),
        opt(
            "settings",
            Kind::Object(&SETTINGS),
            "Settings of the whole server",
        ),
        opt(
            "access_log",
            Kind::OneOf(&[Kind::String(Text::Path), Kind::Object(&ACCESS_LOG)]),
            "The file that gets a line for each request, and what is in it",
        ),
    ]],
    exactly_one: &[],
};

/// One of `listeners`.
pub static LISTENER: Object = Object {
    name: "listener",
    summary: "A socket to accept requests on. Its name is the address: `*:80`, `127.0.0.1:8080`, `[::1]:8080`, \
              `unix:/path` or `unix:@name`",
    options: &[&[
        opt("pass", Kind::String(Text::Pass), "Where requests go"),
        opt(
            "application",
            Kind::String(Text::NotEmpty),
            "Older form of `pass`: the name of an application",
        )
        .older(),
        opt(
            "backlog",
            Kind::Integer(-1, 0x7fff_ffff),
            "Connections that may wait to be accepted; -1: as many as the system allows",
        )
        .default("-1"),
        opt(
            "http2",
            Kind::OneOf(&[Kind::Boolean, Kind::Object(&HTTP2)]),
            "Speak HTTP/2 with clients that do (by ALPN over TLS, else by its preface); limits",
        )
        .beyond()
        .default("true"),
        opt("tls", Kind::Object(&TLS), "Speak TLS on it"),
        opt(
            "proxy_protocol",
            Kind::Object(&PROXY_PROTOCOL),
            "Who must say whom each connection is from, with a PROXY protocol header",
        )
        .beyond(),
        opt(
            "forwarded",
            Kind::Object(&FORWARDED),
            "Whom to believe about the client's address and protocol",
        ),
        opt(
            "client_ip",
            Kind::Object(&CLIENT_IP),
            "Older form of `forwarded`",
        )
        .older(),
    ]],
    exactly_one: &["pass", "application"],
};

/// `http2` of a listener.
pub static HTTP2: Object = Object {
    name: "http2",
    summary: "Limits of a client's HTTP/2 connection",
    options: &[&[
        opt(
            "max_concurrent_streams",
            Kind::Integer(1, 10_000),
            "Requests that a client may have under way at once on one connection",
        )
        .beyond()
        .default("100")
        .unit("requests"),
        opt(
            "stream_window_size",
            Kind::Size(16_384, 0x7fff_ffff),
            "What a client may send of one body ahead of what has been taken from it",
        )
        .beyond()
        .default("262144")
        .unit("bytes"),
        opt(
            "connection_window_size",
            Kind::Size(65_535, 0x7fff_ffff),
            "The same of all bodies on one connection together",
        )
        .beyond()
        .default("1048576")
        .unit("bytes"),
    ]],
    exactly_one: &[],
};

/// `proxy_protocol` of a listener.
pub static PROXY_PROTOCOL: Object = Object {
    name: "proxy_protocol",
    summary: "PROXY protocol headers, versions 1 and 2, at the start of connections from proxies",
    options: &[&[opt(
        "source",
        ADDRESSES,
        "Proxies: each of their connections must begin with a header, and is then taken to be from the address in it",
    ).beyond()
    .required()]],
    exactly_one: &[],
};

/// `forwarded` of a listener.
pub static FORWARDED: Object = Object {
    name: "forwarded",
    summary: "Header fields that tell the client's address and protocol, and who may send them",
    options: &[&[
        opt(
            "source",
            ADDRESSES,
            "Addresses that are believed; an empty array: none",
        )
        .required(),
        opt(
            "client_ip",
            Kind::String(Text::HeaderName),
            "Field with the client's address; of several, the last, or what `recursive` finds",
        ),
        opt(
            "protocol",
            Kind::String(Text::HeaderName),
            "Field that says `http`, `https` or `on`; of a list, the last",
        ),
        opt(
            "recursive",
            Kind::Boolean,
            "Take the last address that is not in `source`; where all are, the first",
        )
        .default("false"),
    ]],
    exactly_one: &[],
};

/// `client_ip` of a listener.
pub static CLIENT_IP: Object = Object {
    name: "client_ip",
    summary: "Older form of `forwarded`",
    options: &[&[
        opt(
            "source",
            ADDRESSES,
            "Addresses that are believed; an empty array: none",
        )
        .required(),
        opt(
            "header",
            Kind::String(Text::HeaderName),
            "Field with the client's address",
        )
        .required(),
        opt(
            "recursive",
            Kind::Boolean,
            "Take the last address that is not in `source`; where all are, the first",
        )
        .default("false"),
    ]],
    exactly_one: &[],
};
