//! Finds the combinations of settings that the compiled routes lead to.

use rustc_hash::FxHashSet;
use tutti_config::Diagnostic;
use tutti_config::model::{Config, Pointer};

use crate::action::{CompiledAction, CompiledKind, CompiledPass};
use crate::router::Router;
use crate::scopes::{Combinations, ScopeNumber};

/// Most combinations in a configuration. Routes that pass requests to each other in every order could have millions.
const MOST: usize = 4096;

/// Those of the compiled routes; `listeners` have the numbers of the listeners' scopes.
///
/// # Errors
/// There are too many.
pub(crate) fn combinations(
    config: &Config,
    router: &Router,
    listeners: &[Option<usize>],
) -> Result<(Combinations, Vec<ScopeNumber>), Box<Diagnostic>> {
    let mut walk = Walk {
        config,
        router,
        found: Combinations::default(),
        waiting: Vec::new(),
        seen: FxHashSet::default(),
    };
    walk.found.add(config, Vec::new());
    let mut numbers = vec![ScopeNumber::default(); listeners.len()];
    // Without scopes, every request has the settings of the whole server.
    if !config.scopes.is_empty() {
        for (number, scope) in numbers.iter_mut().zip(listeners) {
            *number = walk.enter(ScopeNumber::default(), *scope);
        }
        for (listener, number) in router.listeners.iter().zip(&numbers) {
            walk.pass(*number, &listener.pass);
        }
        walk.all();
    }
    if walk.found.len() > MOST {
        let message =
            format!("the settings of listeners and actions have more than {MOST} combinations");
        let hint = "set them in fewer actions that pass requests to other routes";
        let place = Pointer::root().child("routes");
        return Err(Box::new(Diagnostic::new(place, message).suggest(hint)));
    }
    Ok((walk.found, numbers))
}

/// Follows every way through the routes with the settings that it has.
struct Walk<'c> {
    config: &'c Config,
    router: &'c Router,
    found: Combinations,
    waiting: Vec<(ScopeNumber, usize)>,
    seen: FxHashSet<(ScopeNumber, usize)>,
}

impl Walk<'_> {
    fn enter(&mut self, number: ScopeNumber, scope: Option<usize>) -> ScopeNumber {
        let Some(scope) = scope else {
            return number;
        };
        self.found.enter(self.config, number, scope)
    }

    fn action(&mut self, number: ScopeNumber, action: &CompiledAction) {
        let number = self.enter(number, action.scope);
        match &action.kind {
            CompiledKind::Return(_) => {}
            CompiledKind::Pass(pass) => self.pass(number, pass),
            CompiledKind::Share(share) => {
                for inner in [&share.found, &share.folder, &share.fallback]
                    .into_iter()
                    .flatten()
                {
                    self.action(number, inner);
                }
            }
        }
    }

    fn pass(&mut self, number: ScopeNumber, pass: &CompiledPass) {
        match pass {
            CompiledPass::Route(route) => self.route(number, *route),
            // It may lead to any.
            CompiledPass::Computed(_) => {
                for route in 0..self.router.routes.len() {
                    self.route(number, route);
                }
            }
            _ => {}
        }
    }

    fn route(&mut self, number: ScopeNumber, route: usize) {
        if self.seen.insert((number, route)) {
            self.waiting.push((number, route));
        }
    }

    /// Follows everything that waits. A response may lead from every place to error pages and to internal routes.
    fn all(&mut self) {
        let router = self.router;
        let mut begun = 0;
        while self.found.len() <= MOST {
            if let Some((number, route)) = self.waiting.pop() {
                for step in router.routes.get(route).map_or(&[][..], |one| &one.steps) {
                    self.action(number, &step.action);
                }
                continue;
            }
            if begun >= self.found.len() {
                break;
            }
            let number = ScopeNumber(u32::try_from(begun).unwrap_or_default());
            begun += 1;
            for page in router.rules.pages() {
                self.action(number, page);
            }
            for route in &router.internal {
                self.route(number, *route);
            }
        }
    }
}
