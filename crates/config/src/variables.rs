//! The variables of the configuration language: one table for the parser, for scripts and for their page.
//!
//! A new variable needs its value in `tutti-routing`; the compiler shows where.

use std::fmt::Write as _;

use tutti_document::suggest;

/// Every variable. `$dollar` is a literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Variable {
    /// `$uri`.
    Uri,
    /// `$host`.
    Host,
    /// `$method`.
    Method,
    /// `$request_uri`.
    RequestUri,
    /// `$query`.
    Query,
    /// `$scheme`.
    Scheme,
    /// `$hostname`.
    Hostname,
    /// `$remote_addr`.
    RemoteAddr,
    /// `$remote_port`.
    RemotePort,
    /// `$server_addr`.
    ServerAddr,
    /// `$server_port`.
    ServerPort,
    /// `$peer_addr`.
    PeerAddr,
    /// `$peer_port`.
    PeerPort,
    /// `$proxy_protocol_addr`.
    ProxyProtocolAddr,
    /// `$proxy_protocol_port`.
    ProxyProtocolPort,
    /// `$proxy_protocol_server_addr`.
    ProxyProtocolServerAddr,
    /// `$proxy_protocol_server_port`.
    ProxyProtocolServerPort,
    /// `$connection`.
    Connection,
    /// `$connection_requests`.
    ConnectionRequests,
    /// `$remote_user`.
    RemoteUser,
    /// `$request_id`.
    RequestId,
    /// `$request_line`.
    RequestLine,
    /// `$protocol`.
    Protocol,
    /// `$request_time`.
    RequestTime,
    /// `$status`.
    Status,
    /// `$error_status`.
    ErrorStatus,
    /// `$body_bytes_sent`.
    BodyBytesSent,
    /// `$bytes_sent`.
    BytesSent,
    /// `$bytes_received`.
    BytesReceived,
    /// `$request_length`.
    RequestLength,
    /// `$request_body`.
    RequestBody,
    /// `$cache_status`.
    CacheStatus,
    /// `$upstream_NAME`.
    Upstream(UpstreamVariable),
    /// `$time_local`.
    TimeLocal,
    /// `$time_iso8601`.
    TimeIso8601,
    /// `$msec`.
    Msec,
    /// `$tls_NAME`.
    Tls(TlsVariable),
    /// `$arg_NAME`.
    Argument(Box<str>),
    /// `$raw_arg_NAME`: in lower case.
    RawArgument(Box<str>),
    /// `$cookie_NAME`.
    Cookie(Box<str>),
    /// `$header_NAME`: in lower case, with hyphens for underscores.
    Header(Box<str>),
    /// `$response_header_NAME`: in lower case, with hyphens for underscores.
    ResponseHeader(Box<str>),
}

impl Variable {
    /// True if the value identifies one client or one request: its address, its id and its times.
    pub fn is_of_one_request(&self) -> bool {
        matches!(
            self,
            Self::RemoteAddr
                | Self::RemotePort
                | Self::PeerAddr
                | Self::PeerPort
                | Self::ProxyProtocolAddr
                | Self::ProxyProtocolPort
                | Self::Connection
                | Self::ConnectionRequests
                | Self::RequestId
                | Self::RequestTime
                | Self::TimeLocal
                | Self::TimeIso8601
                | Self::Msec
        )
    }
}

/// Facts about the servers of an upstream that a request was sent to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UpstreamVariable {
    /// `$upstream_addr`.
    Addr,
    /// `$upstream_status`.
    Status,
    /// `$upstream_connect_time`.
    ConnectTime,
    /// `$upstream_header_time`.
    HeaderTime,
    /// `$upstream_response_time`.
    ResponseTime,
    /// `$upstream_response_length`.
    ResponseLength,
}

/// Facts about a connection with TLS and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TlsVariable {
    /// `$tls_protocol`.
    Protocol,
    /// `$tls_cipher`.
    Cipher,
    /// `$tls_server_name`.
    ServerName,
    /// `$tls_session_reused`.
    SessionReused,
    /// `$tls_client_verify`.
    ClientVerify,
    /// `$tls_client_subject`.
    ClientSubject,
    /// `$tls_client_issuer`.
    ClientIssuer,
    /// `$tls_client_serial`.
    ClientSerial,
    /// `$tls_client_fingerprint`.
    ClientFingerprint,
}

