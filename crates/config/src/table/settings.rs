//! Options of `settings`.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::acme::AcmeOptions;
use tutti_options::source::SourceOptions;
use tutti_options::table::{CASELESS, Names, Referent, Text, ValueKind};
use tutti_options::tls::TlsOptions;
use tutti_options::{OptionalLimit, Switch, Typed as _, Unread, options, words};

use super::cache::CacheStoreOptions;
use super::delivery::{EarlyHints, MaintenanceOptions};
use super::limit_stores::LimitStoreOptions;
use super::logs::RequestIdOptions;

/// Longest time an option can express: 68 years.
const MAX_SECONDS: i64 = 0x7fff_ffff;
/// Maximum number of router threads in a transport segment (`spec/wire.md`).
const MAX_THREADS: i64 = 256;
/// Largest buffer.
const MAX_BUFFER: i64 = 1 << 30;
/// The name of a script module, or several.
const SCRIPT_MODULES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::ScriptModule)),
    ValueKind::Array(&ValueKind::String(Text::Name(Referent::ScriptModule))),
]);

/// Up to a terabyte.
const RESPONSE_BYTES: ValueKind = ValueKind::Size(0, 1 << 40);

options! {
    /// Settings of the whole server
    pub struct SettingsOptions: SETTINGS = "settings" {
        /// Handling of HTTP requests
        http: Unread [kind(HttpOptions::KIND)],
        /// Resolution of the host names of servers in upstreams and `proxy`
        resolver: Unread [kind(ResolverOptions::KIND), beyond()],
        /// The Kubernetes API server, for servers with `kubernetes`. In a pod, no setting is needed
        kubernetes: Unread [kind(KubernetesOptions::KIND), beyond()],
        /// Threads that handle connections; by default one per CPU
        listen_threads: Option<u32> [kind(ValueKind::Integer(1, MAX_THREADS)), unit("threads")],
        /// Script modules of `/js_modules` that templates may use, by name
        js_module: Unread [kind(SCRIPT_MODULES)],
        /// OpenTelemetry traces: one span for each request
        telemetry: Unread [kind(TelemetryOptions::KIND)],
        /// Maintenance mode: requests get 503 while this is present
        maintenance: Unread [kind(MaintenanceOptions::KIND), beyond()],
        /// A read-only web page with the state of the server and its configuration
        dashboard: Unread [kind(DashboardOptions::KIND), beyond()],
        /// Accounts with certificate authorities for automatic certificates (ACME), by name: `{"letsencrypt": {}}`
        acme: Unread [kind(ValueKind::Map(Names::NotEmpty, &AcmeOptions::KIND)), beyond()],
        /// The store from which this server takes its configuration, as a node of a fleet; `--source` takes precedence
        source: Unread [kind(SourceOptions::KIND), beyond()],
        /// Stores of responses for `cache` of actions, by name
        cache: Unread [kind(ValueKind::Map(Names::NotEmpty, &CacheStoreOptions::KIND)), beyond()],
        /// Stores that count limits for several servers, for `store` of limits, by name
        limit_stores: Unread [kind(ValueKind::Map(Names::NotEmpty, &LimitStoreOptions::KIND)), beyond()],
    }
}

options! {
    /// The dashboard. It requires a token, a client certificate verified by `tls`, or both
    pub struct DashboardOptions: DASHBOARD = "dashboard" {
        /// Address and port: `127.0.0.1:9080`; an address that other machines can reach requires `tls`
        listen: Unread [kind(ValueKind::String(Text::NotEmpty)), required(), beyond()],
        /// Absolute path of a file with the token, of at least 32 characters; it must belong to root or the server's
        /// user, and no other user may be able to read it. A changed token takes effect after a few seconds and ends
        /// every session
        token_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// TLS, as for a listener. With `client_ca` and no `token_file`, a client certificate is all that is needed
        tls: Unread [kind(TlsOptions::KIND), beyond()],
    }
}

