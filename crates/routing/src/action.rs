//! The action that routing chooses for a request.

use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use smallvec::SmallVec;
use tutti_config::model::{
    self, Cache, CapturedGroups, Condition, Conditions, ContentPart, OutOfSteps, Patterns, Pointer,
    RequestHeader, ResponseHeader, Return, Template, under,
};
use tutti_http::{OwnedPath, RequestPath};

use crate::conditions::condition_holds;
use crate::info::RequestInfo;
use crate::render::{Groups as TemplateGroups, render_content, render_with};
use crate::rule_set::RuleSet;
use crate::scopes::ScopeNumber;
use crate::script::ScriptFailed;
use crate::seen::Seen;

/// An action of the configuration, with its destinations resolved.
#[derive(Debug)]
pub(crate) struct CompiledAction {
    pub(crate) pointer: Pointer,
    pub(crate) kind: CompiledKind,
    pub(crate) rewrite: Option<Template>,
    pub(crate) response_headers: Box<[ResponseHeader]>,
    pub(crate) request_headers: Box<[RequestHeader]>,
    pub(crate) request_body: Option<Template>,
    pub(crate) request_method: Option<Box<str>>,
    /// The number of its guard.
    pub(crate) guard: Option<usize>,
    /// The number of its rules.
    pub(crate) rules: Option<u32>,
    /// The number of its settings in [`tutti_config::Config::scopes`].
    pub(crate) scope: Option<usize>,
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
    Application {
        index: usize,
        target: Option<usize>,
    },
    Upstream(usize),
    Metrics,
    StubStatus,
    Spooler(usize),
    Computed(Template),
    /// The connections of the listener are not read as HTTP.
    Nothing,
}

/// Numbers of guards in [`crate::Router::guards`], without duplicates.
pub type Guards = SmallVec<[usize; 4]>;

/// The action that routing chooses for a request.
#[derive(Debug)]
pub struct Decision<'r> {
    /// The action itself.
    pub action: DecisionKind<'r>,
    /// The path after a `rewrite`, if there was one. Use [`Decision::request_path`] instead of the request's own.
    pub rewritten: Option<Rc<OwnedPath>>,
    /// The action's changes to the response. Use [`Decision::response_headers`], which knows the groups in them.
    pub(crate) response_headers: &'r [ResponseHeader],
    /// The groups of the last step, if its action may use them.
    pub(crate) groups: StepGroups,
    /// The action's changes to the request, for an upstream.
    pub request_headers: &'r [RequestHeader],
    /// The body of the request to an upstream; `None`: the client's.
    pub request_body: Option<&'r Template>,
    /// The method of the request to an upstream; `None`: the client's.
    pub request_method: Option<&'r str>,
    /// The guards on the way to the action and of the action itself, in order: numbers in [`crate::Router::guards`].
    pub guards: Guards,
    /// Rules for the response: those of the action first, then those on the way to it.
    pub rules: RuleSet,
    /// The settings of the action and of those on the way to it.
    pub settings: ScopeNumber,
    /// The action's cache options.
    pub cache: Option<&'r Arc<Cache>>,
    /// The action's place in the configuration; the listener's, if that passes directly.
    pub pointer: &'r Pointer,
    /// The last route that was searched: its number in [`crate::Router::routes`]. `None`: no route was.
    pub route: Option<usize>,
    /// An internal redirect has led here.
    pub(crate) is_internal: bool,
    pub(crate) hops: u32,
}

/// The groups of the regular expressions of a step.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepGroups {
    uri: Option<Rc<CapturedGroups>>,
    host: Option<Rc<CapturedGroups>>,
}

impl StepGroups {
    /// Finds the groups in path and host of a request that matches these conditions.
    ///
    /// # Errors
    /// A regular expression exceeded its step limit.
    pub(crate) fn find<'c, R: RequestInfo + ?Sized>(
        conditions: &'c Conditions,
        request: &R,
    ) -> Result<Self, OutOfSteps<'c>> {
        Ok(Self {
            uri: first_groups(conditions.uri.as_ref(), request.path())?,
            host: first_groups(conditions.host.as_ref(), request.host())?,
        })
    }

    pub(crate) fn of_templates(&self) -> TemplateGroups<'_> {
        TemplateGroups {
            of_match: self.uri.as_deref(),
            of_host: self.host.as_deref(),
        }
    }
}

/// The groups of the first pattern that matches.
fn first_groups<'c>(
    patterns: Option<&'c Patterns>,
    value: &[u8],
) -> Result<Option<Rc<CapturedGroups>>, OutOfSteps<'c>> {
    let patterns = patterns.map(Patterns::list).unwrap_or_default();
    for pattern in patterns.iter().filter(|pattern| !pattern.negated) {
        if let Some(groups) = pattern.groups_in(value)? {
            return Ok(Some(Rc::new(groups)));
        }
    }
    Ok(None)
}

