//! The compiled routes, and the path of a request through them.

use std::rc::Rc;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tutti_config::model::{
    Cache, Conditions, Guard, Pointer, RequestHeader, ResponseHeader, Template, Upstream,
};
use tutti_http::OwnedPath;

use crate::action::{
    ApplicationRef, CompiledAction, CompiledKind, CompiledPass, CompiledShare, Decision,
    DecisionKind, Guards, StepGroups,
};
use crate::conditions::{self, Undecided};
use crate::index::{self, Index};
use crate::info::{RequestInfo, RouteEvent};
use crate::pass;
use crate::rewrite::rewrite_with;
use crate::rule_set::RuleSet;
use crate::rules::{InternalNumber, PageNumber, Rulebook};
use crate::scopes::{Combinations, ScopeNumber};
use crate::seen::Seen;

/// Most routes and fallbacks for a request; more are a loop. Real chains have two or three.
pub const HOP_LIMIT: u32 = 100;

/// All routes of a configuration.
#[derive(Debug)]
pub struct Router {
    pub(crate) listeners: Vec<CompiledListener>,
    pub(crate) routes: Vec<CompiledRoute>,
    pub(crate) route_names: FxHashMap<Box<[u8]>, usize>,
    pub(crate) main_route: Option<usize>,
    pub(crate) applications: Vec<CompiledApplication>,
    pub(crate) application_names: FxHashMap<Box<[u8]>, usize>,
    /// Named ones first, then one for each distinct `proxy`.
    pub(crate) upstreams: Vec<Arc<Upstream>>,
    pub(crate) upstream_names: FxHashMap<Box<[u8]>, usize>,
    /// Sorted by name.
    pub(crate) spoolers: Vec<String>,
    /// The guards of actions.
    pub(crate) guards: Vec<Arc<Guard>>,
    pub(crate) rules: Rulebook,
    /// Numbers of the internal routes.
    pub(crate) internal: FxHashSet<usize>,
    pub(crate) combinations: Combinations,
}

#[derive(Debug)]
pub(crate) struct CompiledListener {
    pub(crate) pointer: Pointer,
    pub(crate) pass: CompiledPass,
    pub(crate) rules: Option<u32>,
    pub(crate) settings: ScopeNumber,
}

#[derive(Debug)]
pub(crate) struct CompiledRoute {
    pub(crate) name: Option<Box<str>>,
    /// Its name in a `pass`.
    pub(crate) pass: Box<str>,
    pub(crate) steps: Vec<CompiledStep>,
    pub(crate) index: Option<Index>,
}

#[derive(Debug)]
pub(crate) struct CompiledStep {
    pub(crate) conditions: Conditions,
    /// The action may use groups of the conditions.
    pub(crate) has_groups: bool,
    pub(crate) action: CompiledAction,
}

#[derive(Debug)]
pub(crate) struct CompiledApplication {
    pub(crate) name: String,
    pub(crate) targets: Vec<String>,
}

impl Router {
    /// The rules for responses.
    pub fn rules(&self) -> &Rulebook {
        &self.rules
    }

    /// The combinations of settings that requests can have.
    pub fn combinations(&self) -> &Combinations {
        &self.combinations
    }

    /// The settings of requests from the listener with this number.
    pub fn settings_of(&self, listener: usize) -> ScopeNumber {
        let listener = self.listeners.get(listener);
        listener.map_or_else(ScopeNumber::default, |one| one.settings)
    }

    pub(crate) fn route(&self, name: &[u8]) -> Option<CompiledPass> {
        self.route_names.get(name).copied().map(CompiledPass::Route)
    }

    pub(crate) fn upstream(&self, name: &[u8]) -> Option<CompiledPass> {
        let index = self.upstream_names.get(name).copied();
        index.map(CompiledPass::Upstream)
    }

