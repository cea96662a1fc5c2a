//! Variables whose values nginx keeps when a request goes on to another location. Tutti evaluates them anew there.
//!
//! Must never: carry over a condition on a value that comes from another path or location in nginx. It fails closed instead.

use std::collections::BTreeSet;

use super::places::{Place, refuses};
use super::site::{Compiler, Site};
use super::tree::Statement;
use super::variables::names;

/// Directives of responses, which use variables only when the request is not passed on.
const LATE: [&str; 5] = [
    "access_log",
    "add_header",
    "add_trailer",
    "expires",
    "sub_filter",
];

impl Compiler<'_> {
    /// Notes whether the value of a variable may come from another place.
    pub(super) fn note_set(&self, site: &mut Site, set: &Statement) {
        let name = set.argument(0).trim_start_matches('$');
        let value = Statement {
            words: set.words.get(1..).unwrap_or_default().to_vec(),
            ..set.clone()
        };
        let is_kept = self.uses_kept(site, &value);
        site.kept.insert(name.to_owned(), is_kept);
    }

    /// True if a directive uses a variable that may have a value from another path or location in nginx, which might refuse a request.
    pub(super) fn uses_kept(&self, site: &Site, statement: &Statement) -> bool {
        let arguments = statement.arguments();
        let mut used = arguments.iter().flat_map(|argument| names(argument));
        used.any(|name| self.is_kept(site, name, arguments, &mut BTreeSet::new()))
    }

    /// The variable of a text that another location may have set: its value comes with a request that was led on from there.
    pub(super) fn set_elsewhere<'n>(&self, site: &Site, text: &'n str) -> Option<&'n str> {
        let is_of_server = |place: &Place| place.is_server && place.id == site.place;
        let server_leads = self
            .places
            .iter()
            .any(|place| place.is_server && place.leads_on);
        let is_set = |name: &str| {
            let mut others = self
                .places
                .iter()
                .filter(|place| !place.is_server && place.id != site.place);
            others.any(|place| (place.leads_on || server_leads) && place.sets(name))
        };
        if self.places.iter().any(is_of_server) {
            return None;
        }
        // The query goes on with the request.
        let is_query = |name: &str| matches!(name, "args" | "query_string");
        names(text)
            .filter(|name| !is_query(name))
            .find(|name| !site.kept.contains_key(*name) && is_set(name))
    }

    /// True if only the rewriting directives of the server use the variables that an `if` sets, and those that are computed from them.
    pub(super) fn sets_for_rules(&self, inner: &[Statement]) -> bool {
        let is_rule =
            |one: &Statement| matches!(one.name(), "set" | "if" | "rewrite" | "return" | "break");
        let mut names = BTreeSet::new();
        add_targets(inner, &|_| true, &mut names);
        // Values are passed on by further `set`s.
        loop {
            let known = names.clone();
            let uses = |set: &Statement| known.iter().any(|name| self.mentions(set, name));
            for place in self.places.iter().filter(|place| place.is_server) {
                add_targets(&place.own, &uses, &mut names);
            }
            if names == known {
                break;
            }
        }
        let places = self.places.iter();
        let others = places.flat_map(|place| {
            let own = place.own.iter();
            own.filter(|one| !(place.is_server && is_rule(one)))
        });
        let mut others = self.around.iter().chain(others);
        others.all(|one| !names.iter().any(|name| self.mentions(one, name)))
    }

    fn is_kept<'n>(
        &'n self,
        site: &'n Site,
        name: &'n str,
        condition: &[String],
        seen: &mut BTreeSet<&'n str>,
    ) -> bool {
        // nginx takes it from the request. Here it is known only when the password was checked, which is after the conditions.
        if name == "remote_user" {
            return true;
        }
        if let Some(is_kept) = site.kept.get(name) {
            return *is_kept;
        }
        if !seen.insert(name) {
            return false;
        }
        let map = self.maps.get(name);
        if let Some(map) = map
            && super::maps::names_in(map).any(|inner| self.is_kept(site, inner, condition, seen))
        {
            return true;
        }
        // The directives of a server come before those of its locations.
        let is_of_server = |place: &Place| place.is_server && place.id == site.place;
        if self.places.iter().any(is_of_server) {
            return false;
        }
        let server = self.places.iter().find(|place| place.is_server);
        let server_leads = server.is_some_and(|server| server.leads_on);
        let others = self
            .places
            .iter()
            .filter(|place| !place.is_server && place.id != site.place);
        let leading: Vec<&Place> = others
            .filter(|place| place.leads_on || server_leads)
            .collect();
        if leading.iter().any(|place| place.sets(name)) {
            return true;
        }
        let is_of_path = || self.path_names(&site.meaning).contains(name);
        if map.is_none() {
            let is_set = server.is_some_and(|server| server.sets(name));
            return is_set && !leading.is_empty() && is_of_path();
        }
        let evaluates = |place: &Place| {
            let own = place.own.iter();
            let mut early =
                own.filter(|one| !LATE.contains(&one.name()) && !refuses(one, condition));
            early.any(|one| self.mentions(one, name))
        };
        let is_evaluated = leading.iter().any(|place| evaluates(place))
            || server
                .is_some_and(|server| (server_leads || !leading.is_empty()) && evaluates(server));
        is_evaluated && is_of_path()
    }

    /// True if a directive, or one in its block, uses a variable, perhaps by a map. The depth is that of blocks, which the parser bounds.
    pub(super) fn mentions(&self, statement: &Statement, name: &str) -> bool {
        let mut used = statement
            .arguments()
            .iter()
            .flat_map(|argument| names(argument));
        used.any(|used| self.leads_to_variable(used, name, &mut BTreeSet::new()))
            || statement
                .inner()
                .iter()
                .any(|inner| self.mentions(inner, name))
    }

    /// True if `used` is this variable, or a map that needs it.
    fn leads_to_variable<'n>(
        &'n self,
        used: &'n str,
        name: &str,
        seen: &mut BTreeSet<&'n str>,
    ) -> bool {
        if used == name {
            return true;
        }
        let map = self.maps.get(used).filter(|_| seen.insert(used));
        map.is_some_and(|map| {
            super::maps::names_in(map).any(|inner| self.leads_to_variable(inner, name, seen))
        })
    }
}

/// Adds the variables that these directives set, as far as `counts` says so. The depth is that of blocks, which the parser bounds.
fn add_targets(
    statements: &[Statement],
    counts: &dyn Fn(&Statement) -> bool,
    names: &mut BTreeSet<String>,
) {
    for statement in statements {
        match statement.name() {
            "set" if counts(statement) => {
                names.insert(statement.argument(0).trim_start_matches('$').to_owned());
            }
            "if" => add_targets(statement.inner(), counts, names),
            _ => {}
        }
    }
}
