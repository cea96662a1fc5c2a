//! A `server`: its locations, in the order in which nginx would find them.

use serde_json::{Map, Value, json};

use super::known;
use super::rewrite::Exits;
use super::site::{Compiler, Site, ends};
use super::tree::Statement;
use super::variables::{captures, groups};
use crate::output::{beginning, literal, one_or_many, slug, step, when};
use crate::template::{Piece, Text};

/// How a location matches a path.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Match {
    Exact(String),
    /// And no regular expression is asked after it.
    Prefix(String, bool),
    Regex(String, bool),
    Named(String),
}

impl Match {
    fn read(words: &[String]) -> Option<Match> {
        let two = |text: &String| text.clone();
        Some(match words {
            [sign, path] if sign == "=" => Match::Exact(two(path)),
            [sign, path] if sign == "^~" => Match::Prefix(two(path), true),
            [sign, path] if sign == "~" => Match::Regex(two(path), false),
            [sign, path] if sign == "~*" => Match::Regex(two(path), true),
            [path] => match path.as_bytes() {
                [b'@', ..] => Match::Named(path.clone()),
                [b'=', ..] => Match::Exact(path.get(1..)?.to_owned()),
                [b'^', b'~', ..] => Match::Prefix(path.get(2..)?.to_owned(), true),
                [b'~', b'*', ..] => Match::Regex(path.get(2..)?.to_owned(), true),
                [b'~', ..] => Match::Regex(path.get(1..)?.to_owned(), false),
                _ => Match::Prefix(path.clone(), false),
            },
            _ => return None,
        })
    }

    fn pattern(&self) -> String {
        match self {
            Match::Exact(path) | Match::Named(path) => literal(path),
            Match::Prefix(path, _) => beginning(path),
            Match::Regex(source, true) => format!("~(?i){source}"),
            Match::Regex(source, false) => format!("~{source}"),
        }
    }
}

/// A location, with those that it is in.
struct Location<'s> {
    how: Match,
    statement: &'s Statement,
    /// The prefixes that it is nested in, the innermost last, and their blocks.
    around: Vec<(String, bool, &'s Statement)>,
}

impl Location<'_> {
    fn prefix(&self) -> Option<(&str, bool)> {
        match &self.how {
            Match::Prefix(path, stops) => {
                let stops = *stops || self.around.iter().any(|(_, stops, _)| *stops);
                Some((path, stops))
            }
            _ => None,
        }
    }
}

/// Conditions about the path, and the action.
struct Way {
    patterns: Vec<String>,
    action: Value,
    /// Nobody comes here from outside.
    is_internal: bool,
}

