//! Options of listeners.

use std::num::NonZeroU32;

use tutti_options::table::{Referent, Text, ValueKind};
use tutti_options::tls::TlsOptions;
use tutti_options::{OptionalLimit, Options as _, Shape, Switch, Tree, Typed, Unread, options};

use super::kinds::ADDRESSES;
use super::routes::ErrorOptions;
use super::scope::ScopeOptions;
use super::settings::HttpListenerOptions;

options! {
    /// A socket to accept requests on. Its name is the address: `*:80`, `127.0.0.1:8080`, `[::1]:8080`, `unix:/path`,
    /// `unix:@name`, or `udp:*:53` for datagrams of a `stream`
    #[derive(Copy, Eq)]
    pub struct ListenerOptions: LISTENER = "listener", exactly_one ["pass", "application"], unless ["stream"],
        followed_by [ScopeOptions::ROWS, ErrorOptions::ROWS] {
        /// Where requests go
        pass: Unread [kind(ValueKind::String(Text::Pass))],
        /// Older form of `pass`: the name of an application
        application: Unread [kind(ValueKind::String(Text::Name(Referent::Application))), older()],
        /// Connections that may wait to be accepted; -1: the system's limit
        backlog: Backlog [default("-1")],
        /// Where connections go, without being read as HTTP: `upstreams/NAME`, or `streams/NAME`, whose steps decide.
        /// With `pass`, those that a step terminates here are read as HTTP
        stream: Unread [kind(ValueKind::String(Text::Name(Referent::Destination))), beyond()],
        /// Open connections; further ones wait to be accepted. 0: no limit
        max_connections: OptionalLimit<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("connections")],
        /// Open connections of one client, by its address (for IPv6, its /64 network); further ones are closed.
        /// Connections on Unix sockets and from the proxies of `forwarded` and `proxy_protocol` are not counted. 0: no
        /// limit
        max_connections_per_client: OptionalLimit<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("connections")],
        /// Sessions of a listener whose address begins with `udp:`
        udp: Option<UdpOptions> [beyond()],
        /// Handling of HTTP requests on this listener
        http: Unread [kind(HttpListenerOptions::KIND), beyond()],
        /// Accept HTTP/2 (by ALPN over TLS, otherwise by its preface); an object sets limits
        http2: Switch<Http2> [beyond(), default("true")],
        /// Accept HTTP/3 too, over QUIC on the same address and port (UDP), and announce it to clients (`Alt-Svc`).
        /// Needs `tls` with TLS 1.3; an object sets limits
        http3: Switch<Http3> [beyond(), default("false")],
        /// Use TLS on this socket
        tls: Unread [kind(TlsOptions::KIND)],
        /// Proxies that must send a PROXY protocol header with the client's address
        proxy_protocol: Unread [kind(ProxyProtocol::KIND), beyond()],
        /// Proxies whose fields with the client's address and protocol are trusted
        forwarded: Unread [kind(ForwardedOptions::KIND)],
        /// Older form of `forwarded`
        client_ip: Unread [kind(ClientIp::KIND), older()],
    }
}

/// The length of the kernel's queue of connections for listen(2), which limits it to `net.core.somaxconn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog(pub i32);

impl Backlog {
    /// The system's limit; -1 in a configuration.
    pub const LONGEST: Backlog = Backlog(i32::MAX);
}

impl Typed for Backlog {
    const KIND: ValueKind = ValueKind::Integer(-1, i32::MAX as i64);
    const SHAPE: Shape = Shape::Integer(-1, i32::MAX as i64);

    fn read<'t>(tree: impl Tree<'t>) -> Option<Self> {
        let length = i32::read(tree)?;
        Some(if length < 0 {
            Backlog::LONGEST
        } else {
            Backlog(length)
        })
    }

    fn missing() -> Self {
        Backlog::LONGEST
    }

    fn json(&self) -> Option<serde_json::Value> {
        Some(match *self {
            Backlog::LONGEST => (-1).into(),
            Backlog(length) => length.into(),
        })
    }
}

