//! The server's own options; those of applications are in `tutti-options`.

mod cache;
mod delivery;
mod gateways;
mod guards;
mod identity;
mod jobs;
mod kinds;
mod limit_stores;
mod listeners;
mod logs;
mod maps;
mod response_rewrite;
mod root;
mod routes;
mod scope;
mod settings;
mod streams;
mod upstreams;

pub use cache::{
    CACHE, CACHE_DISK, CACHE_STORE, CacheDiskOptions, CacheOptions, CacheStoreOptions, SetCookie,
};
pub use delivery::{EarlyHints, MAINTENANCE, MIRROR, MaintenanceOptions, MirrorOptions};
pub use gateways::{FASTCGI, FastCgi, SCGI, Scgi, UWSGI, Uwsgi};
pub use guards::{
    CORS, CorsOptions, LIMIT, LimitFallback, LimitOptions, LimitScope, RATE_OBJECT, Rate,
};
pub use identity::{
    AUTHENTICATE, AuthenticateOptions, BASIC, BasicOptions, FORWARD, ForwardMethod, ForwardOptions,
    JWKS, JWT, JwksOptions, JwtAlgorithm, JwtOptions, LinkMethod, SIGNED_LINK, SignedLinkOptions,
};
pub use jobs::{Missed, SCHEDULE, SPOOLER, ScheduleOptions, SpoolerOptions};
pub use limit_stores::{
    LIMIT_STORE, LimitStoreOptions, VALKEY, VALKEY_TLS, ValkeyOptions, ValkeyTlsOptions,
};
pub use listeners::{
    Backlog, CLIENT_IP, ClientIp, FORWARDED, ForwardedOptions, HTTP2, HTTP3, Http2, Http3,
    LISTENER, ListenerOptions, PROXY_PROTOCOL, ProxyProtocol, UDP, UdpOptions,
};
pub(crate) use logs::DEFAULT_LOG_FORMAT;
pub use logs::{
    ACCESS_LOG, AccessLogOptions, LOG_NUMBER, LogNumberOptions, REQUEST_ID, RequestIdOptions,
    SLOW_LOG, SlowLogFormat, SlowLogOptions,
};
pub use maps::{MAP, MAP_SHARE, MapOptions, MapShareOptions};
pub use response_rewrite::{
    COOKIE_ATTRIBUTES, CookieAttributes, RESPONSE_REWRITE, ResponseRewriteOptions, SameSite,
};
pub use root::{ROOT, RootOptions};
pub use routes::{
    ACTION, ADDED, ADDED_FIELDS, ActionOptions, AddedFields, AddedHeader, CONDITIONS, DELIVERY,
    DeliveryOptions, ERRORS, ErrorOptions, ListingFormat, MatchOptions, SHARE_OPTIONS, STEP,
    ShareOptions, StepOptions,
};
pub use scope::{REPLACEMENT, ReplacementOptions, ScopeOptions};
pub use settings::{
    COMPRESSION, COMPRESSOR, CollectorProtocol, CompressionOptions, CompressorOptions, DASHBOARD,
    DashboardOptions, EncodedSlashes, Encoding, HTTP, HTTP_ACTION, HTTP_LISTENER,
    HttpConnectionOptions, HttpListenerOptions, HttpOptions, HttpRequestOptions, KUBERNETES,
    KubernetesOptions, RESOLVER, ResolverOptions, SETTINGS, STATIC, SettingsOptions, Static,
    TELEMETRY, TelemetryOptions, WEBSOCKET, WebSocket,
};
pub use streams::{
    STREAM_ACTION, STREAM_MATCH, STREAM_STEP, StreamActionOptions, StreamMatchOptions,
    StreamStepOptions,
};
pub use tutti_options::acme::{
    ACME, AcmeOptions, ChallengeWord, EAB, EabOptions, NAMESERVER, NameserverOptions, ON_DEMAND,
    OnDemandOptions, TsigAlgorithm,
};
pub use tutti_options::application::COMMON;
pub use tutti_options::source::{
    ETCD, ETCD_TLS, EtcdOptions, EtcdTlsOptions, SOURCE, SourceOptions,
};
pub use tutti_options::table::{
    CASELESS, DECODED, Names, Object, Opt, Origin, PLAIN, QUERY, Referent, Text, ValueKind,
};
pub use tutti_options::tls::{
    CERTIFICATE_SOURCE, CertificateSourceOptions, ClientFailure, ClientVerify, TLS, TLS_SESSION,
    TlsOptions, TlsSessionOptions, UPSTREAM_TLS, UpstreamTlsOptions,
};
pub use tutti_options::types::{ApplicationType, TYPES};
pub use upstreams::{
    BalanceWord, FLEET_NODES, FleetNodesOptions, ForwardedHeaders, HEALTH_CHECK,
    HealthCheckOptions, HealthQuestion, HttpVersion, KUBERNETES_SERVICE, KubernetesServiceOptions,
    PROXY_OPTIONS, ProxyOptions, ProxyVersion, RetryFailure, SERVER, SERVER_REQUESTS, STICKY,
    ServerOptions, StickyOptions, UPSTREAM, UpstreamGroup, UpstreamOptions,
};
