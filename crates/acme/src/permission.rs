//! Asks the URL in the configuration whether a name may have a certificate.
//!
//! Must never happen: that a redirect is followed, which would ask another server; that a response is awaited forever,
//! or cached.

use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use http::header::USER_AGENT;
use http::{Request, StatusCode};
use http_body_util::Empty;
use rustls::RootCertStore;
use tutti_dialer::{
    HttpClient, HttpUse, client_config, error_chain, http_client, system_authorities,
};

use crate::http::NAME;

/// The server must respond within this time; otherwise the name is not allowed.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// The name may have one.
    Yes,
    /// The name may not: the response had this status.
    No(StatusCode),
    /// There was no response, for this reason.
    Unknown(String),
}

/// Sends the requests. It trusts the system's root certificates.
pub(crate) struct Asker(HttpClient<Empty<Bytes>>);

impl Asker {
    pub(crate) fn new() -> Result<Asker, String> {
        // Without root certificates no HTTPS server is trusted; the URL may use plain HTTP.
        let tls = client_config(system_authorities().unwrap_or(RootCertStore::empty()), None)?;
        // Questions are rare, and the server may have been restarted in between.
        Ok(Asker(http_client(tls, HttpUse::Http1, 0)))
    }

    pub(crate) async fn ask(&self, url: &str, name: &str, client: Option<IpAddr>) -> Permission {
        let request = Request::get(question(url, name, client)).header(USER_AGENT, NAME);
        let request = match request.body(Empty::new()) {
            Ok(request) => request,
            Err(error) => return Permission::Unknown(error.to_string()),
        };
        match tokio::time::timeout(LONGEST_ANSWER, self.0.request(request)).await {
            Ok(Ok(response)) if response.status() == StatusCode::OK => Permission::Yes,
            Ok(Ok(response)) => Permission::No(response.status()),
            Ok(Err(error)) => Permission::Unknown(error_chain(&error)),
            Err(_) => Permission::Unknown(format!(
                "no answer within {} seconds",
                LONGEST_ANSWER.as_secs()
            )),
        }
    }
}

/// Returns the URL with name and client, which need no encoding.
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