options! {
    /// Resolution of server names. `/etc/hosts` takes precedence
    #[derive(Eq)]
    pub struct ResolverOptions: RESOLVER = "resolver" {
        /// Name servers, `ADDRESS` or `ADDRESS:PORT`; by default those of `/etc/resolv.conf`
        servers: Vec<String> [kind(ValueKind::OneOf(&[ValueKind::String(Text::NameServer), ValueKind::Array(&ValueKind::String(Text::NameServer))]))],
        /// Time for a name server to respond; each is tried twice
        timeout: Duration [kind(ValueKind::Number(0.001, 3600.0)), default("2"), unit("seconds")],
        /// Minimum time to cache an answer, regardless of its TTL
        min_ttl: Duration [kind(ValueKind::Number(0.1, 31_536_000.0)), default("1"), unit("seconds")],
        /// Maximum time to cache an answer, regardless of its TTL, and the time for those of `/etc/hosts`
        max_ttl: Duration [kind(ValueKind::Number(0.1, 31_536_000.0)), default("300"), unit("seconds")],
    }
}

options! {
    /// Access to the Kubernetes API server. The files are read as root, each time they are needed
    pub struct KubernetesOptions: KUBERNETES = "kubernetes" {
        /// `https://HOST` or `https://HOST:PORT`; by default that of the pod: `KUBERNETES_SERVICE_HOST` and
        /// `KUBERNETES_SERVICE_PORT` of the environment
        server: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Absolute path of a PEM file with the CA certificates to verify it with
        ca: PathBuf [kind(ValueKind::String(Text::Path)), default("\"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt\""), beyond()],
        /// Absolute path of a file with the token of a service account, which may `list` and `watch` EndpointSlices
        token_file: PathBuf [kind(ValueKind::String(Text::Path)), default("\"/var/run/secrets/kubernetes.io/serviceaccount/token\""), beyond()],
    }
}

options! {
    /// Handling of HTTP requests
    pub struct HttpOptions: HTTP = "http" {
        ..connection: HttpConnectionOptions,
        ..request: HttpRequestOptions,
        /// Time to finish existing connections when the server stops gracefully or after an upgrade; 0: no limit. By
        /// default ten seconds at a stop and an hour after an upgrade. At a stop it also bounds applications and mules.
        /// For applications, see `limits.drain_timeout`
        drain_timeout: Option<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), beyond(), unit("seconds")],
        /// Bodies up to this size stay in memory
        body_buffer_size: u64 [kind(ValueKind::Size(0, MAX_BUFFER)), default("16384"), unit("bytes")],
        /// Folder for larger bodies, and for responses that wait for slow clients; by default that of `--tmpdir`
        body_temp_path: Option<PathBuf> [],
        /// Decode escaped letters, digits, `-`, `.`, `_` and `~` (`%61`) in the target for applications and servers;
        /// the meaning is the same
        decode_unreserved: bool [beyond(), default("true"), risky("false", "`/%61dmin/x` is `/admin/x` for conditions, and not for applications and servers that compare paths without decoding them")],
        /// Log each step a request takes through the routes
        log_route: bool [default("false")],
        /// Settings for files that are served
        files: Static [key("static")],
    }
}

options! {
    /// Handling of HTTP requests on a listener. An option that is absent has the value of `settings.http`
    pub struct HttpListenerOptions: HTTP_LISTENER = "listener http", inherits true {
        ..connection: HttpConnectionOptions,
        ..request: HttpRequestOptions,
    }
}