/// A variable with a fixed name.
#[derive(Debug)]
pub struct PlainVariable {
    /// The name, without `$`.
    pub name: &'static str,
    /// The variable.
    pub variable: Variable,
    meaning: &'static str,
    example: &'static str,
}

const fn plain(
    name: &'static str,
    variable: Variable,
    meaning: &'static str,
    example: &'static str,
) -> PlainVariable {
    PlainVariable {
        name,
        variable,
        meaning,
        example,
    }
}

/// Variables with fixed names.
pub const PLAIN_VARIABLES: &[PlainVariable] = &[
    plain(
        "uri",
        Variable::Uri,
        "The path: decoded, without `.`, `..` and doubled slashes, without the query; after a `rewrite`, the new one",
        "/blog/new post",
    ),
    plain(
        "host",
        Variable::Host,
        "The host that the client requests: lower case, without port and trailing period",
        "example.com",
    ),
    plain("method", Variable::Method, "The method", "GET"),
    plain(
        "request_uri",
        Variable::RequestUri,
        "The path with the query, encoded; `.`, `..`, doubled slashes and needless escapes (`%61`) are resolved, a `rewrite` changes nothing. `$request_line` has it as sent",
        "/blog/new%20post?page=2",
    ),
    plain(
        "query",
        Variable::Query,
        "The query, encoded as it is in the target, without the `?`; after a `rewrite`, the new one",
        "page=2&sort=name",
    ),
    plain(
        "scheme",
        Variable::Scheme,
        "`http` or `https`, after `forwarded`",
        "https",
    ),
    plain(
        "hostname",
        Variable::Hostname,
        "The name of the machine that the server runs on",
        "web-01",
    ),
    plain(
        "remote_addr",
        Variable::RemoteAddr,
        "The client's address, after `forwarded`; `unix:` on a Unix socket",
        "203.0.113.7",
    ),
    plain(
        "remote_port",
        Variable::RemotePort,
        "The client's port, after `forwarded`; empty if that does not say it, and on a Unix socket",
        "51234",
    ),
    plain(
        "server_addr",
        Variable::ServerAddr,
        "The address that the request was sent to; `unix:` on a Unix socket",
        "192.0.2.1",
    ),
    plain(
        "server_port",
        Variable::ServerPort,
        "The port that the request was sent to; empty on a Unix socket",
        "443",
    ),
    plain(
        "peer_addr",
        Variable::PeerAddr,
        "The address at the other end of the connection, whatever `forwarded` and the PROXY protocol say about the client; `unix:` on a Unix socket",
        "10.0.0.2",
    ),
    plain(
        "peer_port",
        Variable::PeerPort,
        "The port at the other end of the connection",
        "40312",
    ),
    plain(
        "proxy_protocol_addr",
        Variable::ProxyProtocolAddr,
        "The client's address in the header of the PROXY protocol",
        "203.0.113.7",
    ),
    plain(
        "proxy_protocol_port",
        Variable::ProxyProtocolPort,
        "The client's port in that header",
        "51234",
    ),
    plain(
        "proxy_protocol_server_addr",
        Variable::ProxyProtocolServerAddr,
        "The server's address in that header",
        "192.0.2.1",
    ),
    plain(
        "proxy_protocol_server_port",
        Variable::ProxyProtocolServerPort,
        "The server's port in that header",
        "443",
    ),
    plain(
        "connection",
        Variable::Connection,
        "The number of the connection, unique while the server runs",
        "1207",
    ),
    plain(
        "connection_requests",
        Variable::ConnectionRequests,
        "The number of the request on its connection",
        "3",
    ),
    plain(
        "remote_user",
        Variable::RemoteUser,
        "The user that the request is from, once `authenticate` knows it: the name of `basic`, the claim `user_claim` of `jwt`, the field `user_field` of `forward`. Empty in what is evaluated earlier: conditions, `pass` and `request_headers`",
        "alice",
    ),
    plain(
        "request_id",
        Variable::RequestId,
        "32 random hexadecimal digits, the same all through a request; the id of its trace too. Or the id sent by a trusted proxy (`settings.http.request_id`)",
        "8d7ef2b1c0a94c5d8d7ef2b1c0a94c5d",
    ),
    plain(
        "request_line",
        Variable::RequestLine,
        "The first line of the request, as it came",
        "GET /blog/new%20post?page=2 HTTP/1.1",
    ),
    plain(
        "protocol",
        Variable::Protocol,
        "The protocol of the request",
        "HTTP/3.0",
    ),
    plain(
        "request_time",
        Variable::RequestTime,
        "Seconds since the first byte of the request",
        "0.104",
    ),
    plain(
        "status",
        Variable::Status,
        "The status of the response",
        "200",
    ),
    plain(
        "error_status",
        Variable::ErrorStatus,
        "In an action of `error_pages`, the status of the error that it replaces; else empty",
        "404",
    ),
    plain(
        "body_bytes_sent",
        Variable::BodyBytesSent,
        "Bytes of the body of the response that were sent",
        "6022",
    ),
    plain(
        "bytes_sent",
        Variable::BytesSent,
        "Bytes of the response that were sent: the body, and the head in the form of HTTP/1",
        "6270",
    ),
    plain(
        "bytes_received",
        Variable::BytesReceived,
        "Bytes that the client has sent: of the body of a request so far, or of a whole connection of a stream",
        "1830",
    ),
    plain(
        "request_length",
        Variable::RequestLength,
        "Bytes of the request that were received so far: the head in the form of HTTP/1, and the body",
        "612",
    ),
    plain(
        "request_body",
        Variable::RequestBody,
        "Only in `access_log`: the body of the request as far as it was received, at most its first 16 KiB. It may contain passwords; \
         elsewhere, and in the names that a script makes up, it is empty",
        "name=value",
    ),
    plain(
        "cache_status",
        Variable::CacheStatus,
        "The result of `cache`, in nginx's words: `HIT`, `MISS`, `EXPIRED` (it was stale, and fetched again), `REVALIDATED`, `STALE` (it is stale and sent all the same), `UPDATING` (and another request fetches it), `BYPASS`; empty without a cache",
        "HIT",
    ),
    plain(
        "upstream_addr",
        Variable::Upstream(UpstreamVariable::Addr),
        "The address of the server of an upstream or `proxy` that the request was sent to. Those of several attempts are separated by `, `, and those of an error page or an internal redirect by ` : `; the variables below have their values in the same order",
        "10.0.0.5:8080, 10.0.0.6:8080",
    ),
    plain(
        "upstream_status",
        Variable::Upstream(UpstreamVariable::Status),
        "The status of its response; 502 or 504 if it failed",
        "502, 200",
    ),
    plain(
        "upstream_connect_time",
        Variable::Upstream(UpstreamVariable::ConnectTime),
        "Seconds until there was a connection to it; `-` if there was none",
        "-, 0.002",
    ),
    plain(
        "upstream_header_time",
        Variable::Upstream(UpstreamVariable::HeaderTime),
        "Seconds until the head of its response arrived; `-` if it did not",
        "-, 0.095",
    ),
    plain(
        "upstream_response_time",
        Variable::Upstream(UpstreamVariable::ResponseTime),
        "Seconds until the end of its response",
        "0.001, 0.096",
    ),
    plain(
        "upstream_response_length",
        Variable::Upstream(UpstreamVariable::ResponseLength),
        "Bytes of the body of its response",
        "0, 6022",
    ),
    plain(
        "time_local",
        Variable::TimeLocal,
        "The local time",
        "31/Dec/2026:19:40:00 +0300",
    ),
    plain(
        "time_iso8601",
        Variable::TimeIso8601,
        "The local time as ISO 8601 (RFC 3339) has it, with milliseconds",
        "2026-12-31T19:40:00.123+03:00",
    ),
    plain(
        "msec",
        Variable::Msec,
        "Seconds since 1970, with milliseconds",
        "1798735200.123",
    ),
    plain(
        "tls_protocol",
        Variable::Tls(TlsVariable::Protocol),
        "The version of TLS",
        "TLSv1.3",
    ),
    plain(
        "tls_cipher",
        Variable::Tls(TlsVariable::Cipher),
        "The cipher suite, by IANA's name",
        "TLS_AES_256_GCM_SHA384",
    ),
    plain(
        "tls_server_name",
        Variable::Tls(TlsVariable::ServerName),
        "The server name that the client sent",
        "example.com",
    ),
    plain(
        "tls_session_reused",
        Variable::Tls(TlsVariable::SessionReused),
        "`r` if the TLS session was resumed, `.` if it is a new one; empty over HTTP/3",
        "r",
    ),
    plain(
        "tls_client_verify",
        Variable::Tls(TlsVariable::ClientVerify),
        "`SUCCESS`, `NONE` without a certificate, or `FAILED:` and the reason (`client_failure`); empty if clients' certificates are not verified. Trust the names in the other variables only with `SUCCESS`",
        "SUCCESS",
    ),
    plain(
        "tls_client_subject",
        Variable::Tls(TlsVariable::ClientSubject),
        "The subject of the client's certificate, as in RFC 4514",
        "CN=ada,O=Example",
    ),
    plain(
        "tls_client_issuer",
        Variable::Tls(TlsVariable::ClientIssuer),
        "Its issuer, as in RFC 4514",
        "CN=Example CA",
    ),
    plain(
        "tls_client_serial",
        Variable::Tls(TlsVariable::ClientSerial),
        "Its serial number, hexadecimal, upper case",
        "0A1B2C",
    ),
    plain(
        "tls_client_fingerprint",
        Variable::Tls(TlsVariable::ClientFingerprint),
        "SHA-256 of the certificate, hexadecimal",
        "9f86d081884c7d65…",
    ),
];

