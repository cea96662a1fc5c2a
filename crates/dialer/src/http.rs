//! An HTTP client with a connection pool that uses the TLS of this crate.

use http_body::Body;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use rustls::ClientConfig;

/// An HTTP client with a connection pool.
pub type HttpClient<B> = Client<HttpsConnector<HttpConnector>, B>;

/// The URLs and protocols of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpUse {
    /// HTTP/1.1, only over TLS.
    HttpsOnly,
    /// HTTP/1.1, with TLS or without.
    Http1,
    /// HTTP/2, with TLS or, by prior knowledge, without.
    Http2,
}

/// Creates a client that keeps at most this many idle connections to a host.
pub fn http_client<B>(tls: ClientConfig, kind: HttpUse, most_idle: usize) -> HttpClient<B>
where
    B: Body + Send,
    B::Data: Send,
{
    let mut http = HttpConnector::new();
    http.enforce_http(false);
    http.set_nodelay(true);
    let builder = HttpsConnectorBuilder::new().with_tls_config(tls);
    let connector = match kind {
        HttpUse::HttpsOnly => builder.https_only().enable_http1().wrap_connector(http),
        HttpUse::Http1 => builder.https_or_http().enable_http1().wrap_connector(http),
        HttpUse::Http2 => builder.https_or_http().enable_http2().wrap_connector(http),
    };
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_max_idle_per_host(most_idle)
        .http2_only(kind == HttpUse::Http2)
        .build(connector)
}