options! {
    /// Sessions of UDP: the datagrams of one client, by its address and port, and those that a server returns
    #[derive(Copy, Eq)]
    pub struct UdpOptions: UDP = "udp" {
        /// Datagrams that a server returns for each one of the client, after which the session ends; 0: none, as for
        /// syslog. Without it a session ends when it is idle (`tunnel_timeout` of the upstream)
        responses: Option<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond(), unit("datagrams")],
        /// Datagrams of a client in one session: its next one begins another session, perhaps with another server
        requests: Option<NonZeroU32> [kind(ValueKind::Integer(1, 1_000_000)), beyond(), unit("datagrams")],
        /// Sessions at once; datagrams of further clients are dropped. Each session needs a file descriptor
        max_sessions: u32 [kind(ValueKind::Integer(1, 1_000_000)), beyond(), default("10000"), unit("sessions")],
        /// Longer datagrams are dropped, in both directions
        max_datagram_size: u32 [kind(ValueKind::Size(1, 65_535)), beyond(), default("65535"), unit("bytes")],
    }
}

options! {
    /// Limits of a client's HTTP/2 connection
    #[derive(Copy, Eq)]
    pub struct Http2: HTTP2 = "http2" {
        /// Requests of a client in progress at once on one connection
        max_concurrent_streams: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("100"), unit("requests")],
        /// Bytes of one body that a client may send ahead of what has been read
        stream_window_size: u32 [kind(ValueKind::Size(16_384, 0x7fff_ffff)), beyond(), default("262144"), unit("bytes")],
        /// Bytes of all bodies on one connection that a client may send ahead of what has been read
        connection_window_size: u32 [kind(ValueKind::Size(65_535, 0x7fff_ffff)), beyond(), default("1048576"), unit("bytes")],
    }
}

options! {
    /// Limits of a client's HTTP/3 connection
    #[derive(Copy, Eq)]
    pub struct Http3: HTTP3 = "http3" {
        /// Requests of a client in progress at once on one connection
        max_concurrent_streams: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("100"), unit("requests")],
        /// Bytes of one body that a client may send ahead of what has been read
        stream_window_size: u32 [kind(ValueKind::Size(16_384, 0x7fff_ffff)), beyond(), default("262144"), unit("bytes")],
        /// Bytes of all bodies on one connection that a client may send ahead of what has been read
        connection_window_size: u32 [kind(ValueKind::Size(65_535, 0x7fff_ffff)), beyond(), default("1048576"), unit("bytes")],
        /// Time for which clients may remember that HTTP/3 is available here; 0: do not announce it
        alt_svc_max_age: u32 [kind(ValueKind::Integer(0, 31_536_000)), beyond(), default("86400"), unit("seconds")],
        /// Accept GET and HEAD without a body in a client's first packets (0-RTT), if the client returns an address token
        /// of its last connection. An attacker may replay them: the application or server gets `Early-Data: 1`, and can
        /// respond 425
        early_data: bool [beyond(), default("false")],
    }
}

options! {
    /// PROXY protocol headers, versions 1 and 2, at the start of connections from proxies
    pub struct ProxyProtocol: PROXY_PROTOCOL = "proxy_protocol" {
        /// Addresses of the proxies: each of their connections must begin with a header, whose address replaces the
        /// proxy's
        source: Unread [kind(ADDRESSES), beyond(), required()],
    }
}

options! {
    /// Header fields with the client's address and protocol, and the proxies trusted to send them
    pub struct ForwardedOptions: FORWARDED = "forwarded" {
        /// Addresses of trusted proxies; an empty array: none
        source: Unread [kind(ADDRESSES), required()],
        /// Field with the client's address; if it has several, the last one, or the one that `recursive` selects
        client_ip: Option<String> [kind(ValueKind::String(Text::HeaderName))],
        /// Field with `http`, `https` or `on`; of a list, the last
        protocol: Option<String> [kind(ValueKind::String(Text::HeaderName))],
        /// Take the last address that is not in `source`; if all are, the first
        recursive: bool [default("false")],
    }
}

options! {
    /// Older form of `forwarded`
    pub struct ClientIp: CLIENT_IP = "client_ip" {
        /// Addresses of trusted proxies; an empty array: none
        source: Unread [kind(ADDRESSES), required()],
        /// Field with the client's address
        header: String [kind(ValueKind::String(Text::HeaderName)), required()],
        /// Take the last address that is not in `source`; if all are, the first
        recursive: bool [default("false")],
    }
}
