//! All guards of a configuration.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tutti_config::{Diagnostic, model};

use crate::fleet_share::FleetShare;
use crate::identity::Identity;
use crate::limit::RequestLimit;
use crate::password_desk::PasswordDesk;
use crate::valkey::CountStore;

/// All guards of a configuration, numbered as in the router.
#[derive(Debug, Default)]
pub struct GuardTable {
    list: Vec<ActionGuard>,
    /// The fields that they set for applications.
    fields: Vec<String>,
    desk: Arc<PasswordDesk>,
    /// The nodes that share limits; kept over changes.
    share: Arc<FleetShare>,
    /// The stores of limits.
    stores: Vec<Arc<CountStore>>,
    /// Denied requests, by the kind of guard; kept over changes.
    not_let_in: Arc<[AtomicU64; AuthKind::ALL.len()]>,
}

/// The ways to identify the user of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthKind {
    /// By name and password.
    Basic,
    /// By a signed token.
    Jwt,
    /// By asking a service (forward auth).
    Forward,
    /// By a signed link.
    SignedLink,
}

impl AuthKind {
    /// All of them.
    pub const ALL: [AuthKind; 4] = [Self::Basic, Self::Jwt, Self::Forward, Self::SignedLink];

    /// The kind of a guard.
    pub fn of(model: &model::Authenticate) -> Self {
        match model {
            model::Authenticate::Basic(_) => Self::Basic,
            model::Authenticate::Jwt(_) => Self::Jwt,
            model::Authenticate::Forward(_) => Self::Forward,
            model::Authenticate::SignedLink(_) => Self::SignedLink,
        }
    }

    /// Its label in the metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Basic => "basic",
            Self::Jwt => "jwt",
            Self::Forward => "forward",
            Self::SignedLink => "signed_link",
        }
    }
}

/// One guard of actions.
#[derive(Debug)]
pub struct ActionGuard {
    /// Its configuration.
    pub model: Arc<model::Guard>,
    /// Its limits.
    pub limits: Vec<Arc<RequestLimit>>,
    /// Its authentication.
    pub identity: Option<Arc<Identity>>,
    /// The number of the internal listener for its question.
    pub question: Option<usize>,
}

impl GuardTable {
    /// The guards of a configuration. Counts and files of the former one are kept where nothing changed.
    ///
    /// # Errors
    /// Files that cannot be used, each at its place.
    pub fn new(
        wanted: &[Arc<model::Guard>],
        stores: &BTreeMap<String, Arc<model::LimitStore>>,
        previous: &GuardTable,
        mut read: impl FnMut(&Path) -> Option<Result<Vec<u8>, String>>,
    ) -> Result<Self, Vec<Diagnostic>> {
        let stores = previous.stores_of(stores.values());
        let mut known = Known {
            former: previous.limits(),
            limits: Vec::new(),
            stores: &stores,
            share: &previous.share,
        };
        let mut faults = Vec::new();
        let mut list = Vec::new();
        let mut questions = 0;
        for model in wanted {
            let identity = previous.identity(model);
            if let (Some(identity), Some(file)) = (&identity, model.file())
                && let Some(content) = read(&file.path)
                && let Err(why) = content.and_then(|content| identity.take(&content))
            {
                let message = format!("`{}`: {why}", file.path.display());
                faults.push(Diagnostic::apply(file.pointer.clone().into(), message));
            }
            list.push(ActionGuard {
                limits: known.limits_of(model),
                identity,
                question: model.question().map(|_| {
                    questions += 1;
                    questions - 1
                }),
                model: Arc::clone(model),
            });
        }
        let mut fields: Vec<String> = Vec::new();
        let all = wanted.iter().flat_map(|model| model.fields());
        for name in all {
            add_field(&mut fields, name);
        }
        match faults.is_empty() {
            true => Ok(Self {
                list,
                fields,
                desk: Arc::clone(&previous.desk),
                share: Arc::clone(&previous.share),
                stores,
                not_let_in: Arc::clone(&previous.not_let_in),
            }),
            false => Err(faults),
        }
    }

