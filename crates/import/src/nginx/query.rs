//! The query of a new path, beside the one that the client sent.

use serde_json::{Value, json};

use super::rewrite::Exits;
use super::site::{Compiler, Site};
use super::tree::Statement;
use super::variables::names;
use crate::finding::SourceLocation;
use crate::template::{Piece, Text};

/// The query that a client sent, at the end of another one.
const ARGUMENTS: [&str; 4] = ["$args", "$query_string", "${args}", "${query_string}"];

impl Compiler<'_> {
    /// `set $args`: the path stays as it is, and no other location is looked for.
    pub(super) fn set_query(
        &mut self,
        site: &Site,
        statement: &Statement,
        rest: &[Statement],
        exits: &Exits<'_>,
    ) -> Vec<Value> {
        let target = format!("$uri?{}?", statement.argument(1));
        let next = self.rest(site, rest, exits, exits.content);
        let is_value = |piece: &Piece| match piece {
            Piece::Text(_) => false,
            Piece::Variable(name) => name != "query",
            Piece::Script(_) => true,
        };
        let text = site.meaning.text(statement.argument(1));
        if text.is_ok_and(|text| text.0.first().is_some_and(is_value)) {
            let problem = "it begins with a variable, whose `=` and `&` are encoded: the query has a single argument";
            let hint = "write the names of the arguments into it, as `a=$arg_a&b=$arg_b`";
            self.findings.lost(&statement.place, "set", problem, hint);
        }
        let action = match self.new_path(site, &target, &statement.place, "rewrite") {
            Some(path) => json!({"rewrite": path, "pass": next}),
            None => Self::shut(),
        };
        vec![json!({"action": action})]
    }

    /// Appends the query of a target to its path. nginx appends the client's query to that of a `rewrite`, unless a `?` ends it.
    pub(super) fn add_query(
        &mut self,
        site: &Site,
        path: &mut Text,
        query: &str,
        place: &SourceLocation,
        name: &str,
    ) -> Option<()> {
        let before = ARGUMENTS.iter().find_map(|name| query.strip_suffix(name));
        let (own, has_sent) = match (before, query.strip_suffix('?')) {
            (Some(own), _) => (own, true),
            (None, Some(own)) => (own, false),
            (None, None) => (query, name == "rewrite" && !query.is_empty()),
        };
        if names(own).any(|name| name == "request_uri") {
            let problem = "the query in `$request_uri` becomes a part of one argument: `=` and `&` in it are encoded here";
            let hint = "let the application read `REQUEST_URI`, or write `uri=$uri&$args`";
            self.findings.lost(place, name, problem, hint);
        }
        let is_bare = own.strip_suffix('&').unwrap_or(own).is_empty();
        if is_bare && has_sent {
            // The client's query stays as it is.
            return Some(());
        }
        let mut own = self.text(site, own.strip_suffix('&').unwrap_or(own), place, name)?;
        for piece in &mut own.0 {
            // Values are encoded here: one that is encoded already would be so twice.
            if let Piece::Variable(name) = piece
                && let Some(argument) = name.strip_prefix("raw_")
            {
                *name = argument.to_owned();
            }
        }
        let has_query = |piece: &Piece| matches!(piece, Piece::Variable(name) if name == "query");
        let mut pieces = path.0.iter().chain(&own.0);
        let has_script = pieces.any(|piece| matches!(piece, Piece::Script(_)));
        if has_script && own.0.iter().any(has_query) {
            let problem = "a client's query before a script is not carried over";
            let hint = "write the query into the `rewrite` (`docs/http/rewriting.md`)";
            self.findings.lost(place, name, problem, hint);
            return None;
        }
        path.push("?");
        path.extend(own);
        match has_sent {
            // In a script, the client's arguments follow by themselves.
            true if has_script => {}
            true => {
                path.push("&");
                path.0.push(Piece::Variable("query".to_owned()));
            }
            false if is_bare => {}
            false => path.push("?"),
        }
        Some(())
    }
}
