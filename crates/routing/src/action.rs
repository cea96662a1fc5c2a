//! The action that routing chooses for a request.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use tutti_config::model::{
    self, Cache, Condition, Pointer, RequestHeader, ResponseHeader, Return, Template, under,
};
use tutti_http::{OwnedPath, RequestPath};

use crate::conditions::condition_holds;
use crate::info::RequestInfo;
use crate::render::render;
use crate::rule_set::RuleSet;
use crate::script::ScriptFailed;
use crate::seen::Seen;

/// An action of the configuration, with its destinations looked up.
#[derive(Debug)]
pub(crate) struct CompiledAction {
    pub(crate) pointer: Pointer,
    pub(crate) kind: CompiledKind,
    pub(crate) rewrite: Option<Template>,
    pub(crate) response_headers: Box<[ResponseHeader]>,
    pub(crate) request_headers: Box<[RequestHeader]>,
    /// Number of what stands before it.
    pub(crate) guard: Option<usize>,
    /// Its own rules.
    pub(crate) rules: Option<u32>,
    pub(crate) cache: Option<Arc<Cache>>,
}

/// The kind of an action.
#[derive(Debug)]
pub(crate) enum CompiledKind {
    Pass(CompiledPass),
    Return(Return),
    Share(Box<CompiledShare>),
}

/// The destination of a `pass`.
#[derive(Clone, Debug)]
pub(crate) enum CompiledPass {
    Route(usize),
    Application { index: usize, target: Option<usize> },
    Upstream(usize),
    Metrics,
    Spooler(usize),
    Computed(Template),
}

/// Numbers among [`crate::Router::guards`], each once.
pub type Guards = SmallVec<[usize; 4]>;

/// The action that routing chooses for a request.
#[derive(Debug)]
pub struct Decision<'r> {
    /// The action itself.
    pub action: DecisionKind<'r>,
    /// The path that a `rewrite` on the way put in place of the one that came. Use [`Decision::request_path`] instead of the request's own.
    pub rewritten: Option<Rc<OwnedPath>>,
    /// Changes to the response, made by the action itself.
    pub response_headers: &'r [ResponseHeader],
    /// Changes to the request, where it goes to an upstream; made by the action itself.
    pub request_headers: &'r [RequestHeader],
    /// The guards before the action, and before those on the way to it, in their order: numbers among [`crate::Router::guards`].
    pub guards: Guards,
    /// Rules for the answer: those of the action first, then those of what has led there.
    pub rules: RuleSet,
    /// The responses that are kept, as the action itself says.
    pub cache: Option<&'r Arc<Cache>>,
    /// The action's place in the configuration; of the listener, if it passes on directly.
    pub pointer: &'r Pointer,
    /// The route that was looked in last: its number among [`crate::Router::routes`]. `None`: no route was.
    pub route: Option<usize>,
    /// An answer has led here.
    pub(crate) is_internal: bool,
    pub(crate) hops: u32,
}

/// The kinds of decisions.
#[derive(Clone, Copy, Debug)]
pub enum DecisionKind<'r> {
    /// Hand it to an application.
    Application(ApplicationRef<'r>),
    /// Send it to the upstream with this number among [`crate::Router::upstreams`].
    Upstream(usize),
    /// Answer with the metrics of the server.
    Metrics,
    /// Store it as a job of the spooler with this number among [`tutti_config::Config::spoolers`], in the order of names.
    Spooler(usize),
    /// Serve a file; if there is none, ask for the [`crate::Router::fallback`].
    Share(&'r CompiledShare),
    /// Answer with a status.
    Return(&'r Return),
    /// No step matched, or a computed destination does not exist: 404.
    NotFound,
    /// The routes go round in circles: 500.
    Loop,
    /// A script or a regular expression that had to say where to go had no answer: 500.
    Undecided,
}

/// An application, and one of its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationRef<'r> {
    /// Its number among [`tutti_config::Config::applications`], in the order of names.
    pub index: usize,
    /// Its name.
    pub name: &'r str,
    /// The target, if the application has targets.
    pub target: Option<&'r str>,
}

/// A `share`, compiled.
#[derive(Debug)]
pub struct CompiledShare {
    pub(crate) written: Arc<model::Share>,
    /// Where it was written.
    pub pointer: Pointer,
    pub(crate) found: Option<Box<CompiledAction>>,
    pub(crate) fallback: Option<Box<CompiledAction>>,
}

impl Deref for CompiledShare {
    type Target = model::Share;

    fn deref(&self) -> &model::Share {
        &self.written
    }
}

impl CompiledShare {
    /// True if there is an action for a file that is there.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// True if there is a fallback.
    pub fn has_fallback(&self) -> bool {
        self.fallback.is_some()
    }
}

/// The path of the request does not begin with the prefix of the share.
#[derive(Clone, Copy, Debug)]
pub struct NotBelow;

/// A decision for a share, with the path behind the share's prefix.
pub struct Below<'d> {
    decision: &'d Decision<'d>,
    /// There where the share has a prefix.
    path: Option<OwnedPath>,
}

impl Below<'_> {
    /// Appends a template of the share as it is for this request.
    ///
    /// # Errors
    /// It is a script that failed, as the request has been told.
    pub fn render<R: RequestInfo + ?Sized>(
        &self,
        template: &Template,
        request: &R,
        out: &mut Vec<u8>,
    ) -> Result<(), ScriptFailed> {
        let decision = self.decision;
        let path = self.path.as_ref().or(decision.rewritten.as_deref());
        render(template, &Seen::on_its_way(request, path), out)
    }
}

impl Decision<'_> {
    /// The path to act on, and its query.
    pub fn request_path<'a, R: RequestInfo + ?Sized>(&'a self, request: &'a R) -> RequestPath<'a> {
        let rewritten = self.rewritten.as_deref();
        rewritten.map_or_else(|| request.request_path(), OwnedPath::as_path)
    }

    /// The path to act on, decoded.
    pub fn path<'a, R: RequestInfo + ?Sized>(&'a self, request: &'a R) -> &'a [u8] {
        self.request_path(request).path()
    }

    /// Appends a template of the action (a path of a share, a location, a header) as it is for this request.
    ///
    /// # Errors
    /// It is a script that failed, as the request has been told.
    pub fn render<R: RequestInfo + ?Sized>(
        &self,
        template: &Template,
        request: &R,
        out: &mut Vec<u8>,
    ) -> Result<(), ScriptFailed> {
        let path = self.rewritten.as_deref();
        render(template, &Seen::on_its_way(request, path), out)
    }

    /// True if a condition of the action holds for this request.
    ///
    /// # Errors
    /// It is a script that failed, as the request has been told.
    pub fn holds<R: RequestInfo + ?Sized>(
        &self,
        condition: &Condition,
        request: &R,
    ) -> Result<bool, ScriptFailed> {
        condition_holds(
            condition,
            &Seen::on_its_way(request, self.rewritten.as_deref()),
        )
    }

    /// The path to act on as a share sees it: without the share's prefix.
    ///
    /// # Errors
    /// It does not begin with that prefix.
    pub fn below<R: RequestInfo + ?Sized>(
        &self,
        share: &CompiledShare,
        request: &R,
    ) -> Result<Below<'_>, NotBelow> {
        let path = match share.prefix.as_bytes() {
            b"" => None,
            prefix => Some(under(prefix, self.path(request)).ok_or(NotBelow)?),
        };
        Ok(Below {
            decision: self,
            path: path.map(|path| OwnedPath::decoded(path.to_vec())),
        })
    }
}
