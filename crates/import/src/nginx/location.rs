//! Locations: how each matches a path, and the order in which nginx finds them.

use serde_json::{Map, Value};
use tutti_config::pattern::{Case, Pattern};
use tutti_config::table::DECODED;

use super::tree::Statement;
use crate::output::{beginning, literal, one_or_many, step, when};
use crate::template::{Text, escaped};

/// The condition on the path by which a location matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    Exact(String),
    /// And no regular expression is tried after it.
    Prefix(String, bool),
    Regex(String, Case),
    Named(String),
    /// An expression that cannot be compiled: it may match any path.
    Unknown,
}

impl Match {
    fn read(words: &[String]) -> Option<Match> {
        let two = |text: &String| text.clone();
        Some(match words {
            [sign, path] if sign == "=" => Match::Exact(two(path)),
            [sign, path] if sign == "^~" => Match::Prefix(two(path), true),
            [sign, path] if sign == "~" => Match::Regex(two(path), Case::Exact),
            [sign, path] if sign == "~*" => Match::Regex(two(path), Case::Ignore),
            [path] => match path.as_bytes() {
                [b'@', ..] => Match::Named(path.clone()),
                [b'=', ..] => Match::Exact(path.get(1..)?.to_owned()),
                [b'^', b'~', ..] => Match::Prefix(path.get(2..)?.to_owned(), true),
                [b'~', b'*', ..] => Match::Regex(path.get(2..)?.to_owned(), Case::Ignore),
                [b'~', ..] => Match::Regex(path.get(1..)?.to_owned(), Case::Exact),
                _ => Match::Prefix(path.clone(), false),
            },
            _ => return None,
        })
    }

    fn is_expression(&self) -> bool {
        matches!(self, Match::Regex(..) | Match::Unknown)
    }

    pub(super) fn pattern(&self) -> String {
        match self {
            Match::Exact(path) | Match::Named(path) => literal(path),
            Match::Prefix(path, _) => beginning(path),
            Match::Regex(source, Case::Ignore) => format!("~(?i){source}"),
            Match::Regex(source, Case::Exact) => format!("~{source}"),
            Match::Unknown => "*".to_owned(),
        }
    }
}

/// A location, with those that it is in.
pub(super) struct Location<'s> {
    pub(super) how: Match,
    pub(super) statement: &'s Statement,
    /// The prefixes that it is nested in, the innermost last, and their blocks.
    pub(super) around: Vec<(String, bool, &'s Statement)>,
}

impl Location<'_> {
    /// The prefix, and whether no regular expression outside of all locations is tried after it. In nginx, the location on the first
    /// level decides about those, and each inner one about the expressions beside it.
    pub(super) fn prefix(&self) -> Option<(&str, bool)> {
        match &self.how {
            Match::Prefix(path, stops) => {
                let outermost = self.around.first().map(|(_, stops, _)| *stops);
                Some((path, outermost.unwrap_or(*stops)))
            }
            _ => None,
        }
    }

    /// True if requests from outside do not come here: the locations around it pass that on.
    pub(super) fn is_internal(&self) -> bool {
        let mut around = self.around.iter();
        is_internal(self.statement) || around.any(|(.., outer)| is_internal(outer))
    }

    /// True if one of the locations within it, which are found only after its expression has matched, is internal.
    pub(super) fn has_internal_within(&self) -> bool {
        self.how.is_expression() && has_internal(self.statement)
    }

    /// The path that all requests here begin with.
    fn beginning(&self) -> Option<&str> {
        match &self.how {
            Match::Exact(path) | Match::Prefix(path, _) => Some(path),
            _ => self.around.last().map(|(path, ..)| path.as_str()),
        }
    }

    /// True if both stand in the same block.
    fn is_beside(&self, other: &Location<'_>) -> bool {
        let around = |location: &Location<'_>| {
            location
                .around
                .last()
                .map(|(.., outer)| std::ptr::from_ref(*outer))
        };
        self.around.len() == other.around.len() && around(self) == around(other)
    }
}

/// Returns the prefixes that nginx prefers to this location or to one around it, and that a path of this location may have, too; `None` if
/// all of its paths have one. On each level nginx takes the longest prefix, and looks only for the locations in that one.
fn preferred<'l>(location: &Location<'_>, all: &[&'l Location<'_>]) -> Option<Vec<&'l str>> {
    let own = location.beginning().unwrap_or_default();
    let mut preferred = Vec::new();
    for (chosen, _, statement) in &location.around {
        let is_chosen = |one: &&&Location<'_>| std::ptr::eq(one.statement, *statement);
        let Some(around) = all.iter().find(is_chosen) else {
            continue;
        };
        for other in all.iter().filter(|other| other.is_beside(around)) {
            match &other.how {
                Match::Prefix(path, _) if path.len() > chosen.len() => {
                    if own.starts_with(path.as_str()) {
                        return None;
                    }
                    if path.starts_with(own) && !matches!(location.how, Match::Exact(_)) {
                        preferred.push(path.as_str());
                    }
                }
                _ => {}
            }
        }
    }
    Some(preferred)
}

