//! A request as the pages see it, and the reply.

use tutti_http::Method;

/// The security of a connection: the settings require one, and a connection keeps the one that it began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    /// HTTP without TLS.
    Plain,
    /// TLS, and the rule by which the client's certificate was verified.
    Tls { client_rule: Option<[u8; 32]> },
}

/// A complete request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// As sent, without the query.
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) host: Vec<u8>,
    pub(crate) origin: Option<Vec<u8>>,
    pub(crate) fetch_site: Option<Vec<u8>>,
    pub(crate) authorization: Option<Vec<u8>>,
    pub(crate) cookies: Vec<u8>,
    /// The client accepts HTML: a browser, which gets a form instead of a 401.
    pub(crate) is_browser: bool,
    pub(crate) body: Vec<u8>,
    /// The client's address, for the log.
    pub(crate) peer: String,
    /// The security of its connection.
    pub(crate) security: Security,
}

impl Request {
    /// Returns the value of a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<String> {
        parameter(self.query.as_bytes(), name)
    }
}

/// Returns the first value of this name in a form or a query.
pub(crate) fn parameter(form: &[u8], name: &str) -> Option<String> {
    form_urlencoded::parse(form)
        .find(|(found, _)| found == name)
        .map(|(_, value)| value.into_owned())
}

/// The reply to the client.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) media_type: &'static str,
    pub(crate) body: Vec<u8>,
    pub(crate) cookie: Option<String>,
    pub(crate) location: Option<String>,
    pub(crate) allow: Option<&'static str>,
    pub(crate) authenticate: Option<&'static str>,
}

impl Reply {
    pub(crate) fn new(status: u16, media_type: &'static str, body: impl Into<Vec<u8>>) -> Reply {
        Reply {
            status,
            media_type,
            body: body.into(),
            cookie: None,
            location: None,
            allow: None,
            authenticate: None,
        }
    }

    pub(crate) fn html(status: u16, page: maud::Markup) -> Reply {
        Reply::new(status, "text/html; charset=utf-8", page.into_string())
    }

    pub(crate) fn text(status: u16, text: impl Into<String>) -> Reply {
        Reply::new(status, "text/plain; charset=utf-8", text.into())
    }

    /// Redirects to another page, which is fetched with `GET`.
    pub(crate) fn redirect(location: impl Into<String>) -> Reply {
        Reply {
            location: Some(location.into()),
            ..Reply::text(303, "")
        }
    }
}