options! {
    /// The options of `http` that apply before a request is routed: of the whole server, and of a listener
    pub struct HttpConnectionOptions: HTTP_CONNECTION = "connection http" {
        /// Time for a client to send the whole head; after that, 408
        header_read_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
        /// Maximum time between two requests on a connection
        idle_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("180"), unit("seconds")],
        /// Size of the first buffer for a head
        header_buffer_size: usize [kind(ValueKind::Size(1, MAX_BUFFER)), default("2048"), unit("bytes")],
        /// Size of each further buffer for a large head
        large_header_buffer_size: usize [kind(ValueKind::Size(1, MAX_BUFFER)), default("8192"), unit("bytes")],
        /// Number of further buffers; larger heads get 431
        large_header_buffers: usize [kind(ValueKind::Integer(1, 1024)), default("4"), unit("buffers")],
        /// Drop header fields whose names contain characters other than letters, digits and hyphens
        discard_unsafe_fields: bool [default("true")],
        /// Treat repeated slashes in a path as one, for conditions and for every receiver of the request
        merge_slashes: bool [beyond(), default("true"), risky("false", "a `uri` that protects `/admin/*` does not match `//admin/x`, which applications and servers may take for `/admin/x`")],
        /// Encoded slashes (`%2F`) to accept in a path: those between two names (`/group%2Fproject`), any, or none;
        /// others get 400. Conditions see them as slashes, and the target keeps them encoded
        encoded_slashes: EncodedSlashes [beyond(), default("\"plain\""), risky("\"any\"", "a `uri` that protects `/admin/*` does not match `/%2Fadmin/x`, which applications and servers may take for `/admin/x`")],
        /// Accept `\` and `%5C` in paths; otherwise they get 400
        backslashes: bool [beyond(), default("false"), risky("true", "a `uri` that protects `/admin/*` does not match `/admin%5Cx`, which applications and servers may take for `/admin/x`")],
        /// Accept bodies of unknown length (`chunked`); otherwise they get 411
        chunked_transform: bool [default("true")],
        /// Send the id that a request has in logs and traces (`$request_id`) to applications and servers and, if
        /// configured, to the client
        request_id: Switch<RequestIdOptions> [beyond(), default("false")],
    }
}

options! {
    /// Handling of the HTTP requests of an action. An option that is absent has the value of the action or listener that
    /// passed the request on, or of `settings.http`
    pub struct HttpRequestOptions: HTTP_ACTION = "action http", inherits true {
        /// Maximum time between two parts of a request body; after that, 408
        body_read_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
        /// Maximum time without progress while a client receives a response
        send_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
        /// Largest request body; larger ones get 413. 0: no body at all
        max_body_size: u64 [kind(ValueKind::Size(0, i64::MAX)), default("8388608"), unit("bytes")],
        /// Maximum bytes of a response from an application or proxied server to store on disk for one slow client, so
        /// that it does not occupy a worker; 0: none. The file has no name, is in the folder of `--tmpdir`, and takes
        /// at most half of the free space there
        response_buffering: u64 [kind(RESPONSE_BYTES), beyond(), default("1073741824"), unit("bytes")],
        /// Include the version in the `Server` field
        server_version: bool [default("true")],
        /// Clients that get 103 (Early Hints): none, those that speak HTTP/2, or those that speak HTTP/1.1 too, some of
        /// which cannot handle it
        early_hints: EarlyHints [beyond(), default("\"http2\"")],
        /// Compression of responses; `false`: none
        compression: Unread [kind(COMPRESSION_OR_NONE)],
        /// Decompress responses with `Content-Encoding: gzip` of applications, servers and caches for clients that do not
        /// accept gzip. Such a response has no `Content-Length` and no ranges. Not if `Cache-Control` has `no-transform`.
        /// A response that is not valid gzip, or grows to more than 1 MiB and 256 times its size, is cut off
        gunzip: bool [beyond(), default("false")],
        /// Largest number of ranges that a request may have; one with more gets the whole file or stored response. 0: no
        /// ranges
        max_ranges: usize [kind(ValueKind::Integer(0, 1024)), beyond(), default("32"), unit("ranges")],
        /// Limits of WebSocket connections
        websocket: WebSocket [],
    }
}

words! {
    /// The encoded slashes that a path may have.
    pub enum EncodedSlashes {
        /// Only those between two names.
        Plain = "plain",
        /// Any.
        Any = "any",
        /// None.
        Refuse = "none",
    }
}