/// Conditions about the path, and the action.
pub(super) struct Way {
    pub(super) patterns: Vec<String>,
    pub(super) answer: Answer,
}

/// The answers of a location.
#[derive(Clone)]
pub(super) struct Answer {
    pub(super) action: Value,
    /// The one for requests from outside, if they do not come here.
    pub(super) outside: Option<Value>,
}

impl Answer {
    pub(super) fn to_all(action: Value) -> Answer {
        let outside = None;
        Answer { action, outside }
    }
}

/// True if a location in a block is internal. The depth is that of blocks, which the parser bounds.
fn has_internal(statement: &Statement) -> bool {
    let mut inner = statement.inner().iter();
    inner.any(|one| one.name() == "location" && (is_internal(one) || has_internal(one)))
}

fn is_internal(statement: &Statement) -> bool {
    statement
        .inner()
        .iter()
        .any(|statement| statement.name() == "internal")
}

/// The locations of a block; those within prefixes, too.
pub(super) fn collect<'s>(
    block: &'s [Statement],
    around: &mut Vec<(String, bool, &'s Statement)>,
) -> Vec<Location<'s>> {
    let mut found = Vec::new();
    for statement in block
        .iter()
        .filter(|statement| statement.name() == "location")
    {
        let how = Match::read(statement.arguments()).unwrap_or(Match::Unknown);
        let outer = match &how {
            Match::Prefix(path, stops) => Some((path.clone(), *stops, statement)),
            _ => None,
        };
        found.push(Location {
            how,
            statement,
            around: around.clone(),
        });
        // The depth is that of blocks, which the parser bounds.
        if let Some(outer) = outer {
            around.push(outer);
            found.extend(collect(statement.inner(), around));
            around.pop();
        }
    }
    found
}

/// The paths of `auth_request` (false) and `mirror` (true) in a block. The depth is that of blocks, which the parser bounds.
pub(super) fn named_paths(block: &[Statement], paths: &mut Vec<(String, bool)>) {
    for statement in block {
        match statement.name() {
            name @ ("auth_request" | "mirror") if statement.argument(0) != "off" => {
                let path = statement.argument(0).split('?').next().unwrap_or_default();
                paths.push((path.to_owned(), name == "mirror"));
            }
            _ => named_paths(statement.inner(), paths),
        }
    }
}

/// The location of a path, where no regular expression could have it.
pub(super) fn found<'l, 's>(locations: &'l [Location<'s>], path: &str) -> Option<&'l Location<'s>> {
    let all: Vec<&Location<'_>> = locations.iter().collect();
    let is_reached = |location: &&Location<'_>| preferred(location, &all).is_some();
    let exact = locations
        .iter()
        .filter(|location| matches!(&location.how, Match::Exact(own) if own == path));
    if let Some(exact) = exact
        .filter(is_reached)
        .min_by_key(|exact| exact.around.len())
    {
        return Some(exact);
    }
    let prefixes = locations.iter().filter(is_reached).filter_map(|location| {
        let (own, stops) = location.prefix()?;
        path.starts_with(own)
            .then_some((own.len(), stops, location))
    });
    let (_, stops, location) = prefixes.max_by_key(|(length, ..)| *length)?;
    let may_have = |location: &Location<'_>| {
        if !location.how.is_expression() || stops && location.around.is_empty() {
            return false;
        }
        let pattern = Pattern::parse(&location.how.pattern(), DECODED).ok();
        pattern.is_none_or(|pattern| pattern.found_in(path.as_bytes()).unwrap_or(true))
    };
    (!locations.iter().any(may_have)).then_some(location)
}

