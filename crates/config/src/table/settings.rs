//! Options of `settings`.

use std::path::PathBuf;
use std::time::Duration;

use tutti_options::acme::AcmeOptions;
use tutti_options::source::SourceOptions;
use tutti_options::table::{CASELESS, Names, Referent, Text, ValueKind};
use tutti_options::{OptionalLimit, Switch, Typed as _, Unread, options, words};

use super::cache::CacheStoreOptions;
use super::delivery::{EarlyHints, MaintenanceOptions};
use super::limit_stores::LimitStoreOptions;
use super::logs::RequestIdOptions;
use tutti_options::tls::TlsOptions;

/// Longest time an option can tell: 68 years.
const MAX_SECONDS: i64 = 0x7fff_ffff;
/// The most router threads a transport segment knows (`spec/wire.md`).
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
        /// How HTTP requests are handled
        http: Unread [kind(HttpOptions::KIND)],
        /// How names of servers in upstreams and `proxy` are looked up
        resolver: Unread [kind(ResolverOptions::KIND), beyond()],
        /// The API server of Kubernetes, for servers with `kubernetes`. A server in a pod needs none of it
        kubernetes: Unread [kind(KubernetesOptions::KIND), beyond()],
        /// Threads that handle connections; as many as there are CPUs unless given
        listen_threads: Option<u32> [kind(ValueKind::Integer(1, MAX_THREADS)), unit("threads")],
        /// Script modules of `/js_modules` that templates may use, each by its name
        js_module: Unread [kind(SCRIPT_MODULES)],
        /// OpenTelemetry traces: one span for each request
        telemetry: Unread [kind(TelemetryOptions::KIND)],
        /// Maintenance: requests get 503 as long as this is here
        maintenance: Unread [kind(MaintenanceOptions::KIND), beyond()],
        /// A web page that shows what the server does and its configuration, and changes nothing
        dashboard: Unread [kind(DashboardOptions::KIND), beyond()],
        /// Accounts with authorities that certificates come from by themselves (ACME), each by its name: `{"letsencrypt": {}}`
        acme: Unread [kind(ValueKind::Map(Names::NotEmpty, &AcmeOptions::KIND)), beyond()],
        /// The store that this server takes its configuration from, as a node of a fleet; `--source` goes before it
        source: Unread [kind(SourceOptions::KIND), beyond()],
        /// Stores of responses, by name, for `cache` of actions
        cache: Unread [kind(ValueKind::Map(Names::NotEmpty, &CacheStoreOptions::KIND)), beyond()],
        /// Stores that limits are counted in for several servers, by name, for `store` of limits
        limit_stores: Unread [kind(ValueKind::Map(Names::NotEmpty, &LimitStoreOptions::KIND)), beyond()],
    }
}

options! {
    /// The dashboard. It asks for a token, for a client's certificate that `tls` verifies, or for both
    pub struct DashboardOptions: DASHBOARD = "dashboard" {
        /// Address and port: `127.0.0.1:9080`; one that other machines reach needs `tls`
        listen: Unread [kind(ValueKind::String(Text::NotEmpty)), required(), beyond()],
        /// Absolute path of a file with the token, of at least 32 characters; it belongs to root or the server's user, and nobody else can
        /// read it. A new token in it counts after a few seconds, and ends every session
        token_file: Option<PathBuf> [kind(ValueKind::String(Text::Path)), beyond()],
        /// TLS, as of a listener. With `client_ca` and no `token_file`, a client's certificate is what lets in
        tls: Unread [kind(TlsOptions::KIND), beyond()],
    }
}

options! {
    /// How names of servers are looked up. `/etc/hosts` goes first
    #[derive(Eq)]
    pub struct ResolverOptions: RESOLVER = "resolver" {
        /// Name servers, `ADDRESS` or `ADDRESS:PORT`; without, those of `/etc/resolv.conf`
        servers: Vec<String> [kind(ValueKind::OneOf(&[ValueKind::String(Text::NameServer), ValueKind::Array(&ValueKind::String(Text::NameServer))]))],
        /// How long a name server has to answer; each is asked twice
        timeout: Duration [kind(ValueKind::Number(0.001, 3600.0)), default("2"), unit("seconds")],
        /// Shortest time an answer is used, whatever it says
        min_ttl: Duration [kind(ValueKind::Number(0.1, 31_536_000.0)), default("1"), unit("seconds")],
        /// Longest time an answer is used, whatever it says; that of `/etc/hosts` always is
        max_ttl: Duration [kind(ValueKind::Number(0.1, 31_536_000.0)), default("300"), unit("seconds")],
    }
}

