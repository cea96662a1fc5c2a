//! Lists the blocks of a server, and notes which of them send requests on to others.
//!
//! Must never: leave out a block that sets a variable or sends a request on.

use super::if_block::is_handler;
use super::tree::Statement;

/// A place with directives: a server itself, or one of its locations.
pub(super) struct Place {
    /// [`id`] of its block.
    pub(super) id: usize,
    pub(super) is_server: bool,
    /// Its own directives, without the locations in it.
    pub(super) own: Vec<Statement>,
    /// Its requests may go on to another location with another path.
    pub(super) leads_on: bool,
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

    pub(super) fn sets(&self, name: &str) -> bool {
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
pub(super) fn refuses(statement: &Statement, condition: &[String]) -> bool {
    let answer = statement.inner().first();
    let is_refusal = |answer: &Statement| {
        let status = answer.argument(0).parse::<u16>();
        answer.name() == "return" && status.is_ok_and(|status| status >= 400)
    };
    statement.name() == "if" && statement.arguments() == condition && answer.is_some_and(is_refusal)
}
