//! Outgoing connections of this server: reaching a peer over TCP or a Unix socket, TLS, and when to retry.
//!
//! Used by everything that connects to another server: upstreams, automatic certificates, etcd, the Kubernetes API
//! server, trace collectors, limit stores, and WebAssembly components. None of them opens sockets, loads root
//! certificates, or formats errors itself. Protocols belong to the callers. Names are resolved by the system; a caller
//! that uses `settings.resolver` passes addresses.
//!
//! Must never happen: that a server is trusted without a certificate that chains to a root certificate (except for
//! upstreams with `verify` off); or that a connection leads back to this process because its port has no listener (a
//! simultaneous open of TCP).
//!
//! | Module | does |
//! |---|---|
//! | [`dial`] | resolves, connects, and performs the handshake |
//! | [`connect()`] | connects one socket |
//! | [`DialedStream`], [`DialedTls`], [`Socket`] | the bytes of a connection |
//! | [`client_config`], [`system_roots`] | trusted root certificates, and the client certificate |
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
