//! Routes, compiled, and the way of a request through them.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use tutti_config::model::{
    self, ActionKind, Conditions, Config, Destination, Guard, Pass, Pointer, RequestHeader,
    ResponseHeader, Upstream,
};
use tutti_config::{Diagnostic, Diagnostics};

use crate::action::{
    Action, ApplicationRef, CompiledAction, CompiledKind, CompiledPass, Decision, Guards, Share,
};
use crate::conditions::{self, Undecided};
use crate::index::{self, Index};
use crate::info::{RequestInfo, RouteEvent};
use crate::pass;
use crate::rewrite::{Rewritten, rewrite};
use crate::seen::Seen;

/// Routes and fallbacks a request may go through; more are a circle. Real chains have two or three.
pub const HOP_LIMIT: u32 = 100;

/// All routes of a configuration.
#[derive(Debug)]
pub struct Router {
    listeners: Vec<CompiledListener>,
    routes: Vec<CompiledRoute>,
    route_names: FxHashMap<Box<[u8]>, usize>,
    main_route: Option<usize>,
    applications: Vec<CompiledApplication>,
    application_names: FxHashMap<Box<[u8]>, usize>,
    /// Those with names first, then one for each different `proxy`.
    upstreams: Vec<Arc<Upstream>>,
    upstream_names: FxHashMap<Box<[u8]>, usize>,
    /// In the order of names.
    spoolers: Vec<String>,
    /// The guards of actions.
    guards: Vec<Arc<Guard>>,
}

#[derive(Debug)]
struct CompiledListener {
    pointer: Pointer,
    pass: CompiledPass,
}

#[derive(Debug)]
struct CompiledRoute {
    name: Option<Box<str>>,
    steps: Vec<CompiledStep>,
    index: Option<Index>,
}

#[derive(Debug)]
struct CompiledStep {
    conditions: Conditions,
    action: CompiledAction,
}

#[derive(Debug)]
struct CompiledApplication {
    name: String,
    targets: Vec<String>,
}

impl Router {
    /// Compiles the routes of a validated configuration.
    ///
    /// # Errors
    /// Destinations this version cannot reach; validation refuses them, so that none are left here.
    pub fn compile(config: &Config) -> Result<Router, Diagnostics> {
        let mut router = Router {
            listeners: Vec::new(),
            routes: Vec::new(),
            route_names: FxHashMap::default(),
            main_route: None,
            applications: Vec::new(),
            application_names: FxHashMap::default(),
            upstreams: Vec::new(),
            upstream_names: FxHashMap::default(),
            spoolers: config.spoolers.keys().cloned().collect(),
            guards: Vec::new(),
        };
        for (name, upstream) in &config.upstreams {
            let index = router.upstreams.len();
            router.upstream_names.insert(name.as_bytes().into(), index);
            router.upstreams.push(Arc::clone(upstream));
        }
        for (index, application) in config.applications.values().enumerate() {
            let targets = application.special.targets();
            let targets = targets.into_iter().map(str::to_owned).collect();
            router
                .application_names
                .insert(application.name.as_bytes().into(), index);
            router.applications.push(CompiledApplication {
                name: application.name.clone(),
                targets,
            });
        }
        for (index, route) in config.routes.list.iter().enumerate() {
            match &route.name {
                None => router.main_route = Some(index),
                Some(name) => drop(router.route_names.insert(name.as_bytes().into(), index)),
            }
        }
        let mut faults = Vec::new();
        for route in &config.routes.list {
            let mut steps = Vec::with_capacity(route.steps.len());
            for step in &route.steps {
                match router.action(&step.action) {
                    Ok(action) => steps.push(CompiledStep {
                        conditions: step.conditions.clone(),
                        action,
                    }),
                    Err(fault) => faults.push(*fault),
                }
            }
            let index = Index::build(steps.iter().map(|step| &step.conditions));
            router.routes.push(CompiledRoute {
                name: route.name.as_deref().map(Box::from),
                steps,
                index,
            });
        }
        for (pass, pointer) in entrances(config) {
            match router.compile_pass(pass, pointer) {
                Ok(pass) => router.listeners.push(CompiledListener {
                    pointer: pointer.clone(),
                    pass,
                }),
                Err(fault) => faults.push(*fault),
            }
        }
        for question in router
            .guards
            .clone()
            .iter()
            .filter_map(|one| one.question())
        {
            match router.compile_pass(&question.pass, &question.pointer) {
                Ok(pass) => router.listeners.push(CompiledListener {
                    pointer: question.pointer.clone(),
                    pass,
                }),
                Err(fault) => faults.push(*fault),
            }
        }
        if faults.is_empty() {
            Ok(router)
        } else {
            Err(Diagnostics(faults))
        }
    }

