//! A request whose head is there: what is to be done for it, and doing it as far as that needs no waiting.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use tutti_http::{BodyDecoder, BodyLength, Known, Method, RequestView};
use tutti_pool::Application;
use tutti_routing::{Decision, RequestInfo, ResponseHeader, Rewritten};

use crate::access_log::Finished;
use crate::action::app::Call;
use crate::action::file::{self, FileTail};
use crate::clock::Millis;
use crate::connection::Connection;
use crate::files::cache::CachedFile;
use crate::files::conditional::Conditions;
use crate::respond::{self, Page, Persistence};
use crate::response_headers;
use crate::route;
use crate::snapshot::Snapshot;

/// What comes next on a connection.
pub(crate) enum Step {
    /// Read (the rest of) a head; it must be there by the deadline, which begins with its first byte.
    ReadHead { deadline: Option<Millis> },
    /// Send what there is to send, then look for further requests.
    Flush,
    /// Read the request's body, then do this.
    Body {
        plan: Box<Plan>,
        decoder: BodyDecoder,
    },
    /// Send the rest of a file.
    File(FileTail),
    /// Hand the request to an application.
    Application(Box<Call>),
    /// The response is complete in the output.
    End(Persistence),
    /// The response is complete in the output, but the client may still be sending.
    Linger,
}

/// What a request is answered with. Owned: it outlives the buffers.
pub(crate) struct Plan {
    pub(crate) act: Act,
    pub(crate) changes: Changes,
}

/// The kinds of plans.
pub(crate) enum Act {
    /// The server's own page, or an empty response; with these field lines.
    Page {
        status: u16,
        fields: Vec<u8>,
    },
    File(Rc<CachedFile>),
    Application {
        application: Arc<Application>,
        target: Option<Box<str>>,
    },
}

/// What the configuration changes about a request and its response, beyond the action.
#[derive(Default)]
pub(crate) struct Changes {
    /// `rewrite`.
    pub(crate) rewritten: Option<Box<Rewritten>>,
    /// `response_headers`.
    pub(crate) headers: Vec<ResponseHeader>,
}

impl Act {
    pub(crate) fn page(status: u16) -> Self {
        Self::Page {
            status,
            fields: Vec::new(),
        }
    }
}

impl Plan {
    pub(crate) fn new(act: Act) -> Self {
        Self {
            act,
            changes: Changes::default(),
        }
    }

    pub(crate) fn with(act: Act, decision: Decision<'_>) -> Self {
        Self {
            act,
            changes: Changes {
                headers: decision.response_headers.to_vec(),
                rewritten: decision.rewritten,
            },
        }
    }
}

