//! The question whether a name may have a certificate, to whoever the configuration names.
//!
//! Must never happen: that a redirect is followed, for it would ask somebody else; that an answer is waited for without end, or kept.

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

/// Whoever is asked answers within this time, or it is a no.
const LONGEST_ANSWER: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Permission {
    /// It may.
    Yes,
    /// It may not: the answer had this status.
    No(StatusCode),
    /// Nobody has said so: why.
    Unknown(String),
}

/// Asks. It trusts the authorities of the system.
pub(crate) struct Asker(HttpClient<Empty<Bytes>>);

impl Asker {
    pub(crate) fn new() -> Result<Asker, String> {
        // Without root certificates no server is trusted by HTTPS; the URL may be one of plain HTTP.
        let tls = client_config(system_authorities().unwrap_or(RootCertStore::empty()), None)?;
        // A question is rare, and the server that is asked may have been started anew meanwhile.
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