/// Puts locations into nginx's order: exact ones; the longest prefix, if it ends the search; regular expressions as they are written, the
/// inner ones first; then the longest prefix.
pub(super) fn order(ways: &[(&Location<'_>, Answer)]) -> Vec<Way> {
    let mut ordered = Vec::new();
    let mut add = |patterns: Vec<String>, answer: &Answer| {
        let answer = answer.clone();
        ordered.push(Way { patterns, answer });
    };
    let all: Vec<&Location<'_>> = ways.iter().map(|(location, _)| *location).collect();
    let is_reached = |location: &Location<'_>| preferred(location, &all).is_some();
    let is_exact =
        |location: &Location<'_>| matches!(location.how, Match::Exact(_)) && is_reached(location);
    let mut exact: Vec<_> = ways
        .iter()
        .filter(|(location, _)| is_exact(location))
        .collect();
    // The outer ones first.
    exact.sort_by_key(|(location, _)| location.around.len());
    for (location, action) in exact {
        add(vec![location.how.pattern()], action);
    }
    let mut prefixes: Vec<(&str, bool, &Location<'_>, &Answer)> = Vec::new();
    for (location, action) in ways {
        if let Some((path, stops)) = location.prefix().filter(|_| is_reached(location)) {
            prefixes.push((path, stops, location, action));
        }
    }
    prefixes.sort_by_key(|(path, ..)| std::cmp::Reverse(path.len()));
    let longer = |path: &str, also: &dyn Fn(&Location<'_>, bool) -> bool| -> Vec<String> {
        let others = prefixes.iter().filter(|(other, stops, location, _)| {
            other.len() > path.len() && other.starts_with(path) && also(location, *stops)
        });
        others
            .map(|(other, ..)| format!("!{}", beginning(other)))
            .collect()
    };
    let mut regexes: Vec<(&Location<'_>, &Answer)> = Vec::new();
    for (location, action) in ways {
        if location.how.is_expression() {
            regexes.push((location, action));
        }
    }
    // The inner ones first; the sort is stable, so that the order of the file stays.
    regexes.sort_by_key(|(location, _)| std::cmp::Reverse(location.around.len()));
    for (location, action) in regexes
        .iter()
        .filter(|(location, _)| !location.around.is_empty())
    {
        if let (Some((path, ..)), Some(preferred)) =
            (location.around.last(), preferred(location, &all))
        {
            let mut patterns = vec![location.how.pattern(), format!("!~^(?!{})", escaped(path))];
            let preferred = preferred.into_iter();
            patterns.extend(preferred.map(|path| format!("!{}", beginning(path))));
            patterns.extend(stopped_beside(location, &all));
            add(patterns, action);
        }
    }
    for (path, _, location, action) in prefixes.iter().filter(|(_, stops, ..)| *stops) {
        let mut patterns = vec![location.how.pattern()];
        patterns.extend(longer(path, &|_, stops| !stops));
        add(patterns, action);
    }
    for (location, action) in regexes
        .iter()
        .filter(|(location, _)| location.around.is_empty())
    {
        add(vec![location.how.pattern()], action);
    }
    for (path, _, location, action) in prefixes.iter().filter(|(_, stops, ..)| !*stops) {
        let patterns = if *path == "/" {
            Vec::new()
        } else {
            vec![location.how.pattern()]
        };
        add(patterns, action);
    }
    ordered
}

/// Patterns against the paths of the prefixes beside a regular expression after which none is tried.
fn stopped_beside(location: &Location<'_>, all: &[&Location<'_>]) -> Vec<String> {
    let mut beside: Vec<(&str, bool)> = Vec::new();
    for other in all.iter().filter(|other| other.is_beside(location)) {
        if let Match::Prefix(path, stops) = &other.how {
            beside.push((path, *stops));
        }
    }
    let stopping = beside.iter().filter(|(_, stops)| *stops);
    let patterns = stopping.map(|(path, _)| {
        let longer = beside.iter().filter(|(_, stops)| !stops);
        let longer = longer
            .filter_map(|(other, _)| other.strip_prefix(path))
            .filter(|rest| !rest.is_empty());
        let longer: Vec<String> = longer.map(escaped).collect();
        match longer.is_empty() {
            true => format!("!{}", beginning(path)),
            false => format!("!~^{}(?!{})", escaped(path), longer.join("|")),
        }
    });
    patterns.collect()
}

/// `/path` is redirected to `/path/`, where that is a location that a server behind answers.
pub(super) fn redirects(ways: &[(&Location<'_>, Answer)]) -> Vec<Way> {
    let mut redirects = Vec::new();
    for (location, _) in ways {
        let Some((path, _)) = location.prefix() else {
            continue;
        };
        let passes = [
            "proxy_pass",
            "fastcgi_pass",
            "uwsgi_pass",
            "scgi_pass",
            "grpc_pass",
            "memcached_pass",
        ];
        let is_passed = location
            .statement
            .inner()
            .iter()
            .any(|statement| passes.contains(&statement.name()));
        let bare = path.strip_suffix('/').filter(|bare| !bare.is_empty());
        let (true, Some(bare)) = (is_passed, bare) else {
            continue;
        };
        let is_taken = ways.iter().any(|(other, _)| match &other.how {
            Match::Exact(path) | Match::Prefix(path, _) => path == bare,
            _ => false,
        });
        if is_taken {
            continue;
        }
        let mut target = Text::literal(path);
        target.0.push(super::variables::query_behind('?'));
        let mut action = when("return", 301);
        action.insert("location".to_owned(), target.template().into());
        redirects.push(Way {
            patterns: vec![literal(bare)],
            answer: Answer::to_all(action.into()),
        });
    }
    redirects
}

/// Steps of ways for all requests.
pub(super) fn steps(ways: &[Way]) -> Vec<Value> {
    chosen(ways, |answer| &answer.action)
}

/// Steps of ways for requests that come from outside.
pub(super) fn steps_from_outside(ways: &[Way]) -> Vec<Value> {
    chosen(ways, |answer| {
        answer.outside.as_ref().unwrap_or(&answer.action)
    })
}

fn chosen(ways: &[Way], choose: fn(&Answer) -> &Value) -> Vec<Value> {
    let mut steps = Vec::new();
    for way in ways {
        let conditions = match way.patterns.as_slice() {
            [] => Map::new(),
            patterns => when("uri", one_or_many(patterns.to_vec())),
        };
        steps.push(step(conditions, choose(&way.answer).clone()));
    }
    steps
}
