//! The plan for a request's response, as its route decides.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use tutti_cache::{CacheLookup, Recording};
use tutti_config::model::{GatewayParameter, Spooler};
use tutti_files::cache::CachedFile;
use tutti_files::folder::Folder;
use tutti_http::edits::Edit;
use tutti_http::{FieldLines, OwnedPath, RequestPath, RequestView};
use tutti_pool::ApplicationPool;
use tutti_proxy::UpstreamDestination;
use tutti_routing::{Decision, Guards, ResponseHeader};

use crate::substitute::Substitute;

/// The plan for a request's response. Owned: it outlives the buffers.
pub(crate) struct Plan {
    pub(crate) act: Act,
    pub(crate) changes: Changes,
    /// Its guards.
    pub(crate) guards: Guards,
    /// The cache is searched first.
    pub(crate) asked: Option<Box<CacheLookup>>,
}

/// The kinds of plans.
pub(crate) enum Act {
    /// One of the server's own pages, or an empty response; with these fields.
    Page {
        status: u16,
        fields: FieldLines,
    },
    /// The body that the configuration gives to a `return`.
    Content(Box<Returned>),
    File(Served),
    /// The list of a folder.
    Listing(Arc<Folder>),
    /// Another request is answered in its place.
    Substitute(Box<Substitute>),
    /// The metrics of the server.
    Metrics,
    /// Store the request as a job.
    Spooler(Arc<Spooler>),
    Application(Called),
    Upstream(Box<UpstreamDestination>),
}

/// A response whose body is in the configuration.
pub(crate) struct Returned {
    pub(crate) status: u16,
    pub(crate) fields: FieldLines,
    pub(crate) body: Bytes,
}

/// A request's call of an application.
pub(crate) struct Called {
    pub(crate) application: Arc<ApplicationPool>,
    pub(crate) target: Option<Box<str>>,
    /// `Sec-WebSocket-Accept`, for a WebSocket handshake.
    pub(crate) upgrade: Option<[u8; 28]>,
}

/// A file that is served.
pub(crate) struct Served {
    pub(crate) file: Rc<CachedFile>,
    /// It is precompressed, and sent unchanged.
    pub(crate) is_encoded: bool,
    /// Other clients may get other forms of it.
    pub(crate) varies: bool,
}

impl Served {
    /// A file without other forms.
    pub(crate) fn plain(file: Rc<CachedFile>) -> Self {
        Self {
            file,
            is_encoded: false,
            varies: false,
        }
    }
}

/// The configured changes to a request and its response, beyond the action.
#[derive(Default)]
pub(crate) struct Changes {
    /// `rewrite`.
    pub(crate) rewritten: Option<Rc<OwnedPath>>,
    /// `response_headers`, `response_headers_always`.
    pub(crate) headers: Vec<ResponseHeader>,
    /// `request_headers`, for the application or upstream.
    pub(crate) edits: Vec<Edit>,
    /// Fields of a 103 that the client gets first.
    pub(crate) hints: FieldLines,
    /// Records the response for the cache.
    pub(crate) cache: Option<Rc<Recording>>,
}

impl Changes {
    /// The path of the request for its action.
    pub(crate) fn request_path<'a>(&'a self, view: &RequestView<'a>) -> RequestPath<'a> {
        let rewritten = self.rewritten.as_deref();
        rewritten.map_or_else(|| view.request_path(), OwnedPath::as_path)
    }
}

impl Act {
    /// Configured variables of a gateway.
    pub(crate) fn parameters(&self) -> &[GatewayParameter] {
        match self {
            Self::Upstream(destination) => destination.upstream.model().protocol.parameters(),
            _ => &[],
        }
    }

    pub(crate) fn page(status: u16) -> Self {
        Self::Page {
            status,
            fields: FieldLines::new(),
        }
    }
}

impl Plan {
    pub(crate) fn new(act: Act) -> Self {
        Self {
            act,
            changes: Changes::default(),
            guards: Guards::new(),
            asked: None,
        }
    }

    /// Takes what the response needs out of the decision: moving all of it would cost each request a copy.
    pub(crate) fn with(
        act: Act,
        decision: &mut Decision<'_>,
        edits: Vec<Edit>,
        hints: FieldLines,
    ) -> Self {
        Self {
            act,
            changes: Changes {
                headers: decision.response_headers(),
                rewritten: decision.rewritten.take(),
                edits,
                hints,
                cache: None,
            },
            guards: std::mem::take(&mut decision.guards),
            asked: None,
        }
    }
}
