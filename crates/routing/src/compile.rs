//! Compiles the routes of a configuration to a [`Router`]: resolves destinations, and numbers rules and guards.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};
use tutti_config::model::{
    self, ActionKind, Config, Delivery, Destination, Pass, Pointer, Upstream,
};
use tutti_config::{Diagnostic, Diagnostics};

use crate::action::{CompiledAction, CompiledKind, CompiledPass, CompiledShare};
use crate::index::Index;
use crate::router::{CompiledApplication, CompiledListener, CompiledRoute, CompiledStep, Router};
use crate::rules::{Page, Rulebook, Rules};
use crate::scope_walk::combinations;
use crate::scopes::{Combinations, ScopeNumber};

impl Router {
    /// Compiles the routes of a validated configuration.
    ///
    /// # Errors
    /// Destinations that this version does not support; validation has refused them, so there are none.
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
            rules: Rulebook::default(),
            internal: FxHashSet::default(),
            combinations: Combinations::default(),
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
                        has_groups: step.has_groups,
                        action,
                    }),
                    Err(fault) => faults.push(*fault),
                }
            }
            let index = Index::build(steps.iter().map(|step| &step.conditions));
            router.routes.push(CompiledRoute {
                pass: match &route.name {
                    None => "routes".into(),
                    Some(name) => format!("routes/{name}").into(),
                },
                name: route.name.as_deref().map(Box::from),
                steps,
                index,
            });
        }
        for (pass, pointer, delivery) in entrances(config) {
            let pass = pass.map_or(Ok(CompiledPass::Nothing), |pass| {
                router.compile_pass(pass, pointer)
            });
            match pass.and_then(|pass| Ok((pass, router.rules_of(delivery, pointer)?))) {
                Ok((pass, rules)) => router.listeners.push(CompiledListener {
                    pointer: pointer.clone(),
                    pass,
                    rules,
                    settings: ScopeNumber::default(),
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
                    pointer: question.pointer.clone().into(),
                    pass,
                    rules: None,
                    settings: ScopeNumber::default(),
                }),
                Err(fault) => faults.push(*fault),
            }
        }
        if !faults.is_empty() {
            return Err(Diagnostics(faults));
        }
        router.combined(config)
    }

    /// Numbers the combinations of settings.
    fn combined(mut self, config: &Config) -> Result<Router, Diagnostics> {
        // Those of listeners come first.
        let mut scopes: Vec<Option<usize>> = config.listeners.iter().map(|one| one.scope).collect();
        scopes.resize(self.listeners.len(), None);
        match combinations(config, &self, &scopes) {
            Ok((combinations, settings)) => {
                self.combinations = combinations;
                for (listener, settings) in self.listeners.iter_mut().zip(settings) {
                    listener.settings = settings;
                }
                Ok(self)
            }
            Err(fault) => Err(Diagnostics(vec![*fault])),
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
                let folder = share
                    .folder
                    .as_ref()
                    .map(|folder| self.action(folder))
                    .transpose()?;
                let fallback = share
                    .fallback
                    .as_ref()
                    .map(|fallback| self.action(fallback))
                    .transpose()?;
                CompiledKind::Share(Box::new(CompiledShare {
                    written: Arc::clone(share),
                    pointer: action.pointer.clone(),
                    found: found.map(Box::new),
                    folder: folder.map(Box::new),
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
            request_body: action.request_body.clone(),
            request_method: action.request_method.clone().map(Into::into),
            rules: self.rules_of(action.delivery.as_deref(), &action.pointer)?,
            scope: action.scope,
            cache: action.cache.clone(),
        })
    }

    /// The number of the rules of an action or a listener.
    fn rules_of(
        &mut self,
        delivery: Option<&Delivery>,
        pointer: &Pointer,
    ) -> Result<Option<u32>, Box<Diagnostic>> {
        let Some(delivery) = delivery else {
            return Ok(None);
        };
        let missing = || {
            let message = "the destination does not exist";
            Box::new(Diagnostic::new(pointer.clone(), message))
        };
        let mut pages = Vec::new();
        for page in &delivery.error_pages {
            pages.push(Page {
                statuses: page.statuses,
                status: page.status,
                action: self.action(&page.action)?,
            });
        }
        let mut internal = Vec::new();
        for one in &delivery.internal {
            let route = self.route_names.get(one.route.as_bytes()).copied();
            let route = route.ok_or_else(missing)?;
            self.internal.insert(route);
            internal.push((one.prefix.as_bytes().into(), route));
        }
        let mirror = delivery.mirror.as_ref().map(|mirror| {
            let upstream = self.upstream_names.get(mirror.upstream.as_bytes());
            Ok::<_, Box<Diagnostic>>((mirror.clone(), *upstream.ok_or_else(missing)?))
        });
        Ok(self.rules.add(Rules {
            pages: pages.into(),
            intercepts: delivery.intercept_errors,
            internal: internal.into(),
            hints: delivery.early_hints.clone().into(),
            mirror: mirror.transpose()?,
        }))
    }

    /// Returns the number of a `proxy`'s upstream. Two actions share one only if they are equal except for their place.
    fn proxy(&mut self, upstream: &Arc<Upstream>) -> usize {
        let named = self.upstream_names.len();
        let mut proxies = self.upstreams.iter().skip(named);
        if let Some(found) = proxies.position(|known| known == upstream) {
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
            Pass::Fixed(Destination::StubStatus) => Some(CompiledPass::StubStatus),
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
}

/// The entry points of the routes: those of listeners, then those of the jobs of spoolers, including runs of schedules.
fn entrances(
    config: &Config,
) -> impl Iterator<Item = (Option<&Pass>, &Pointer, Option<&Delivery>)> {
    let listeners = config.listeners.iter();
    let listeners = listeners.map(|one| (one.pass.as_ref(), &one.pointer, one.delivery.as_deref()));
    // Spoolers without a `pass` deliver nothing.
    let spoolers = config.delivering_spoolers();
    listeners.chain(spoolers.map(|one| (one.pass.as_ref(), &one.pointer, None)))
}