    fn action(&mut self, action: &model::Action) -> Result<CompiledAction, Box<Diagnostic>> {
        let kind = match &action.kind {
            ActionKind::Pass(pass) => CompiledKind::Pass(self.compile_pass(pass, &action.pointer)?),
            ActionKind::Return(answer) => CompiledKind::Return(answer.clone()),
            ActionKind::Proxy(upstream) => {
                CompiledKind::Pass(CompiledPass::Upstream(self.proxy(upstream)))
            }
            ActionKind::Share(share) => {
                let found = share
                    .found
                    .as_ref()
                    .map(|found| self.action(found))
                    .transpose()?;
                let fallback = share
                    .fallback
                    .as_ref()
                    .map(|fallback| self.action(fallback))
                    .transpose()?;
                CompiledKind::Share(Box::new(Share {
                    paths: share.paths.clone().into(),
                    prefix: share.prefix.as_str().into(),
                    index: share.index.as_str().into(),
                    types: share.types.clone(),
                    deny: share.deny.clone(),
                    chroot: share.chroot.clone(),
                    follow_symlinks: share.follow_symlinks,
                    traverse_mounts: share.traverse_mounts,
                    pointer: action.pointer.clone(),
                    found: found.map(Box::new),
                    fallback: fallback.map(Box::new),
                }))
            }
        };
        let guard = action.guard.as_ref().map(|guard| {
            self.guards.push(Arc::clone(guard));
            self.guards.len() - 1
        });
        Ok(CompiledAction {
            pointer: action.pointer.clone(),
            kind,
            guard,
            rewrite: action.rewrite.clone(),
            response_headers: action.response_headers.clone().into(),
            request_headers: action.request_headers.clone().into(),
        })
    }

    /// The number of a `proxy`'s upstream; those that are alike are one.
    fn proxy(&mut self, upstream: &Arc<Upstream>) -> usize {
        let named = self.upstream_names.len();
        let is_alike = |known: &Arc<Upstream>| {
            known.servers == upstream.servers
                && known.options == upstream.options
                && known.protocol == upstream.protocol
        };
        let proxies = self.upstreams.iter().skip(named);
        if let Some(found) = proxies.into_iter().position(is_alike) {
            return named + found;
        }
        self.upstreams.push(Arc::clone(upstream));
        self.upstreams.len() - 1
    }

    fn compile_pass(
        &self,
        pass: &Pass,
        pointer: &Pointer,
    ) -> Result<CompiledPass, Box<Diagnostic>> {
        let found = match pass {
            Pass::Computed(template) => Some(CompiledPass::Computed(template.clone())),
            Pass::Fixed(Destination::Route(None)) => self.main_route.map(CompiledPass::Route),
            Pass::Fixed(Destination::Route(Some(name))) => self.route(name.as_bytes()),
            Pass::Fixed(Destination::Application { name, target }) => {
                self.application(name.as_bytes(), target.as_ref().map(String::as_bytes))
            }
            Pass::Fixed(Destination::Upstream(name)) => self.upstream(name.as_bytes()),
            Pass::Fixed(Destination::Metrics) => Some(CompiledPass::Metrics),
            Pass::Fixed(Destination::Spooler(name)) => {
                let index = self.spoolers.iter().position(|known| known == name);
                index.map(CompiledPass::Spooler)
            }
        };
        found.ok_or_else(|| {
            Box::new(Diagnostic::new(
                pointer.clone(),
                "the destination does not exist",
            ))
        })
    }