    /// The upstreams: those of the configuration, and one for each distinct `proxy`.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// The routes by their names in a `pass`: `routes`, `routes/NAME`.
    pub fn routes(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| &*route.pass)
    }

    /// The guards of actions.
    pub fn guards(&self) -> &[Arc<Guard>] {
        &self.guards
    }

    pub(crate) fn application(&self, name: &[u8], target: Option<&[u8]>) -> Option<CompiledPass> {
        let index = *self.application_names.get(name)?;
        let targets = &self.applications.get(index)?.targets;
        let target = match target {
            Some(target) => Some(
                targets
                    .iter()
                    .position(|known| known.as_bytes() == target)?,
            ),
            None if targets.is_empty() => None,
            None => return None,
        };
        Some(CompiledPass::Application { index, target })
    }

    /// Number of entry points: of listeners, in the order of the configuration, then of spoolers, sorted by name, then of guards'
    /// questions.
    pub fn listeners(&self) -> usize {
        self.listeners.len()
    }

    /// The rules for responses of a listener's own.
    pub fn listener_rules(&self, listener: usize) -> RuleSet {
        let listener = self.listeners.get(listener);
        RuleSet::of(listener.and_then(|listener| listener.rules))
    }

    /// Decides for a request from the listener with this number, or a job of the spooler with it.
    pub fn decide<'r, R: RequestInfo + ?Sized>(
        &'r self,
        listener: usize,
        request: &R,
    ) -> Decision<'r> {
        /// For a listener number that does not exist.
        static NOWHERE: std::sync::LazyLock<Pointer> = std::sync::LazyLock::new(Pointer::root);
        let Some(listener) = self.listeners.get(listener) else {
            return Decision {
                action: DecisionKind::NotFound,
                rewritten: None,
                response_headers: &[],
                groups: StepGroups::default(),
                request_headers: &[],
                request_body: None,
                request_method: None,
                guards: Guards::new(),
                rules: RuleSet::default(),
                settings: ScopeNumber::default(),
                cache: None,
                pointer: &NOWHERE,
                route: None,
                is_internal: false,
                hops: 0,
            };
        };
        let way = Way {
            router: self,
            rewritten: None,
            route: None,
            pointer: &listener.pointer,
            headers: (&[], &[]),
            request_body: None,
            request_method: None,
            groups: StepGroups::default(),
            guards: Guards::new(),
            rules: RuleSet::of(listener.rules),
            settings: listener.settings,
            is_internal: false,
            cache: None,
            hops: 0,
        };
        way.pass(&listener.pass, request)
    }

    /// Decides for the error page of a request with these settings. `None`: there is no such page.
    pub fn decide_page<'r, R: RequestInfo + ?Sized>(
        &'r self,
        page: PageNumber,
        settings: ScopeNumber,
        request: &R,
    ) -> Option<Decision<'r>> {
        let action = self.rules.action(page)?;
        let way = Way {
            router: self,
            rewritten: None,
            route: None,
            pointer: &action.pointer,
            headers: (&[], &[]),
            request_body: None,
            request_method: None,
            groups: StepGroups::default(),
            guards: Guards::new(),
            rules: RuleSet::default(),
            settings,
            is_internal: false,
            cache: None,
            hops: 0,
        };
        Some(way.action(action, request))
    }

    /// Decides for an internal redirect to a route. `rules` and `settings` are those of the redirecting response.
    pub fn decide_internal<'r, R: RequestInfo + ?Sized>(
        &'r self,
        route: InternalNumber,
        (rules, settings): (RuleSet, ScopeNumber),
        request: &R,
    ) -> Decision<'r> {
        static INTERNAL: std::sync::LazyLock<Pointer> =
            std::sync::LazyLock::new(|| Pointer::root().child("routes"));
        let way = Way {
            router: self,
            rewritten: None,
            route: None,
            pointer: &INTERNAL,
            headers: (&[], &[]),
            request_body: None,
            request_method: None,
            groups: StepGroups::default(),
            guards: Guards::new(),
            rules,
            settings,
            is_internal: true,
            cache: None,
            hops: 0,
        };
        way.decide_from(Move::Route(route.0), request)
    }

    /// Decides again after a share had no file.
    ///
    /// # Errors
    /// The decision itself, if it has no fallback (or is not a share).
    #[expect(clippy::result_large_err, reason = "the decision goes back as it came")]
    pub fn fallback<'r, R: RequestInfo + ?Sized>(
        &'r self,
        decision: Decision<'r>,
        request: &R,
    ) -> Result<Decision<'r>, Decision<'r>> {
        self.instead(
            decision,
            request,
            |share| share.fallback.as_deref(),
            RouteEvent::Fallback,
        )
    }

    /// Decides again after a share has a file.
    ///
    /// # Errors
    /// The decision itself, if the share serves it (or is not a share).
    #[expect(clippy::result_large_err, reason = "the decision goes back as it came")]
    pub fn found<'r, R: RequestInfo + ?Sized>(
        &'r self,
        decision: Decision<'r>,
        request: &R,
    ) -> Result<Decision<'r>, Decision<'r>> {
        self.instead(
            decision,
            request,
            |share| share.found.as_deref(),
            RouteEvent::Found,
        )
    }

    /// Decides again after a share has a folder without anything to serve.
    ///
    /// # Errors
    /// The decision itself, if it has no action for folders (or is not a share).
    #[expect(clippy::result_large_err, reason = "the decision goes back as it came")]
    pub fn folder<'r, R: RequestInfo + ?Sized>(
        &'r self,
        decision: Decision<'r>,
        request: &R,
    ) -> Result<Decision<'r>, Decision<'r>> {
        self.instead(
            decision,
            request,
            |share| share.folder.as_deref(),
            RouteEvent::Folder,
        )
    }

    /// Decides for another action of a share.
    #[expect(clippy::result_large_err, reason = "the decision goes back as it came")]
    fn instead<'r, R: RequestInfo + ?Sized>(
        &'r self,
        decision: Decision<'r>,
        request: &R,
        action: impl FnOnce(&'r CompiledShare) -> Option<&'r CompiledAction>,
        event: RouteEvent<'_>,
    ) -> Result<Decision<'r>, Decision<'r>> {
        let DecisionKind::Share(share) = decision.action else {
            return Err(decision);
        };
        let Some(action) = action(share) else {
            return Err(decision);
        };
        request.note(event);
        Ok(self.again(decision, action, request))
    }

    fn again<'r, R: RequestInfo + ?Sized>(
        &'r self,
        decision: Decision<'r>,
        action: &'r CompiledAction,
        request: &R,
    ) -> Decision<'r> {
        let way = Way {
            router: self,
            rewritten: decision.rewritten,
            route: decision.route,
            pointer: decision.pointer,
            headers: (&[], &[]),
            request_body: None,
            request_method: None,
            groups: decision.groups,
            guards: decision.guards,
            rules: decision.rules,
            settings: decision.settings,
            is_internal: decision.is_internal,
            cache: None,
            hops: decision.hops + 1,
        };
        way.action(action, request)
    }
}

