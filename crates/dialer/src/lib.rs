//! Connections that this server opens: the way to a peer over TCP or a Unix socket, TLS on it, and when to try again.
//!
//! Called by everything that speaks to another server: upstreams, automatic certificates, etcd, the API server of Kubernetes, collectors of
//! traces, stores of limits, and components of WebAssembly. None of them opens a socket, loads root certificates, or puts an error into words
//! by itself. Protocols are the callers'. Names are resolved by the system; a caller that resolves by `settings.resolver` passes addresses.
//!
//! Must never happen: that a server is trusted without a certificate that root certificates lead to (but for upstreams with `verify` off);
//! or that a connection leads back to this process because its port has no listener (a simultaneous open of TCP).
//!
//! | Module | does |
//! |---|---|
//! | [`dial`] | resolves, connects, and shakes hands |
//! | [`connect()`] | connects one socket |
//! | [`DialedStream`], [`DialedTls`], [`Socket`] | the bytes of a connection |
//! | [`client_config`], [`system_roots`] | whom TLS trusts, and the certificate that is shown |
//! | [`http_client`] | a pooling HTTP client on top of this TLS |
//! | [`Backoff`] | pauses between attempts |
//! | [`error_chain`] | an error with its sources in one line |

#![forbid(unsafe_code)]

mod backoff;
mod connect;
mod dial;
mod error;
mod explain;
mod http;
mod stream;
mod tls;

use std::pin::Pin;

pub use backoff::{Backoff, random_below, random_time_below};
pub use connect::{Address, connect};
pub use dial::{DialTarget, dial};
pub use error::{DialError, error_chain};
pub use http::{HttpClient, HttpUse, http_client};
pub use stream::{DialedStream, DialedTls, Socket};
pub use tls::{authorities, client_config, provider, system_authorities, system_roots};

/// The future that a method of a trait object returns.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
