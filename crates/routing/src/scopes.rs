//! The combinations of settings that requests can have.
//!
//! A listener and an action have settings of their own ([`Scope`]), which apply to the requests that pass through them unless an inner
//! action has others. Which ways lead where is known when the routes are compiled, so each combination gets a number then, and a request
//! only notes the number that it has arrived at.
//!
//! Must never: give a request a number whose settings were not prepared.

use rustc_hash::FxHashMap;
use tutti_config::model::{Config, Scope};

/// The number of a combination of settings; the default is that of the whole server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScopeNumber(pub(crate) u32);

impl ScopeNumber {
    /// The position among the combinations.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A combination of settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Combination {
    /// Numbers in [`Config::scopes`], the innermost first.
    pub scopes: Vec<usize>,
    /// `merge_slashes` of the listener.
    pub(crate) merge_slashes: bool,
}

/// All combinations of a configuration.
#[derive(Debug, Default)]
pub struct Combinations {
    /// The first is that of the whole server.
    list: Vec<Combination>,
    numbers: FxHashMap<Vec<usize>, ScopeNumber>,
    /// The combination after entering a scope.
    entered: FxHashMap<(ScopeNumber, usize), ScopeNumber>,
}

impl Combinations {
    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Combination> {
        self.list.iter()
    }

    /// The combination after entering a scope; the same without one.
    pub(crate) fn after(&self, number: ScopeNumber, scope: Option<usize>) -> ScopeNumber {
        let entered = scope.and_then(|scope| self.entered.get(&(number, scope)));
        debug_assert_eq!(entered.is_some(), scope.is_some());
        entered.copied().unwrap_or(number)
    }

    /// True if repeated slashes are merged in the result of a `rewrite`, as in paths of requests.
    pub(crate) fn merges_slashes(&self, number: ScopeNumber) -> bool {
        self.list
            .get(number.index())
            .is_none_or(|one| one.merge_slashes)
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Adds the combination after entering a scope, and returns its number.
    pub(crate) fn enter(
        &mut self,
        config: &Config,
        number: ScopeNumber,
        scope: usize,
    ) -> ScopeNumber {
        if let Some(known) = self.entered.get(&(number, scope)) {
            return *known;
        }
        let mut scopes = vec![scope];
        let outer = self.list.get(number.index());
        for known in outer.map_or(&[][..], |outer| &outer.scopes) {
            let is_covered = config
                .scopes
                .get(*known)
                .is_none_or(|one| one.is_covered_by(each(config, &scopes)));
            if *known != scope && !is_covered {
                scopes.push(*known);
            }
        }
        let entered = self.add(config, scopes);
        self.entered.insert((number, scope), entered);
        entered
    }

    /// Adds a combination, and returns its number.
    pub(crate) fn add(&mut self, config: &Config, scopes: Vec<usize>) -> ScopeNumber {
        if let Some(known) = self.numbers.get(&scopes) {
            return *known;
        }
        let number = ScopeNumber(u32::try_from(self.list.len()).unwrap_or_default());
        let mut http = config.settings.http.clone();
        for scope in each(config, &scopes).rev() {
            http.take(&scope.http);
        }
        self.numbers.insert(scopes.clone(), number);
        self.list.push(Combination {
            scopes,
            merge_slashes: http.connection.merge_slashes,
        });
        number
    }
}

fn each<'c>(
    config: &'c Config,
    scopes: &'c [usize],
) -> impl DoubleEndedIterator<Item = &'c Scope> + Clone {
    scopes.iter().filter_map(|scope| config.scopes.get(*scope))
}