/// Variables whose name ends with a user-defined name.
struct Family {
    prefix: &'static str,
    make: fn(&str) -> Variable,
    meaning: &'static str,
    example: &'static str,
}

const FAMILIES: &[Family] = &[
    Family {
        prefix: "arg_",
        make: |name| Variable::Argument(name.into()),
        meaning: "The argument of that name in the query, decoded; of several the last. Case counts",
        example: "`$arg_page`",
    },
    Family {
        prefix: "raw_arg_",
        make: |name| Variable::RawArgument(name.to_ascii_lowercase().into()),
        meaning: "The same as nginx's `$arg_NAME`: not decoded; of several the first. Case does not count",
        example: "`$raw_arg_page`",
    },
    Family {
        prefix: "cookie_",
        make: |name| Variable::Cookie(name.into()),
        meaning: "The cookie of that name; of several the last. Case counts",
        example: "`$cookie_session`",
    },
    Family {
        prefix: "header_",
        make: |name| Variable::Header(field(name)),
        meaning: "The header field of the request, several joined by `, `; underscores stand for hyphens",
        example: "`$header_user_agent`",
    },
    Family {
        prefix: "response_header_",
        make: |name| Variable::ResponseHeader(field(name)),
        meaning: "The header field of the response, in the same way",
        example: "`$response_header_content_type`",
    },
];

