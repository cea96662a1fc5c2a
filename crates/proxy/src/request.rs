//! A request, as it is passed to the proxy.

use std::rc::Rc;
use std::sync::Arc;

use tutti_config::model::{HttpVersion, UpstreamProtocol};
use tutti_http::edits::Edit;
use tutti_http::{BodyLength, Method, RequestPath, RequestView, Version};
use tutti_spool::Region;
use tutti_upstream::{ServerChoice, ServerGroup};

use crate::scripts::ScriptTarget;

/// The upstream of a request.
pub struct UpstreamDestination {
    /// Its servers.
    pub upstream: Arc<ServerGroup>,
    /// The value that a hash uses.
    pub key: Vec<u8>,
    /// The cookie that may keep the client at a server.
    pub cookie: Option<Vec<u8>>,
    /// Set if the server speaks CGI.
    pub cgi: Cgi,
    /// The body of the request; `None`: the client's.
    pub body: Option<Vec<u8>>,
    /// The method of the request; `None`: the client's. It is never HEAD, whose response is framed differently.
    pub method: Option<Method>,
}

/// The input of CGI variables beyond HTTP.
#[derive(Default)]
pub struct Cgi {
    /// The script, for an application with scripts.
    pub target: Option<Rc<ScriptTarget>>,
    /// `params`; a variable without a value is omitted.
    pub parameters: Vec<(Box<str>, Option<Vec<u8>>)>,
}

impl UpstreamDestination {
    /// True if the client's body is streamed: where that is configured, and where both sides speak HTTP/2. CGI requires a length.
    pub fn streams(&self, view: &RequestView<'_>) -> bool {
        if self.body.is_some() {
            return false;
        }
        if speaks_http2(&self.upstream) && view.version() >= Version::Http2 {
            return true;
        }
        let is_http = matches!(self.upstream.model().protocol, UpstreamProtocol::Http);
        let has_length = matches!(view.body_length(), BodyLength::Known(_));
        !self.upstream.options().request_buffering && (is_http || has_length)
    }
}

pub(crate) fn speaks_http2(upstream: &ServerGroup) -> bool {
    upstream.options().http_version == HttpVersion::Http2
}

/// A body that is read before the request is sent.
#[derive(Clone, Copy)]
pub enum BufferedBody<'r> {
    /// There is none, or it is streamed.
    None,
    /// In memory.
    Memory(&'r [u8]),
    /// In the spool.
    Spooled(&'r Region),
}

impl BufferedBody<'_> {
    pub(crate) fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::Memory(bytes) => bytes.len() as u64,
            Self::Spooled(region) => region.len(),
        }
    }
}

/// A request as the client sent it, and its configured changes.
#[derive(Clone, Copy)]
pub struct ProxyRequest<'r> {
    /// Its head.
    pub view: RequestView<'r>,
    /// The upstream it goes to.
    pub destination: &'r UpstreamDestination,
    /// The path to send: the request's own, or that of a `rewrite`.
    pub path: RequestPath<'r>,
    /// Changes to its fields.
    pub edits: &'r [Edit],
    /// The body, if it has been read.
    pub body: BufferedBody<'r>,
    /// The user that the server has authenticated; may be empty.
    pub user: &'r [u8],
}

impl ProxyRequest<'_> {
    pub(crate) fn upstream(&self) -> &Arc<ServerGroup> {
        &self.destination.upstream
    }

    /// Describes the server that the request wants.
    pub(crate) fn choice(&self) -> ServerChoice<'_> {
        ServerChoice {
            key: &self.destination.key,
            cookie: self.destination.cookie.as_deref(),
        }
    }

    /// The method that the server gets.
    pub(crate) fn method(&self) -> Method {
        let changed = self.destination.method;
        debug_assert!(changed != Some(Method::Head), "its responses have no body");
        changed.unwrap_or(self.view.method())
    }

    /// Its token.
    pub(crate) fn method_text(&self) -> &[u8] {
        match self.destination.method {
            Some(method) => method.as_str().as_bytes(),
            None => self.view.method_text(),
        }
    }

    pub(crate) fn is_head(&self) -> bool {
        self.method() == Method::Head
    }
}

/// Why a request cannot be expressed in the protocol of its server. The client's fault.
#[derive(Debug)]
pub(crate) struct Unsendable {
    pub(crate) status: u16,
    pub(crate) reason: String,
}
