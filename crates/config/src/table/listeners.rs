//! Options of listeners.

use tutti_options::table::{Referent, Text, ValueKind};
use tutti_options::{OptionalLimit, Options as _, Shape, Switch, Tree, Typed, Unread, options};

use super::kinds::ADDRESSES;
use super::routes::ErrorOptions;
use tutti_options::tls::TlsOptions;

options! {
    /// A socket to accept requests on. Its name is the address: `*:80`, `127.0.0.1:8080`, `[::1]:8080`, `unix:/path` or
    /// `unix:@name`
    #[derive(Copy, Eq)]
    pub struct ListenerOptions: LISTENER = "listener", exactly_one ["pass", "application"],
        followed_by [ErrorOptions::ROWS] {
        /// Where requests go
        pass: Unread [kind(ValueKind::String(Text::Pass))],
        /// Older form of `pass`: the name of an application
        application: Unread [kind(ValueKind::String(Text::Name(Referent::Application))), older()],
        /// Connections that may wait to be accepted; -1: as many as the system allows
        backlog: Backlog [default("-1")],
        /// Connections that may be open at once; further ones wait to be accepted. 0: no bound
        max_connections: OptionalLimit<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("connections")],
        /// Connections that one client may have open at once, by its address (of IPv6: its network of 64 bits); further ones are closed. 0: no bound.
        /// Not counted are unix sockets and the proxies of `forwarded` and `proxy_protocol`
        max_connections_per_client: OptionalLimit<u32> [kind(ValueKind::Integer(0, 1_000_000)), beyond(), default("0"), unit("connections")],
        /// Speak HTTP/2 with clients that do (by ALPN over TLS, else by its preface); limits
        http2: Switch<Http2> [beyond(), default("true")],
        /// Speak HTTP/3, too, over QUIC at the same address and port (UDP), and tell clients of it (`Alt-Svc`). Needs `tls` with
        /// TLS 1.3; limits
        http3: Switch<Http3> [beyond(), default("false")],
        /// Speak TLS on it
        tls: Unread [kind(TlsOptions::KIND)],
        /// Who must say whom each connection is from, with a PROXY protocol header
        proxy_protocol: Unread [kind(ProxyProtocol::KIND), beyond()],
        /// Whom to believe about the client's address and protocol
        forwarded: Unread [kind(ForwardedOptions::KIND)],
        /// Older form of `forwarded`
        client_ip: Unread [kind(ClientIp::KIND), older()],
    }
}

/// The length of the kernel's queue of connections, for listen(2), which cuts it to `net.core.somaxconn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backlog(pub i32);

impl Backlog {
    /// As many as the system allows; -1 in a configuration.
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
    /// Limits of a client's HTTP/2 connection
    #[derive(Copy, Eq)]
    pub struct Http2: HTTP2 = "http2" {
        /// Requests that a client may have under way at once on one connection
        max_concurrent_streams: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("100"), unit("requests")],
        /// Bytes that a client may send of one body ahead of what has been taken from it
        stream_window_size: u32 [kind(ValueKind::Size(16_384, 0x7fff_ffff)), beyond(), default("262144"), unit("bytes")],
        /// The same of all bodies on one connection together
        connection_window_size: u32 [kind(ValueKind::Size(65_535, 0x7fff_ffff)), beyond(), default("1048576"), unit("bytes")],
    }
}

options! {
    /// Limits of a client's HTTP/3 connection
    #[derive(Copy, Eq)]
    pub struct Http3: HTTP3 = "http3" {
        /// Requests that a client may have under way at once on one connection
        max_concurrent_streams: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("100"), unit("requests")],
        /// Bytes that a client may send of one body ahead of what has been taken from it
        stream_window_size: u32 [kind(ValueKind::Size(16_384, 0x7fff_ffff)), beyond(), default("262144"), unit("bytes")],
        /// The same of all bodies on one connection together
        connection_window_size: u32 [kind(ValueKind::Size(65_535, 0x7fff_ffff)), beyond(), default("1048576"), unit("bytes")],
        /// How long clients may remember that HTTP/3 is spoken here; 0: they are not told
        alt_svc_max_age: u32 [kind(ValueKind::Integer(0, 31_536_000)), beyond(), default("86400"), unit("seconds")],
        /// Take GET and HEAD without a body that come in a client's first packets (0-RTT). They may be copies that somebody else sends: who answers them
        /// is told `Early-Data: 1`, and may answer 425
        early_data: bool [beyond(), default("false")],
    }
}

options! {
    /// PROXY protocol headers, versions 1 and 2, at the start of connections from proxies
    pub struct ProxyProtocol: PROXY_PROTOCOL = "proxy_protocol" {
        /// Proxies: each of their connections must begin with a header, and is then taken to be from the address in it
        source: Unread [kind(ADDRESSES), beyond(), required()],
    }
}

options! {
    /// Header fields that tell the client's address and protocol, and who may send them
    pub struct ForwardedOptions: FORWARDED = "forwarded" {
        /// Addresses that are believed; an empty array: none
        source: Unread [kind(ADDRESSES), required()],
        /// Field with the client's address; of several, the last, or what `recursive` finds
        client_ip: Option<String> [kind(ValueKind::String(Text::HeaderName))],
        /// Field that says `http`, `https` or `on`; of a list, the last
        protocol: Option<String> [kind(ValueKind::String(Text::HeaderName))],
        /// Take the last address that is not in `source`; where all are, the first
        recursive: bool [default("false")],
    }
}

options! {
    /// Older form of `forwarded`
    pub struct ClientIp: CLIENT_IP = "client_ip" {
        /// Addresses that are believed; an empty array: none
        source: Unread [kind(ADDRESSES), required()],
        /// Field with the client's address
        header: String [kind(ValueKind::String(Text::HeaderName)), required()],
        /// Take the last address that is not in `source`; where all are, the first
        recursive: bool [default("false")],
    }
}