    /// The stores of these models: existing ones, and new ones.
    fn stores_of<'m>(
        &self,
        wanted: impl Iterator<Item = &'m Arc<model::LimitStore>>,
    ) -> Vec<Arc<CountStore>> {
        let store = |model: &Arc<model::LimitStore>| {
            let same = self.stores.iter().find(|known| known.is(model));
            same.map_or_else(|| CountStore::new(model), Arc::clone)
        };
        wanted.map(store).collect()
    }

    /// The stores of limits.
    pub fn stores(&self) -> &[Arc<CountStore>] {
        &self.stores
    }

    /// The nodes that share limits.
    pub fn share(&self) -> &FleetShare {
        &self.share
    }

    /// The state of a guard's authentication: the existing one, or a new one.
    fn identity(&self, model: &model::Guard) -> Option<Arc<Identity>> {
        let wanted = model.authenticate.as_ref()?;
        let mut known = self.list.iter().filter_map(|guard| guard.identity.as_ref());
        let same = known.find(|known| known.is(wanted));
        Some(same.map_or_else(|| Arc::new(Identity::new(wanted)), Arc::clone))
    }

    /// The fields that guards set for applications; clients cannot set them.
    pub fn fields(&self) -> &[String] {
        &self.fields
    }

    /// The files that guards need.
    pub fn files(&self) -> impl Iterator<Item = &Path> {
        let identities = self
            .list
            .iter()
            .filter_map(|guard| guard.identity.as_deref());
        identities.filter_map(Identity::file)
    }

    /// Replaces the content of a file. Returns the numbers of the lines with a weak hash, or the faults.
    pub fn replace_file(&self, path: &Path, content: &[u8]) -> Vec<Result<Vec<usize>, String>> {
        let identities = self
            .list
            .iter()
            .filter_map(|guard| guard.identity.as_deref());
        let its = identities.filter(|identity| identity.file() == Some(path));
        its.map(|identity| identity.take(content)).collect()
    }

    /// The guards with these numbers.
    pub fn of<'g>(
        &'g self,
        numbers: &'g [usize],
    ) -> impl DoubleEndedIterator<Item = &'g ActionGuard> {
        numbers.iter().filter_map(|number| self.list.get(*number))
    }

    /// Counts a denied request.
    pub fn note_not_let_in(&self, kind: AuthKind) {
        if let Some(count) = self.not_let_in.get(kind as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Denied requests, by the kinds in this configuration.
    pub fn not_let_in(&self) -> impl Iterator<Item = (AuthKind, u64)> + '_ {
        let has = |kind: &AuthKind| {
            let models = self
                .list
                .iter()
                .filter_map(|guard| guard.model.authenticate.as_ref());
            models.map(AuthKind::of).any(|there| there == *kind)
        };
        let counts = AuthKind::ALL.into_iter().zip(&*self.not_let_in);
        counts
            .filter(move |(kind, _)| has(kind))
            .map(|(kind, count)| (kind, count.load(Ordering::Relaxed)))
    }

    /// The limits, each once.
    pub fn limits(&self) -> Vec<&Arc<RequestLimit>> {
        let mut limits: Vec<&Arc<RequestLimit>> = Vec::new();
        for limit in self.list.iter().flat_map(|guard| &guard.limits) {
            if !limits.iter().any(|known| Arc::ptr_eq(known, limit)) {
                limits.push(limit);
            }
        }
        limits
    }

    /// The queue of password checks.
    pub fn desk(&self) -> &PasswordDesk {
        &self.desk
    }
}

/// The existing limits and stores, from which those of the next configuration are taken.
struct Known<'g> {
    /// Those of the former configuration that none of this one has taken yet.
    former: Vec<&'g Arc<RequestLimit>>,
    /// Those of this configuration.
    limits: Vec<Arc<RequestLimit>>,
    stores: &'g [Arc<CountStore>],
    share: &'g Arc<FleetShare>,
}