/// The kinds of decisions.
#[derive(Clone, Copy, Debug)]
pub enum DecisionKind<'r> {
    /// Pass it to an application.
    Application(ApplicationRef<'r>),
    /// Forward it to the upstream with this number in [`crate::Router::upstreams`].
    Upstream(usize),
    /// Answer with the metrics of the server.
    Metrics,
    /// Answer with the counts of connections and requests, as nginx reports them.
    StubStatus,
    /// Store it as a job of the spooler with this number in [`tutti_config::Config::spoolers`], sorted by name.
    Spooler(usize),
    /// Serve a file; if there is none, call [`crate::Router::fallback`].
    Share(&'r CompiledShare),
    /// Answer with a status.
    Return(&'r Return),
    /// No step matched, or a computed destination does not exist: 404.
    NotFound,
    /// The routes form a loop: 500.
    Loop,
    /// A script or a regular expression that decides the destination failed: 500.
    Undecided,
}

/// An application, and one of its targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplicationRef<'r> {
    /// Its number in [`tutti_config::Config::applications`], sorted by name.
    pub index: usize,
    /// Its name.
    pub name: &'r str,
    /// The target, if the application has targets.
    pub target: Option<&'r str>,
}

/// A compiled `share`.
#[derive(Debug)]
pub struct CompiledShare {
    pub(crate) written: Arc<model::Share>,
    /// Its place in the configuration.
    pub pointer: Pointer,
    pub(crate) found: Option<Box<CompiledAction>>,
    pub(crate) folder: Option<Box<CompiledAction>>,
    pub(crate) fallback: Option<Box<CompiledAction>>,
}

impl Deref for CompiledShare {
    type Target = model::Share;

    fn deref(&self) -> &model::Share {
        &self.written
    }
}

impl CompiledShare {
    /// True if there is an action for an existing file.
    pub fn has_found(&self) -> bool {
        self.found.is_some()
    }

    /// True if there is an action for an existing folder.
    pub fn has_folder(&self) -> bool {
        self.folder.is_some()
    }

    /// True if there is a fallback.
    pub fn has_fallback(&self) -> bool {
        self.fallback.is_some()
    }
}

/// The path of the request does not begin with the prefix of the share.
#[derive(Clone, Copy, Debug)]
pub struct NotBelow;

/// A decision for a share, with the path after the share's prefix.
pub struct Below<'d> {
    decision: &'d Decision<'d>,
    /// Set if the share has a prefix.
    path: Option<OwnedPath>,
}

impl Below<'_> {
    /// Renders a template of the share for this request.
    ///
    /// # Errors
    /// It is a script that failed; the request has been notified.
    pub fn render<R: RequestInfo + ?Sized>(
        &self,
        template: &Template,
        request: &R,
        out: &mut Vec<u8>,
    ) -> Result<(), ScriptFailed> {
        let decision = self.decision;
        let path = self.path.as_ref().or(decision.rewritten.as_deref());
        let groups = decision.groups.of_templates();
        render_with(template, groups, &Seen::on_its_way(request, path), out)
    }
}

impl Decision<'_> {
    /// The path and query that the action uses.
    pub fn request_path<'a, R: RequestInfo + ?Sized>(&'a self, request: &'a R) -> RequestPath<'a> {
        let rewritten = self.rewritten.as_deref();
        rewritten.map_or_else(|| request.request_path(), OwnedPath::as_path)
    }

    /// The decoded path that the action uses.
    pub fn path<'a, R: RequestInfo + ?Sized>(&'a self, request: &'a R) -> &'a [u8] {
        self.request_path(request).path()
    }

    /// Renders a template of the action (a path of a share, a location, a header) for this request.
    ///
    /// # Errors
    /// It is a script that failed; the request has been notified.
    pub fn render<R: RequestInfo + ?Sized>(
        &self,
        template: &Template,
        request: &R,
        out: &mut Vec<u8>,
    ) -> Result<(), ScriptFailed> {
        let path = self.rewritten.as_deref();
        let groups = self.groups.of_templates();
        render_with(template, groups, &Seen::on_its_way(request, path), out)
    }

    /// Renders the body of a `return` for this request.
    ///
    /// # Errors
    /// It contains a script that failed; the request has been notified.
    pub fn render_content<R: RequestInfo + ?Sized>(
        &self,
        parts: &[ContentPart],
        request: &R,
        out: &mut Vec<u8>,
    ) -> Result<(), ScriptFailed> {
        let path = self.rewritten.as_deref();
        let groups = self.groups.of_templates();
        render_content(parts, groups, &Seen::on_its_way(request, path), out)
    }

    /// The action's changes to the response, with the values of the groups of the step: an error page, which is another request, has them
    /// too. A group that is not UTF-8 has U+FFFD for what is not.
    pub fn response_headers(&self) -> Vec<ResponseHeader> {
        let groups = self.groups.of_templates();
        let value = |group: &_| String::from_utf8_lossy(groups.get(group)).into();
        let headers = self.response_headers.iter().map(|header| {
            let bound = |template: &Template| match template.has_groups() {
                true => {
                    Some(template.with_groups(value)).filter(|bound| bound.as_literal() != Some(""))
                }
                false => Some(template.clone()),
            };
            ResponseHeader {
                value: header.value.as_ref().and_then(bound),
                ..header.clone()
            }
        });
        headers.collect()
    }

    /// Evaluates a condition of the action for this request.
    ///
    /// # Errors
    /// It is a script that failed; the request has been notified.
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

    /// The path for a share, without the share's prefix.
    ///
    /// # Errors
    /// It does not begin with that prefix.
    pub fn below<R: RequestInfo + ?Sized>(
        &self,
        share: &CompiledShare,
        request: &R,
    ) -> Result<Below<'_>, NotBelow> {
        let whole = self.request_path(request);
        let path = match share.prefix.as_bytes() {
            b"" => None,
            prefix => Some(under(prefix, whole.path()).ok_or(NotBelow)?),
        };
        Ok(Below {
            decision: self,
            path: path.map(|path| OwnedPath::decoded(path.to_vec(), whole.query())),
        })
    }
}
