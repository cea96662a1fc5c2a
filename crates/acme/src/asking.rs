//! The question whether a name may have a certificate, to whoever the configuration names.
//!
//! Must never happen: that a redirect is followed, for it would ask somebody else; that an answer is waited for without end, or kept.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{Request, StatusCode};
use http_body_util::Empty;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};

use crate::http::NAME;

/// Whoever is asked answers within this time, or it is a no.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// It may.
    Yes,
    /// It may not: the answer had this status.
    No(StatusCode),
    /// Nobody has said so: why.
    Unknown(String),
}

/// Asks. It trusts the authorities of the system.
pub(crate) struct Asker(Client<HttpsConnector<HttpConnector>, Empty<Bytes>>);

impl Asker {
    /// # Errors
    /// There is no TLS.
    pub(crate) fn new() -> Result<Asker, rustls::Error> {
        let mut roots = RootCertStore::empty();
        // Without any, nobody is believed by HTTPS.
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        let config = ClientConfig::builder_with_provider(tutti_tls::provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connector = HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .build();
        // A question is rare, and whoever is asked may have been started anew meanwhile.
        let mut client = Client::builder(TokioExecutor::new());
        Ok(Asker(client.pool_max_idle_per_host(0).build(connector)))
    }

    pub(crate) async fn ask(&self, url: &str, name: &str, client: Option<IpAddr>) -> Answer {
        let request = Request::get(question(url, name, client)).header(USER_AGENT, NAME);
        let request = match request.body(Empty::new()) {
            Ok(request) => request,
            Err(error) => return Answer::Unknown(error.to_string()),
        };
        match tokio::time::timeout(LONGEST_ANSWER, self.0.request(request)).await {
            Ok(Ok(response)) if response.status() == StatusCode::OK => Answer::Yes,
            Ok(Ok(response)) => Answer::No(response.status()),
            Ok(Err(error)) => {
                let mut text = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(inner) = source {
                    text = format!("{text}: {inner}");
                    source = inner.source();
                }
                Answer::Unknown(text)
            }
            Err(_) => Answer::Unknown(format!(
                "no answer within {} seconds",
                LONGEST_ANSWER.as_secs()
            )),
        }
    }
}

/// The URL with name and client: they have no letters that mean anything there.
fn question(url: &str, name: &str, client: Option<IpAddr>) -> String {
    let mark = if url.contains('?') { '&' } else { '?' };
    match client {
        Some(client) => format!("{url}{mark}name={name}&client={client}"),
        None => format!("{url}{mark}name={name}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_and_client_are_in_the_query() {
        let client = Some("2001:db8::1".parse().unwrap());
        assert_eq!(
            question("http://127.0.0.1:9/may", "a.example.com", client),
            "http://127.0.0.1:9/may?name=a.example.com&client=2001:db8::1"
        );
        assert_eq!(
            question("https://a/?key=b", "a.example.com", None),
            "https://a/?key=b&name=a.example.com"
        );
    }
}