options! {
    /// How the API server of Kubernetes is reached. Root reads the files, each time that they are needed
    pub struct KubernetesOptions: KUBERNETES = "kubernetes" {
        /// `https://HOST` or `https://HOST:PORT`; without it, what Kubernetes tells pods: `KUBERNETES_SERVICE_HOST` and
        /// `KUBERNETES_SERVICE_PORT` of the environment
        server: Option<String> [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Absolute path of a PEM file with the certificates that vouch for it
        ca: PathBuf [kind(ValueKind::String(Text::Path)), default("\"/var/run/secrets/kubernetes.io/serviceaccount/ca.crt\""), beyond()],
        /// Absolute path of a file with the token of a service account, which may `list` and `watch` EndpointSlices
        token_file: PathBuf [kind(ValueKind::String(Text::Path)), default("\"/var/run/secrets/kubernetes.io/serviceaccount/token\""), beyond()],
    }
}

options! {
    /// How HTTP requests are handled
    pub struct HttpOptions: HTTP = "http" {
        /// Time for a client to send the whole head; else 408
        header_read_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
        /// Time between two parts of a body; else 408
        body_read_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
        /// Time between two parts of a response that a client takes
        send_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
        /// Time between two requests of a connection
        idle_timeout: Duration [kind(ValueKind::Integer(0, MAX_SECONDS)), default("180"), unit("seconds")],
        /// Time for what connections have begun, once the server stops gracefully or an upgrade has replaced it; 0:
        /// any. Without it ten seconds at a stop, an hour after an upgrade. Applications have `limits.drain_timeout`
        drain_timeout: Option<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), beyond(), unit("seconds")],
        /// Largest body of a request; else 413
        max_body_size: u64 [kind(ValueKind::Size(0, i64::MAX)), default("8388608"), unit("bytes")],
        /// Bodies up to this size stay in memory
        body_buffer_size: u64 [kind(ValueKind::Size(0, MAX_BUFFER)), default("16384"), unit("bytes")],
        /// Folder for larger bodies, and for answers that wait for slow clients; without it that of `--tmpdir`
        body_temp_path: Option<PathBuf> [],
        /// Bytes of answers of applications and proxied servers that wait on disk for one slow client, so that it holds
        /// no worker; 0: none. The file has no name, is in the folder of `--tmpdir`, and takes half of what is free
        /// there at most
        response_buffering: u64 [kind(RESPONSE_BYTES), beyond(), default("1073741824"), unit("bytes")],
        /// First buffer for a head
        header_buffer_size: usize [kind(ValueKind::Size(1, MAX_BUFFER)), default("2048"), unit("bytes")],
        /// Each further buffer for a large head
        large_header_buffer_size: usize [kind(ValueKind::Size(1, MAX_BUFFER)), default("8192"), unit("bytes")],
        /// Number of further buffers; a larger head gets 431
        large_header_buffers: usize [kind(ValueKind::Integer(1, 1024)), default("4"), unit("buffers")],
        /// Leave out header fields whose names have other characters than letters, digits and hyphens
        discard_unsafe_fields: bool [default("true")],
        /// Repeated slashes in a path are one, for conditions and for every receiver of the request
        merge_slashes: bool [beyond(), default("true"), risky("false", "a `uri` that protects `/admin/*` does not match `//admin/x`, which applications and servers may take for `/admin/x`")],
        /// Which encoded slashes (`%2F`) a path may have: those between two names (`/group%2Fproject`), any, or none; else 400.
        /// They are slashes for conditions, and stay encoded in the target
        encoded_slashes: EncodedSlashes [beyond(), default("\"plain\""), risky("\"any\"", "a `uri` that protects `/admin/*` does not match `/%2Fadmin/x`, which applications and servers may take for `/admin/x`")],
        /// Accept `\` and `%5C` in paths; else 400
        backslashes: bool [beyond(), default("false"), risky("true", "a `uri` that protects `/admin/*` does not match `/admin%5Cx`, which applications and servers may take for `/admin/x`")],
        /// Decode escapes of letters, digits, `-`, `.`, `_` and `~` (`%61`) in the target that applications and servers get;
        /// it means the same
        decode_unreserved: bool [beyond(), default("true"), risky("false", "`/%61dmin/x` is `/admin/x` for conditions, and not for applications and servers that compare paths without decoding them")],
        /// Log which steps a request takes
        log_route: bool [default("false")],
        /// Tell the version in the `Server` field
        server_version: bool [default("true")],
        /// Accept bodies of unknown length (`chunked`); else they get 411
        chunked_transform: bool [default("true")],
        /// Tell whoever gets a request, and the client if that is wanted, the id that it has in logs and traces, `$request_id`
        request_id: Switch<RequestIdOptions> [beyond(), default("false")],
        /// Who gets 103 (Early Hints): nobody, clients that speak HTTP/2, or those of HTTP/1.1 too, of which some cannot read it
        early_hints: EarlyHints [beyond(), default("\"http2\"")],
        /// How files are served
        files: Static [key("static")],
        /// Compression of responses
        compression: Unread [kind(CompressionOptions::KIND)],
        /// Limits of WebSocket connections
        websocket: WebSocket [],
    }
}