/// A request's position in the routes.
struct Way<'r> {
    router: &'r Router,
    rewritten: Option<Rc<OwnedPath>>,
    route: Option<usize>,
    pointer: &'r Pointer,
    headers: (&'r [ResponseHeader], &'r [RequestHeader]),
    request_body: Option<&'r Template>,
    request_method: Option<&'r str>,
    groups: StepGroups,
    guards: Guards,
    rules: RuleSet,
    settings: ScopeNumber,
    /// An internal redirect has led here: computed destinations may be internal routes.
    is_internal: bool,
    cache: Option<&'r Arc<Cache>>,
    hops: u32,
}

/// One step: an end, or another route.
enum Move<'r> {
    End(DecisionKind<'r>),
    Route(usize),
}

impl<'r> Way<'r> {
    fn action<R: RequestInfo + ?Sized>(
        mut self,
        action: &'r CompiledAction,
        request: &R,
    ) -> Decision<'r> {
        let first = self.act(action, request);
        self.decide_from(first, request)
    }

    fn pass<R: RequestInfo + ?Sized>(self, pass: &'r CompiledPass, request: &R) -> Decision<'r> {
        let first = self.follow(pass, request);
        self.decide_from(first, request)
    }

    fn decide_from<R: RequestInfo + ?Sized>(
        mut self,
        mut next: Move<'r>,
        request: &R,
    ) -> Decision<'r> {
        let router = self.router;
        let action = loop {
            let route = match next {
                Move::End(action) => break action,
                Move::Route(number) => {
                    self.route = Some(number);
                    router.routes.get(number)
                }
            };
            self.hops += 1;
            if self.hops > HOP_LIMIT {
                break DecisionKind::Loop;
            }
            let routed = Seen::on_its_way(request, self.rewritten.as_deref());
            match route.map(|route| route.find(&routed)) {
                Some(Ok(Some(step))) => match step.groups(&routed) {
                    Ok(groups) => {
                        self.groups = groups;
                        next = self.act(&step.action, request);
                    }
                    Err(NoStep) => break DecisionKind::Undecided,
                },
                Some(Ok(None)) | None => break DecisionKind::NotFound,
                Some(Err(NoStep)) => break DecisionKind::Undecided,
            }
        };
        Decision {
            action,
            rewritten: self.rewritten,
            response_headers: self.headers.0,
            groups: self.groups,
            request_headers: self.headers.1,
            request_body: self.request_body,
            request_method: self.request_method,
            guards: self.guards,
            rules: self.rules,
            settings: self.settings,
            is_internal: self.is_internal,
            cache: self.cache,
            pointer: self.pointer,
            route: self.route,
            hops: self.hops,
        }
    }

    fn act<R: RequestInfo + ?Sized>(
        &mut self,
        action: &'r CompiledAction,
        request: &R,
    ) -> Move<'r> {
        self.pointer = &action.pointer;
        self.headers = (&action.response_headers, &action.request_headers);
        self.request_body = action.request_body.as_ref();
        self.request_method = action.request_method.as_deref();
        if let Some(guard) = action.guard
            && !self.guards.contains(&guard)
        {
            self.guards.push(guard);
        }
        self.rules.add(action.rules);
        self.settings = self.router.combinations.after(self.settings, action.scope);
        self.cache = action.cache.as_ref();
        if let Some(template) = &action.rewrite {
            let routed = Seen::on_its_way(request, self.rewritten.as_deref());
            let merge_slashes = self.router.combinations.merges_slashes(self.settings);
            let groups = self.groups.of_templates();
            let Ok(rewritten) = rewrite_with(template, groups, &routed, merge_slashes) else {
                return Move::End(DecisionKind::Undecided);
            };
            let rewritten = Rc::new(rewritten);
            request.note(RouteEvent::Rewritten(rewritten.as_path().path()));
            self.rewritten = Some(rewritten);
        }
        match &action.kind {
            CompiledKind::Return(answer) => Move::End(DecisionKind::Return(answer)),
            CompiledKind::Share(share) => Move::End(DecisionKind::Share(share)),
            CompiledKind::Pass(pass) => self.follow(pass, request),
        }
    }

    fn follow<R: RequestInfo + ?Sized>(&self, pass: &CompiledPass, request: &R) -> Move<'r> {
        let router = self.router;
        match pass {
            CompiledPass::Route(route) => Move::Route(*route),
            CompiledPass::Upstream(index) => Move::End(DecisionKind::Upstream(*index)),
            CompiledPass::Metrics => Move::End(DecisionKind::Metrics),
            CompiledPass::StubStatus => Move::End(DecisionKind::StubStatus),
            CompiledPass::Nothing => Move::End(DecisionKind::NotFound),
            CompiledPass::Spooler(index) => Move::End(DecisionKind::Spooler(*index)),
            CompiledPass::Application { index, target } => {
                let Some(application) = router.applications.get(*index) else {
                    return Move::End(DecisionKind::NotFound);
                };
                let target = target
                    .and_then(|target| application.targets.get(target))
                    .map(String::as_str);
                Move::End(DecisionKind::Application(ApplicationRef {
                    index: *index,
                    name: &application.name,
                    target,
                }))
            }
            CompiledPass::Computed(template) => {
                let routed = Seen::on_its_way(request, self.rewritten.as_deref());
                let groups = self.groups.of_templates();
                let Ok(segments) = pass::segments(template, groups, &routed) else {
                    return Move::End(DecisionKind::Undecided);
                };
                match router.look_up(&segments) {
                    // A client must not be able to reach internal routes by what it sends.
                    Some(CompiledPass::Route(route))
                        if !self.is_internal && router.internal.contains(&route) =>
                    {
                        Move::End(DecisionKind::NotFound)
                    }
                    Some(pass) => self.follow(&pass, request),
                    None => Move::End(DecisionKind::NotFound),
                }
            }
        }
    }
}

