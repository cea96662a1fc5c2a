//! The plan for a request's answer, as its route decides.

use std::rc::Rc;
use std::sync::Arc;

use tutti_config::model::{GatewayParameter, Spooler};
use tutti_http::edits::Edit;
use tutti_http::{FieldLines, OwnedPath, RequestPath, RequestView};
use tutti_pool::ApplicationPool;
use tutti_proxy::UpstreamDestination;
use tutti_routing::{Decision, Guards, ResponseHeader};

use crate::substitute::Substitute;
use tutti_cache::{CacheLookup, Recording};
use tutti_files::cache::CachedFile;
use tutti_files::folder::Folder;

/// The plan for a request's answer. Owned: it outlives the buffers.
pub(crate) struct Plan {
    pub(crate) act: Act,
    pub(crate) changes: Changes,
    /// Its guards.
    pub(crate) guards: Guards,
    /// The cache is asked first.
    pub(crate) asked: Option<Box<CacheLookup>>,
}

/// The kinds of plans.
pub(crate) enum Act {
    /// The server's own page, or an empty response; with these fields.
    Page {
        status: u16,
        fields: FieldLines,
    },
    File(Served),
    /// A list of what is in a folder.
    Listing(Arc<Folder>),
    /// Another request is answered in its place.
    Substitute(Box<Substitute>),
    /// The metrics of the server.
    Metrics,
    /// To be stored as a job.
    Spooler(Arc<Spooler>),
    Application(Called),
    Upstream(Box<UpstreamDestination>),
}

/// An application as a request calls it.
pub(crate) struct Called {
    pub(crate) application: Arc<ApplicationPool>,
    pub(crate) target: Option<Box<str>>,
    /// `Sec-WebSocket-Accept`, if the request asks for WebSocket.
    pub(crate) upgrade: Option<[u8; 28]>,
}

/// A file that is served.
pub(crate) struct Served {
    pub(crate) file: Rc<CachedFile>,
    /// It is compressed already: nothing else is done to it.
    pub(crate) is_encoded: bool,
    /// There may be other forms of it for other clients.
    pub(crate) varies: bool,
}

impl Served {
    /// A file that is what it is.
    pub(crate) fn plain(file: Rc<CachedFile>) -> Self {
        Self {
            file,
            is_encoded: false,
            varies: false,
        }
    }
}

/// The changes that the configuration makes to a request and its response, beyond the action.
#[derive(Default)]
pub(crate) struct Changes {
    /// `rewrite`.
    pub(crate) rewritten: Option<Rc<OwnedPath>>,
    /// `response_headers`, `response_headers_always`.
    pub(crate) headers: Vec<ResponseHeader>,
    /// `request_headers`, for whoever gets the request.
    pub(crate) edits: Vec<Edit>,
    /// Fields of a 103 that the client gets first.
    pub(crate) hints: FieldLines,
    /// Minds the answer for the cache.
    pub(crate) cache: Option<Rc<Recording>>,
}

impl Changes {
    /// The path that the request goes to.
    pub(crate) fn request_path<'a>(&'a self, view: &RequestView<'a>) -> RequestPath<'a> {
        let rewritten = self.rewritten.as_deref();
        rewritten.map_or_else(|| view.request_path(), OwnedPath::as_path)
    }
}

impl Act {
    /// Variables of a gateway that the configuration sets.
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

    /// Takes out of the decision what it has for the answer: to move all of it would cost each request a copy.
    pub(crate) fn with(
        act: Act,
        decision: &mut Decision<'_>,
        edits: Vec<Edit>,
        hints: FieldLines,
    ) -> Self {
        Self {
            act,
            changes: Changes {
                headers: decision.response_headers.to_vec(),
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