    fn route(&self, name: &[u8]) -> Option<CompiledPass> {
        self.route_names.get(name).copied().map(CompiledPass::Route)
    }

    fn upstream(&self, name: &[u8]) -> Option<CompiledPass> {
        let index = self.upstream_names.get(name).copied();
        index.map(CompiledPass::Upstream)
    }

    /// The upstreams requests can go to: those of the configuration, and one for each different `proxy`.
    pub fn upstreams(&self) -> &[Arc<Upstream>] {
        &self.upstreams
    }

    /// The guards of actions.
    pub fn guards(&self) -> &[Arc<Guard>] {
        &self.guards
    }

    fn application(&self, name: &[u8], target: Option<&[u8]>) -> Option<CompiledPass> {
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

    /// Number of listeners, which have the order of the configuration, of spoolers behind them, which have that of their names, and of the questions of guards.
    pub fn listeners(&self) -> usize {
        self.listeners.len()
    }

    /// Decides about a request that came to the listener with this number, or is a job of the spooler with it.
    pub fn decide<'r, R: RequestInfo + ?Sized>(
        &'r self,
        listener: usize,
        request: &R,
    ) -> Decision<'r> {
        /// A listener that is not there has no place.
        static NOWHERE: std::sync::LazyLock<Pointer> = std::sync::LazyLock::new(Pointer::root);
        let Some(listener) = self.listeners.get(listener) else {
            return Decision {
                action: Action::NotFound,
                rewritten: None,
                response_headers: &[],
                request_headers: &[],
                guards: Guards::new(),
                pointer: &NOWHERE,
                hops: 0,
            };
        };
        let way = Way {
            router: self,
            rewritten: None,
            pointer: &listener.pointer,
            headers: (&[], &[]),
            guards: Guards::new(),
            hops: 0,
        };
        way.pass(&listener.pass, request)
    }

    /// Decides again after a share had nothing to serve.
    ///
    /// # Errors
    /// The decision itself, if it has no fallback (or is no share).
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
    /// The decision itself, if the share serves it (or is no share).
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

    /// Decides by another action of a share.
    #[expect(clippy::result_large_err, reason = "the decision goes back as it came")]
    fn instead<'r, R: RequestInfo + ?Sized>(
        &'r self,
        decision: Decision<'r>,
        request: &R,
        action: impl FnOnce(&'r Share) -> Option<&'r CompiledAction>,
        event: RouteEvent<'_>,
    ) -> Result<Decision<'r>, Decision<'r>> {
        let Action::Share(share) = decision.action else {
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
            pointer: decision.pointer,
            headers: (&[], &[]),
            guards: decision.guards,
            hops: decision.hops + 1,
        };
        way.action(action, request)
    }
}

/// The ways into the routes: those of listeners, then those of the jobs of spoolers, runs of schedules among them.
fn entrances(config: &Config) -> impl Iterator<Item = (&Pass, &Pointer)> {
    let listeners = config.listeners.iter().map(|one| (&one.pass, &one.pointer));
    let spoolers = config.delivering_spoolers();
    listeners.chain(spoolers.filter_map(|one| Some((one.pass.as_ref()?, &one.pointer))))
}

/// Where a request is on its way.
struct Way<'r> {
    router: &'r Router,
    rewritten: Option<Box<Rewritten>>,
    pointer: &'r Pointer,
    headers: (&'r [ResponseHeader], &'r [RequestHeader]),
    guards: Guards,
    hops: u32,
}

/// One move: an end, or on to another route.
enum Move<'r> {
    End(Action<'r>),
    Route(usize),
}