words! {
    /// Which encoded slashes a path may have.
    pub enum EncodedSlashes {
        /// Those between two names.
        Plain = "plain",
        /// Any.
        Any = "any",
        /// None.
        Refuse = "none",
    }
}

options! {
    /// How files are served
    pub struct Static: STATIC = "static" {
        /// File name extensions (`.html`) or file names of MIME types, added to the built-in ones
        mime_types: Unread [kind(MIME_TYPES)],
    }
}

options! {
    /// Compression of responses
    pub struct CompressionOptions: COMPRESSION = "compression" {
        /// MIME types to compress; without it text, JSON, XML, JavaScript, WebAssembly, SVG and uncompressed fonts and
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
        /// How hard to try: gzip and deflate 1 to 9, usually 6; zstd -7 to 22, usually 3; br 0 to 11, usually 4
        level: Option<i32> [kind(ValueKind::Integer(-7, 22))],
        /// Shorter responses are not compressed; one whose length is not known is
        min_length: u64 [kind(ValueKind::Size(0, i64::MAX)), default("0"), unit("bytes")],
    }
}

options! {
    /// Limits of WebSocket connections
    pub struct WebSocket: WEBSOCKET = "websocket" {
        /// Longest message of a client, over all its frames; else 1009
        max_frame_size: u64 [kind(ValueKind::Size(0, i64::MAX)), default("1048576"), unit("bytes")],
        /// Silence, pongs included, after which a connection is closed; 0: never
        read_timeout: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), default("60"), unit("seconds")],
        /// Silence after which a client is pinged; 0: never
        keepalive_interval: OptionalLimit<Duration> [kind(ValueKind::Integer(0, MAX_SECONDS)), default("30"), unit("seconds")],
    }
}

options! {
    /// OpenTelemetry traces
    pub struct TelemetryOptions: TELEMETRY = "telemetry" {
        /// URL of the collector, `http://` or `https://`; over HTTP, without a path, `/v1/traces` is added
        endpoint: String [required()],
        /// How to speak to it: OTLP over HTTP or over gRPC
        protocol: CollectorProtocol [required()],
        /// Spans that are sent at once, at the latest after two seconds
        batch_size: usize [kind(ValueKind::Integer(1, 65_536)), default("512"), unit("spans")],
        /// Part of the requests that is traced, of those that do not come with a `traceparent` that decides it
        sampling_ratio: f64 [kind(ValueKind::Number(0.0, 1.0)), default("1")],
    }
}

const MIME_TYPES: ValueKind = ValueKind::Map(
    Names::MimeType,
    &ValueKind::OneOf(&[
        ValueKind::String(Text::NotEmpty),
        ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
    ]),
);
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
    /// Lowest, highest and usual level.
    pub fn levels(self) -> (i32, i32, i32) {
        match self {
            Self::Gzip | Self::Deflate => (1, 9, 6),
            Self::Zstd => (-7, 22, 3),
            Self::Br => (0, 11, 4),
        }
    }
}
