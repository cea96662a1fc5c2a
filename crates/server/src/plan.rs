//! The plan for a request's answer, as its route decides.

use std::rc::Rc;
use std::sync::Arc;

use tutti_config::model::Spooler;
use tutti_http::FieldLines;
use tutti_http::edits::Edit;
use tutti_pool::Application;
use tutti_proxy::Destination;
use tutti_routing::{Decision, Guards, ResponseHeader, Rewritten};

use tutti_files::cache::CachedFile;

/// The plan for a request's answer. Owned: it outlives the buffers.
pub(crate) struct Plan {
    pub(crate) act: Act,
    pub(crate) changes: Changes,
    /// Its guards.
    pub(crate) guards: Guards,
}

/// The kinds of plans.
pub(crate) enum Act {
    /// The server's own page, or an empty response; with these fields.
    Page {
        status: u16,
        fields: FieldLines,
    },
    File(Rc<CachedFile>),
    /// The metrics of the server.
    Metrics,
    /// To be stored as a job.
    Spooler(Arc<Spooler>),
    Application {
        application: Arc<Application>,
        target: Option<Box<str>>,
    },
    Upstream(Box<Destination>),
}

/// The changes that the configuration makes to a request and its response, beyond the action.
#[derive(Default)]
pub(crate) struct Changes {
    /// `rewrite`.
    pub(crate) rewritten: Option<Box<Rewritten>>,
    /// `response_headers`, `response_headers_always`.
    pub(crate) headers: Vec<ResponseHeader>,
    /// `request_headers`, for whoever gets the request.
    pub(crate) edits: Vec<Edit>,
}

impl Act {
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
        }
    }

    pub(crate) fn with(act: Act, decision: Decision<'_>, edits: Vec<Edit>) -> Self {
        Self {
            act,
            changes: Changes {
                headers: decision.response_headers.to_vec(),
                rewritten: decision.rewritten,
                edits,
            },
            guards: decision.guards,
        }
    }
}