/// A request in its context.
#[derive(Clone, Copy)]
pub(crate) struct Request<'a> {
    pub(crate) connection: &'a Connection,
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) view: RequestView<'a>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(
        connection: &'a Connection,
        snapshot: &'a Snapshot,
        view: RequestView<'a>,
    ) -> Self {
        Self {
            connection,
            snapshot,
            view,
        }
    }

    /// Decides what to do, and does it if nothing has to be waited for.
    pub(crate) fn start(&self, out: &mut Vec<u8>) -> Step {
        let length = self.view.body_length();
        if length == BodyLength::None {
            return self.perform(route::plan(self), out);
        }
        match BodyDecoder::new(length, &self.snapshot.limits) {
            Ok(decoder) => Step::Body {
                plan: Box::new(route::plan(self)),
                decoder,
            },
            Err(error) => self.refuse(error.status(), out),
        }
    }

    /// Carries out a plan; the request's body has been read, or there is none.
    pub(crate) fn perform(&self, plan: Plan, out: &mut Vec<u8>) -> Step {
        let Plan { act, changes } = plan;
        match act {
            Act::Page { status, fields } => {
                let persistence = self.persistence();
                let page = Page {
                    status,
                    is_head: self.is_head(),
                    persistence,
                    fields: &fields,
                };
                self.page(&page, &changes, out);
                Step::End(persistence)
            }
            Act::File(file) => file::respond(self, file, &changes, out),
            Act::Application {
                application,
                target,
            } => Step::Application(Box::new(Call::new(application, target, changes))),
        }
    }

    /// Appends a page and logs the request.
    pub(crate) fn page(&self, page: &Page<'_>, changes: &Changes, out: &mut Vec<u8>) {
        let start = out.len();
        let body_bytes = respond::page(out, &self.connection.local, self.snapshot, page);
        let body = out.split_off(out.len() - body_bytes as usize);
        self.adjust(page.status, changes, out, start);
        self.finished(
            page.status,
            body_bytes,
            out.get(start..).unwrap_or_default(),
        );
        out.extend_from_slice(&body);
    }

    /// Applies `response_headers` to the head that begins at `start` of `out` and is its end.
    pub(crate) fn adjust(&self, status: u16, changes: &Changes, out: &mut Vec<u8>, start: usize) {
        if !changes.headers.is_empty() && (200..400).contains(&status) {
            response_headers::apply(self, changes, out, start);
        }
    }

    /// Answers with an error and ends the connection.
    pub(crate) fn refuse(&self, status: u16, out: &mut Vec<u8>) -> Step {
        let page = Page {
            status,
            is_head: self.is_head(),
            persistence: Persistence::Close,
            fields: b"",
        };
        self.page(&page, &Changes::default(), out);
        Step::Linger
    }

    pub(crate) fn is_head(&self) -> bool {
        self.view.method() == Method::Head
    }

    /// Whether the connection stays open after this request.
    pub(crate) fn persistence(&self) -> Persistence {
        if !self.view.facts().keep_alive || self.connection.is_ending() {
            Persistence::Close
        } else if self.view.version_minor() == 0 {
            Persistence::KeepAliveOld
        } else {
            Persistence::KeepAlive
        }
    }

    /// The fields that make the request conditional.
    pub(crate) fn conditions(&self) -> Conditions<'a> {
        let get = |known| self.view.get(known);
        Conditions {
            if_match: get(Known::IfMatch),
            if_none_match: get(Known::IfNoneMatch),
            if_modified_since: get(Known::IfModifiedSince),
            if_unmodified_since: get(Known::IfUnmodifiedSince),
            if_range: get(Known::IfRange),
            range: get(Known::Range),
        }
    }

    /// When the head was complete.
    pub(crate) fn arrived(&self) -> Instant {
        self.connection.arrived.get()
    }

    /// The response has been produced: log it. `head` is the response's head.
    pub(crate) fn finished(&self, status: u16, body_bytes: u64, head: &[u8]) {
        if let Some(log) = &self.snapshot.access_log {
            let exchange = Finished {
                request: self,
                status,
                body_bytes,
                head,
                time: "",
            };
            self.connection
                .local
                .access_log
                .append(log, &exchange, &self.connection.local);
        }
    }
}

impl RequestInfo for Request<'_> {
    fn path(&self) -> &[u8] {
        self.view.path()
    }
    fn query(&self) -> Option<&[u8]> {
        self.view.query()
    }
    fn target(&self) -> &[u8] {
        self.view.origin_target()
    }
    fn method(&self) -> &[u8] {
        self.view.method_text()
    }
    fn host(&self) -> &[u8] {
        self.view.host_name()
    }
    fn request_line(&self) -> &[u8] {
        self.view.request_line()
    }
    fn is_https(&self) -> bool {
        false
    }
    fn remote(&self) -> Option<SocketAddr> {
        self.connection.peer.address()
    }
    fn local(&self) -> Option<SocketAddr> {
        self.connection.local_address()
    }
    fn each_field(&self, name: &[u8], each: &mut dyn FnMut(&[u8])) {
        self.view.get_all(name).for_each(each);
    }
    fn request_id(&self) -> u128 {
        self.connection.request_id()
    }
}
