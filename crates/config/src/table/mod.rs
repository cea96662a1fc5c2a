//! The tables of the server's own options.

mod gateways;
mod kinds;
mod listeners;
mod routes;
mod settings;
mod tls;
mod upstreams;

pub use gateways::{FASTCGI, SCGI, UWSGI};
pub use listeners::{CLIENT_IP, FORWARDED, HTTP2, LISTENER, PROXY_PROTOCOL, ROOT};
pub use routes::{ACTION, CONDITIONS, STEP};
pub use settings::{
    ACCESS_LOG, COMPRESSION, COMPRESSOR, HTTP, RESOLVER, SETTINGS, TELEMETRY, WEBSOCKET,
};
pub use tls::{TLS, TLS_SESSION};
pub use upstreams::{HEALTH_CHECK, PROXY_OPTIONS, SERVER, UPSTREAM, UPSTREAM_TLS};

pub use tutti_options::application::COMMON;
pub use tutti_options::external::EXTERNAL;
pub use tutti_options::isolation::{AUTOMOUNT, CGROUP, ID_MAP, ISOLATION, NAMESPACES};
pub use tutti_options::php::{PHP, PHP_INI as PHP_OPTIONS, PHP_TARGET};
pub use tutti_options::processes::{LIMITS, PROCESSES, QUEUE};
pub use tutti_options::python::PYTHON_TARGET;
pub use tutti_options::table::{
    CASELESS, DECODED, Kind, Names, Object, Opt, Origin, PLAIN, Support, Text, opt,
};
pub use tutti_options::types::{ApplicationType, TYPES};
