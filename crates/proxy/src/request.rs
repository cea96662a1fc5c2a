//! A request as it is handed to the proxy.

use std::rc::Rc;
use std::sync::Arc;

use tutti_config::model::{HttpVersion, UpstreamProtocol};
use tutti_http::edits::Edit;
use tutti_http::{BodyLength, Method, RequestPath, RequestView, Version};
use tutti_spool::Region;
use tutti_upstream::ServerGroup;

use crate::scripts::ScriptTarget;

/// The upstream a request goes to.
pub struct UpstreamDestination {
    /// Its servers.
    pub upstream: Arc<ServerGroup>,
    /// The value that a hash looks at.
    pub key: Vec<u8>,
    /// Set where the server speaks CGI.
    pub cgi: Cgi,
}

/// The properties that a request in CGI variables has beyond those of one in HTTP.
#[derive(Default)]
pub struct Cgi {
    /// The script, of an application that has scripts.
    pub target: Option<Rc<ScriptTarget>>,
    /// `params`; without a value a variable is left out.
    pub parameters: Vec<(Box<str>, Option<Vec<u8>>)>,
}

impl UpstreamDestination {
    /// True if the request's body goes to the server while it comes: where that is wished, and where both sides speak HTTP/2. CGI knows
    /// no body without a length.
    pub fn streams(&self, view: &RequestView<'_>) -> bool {
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

/// A body that has been read before the request goes on.
#[derive(Clone, Copy)]
pub enum BufferedBody<'r> {
    /// There is none, or it is handed over while it comes.
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

/// A request, as its client sent it, and what the configuration changes about it.
#[derive(Clone, Copy)]
pub struct ProxyRequest<'r> {
    /// Its head.
    pub view: RequestView<'r>,
    /// The upstream it goes to.
    pub destination: &'r UpstreamDestination,
    /// The path that it goes to: its own, or that of a `rewrite`.
    pub path: RequestPath<'r>,
    /// Changes to its fields.
    pub edits: &'r [Edit],
    /// The body, if it has been read.
    pub body: BufferedBody<'r>,
}

impl ProxyRequest<'_> {
    pub(crate) fn upstream(&self) -> &Arc<ServerGroup> {
        &self.destination.upstream
    }

    pub(crate) fn is_head(&self) -> bool {
        self.view.method() == Method::Head
    }
}

/// Why a request cannot be put into the protocol of its server. The client's fault.
#[derive(Debug)]
pub(crate) struct Unsendable {
    pub(crate) status: u16,
    pub(crate) reason: String,
}