options! {
    /// Settings for files that are served
    pub struct Static: STATIC = "static" {
        /// File name extensions (`.html`) or file names for MIME types, in addition to the built-in ones
        mime_types: Unread [kind(MIME_TYPES)],
    }
}

options! {
    /// Compression of responses
    pub struct CompressionOptions: COMPRESSION = "compression" {
        /// MIME types to compress; by default text, JSON, XML, JavaScript, WebAssembly, SVG, and uncompressed fonts and
        /// bitmaps
        types: Unread [kind(ValueKind::OneOf(&[ValueKind::String(Text::Pattern(CASELESS)), ValueKind::Array(&ValueKind::String(Text::Pattern(CASELESS)))]))],
        /// Methods, the preferred one first
        compressors: Unread [kind(COMPRESSORS)],
    }
}

options! {
    /// A method of compression
    pub struct CompressorOptions: COMPRESSOR = "compressor" {
        /// The method
        encoding: Encoding [required()],
        /// Compression level: gzip and deflate 1 to 9, default 6; zstd -7 to 22, default 3; br 0 to 11, default 4
        level: Option<i32> [kind(ValueKind::Integer(-7, 22))],
        /// Shorter responses are not compressed; those of unknown length are
        min_length: u64 [kind(ValueKind::Size(0, i64::MAX)), default("0"), unit("bytes")],
    }
}

options! {
    /// Limits of WebSocket connections
    pub struct WebSocket: WEBSOCKET = "websocket" {
        /// Longest message of a client, over all its frames; longer ones close the connection with 1009
        max_frame_size: u64 [kind(ValueKind::Size(0, i64::MAX)), default("1048576"), unit("bytes")],
        /// Time without data, including pongs, after which a connection is closed; 0: never
        read_timeout: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), default("60"), unit("seconds")],
        /// Time without data after which a client is pinged; 0: never
        keepalive_interval: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
    }
}

options! {
    /// OpenTelemetry traces
    pub struct TelemetryOptions: TELEMETRY = "telemetry" {
        /// URL of the collector, `http://` or `https://`; for HTTP, `/v1/traces` is added if it has no path
        endpoint: String [required()],
        /// Protocol of the collector: OTLP over HTTP or over gRPC
        protocol: CollectorProtocol [required()],
        /// Spans to collect before they are sent, after two seconds at the latest
        batch_size: usize [kind(ValueKind::Integer(1, 65_536)), default("512"), unit("spans")],
        /// Fraction of the requests to trace, unless their `traceparent` decides
        sampling_ratio: f64 [kind(ValueKind::Number(0.0, 1.0)), default("1")],
    }
}

pub(super) const MIME_TYPES: ValueKind = ValueKind::Map(
    Names::MimeType,
    &ValueKind::OneOf(&[
        ValueKind::String(Text::NotEmpty),
        ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
    ]),
);
const COMPRESSION_OR_NONE: ValueKind =
    ValueKind::OneOf(&[ValueKind::Boolean, CompressionOptions::KIND]);
const COMPRESSORS: ValueKind = ValueKind::OneOf(&[
    CompressorOptions::KIND,
    ValueKind::Array(&CompressorOptions::KIND),
]);
words! {
    /// A content coding.
    pub enum Encoding {
        /// RFC 1952.
        Gzip = "gzip",
        /// RFC 1950, as HTTP means it.
        Deflate = "deflate",
        /// RFC 8878.
        Zstd = "zstd",
        /// RFC 7932.
        Br = "br",
    }
}

words! {
    /// The protocols that a collector of traces may speak.
    pub enum CollectorProtocol {
        /// OTLP over HTTP.
        Http = "http",
        /// The same inside TLS.
        Https = "https",
        /// OTLP over gRPC.
        Grpc = "grpc",
    }
}

impl Encoding {
    /// Lowest, highest and default level.
    pub fn levels(self) -> (i32, i32, i32) {
        match self {
            Self::Gzip | Self::Deflate => (1, 9, 6),
            Self::Zstd => (-7, 22, 3),
            Self::Br => (0, 11, 4),
        }
    }
}