impl Compiler<'_> {
    /// Makes the routes of a server; gives the destination.
    pub(super) fn server(&mut self, name: &str, around: &Site, statement: &Statement) -> String {
        let block = statement.inner();
        known::tell_all(block, self.findings);
        let mut site = around.clone();
        site.scope = around.scope.enter(block, self.findings);
        let name = self.out.route_name(name);
        self.out.routes.insert(name.clone(), Value::Null);
        site.name.clone_from(&name);
        let locations = collect(block, &mut Vec::new());
        let has_internal = locations
            .iter()
            .any(|location| is_internal(location.statement));
        let acts = |statement: &Statement| {
            matches!(statement.name(), "return" | "rewrite" | "if" | "break")
        };
        let has_rewrites = block.iter().any(acts);
        // A request that comes back from inside finds its location in a route of its own, where one from outside goes elsewhere.
        let inside = if has_internal || has_rewrites {
            let inside = self.out.route_name(&format!("{name}-locations"));
            self.out.routes.insert(inside.clone(), Value::Null);
            inside
        } else {
            name.clone()
        };
        site.entry = format!("routes/{inside}");
        let exits = Exits {
            content: &site.entry.clone(),
        };
        let mut first = self.rewrites(&mut site, block, &exits);
        let ways = self.locations(&mut site, block, &locations);
        self.out
            .routes
            .insert(inside.clone(), steps(&ways, None).into());
        if inside != name {
            if !ends(&first) {
                if has_internal {
                    let place = statement.place.clone();
                    let refusal = self.internal(&site, "=404", &place);
                    first.extend(steps(&ways, Some(&refusal)));
                } else {
                    first.push(json!({"action": {"pass": site.entry}}));
                }
            }
            self.out.routes.insert(name.clone(), first.into());
        }
        format!("routes/{name}")
    }

    /// The ways of a server's locations, in order.
    fn locations(
        &mut self,
        site: &mut Site,
        block: &[Statement],
        locations: &[Location<'_>],
    ) -> Vec<Way> {
        for location in locations {
            match &location.how {
                Match::Named(name) => {
                    let route = self
                        .out
                        .route_name(&format!("{}-{}", site.name, slug(name)));
                    self.out.routes.insert(route.clone(), Value::Null);
                    site.named.insert(name.clone(), format!("routes/{route}"));
                }
                Match::Regex(..) | Match::Exact(_) => site.special.push(location.how.pattern()),
                Match::Prefix(..) => {}
            }
        }
        let mut ways = Vec::new();
        for location in locations {
            if !self.is_understood(location) {
                continue;
            }
            if let Match::Named(name) = &location.how {
                let steps = self.location_steps(site, location);
                if let Some(route) = site
                    .named
                    .get(name)
                    .and_then(|destination| destination.strip_prefix("routes/"))
                {
                    self.out.routes.insert(route.to_owned(), steps.into());
                }
                continue;
            }
            let steps = self.location_steps(site, location);
            let action = self.as_action(
                &format!(
                    "{}-{}",
                    site.name,
                    slug(
                        location
                            .statement
                            .argument(location.statement.arguments().len().saturating_sub(1))
                    )
                ),
                steps,
            );
            ways.push((location, action));
        }
        let mut ordered = order(&ways);
        let redirects = redirects(&ways);
        ordered.splice(0..0, redirects);
        if !locations
            .iter()
            .any(|location| location.prefix().is_some_and(|(path, _)| path == "/"))
        {
            let mut own = site.clone();
            own.prefix = Some("/".to_owned());
            let tries: Vec<Statement> = block
                .iter()
                .filter(|statement| statement.name() == "try_files")
                .cloned()
                .collect();
            let steps = self.content(&own, &tries);
            let action = self.as_action(&format!("{}-files", site.name), steps);
            ordered.push(Way {
                patterns: Vec::new(),
                action,
                is_internal: false,
            });
        }
        ordered
    }

    fn is_understood(&mut self, location: &Location<'_>) -> bool {
        let place = &location.statement.place;
        match &location.how {
            Match::Regex(..) => self.is_pattern(&location.how.pattern(), place, "location"),
            _ => true,
        }
    }

    /// One action for steps: the only one's, or a route.
    fn as_action(&mut self, name: &str, mut steps: Vec<Value>) -> Value {
        if steps.len() == 1 && ends(&steps) {
            let only = steps.pop().unwrap_or_default();
            return only.get("action").cloned().unwrap_or_default();
        }
        json!({"pass": self.out.add_route(name, steps)})
    }

    fn location_steps(&mut self, around: &Site, location: &Location<'_>) -> Vec<Value> {
        let block = location.statement.inner();
        let mut site = around.clone();
        for (path, _, outer) in &location.around {
            self.enter(&mut site, outer.inner(), Some(path));
        }
        known::tell_all(block, self.findings);
        match &location.how {
            Match::Prefix(path, _) => self.enter(&mut site, block, Some(path)),
            Match::Exact(path) => {
                self.enter(&mut site, block, Some(path));
                site.is_exact = true;
            }
            Match::Regex(source, ignore_case) => {
                // An alias of the location around it stands at that one's path.
                self.enter(&mut site, block, None);
                let uri = Text(vec![Piece::Variable("uri".to_owned())]);
                // After a `rewrite` the expression would be asked about the new path: its captures are no longer known.
                let is_rewritten = block.iter().any(|statement| statement.name() == "rewrite");
                if let Some(captured) =
                    captures(source, *ignore_case, &uri).filter(|_| !is_rewritten)
                {
                    site.meaning.groups.extend(groups(source, &captured));
                    site.meaning.captures = Some(captured);
                }
            }
            Match::Named(_) => self.enter(&mut site, block, None),
        }
        site.name = format!(
            "{}-{}",
            around.name,
            slug(
                location
                    .statement
                    .arguments()
                    .last()
                    .map_or("", String::as_str)
            )
        );
        let reserved = self.out.route_name(&format!("{}-content", site.name));
        let content_destination = format!("routes/{reserved}");
        self.out.routes.insert(reserved.clone(), Value::Null);
        let exits = Exits {
            content: &content_destination,
        };
        let mut steps = self.rewrites(&mut site, block, &exits);
        let nested = self.nested(&site, location, block);
        let is_needed = Value::from(steps.clone())
            .to_string()
            .contains(&format!("\"{content_destination}\""))
            || self.out.routes.values().any(|route| {
                route
                    .to_string()
                    .contains(&format!("\"{content_destination}\""))
            });
        if is_needed {
            let mut content = nested;
            content.extend(self.content(&site, block));
            self.out.routes.insert(reserved, content.into());
            if !ends(&steps) {
                steps.push(json!({"action": {"pass": content_destination}}));
            }
            return steps;
        }
        self.out.routes.remove(&reserved);
        if !ends(&steps) {
            steps.extend(nested);
            if !ends(&steps) {
                steps.extend(self.content(&site, block));
            }
        }
        steps
    }

    /// Locations within a regular expression's are looked for when that has matched.
    fn nested(&mut self, site: &Site, location: &Location<'_>, block: &[Statement]) -> Vec<Value> {
        if !matches!(location.how, Match::Regex(..)) {
            return Vec::new();
        }
        let inner = collect(block, &mut Vec::new());
        if inner.is_empty() {
            return Vec::new();
        }
        let mut ways = Vec::new();
        for location in &inner {
            if self.is_understood(location) {
                let steps = self.location_steps(site, location);
                ways.push((
                    location,
                    self.as_action(&format!("{}-inner", site.name), steps),
                ));
            }
        }
        steps(&order(&ways), Some(&json!({"return": 404})))
    }

    fn enter(&mut self, site: &mut Site, block: &[Statement], prefix: Option<&str>) {
        site.scope = site.scope.enter(block, self.findings);
        site.is_exact = false;
        site.prefix = prefix.map(str::to_owned);
        let has_alias = block.iter().any(|statement| statement.name() == "alias");
        if let Some(folder) = site.scope.folder.as_mut().filter(|_| has_alias) {
            folder.at = prefix.map(str::to_owned);
        }
        let root = block
            .iter()
            .find(|statement| matches!(statement.name(), "root" | "alias"));
        if let Some(root) = root
            && let Ok(text) = site.meaning.text(root.argument(0))
        {
            for name in ["document_root", "realpath_root"] {
                site.meaning.named.insert(name.to_owned(), text.clone());
            }
        }
    }
}

