//! Variables whose values nginx keeps when a request goes on to another location. Tutti evaluates them anew there.
//!
//! Must never: carry over a condition on a value that comes from another path or location in nginx. It fails closed instead.

use std::collections::BTreeSet;

use super::if_block::is_handler;
use super::site::{Compiler, Site};
use super::tree::Statement;
use super::variables::names;

/// Directives of responses, which look at variables only when the request goes nowhere else.
const LATE: [&str; 5] = [
    "access_log",
    "add_header",
    "add_trailer",
    "expires",
    "sub_filter",
];

/// A place with directives: a server itself, or one of its locations.
pub(super) struct Place {
    /// [`id`] of its block.
    id: usize,
    is_server: bool,
    /// Its own directives, without the locations in it.
    own: Vec<Statement>,
    /// Its requests may go on to another location with another path.
    leads_on: bool,
}

/// Identifies a block by its place in memory.
pub(super) fn id(block: &[Statement]) -> usize {
    block.as_ptr() as usize
}

impl Place {
    fn new(block: &[Statement], is_server: bool) -> Place {
        let own = block.iter().filter(|one| one.name() != "location");
        let own: Vec<Statement> = own.cloned().collect();
        let answers =
            |one: &Statement| is_handler(one) || matches!(one.name(), "return" | "try_files");
        let has_index = !is_server && !own.iter().any(answers);
        Place {
            id: id(block),
            is_server,
            leads_on: has_index || leads_on(&own),
            own,
        }
    }

    fn sets(&self, name: &str) -> bool {
        sets(&self.own, name)
    }
}

/// A server and its locations. The depth is that of blocks, which the parser bounds.
pub(super) fn places(server: &[Statement]) -> Vec<Place> {
    fn add(block: &[Statement], places: &mut Vec<Place>) {
        for location in block.iter().filter(|one| one.name() == "location") {
            places.push(Place::new(location.inner(), false));
            add(location.inner(), places);
        }
    }
    let mut places = vec![Place::new(server, true)];
    add(server, &mut places);
    places
}

fn sets(statements: &[Statement], name: &str) -> bool {
    statements.iter().any(|one| match one.name() {
        "set" => one.argument(0).trim_start_matches('$') == name,
        "if" => sets(one.inner(), name),
        _ => false,
    })
}

/// True if one of these directives sends requests to another path within the server.
fn leads_on(statements: &[Statement]) -> bool {
    statements.iter().any(|one| {
        let last = one.arguments().last().map_or("", String::as_str);
        match one.name() {
            "rewrite" => !matches!(one.argument(2), "break" | "redirect" | "permanent"),
            "try_files" => !last.starts_with('='),
            "error_page" => true,
            "if" => leads_on(one.inner()),
            _ => false,
        }
    })
}

/// True for an `if` with this condition that refuses requests.
fn refuses(statement: &Statement, condition: &[String]) -> bool {
    let answer = statement.inner().first();
    let is_refusal = |answer: &Statement| {
        let status = answer.argument(0).parse::<u16>();
        answer.name() == "return" && status.is_ok_and(|status| status >= 400)
    };
    statement.name() == "if" && statement.arguments() == condition && answer.is_some_and(is_refusal)
}

impl Compiler<'_> {
    /// True if a directive uses a variable that may have a value from another path or location in nginx.
    pub(super) fn uses_kept(&self, site: &Site, statement: &Statement) -> bool {
        let arguments = statement.arguments();
        let mut used = arguments.iter().flat_map(|argument| names(argument));
        used.any(|name| self.is_kept(site, name, arguments, &mut BTreeSet::new()))
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
    fn mentions(&self, statement: &Statement, name: &str) -> bool {
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