impl<'r> Way<'r> {
    fn action<R: RequestInfo + ?Sized>(
        mut self,
        action: &'r CompiledAction,
        request: &R,
    ) -> Decision<'r> {
        let first = self.act(action, request);
        self.go_on(first, request)
    }

    fn pass<R: RequestInfo + ?Sized>(self, pass: &'r CompiledPass, request: &R) -> Decision<'r> {
        let first = self.follow(pass, request);
        self.go_on(first, request)
    }

    fn go_on<R: RequestInfo + ?Sized>(mut self, mut next: Move<'r>, request: &R) -> Decision<'r> {
        let router = self.router;
        let action = loop {
            let route = match next {
                Move::End(action) => break action,
                Move::Route(route) => router.routes.get(route),
            };
            self.hops += 1;
            if self.hops > HOP_LIMIT {
                break Action::Loop;
            }
            let routed = Seen::on_its_way(request, self.rewritten.as_deref());
            match route.map(|route| route.find(&routed)) {
                Some(Ok(Some(action))) => next = self.act(action, request),
                Some(Ok(None)) | None => break Action::NotFound,
                Some(Err(NoStep)) => break Action::Undecided,
            }
        };
        Decision {
            action,
            rewritten: self.rewritten,
            response_headers: self.headers.0,
            request_headers: self.headers.1,
            guards: self.guards,
            pointer: self.pointer,
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
        if let Some(guard) = action.guard
            && !self.guards.contains(&guard)
        {
            self.guards.push(guard);
        }
        if let Some(template) = &action.rewrite {
            let routed = Seen::on_its_way(request, self.rewritten.as_deref());
            let Ok(rewritten) = rewrite(template, &routed) else {
                return Move::End(Action::Undecided);
            };
            let rewritten = Box::new(rewritten);
            request.note(RouteEvent::Rewritten(&rewritten.path));
            self.rewritten = Some(rewritten);
        }
        match &action.kind {
            CompiledKind::Return(answer) => Move::End(Action::Return(answer)),
            CompiledKind::Share(share) => Move::End(Action::Share(share)),
            CompiledKind::Pass(pass) => self.follow(pass, request),
        }
    }

    fn follow<R: RequestInfo + ?Sized>(&self, pass: &CompiledPass, request: &R) -> Move<'r> {
        let router = self.router;
        match pass {
            CompiledPass::Route(route) => Move::Route(*route),
            CompiledPass::Upstream(index) => Move::End(Action::Upstream(*index)),
            CompiledPass::Metrics => Move::End(Action::Metrics),
            CompiledPass::Spooler(index) => Move::End(Action::Spooler(*index)),
            CompiledPass::Application { index, target } => {
                let Some(application) = router.applications.get(*index) else {
                    return Move::End(Action::NotFound);
                };
                let target = target
                    .and_then(|target| application.targets.get(target))
                    .map(String::as_str);
                Move::End(Action::Application(ApplicationRef {
                    index: *index,
                    name: &application.name,
                    target,
                }))
            }
            CompiledPass::Computed(template) => {
                let routed = Seen::on_its_way(request, self.rewritten.as_deref());
                let Ok(segments) = pass::segments(template, &routed) else {
                    return Move::End(Action::Undecided);
                };
                match router.look_up(&segments) {
                    Some(pass) => self.follow(&pass, request),
                    None => Move::End(Action::NotFound),
                }
            }
        }
    }
}

impl Router {
    /// Never returns a computed destination: what was computed is not computed again.
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
    /// The action of the first step whose conditions hold.
    ///
    /// # Errors
    /// Nobody can tell whether a step's conditions hold. Going on would open what the step was to close.
    fn find<R: RequestInfo + ?Sized>(
        &self,
        request: &R,
    ) -> Result<Option<&CompiledAction>, NoStep> {
        let step = match &self.index {
            _ if request.is_noted() => self.find_noted(request)?,
            None => first(self.steps.iter(), request)?,
            Some(index) => {
                let mut lists = index.find(request.host(), request.path());
                let numbers = std::iter::from_fn(|| index::next(&mut lists));
                let steps = numbers.filter_map(|number| self.steps.get(number as usize));
                first(steps, request)?
            }
        };
        Ok(step.map(|step| &step.action))
    }

    /// The same, step by step.
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

/// The request, which has been told, cannot be decided about.
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