fn field(name: &str) -> Box<str> {
    name.to_ascii_lowercase().replace('_', "-").into()
}

/// Returns the variable of that name, `None` for `$dollar`; or the nearest existing name.
pub(crate) fn named(name: &str) -> Result<Option<Variable>, Option<String>> {
    if name == "dollar" {
        return Ok(None);
    }
    if let Some(plain) = PLAIN_VARIABLES.iter().find(|plain| plain.name == name) {
        return Ok(Some(plain.variable.clone()));
    }
    for family in FAMILIES {
        if let Some(own) = name.strip_prefix(family.prefix)
            && !own.is_empty()
        {
            return Ok(Some((family.make)(own)));
        }
    }
    let plain = PLAIN_VARIABLES.iter().map(|plain| plain.name);
    let families = FAMILIES.iter().map(|family| family.prefix);
    let known = plain.chain(["dollar"]).chain(families);
    Err(suggest::nearest(name, known).map(str::to_owned))
}

/// True for variables of the response, which are empty before there is one.
fn is_of_response(variable: &Variable) -> bool {
    match variable {
        Variable::RequestTime
        | Variable::Status
        | Variable::BodyBytesSent
        | Variable::BytesSent
        | Variable::BytesReceived
        | Variable::RequestLength
        | Variable::RequestBody
        | Variable::CacheStatus
        | Variable::Upstream(_)
        | Variable::TimeLocal
        | Variable::TimeIso8601
        | Variable::Msec
        | Variable::ResponseHeader(_) => true,
        Variable::Uri
        | Variable::ErrorStatus
        | Variable::Host
        | Variable::Method
        | Variable::RequestUri
        | Variable::Query
        | Variable::Scheme
        | Variable::Hostname
        | Variable::RemoteAddr
        | Variable::RemotePort
        | Variable::ServerAddr
        | Variable::ServerPort
        | Variable::PeerAddr
        | Variable::PeerPort
        | Variable::ProxyProtocolAddr
        | Variable::ProxyProtocolPort
        | Variable::ProxyProtocolServerAddr
        | Variable::ProxyProtocolServerPort
        | Variable::Connection
        | Variable::ConnectionRequests
        | Variable::RemoteUser
        | Variable::RequestId
        | Variable::RequestLine
        | Variable::Protocol
        | Variable::Tls(_)
        | Variable::Argument(_)
        | Variable::RawArgument(_)
        | Variable::Cookie(_)
        | Variable::Header(_) => false,
    }
}