impl Router {
    /// Never returns a computed destination: the result of a computation is not computed again.
    fn look_up(&self, segments: &[Vec<u8>]) -> Option<CompiledPass> {
        match segments {
            [section] if section == b"routes" => self.main_route.map(CompiledPass::Route),
            [section, name] if section == b"routes" => self.route(name),
            [section, name] if section == b"upstreams" => self.upstream(name),
            [section, name] if section == b"applications" => self.application(name, None),
            [section, name, target] if section == b"applications" => {
                self.application(name, Some(target))
            }
            _ => None,
        }
    }
}

impl CompiledRoute {
    /// The first step whose conditions hold.
    ///
    /// # Errors
    /// A condition could not be evaluated. Continuing could permit what the step denies.
    fn find<R: RequestInfo + ?Sized>(&self, request: &R) -> Result<Option<&CompiledStep>, NoStep> {
        match &self.index {
            _ if request.is_noted() => self.find_noted(request),
            None => first(self.steps.iter(), request),
            Some(index) => {
                let mut lists = index.find(request.host(), request.path());
                let numbers = std::iter::from_fn(|| index::next(&mut lists));
                let steps = numbers.filter_map(|number| self.steps.get(number as usize));
                first(steps, request)
            }
        }
    }

    /// The same with a note for each step.
    fn find_noted<R: RequestInfo + ?Sized>(
        &self,
        request: &R,
    ) -> Result<Option<&CompiledStep>, NoStep> {
        let name = self.name.as_deref();
        for (number, step) in self.steps.iter().enumerate() {
            if step.holds(request)? {
                request.note(RouteEvent::Selected(name, number));
                return Ok(Some(step));
            }
            request.note(RouteEvent::Discarded(name, number));
        }
        Ok(None)
    }
}

/// No decision is possible; the request has been notified.
struct NoStep;

impl CompiledStep {
    fn holds<R: RequestInfo + ?Sized>(&self, request: &R) -> Result<bool, NoStep> {
        conditions::hold(&self.conditions, request).map_err(|undecided| {
            if let Undecided::Pattern(out_of_steps) = undecided {
                request.pattern_failed(out_of_steps, &self.action.pointer);
            }
            NoStep
        })
    }

    /// The groups of a request for which the conditions hold, if the action may use them.
    fn groups<R: RequestInfo + ?Sized>(&self, request: &R) -> Result<StepGroups, NoStep> {
        if !self.has_groups {
            return Ok(StepGroups::default());
        }
        StepGroups::find(&self.conditions, request).map_err(|out_of_steps| {
            request.pattern_failed(out_of_steps, &self.action.pointer);
            NoStep
        })
    }
}

fn first<'s, R: RequestInfo + ?Sized>(
    steps: impl Iterator<Item = &'s CompiledStep>,
    request: &R,
) -> Result<Option<&'s CompiledStep>, NoStep> {
    for step in steps {
        if step.holds(request)? {
            return Ok(Some(step));
        }
    }
    Ok(None)
}