fn is_internal(statement: &Statement) -> bool {
    statement
        .inner()
        .iter()
        .any(|statement| statement.name() == "internal")
}

/// The locations of a block; those within prefixes, too.
fn collect<'s>(
    block: &'s [Statement],
    around: &mut Vec<(String, bool, &'s Statement)>,
) -> Vec<Location<'s>> {
    let mut found = Vec::new();
    for statement in block
        .iter()
        .filter(|statement| statement.name() == "location")
    {
        let Some(how) = Match::read(statement.arguments()) else {
            continue;
        };
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

/// Puts locations into nginx's order: exact ones; the longest prefix, if it says that it is enough; regular expressions as they are
/// written, the inner ones first; then the longest prefix.
fn order(ways: &[(&Location<'_>, Value)]) -> Vec<Way> {
    let mut ordered = Vec::new();
    let mut add = |location: &Location<'_>, patterns: Vec<String>, action: &Value| {
        ordered.push(Way {
            patterns,
            action: action.clone(),
            is_internal: is_internal(location.statement),
        });
    };
    for (location, action) in ways {
        if matches!(location.how, Match::Exact(_)) {
            add(location, vec![location.how.pattern()], action);
        }
    }
    let mut prefixes: Vec<(&str, bool, &Location<'_>, &Value)> = Vec::new();
    for (location, action) in ways {
        if let Some((path, stops)) = location.prefix() {
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
    let mut regexes: Vec<(&Location<'_>, &Value)> = Vec::new();
    for (location, action) in ways {
        if matches!(location.how, Match::Regex(..)) {
            regexes.push((location, action));
        }
    }
    // The inner ones first; the sort is stable, so that the order of the file stays.
    regexes.sort_by_key(|(location, _)| std::cmp::Reverse(location.around.len()));
    for (location, action) in regexes
        .iter()
        .filter(|(location, _)| !location.around.is_empty())
    {
        if let Some((path, ..)) = location.around.last() {
            // Longer prefixes that are not within this one are looked at for themselves.
            let mut patterns = vec![location.how.pattern(), format!("!~^(?!{})", escaped(path))];
            patterns.extend(longer(path, &|other, _| {
                !other.around.iter().any(|(around, ..)| around == path)
            }));
            add(location, patterns, action);
        }
    }
    for (path, _, location, action) in prefixes.iter().filter(|(_, stops, ..)| *stops) {
        let mut patterns = vec![location.how.pattern()];
        patterns.extend(longer(path, &|_, stops| !stops));
        add(location, patterns, action);
    }
    for (location, action) in regexes
        .iter()
        .filter(|(location, _)| location.around.is_empty())
    {
        add(location, vec![location.how.pattern()], action);
    }
    for (path, _, location, action) in prefixes.iter().filter(|(_, stops, ..)| !*stops) {
        let patterns = if *path == "/" {
            Vec::new()
        } else {
            vec![location.how.pattern()]
        };
        add(location, patterns, action);
    }
    ordered
}

/// A path in a regular expression.
fn escaped(path: &str) -> String {
    let mut escaped = String::new();
    for character in path.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

/// `/path` is redirected to `/path/`, where that is a location that a server behind answers.
fn redirects(ways: &[(&Location<'_>, Value)]) -> Vec<Way> {
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
        let is_taken = ways
            .iter()
            .any(|(other, _)| other.how == Match::Exact(bare.to_owned()));
        if is_taken {
            continue;
        }
        let mut target = Text::literal(path);
        let query = super::variables::variable_in_script("args");
        target.0.push(Piece::Script(format!(
            "{query} !== '' ? '?' + {query} : ''"
        )));
        let mut action = when("return", 301);
        action.insert("location".to_owned(), target.template().into());
        redirects.push(Way {
            patterns: vec![literal(bare)],
            action: Value::Object(action),
            is_internal: false,
        });
    }
    redirects
}

/// Steps of ways. `outside`: the answer of an internal one, for requests that come from outside.
fn steps(ways: &[Way], outside: Option<&Value>) -> Vec<Value> {
    let mut steps = Vec::new();
    for way in ways {
        let conditions = match way.patterns.as_slice() {
            [] => Map::new(),
            patterns => when("uri", one_or_many(patterns.to_vec())),
        };
        let action = match outside {
            Some(refusal) if way.is_internal => refusal.clone(),
            _ => way.action.clone(),
        };
        steps.push(step(conditions, action));
    }
    steps
}