const HEAD: &str = "# Variables

Made from the table that the server itself reads names with; do not edit.

A variable is `$name` or `${name}`, and stands in the strings that [the reference](options.md) calls templates: `share`, `pass`, `location`, `rewrite`, the values of
`response_headers` and `request_headers`, an upstream's `key`, `if`, the access log's `format`. `$dollar` is a dollar sign. The name of a variable ends at the first character that
cannot belong to it; braces end it elsewhere: `${method}_route`. A name that does not exist is refused when the configuration is sent, and the error names the nearest one.
A variable without a value is empty, and `-` in the access log; a header field with nothing but such variables is not set.

[JavaScript](../http/scripting.md) sees all of them as `vars.NAME`.
";

/// Returns the page about variables, in Markdown.
pub fn variables_markdown() -> String {
    let mut page = String::from(HEAD);
    let titles = [
        ("Of the request", false),
        (
            "Of the answer\n\nIn the access log and its `if`. `response_headers` knows the status, the fields of the answer and the seconds so far, not its length and the time it is sent; elsewhere they are empty",
            true,
        ),
    ];
    for (title, of_response) in titles {
        let _ = write!(
            page,
            "\n## {title}\n\n| Variable | Value | Example |\n|---|---|---|\n"
        );
        let listed = PLAIN_VARIABLES.iter();
        for plain in listed.filter(|plain| is_of_response(&plain.variable) == of_response) {
            let _ = writeln!(
                page,
                "| `${}` | {} | `{}` |",
                plain.name, plain.meaning, plain.example
            );
        }
        let listed = FAMILIES.iter();
        for family in listed.filter(|family| is_of_response(&(family.make)("x")) == of_response) {
            let _ = writeln!(
                page,
                "| `${}NAME` | {} | {} |",
                family.prefix, family.meaning, family.example
            );
        }
    }
    page.push_str("\n`$map_NAME` is the value of the map of that name ([guide](../http/rewriting.md#maps)). In an action, `$match_1` and `$match_NAME` are groups of the regular expression in `match.uri` of its step, and `$host_match_1` and `$host_match_NAME` those of `match.host` ([guide](../http/rewriting.md#groups-of-patterns)).\n");
    page.push_str("\nWithout TLS, those that begin with `$tls_` are empty.\n");
    page.push_str("\n[Logs](../operate/logs.md) has an access log of JSON.\n");
    page
}