impl Known<'_> {
    /// The limits of a guard: existing ones, and new ones.
    fn limits_of(&mut self, model: &model::Guard) -> Vec<Arc<RequestLimit>> {
        model.limits.iter().map(|one| self.limit(one)).collect()
    }

    fn limit(&mut self, wanted: &Arc<model::Limit>) -> Arc<RequestLimit> {
        let name = wanted.options.store.as_ref();
        let store = name.and_then(|name| {
            let mut stores = self.stores.iter();
            stores.find(|store| store.model.name == *name)
        });
        // Several actions may name it.
        let mut limits = self.limits.iter();
        if let Some(same) = limits.find(|one| Arc::ptr_eq(&one.model, wanted)) {
            return Arc::clone(same);
        }
        // Equal limits of two actions have counts of their own, so each former one is taken once, in order.
        let found = self.former.iter().position(|one| one.is(wanted, store));
        let new = Arc::new(match found.map(|index| self.former.remove(index)) {
            Some(former) => former.moved(wanted),
            None => RequestLimit::new(wanted, self.share, store.cloned()),
        });
        self.limits.push(Arc::clone(&new));
        new
    }
}

fn add_field(fields: &mut Vec<String>, name: &str) {
    if !fields.iter().any(|known| known.eq_ignore_ascii_case(name)) {
        fields.push(name.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use tutti_config::ValidationContext;

    use super::*;
    use crate::identity::IdentityState;
    use crate::limit::Bound;
    use crate::token::VerificationKeys;

    const LIMITED: &str = r#"{"action": {"return": 200, "limit": {"rate": "10r/s"}}}"#;
    const OPEN: &str =
        r#"{"match": {"uri": "/open"}, "action": {"return": 200, "limit": {"rate": "7r/s"}}}"#;
    const SIGNED: &str = r#"{"action": {"return": 200, "authenticate": {"jwt": {
        "algorithms": ["RS256"], "jwks": {"pass": "routes/keys"}}}}}"#;

    /// The guards of a configuration with these routes, after another one.
    fn table(routes: &[&str], previous: &GuardTable) -> GuardTable {
        let routes = routes.join(", ");
        let text = format!(
            r#"{{"listeners": {{"*:80": {{"pass": "routes/main"}}}},
                "routes": {{"main": [{routes}], "keys": [{{"action": {{"return": 200}}}}]}}}}"#
        );
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let config = tutti_config::validate(&document, &ValidationContext::default()).unwrap();
        let guards: Vec<_> = config.guards().cloned().collect();
        GuardTable::new(&guards, &BTreeMap::new(), previous, |_| None).unwrap()
    }

    /// Notes as many requests beyond each limit as its number says.
    fn number(table: &GuardTable) {
        for (number, guard) in table.list.iter().enumerate() {
            for _ in 0..=number {
                guard.limits[0].note_beyond(Bound::Rate);
            }
        }
    }

    fn numbers(table: &GuardTable) -> Vec<u64> {
        let limits = table.list.iter().flat_map(|guard| &guard.limits);
        limits.map(|one| one.beyond().next().unwrap().1).collect()
    }

    #[test]
    fn counts_of_limits_without_a_name_survive_a_change_of_their_place() {
        let first = table(&[LIMITED, LIMITED], &GuardTable::default());
        number(&first);
        assert_eq!(numbers(&first), [1, 2], "equal limits are two limits");
        let moved = table(&[OPEN, LIMITED, LIMITED], &first);
        assert_eq!(numbers(&moved), [0, 1, 2]);
        assert_eq!(
            moved.list[2].limits[0].model.pointer.as_str(),
            "/routes/main/2/action/limit"
        );
        let more = table(&[OPEN, LIMITED, LIMITED, LIMITED], &moved);
        assert_eq!(numbers(&more), [0, 1, 2, 0]);
    }

    #[test]
    fn fetched_keys_survive_a_change_of_their_place() {
        let keys = |table: &GuardTable| {
            let mut identities = table.list.iter().filter_map(|guard| guard.identity.clone());
            match &identities.next().unwrap().state {
                IdentityState::Jwt(_, keys) => Arc::clone(keys),
                _ => panic!("not a token"),
            }
        };
        let first = table(&[SIGNED], &GuardTable::default());
        keys(&first).put(VerificationKeys::default());
        let moved = table(&[OPEN, SIGNED], &first);
        assert!(keys(&moved).now().is_some());
    }
}
