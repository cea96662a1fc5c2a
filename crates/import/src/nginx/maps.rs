//! `map`, `geo` and `split_clients`, as `maps`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use tutti_config::pattern::Pattern;
use tutti_config::table::DECODED;

use super::site::Compiler;
use super::tree::Statement;
use super::variables::{Meaning, groups, names};
use crate::output::when;
use crate::template::{Piece, Text};

/// A map that can be written, or the reason why it cannot.
type Written = Result<Map<String, Value>, String>;

/// Gives a value of an entry another form.
type Change<'c> = &'c dyn Fn(&str) -> Option<String>;

/// True for a directive that declares a variable and chooses its value.
fn is_map(statement: &Statement) -> bool {
    matches!(statement.name(), "map" | "geo" | "split_clients")
}

/// The name of the variable that a directive declares.
fn name_of(statement: &Statement) -> &str {
    let last = statement.arguments().last().map_or("", String::as_str);
    last.trim_start_matches('$')
}

/// The variable of a map.
fn variable(name: &str) -> Text {
    Text(vec![Piece::Variable(format!("map_{name}"))])
}

/// The text that decides; `geo` has the client's address unless it names another.
fn key_of(statement: &Statement) -> Option<&str> {
    let is_written = statement.name() != "geo" || statement.arguments().len() > 1;
    is_written.then(|| statement.argument(0))
}

impl Compiler<'_> {
    /// Declares the maps of a configuration. One that cannot be written has no value, even if a built-in variable has its
    /// name; neither have those that use it.
    pub(super) fn declare_maps(&mut self, http: &[Statement], meaning: &mut Meaning) {
        let maps: Vec<&Statement> = http.iter().filter(|one| is_map(one)).collect();
        for statement in &maps {
            let name = name_of(statement).to_owned();
            meaning.unknown.remove(&name);
            meaning.named.insert(name.clone(), variable(&name));
            self.maps.insert(name, (*statement).clone());
        }
        loop {
            let known = meaning.unknown.len();
            for statement in &maps {
                let name = name_of(statement).to_owned();
                if meaning.unknown.contains(&name) {
                    continue;
                }
                match written(statement, meaning, &|value| Some(value.to_owned())) {
                    Ok(map) => drop(self.out.maps.insert(name, map.into())),
                    Err(problem) => {
                        let hint = "write it as one of `maps` (`docs/http/rewriting.md`); uses of the variable are reported too";
                        self.findings
                            .lost(&statement.place, statement.name(), &problem, hint);
                        self.out.maps.remove(&name);
                        self.maps.remove(&name);
                        meaning.named.remove(&name);
                        meaning.unknown.insert(name);
                    }
                }
            }
            // A map that uses one without a value has none either.
            if meaning.unknown.len() == known {
                break;
            }
        }
        for statement in maps {
            let name = name_of(statement);
            let values = entries(statement).map(|entry| meaning.text(entry.argument(0)));
            if let Ok(values) = values.collect::<Result<Vec<Text>, _>>() {
                meaning.learn(name, values.iter());
            }
        }
        self.address_maps = self.maps_that_use("remote_addr");
        meaning.user_maps = self.maps_that_use("remote_user");
    }

    /// Returns the maps whose value a variable decides, perhaps by another map.
    fn maps_that_use(&self, variable: &str) -> BTreeSet<String> {
        let mut found: BTreeSet<String> = BTreeSet::new();
        loop {
            let known = found.len();
            for (name, statement) in &self.maps {
                let uses = |text: &str| {
                    let mut others = found.iter();
                    text.contains(variable) || others.any(|other| text.contains(other))
                };
                let key = key_of(statement).unwrap_or("$remote_addr");
                let mut values = statement.inner().iter();
                if uses(key) || values.any(|entry| uses(entry.argument(0))) {
                    found.insert(name.clone());
                }
            }
            if found.len() == known {
                return found;
            }
        }
    }

    /// Forgets the variables that depend on the path, after a `rewrite` has changed it: nginx keeps the values that they had before, and
    /// Tutti would take those of the new path. A condition that names one cannot be carried over then, so it closes what it refuses.
    pub(super) fn forget_path(&self, meaning: &mut Meaning) {
        for name in self.path_names(meaning) {
            meaning.named.remove(&name);
            meaning.unknown.insert(name);
        }
    }

    /// The variables that depend on the path.
    pub(super) fn path_names(&self, meaning: &Meaning) -> BTreeSet<String> {
        let mut forgotten: BTreeSet<String> = BTreeSet::new();
        loop {
            let known = forgotten.len();
            for (name, text) in &meaning.named {
                let is_map = |statement: &Statement| {
                    let mut texts = vec![key_of(statement).unwrap_or_default()];
                    texts.extend(entries(statement).map(|entry| entry.argument(0)));
                    texts.into_iter().any(|text| {
                        let mut others = forgotten.iter();
                        has_path(text) || others.any(|other| text.contains(&format!("${other}")))
                    })
                };
                let is_own = |piece: &Piece| match piece {
                    Piece::Text(_) => false,
                    Piece::Variable(text) | Piece::Script(text) => {
                        let mut others = forgotten.iter();
                        has_path(text) || others.any(|other| text.contains(&format!("map_{other}")))
                    }
                };
                let depends = match self.maps.get(name) {
                    Some(statement) => is_map(statement),
                    None => text.0.iter().any(is_own),
                };
                if depends {
                    forgotten.insert(name.clone());
                }
            }
            if forgotten.len() == known {
                return forgotten;
            }
        }
    }

    /// A map like that of a variable, with other values; `None` if one of them cannot be changed.
    pub(super) fn changed_map(
        &mut self,
        meaning: &Meaning,
        (name, suffix): (&str, &str),
        change: Change<'_>,
    ) -> Option<Text> {
        let statement = self.maps.get(name)?;
        let map = written(statement, meaning, change).ok()?;
        let name = format!("{name}_{suffix}");
        self.out.maps.insert(name.clone(), map.into());
        Some(variable(&name))
    }

    /// True for an expression that looks at the client's address.
    pub(super) fn uses_address(&self, expression: &str) -> bool {
        let mut maps = self.address_maps.iter();
        ["remote_addr", "remoteAddr"]
            .iter()
            .any(|name| expression.contains(name))
            || maps.any(|name| expression.contains(&format!("map_{name}")))
    }
}

/// The names of the variables that decide about the value of a map, or are in it.
pub(super) fn names_in(map: &Statement) -> impl Iterator<Item = &str> {
    let values = entries(map).map(|entry| entry.argument(0));
    key_of(map).into_iter().chain(values).flat_map(names)
}

/// True for a text with a variable that a `rewrite` changes: it gives requests another path, and another query.
fn has_path(text: &str) -> bool {
    let text = text.replace("request_uri", "");
    [
        "uri",
        "request_filename",
        "fastcgi_script_name",
        "arg_",
        "args",
        "query",
    ]
    .iter()
    .any(|name| text.contains(name))
}

/// The entries of a block, without words that are none.
fn entries(statement: &Statement) -> impl Iterator<Item = &Statement> {
    let is_option = |entry: &Statement| {
        entry.arguments().is_empty() && matches!(entry.name(), "hostnames" | "volatile" | "ranges")
    };
    statement
        .inner()
        .iter()
        .filter(move |entry| !is_option(entry))
}

fn written(statement: &Statement, meaning: &Meaning, change: Change<'_>) -> Written {
    let mut map = match statement.name() {
        "geo" => addresses(statement, change)?,
        "split_clients" => shares(statement, meaning, change)?,
        _ => texts(statement, meaning, change)?,
    };
    if let Some(key) = key_of(statement) {
        let key = text(meaning, key)?;
        map.insert("key".to_owned(), key.into());
    }
    Ok(map)
}

fn text(meaning: &Meaning, source: &str) -> Result<String, String> {
    let text = meaning.text(source);
    text.map(|text| text.template())
        .map_err(|unknown| format!("there is no equivalent of the variable `${}`", unknown.0))
}

/// The value of an entry.
fn value_of(entry: &Statement, change: Change<'_>) -> Result<String, String> {
    let value = entry.argument(0);
    change(value).ok_or_else(|| format!("its value `{value}` cannot be carried over"))
}

fn texts(statement: &Statement, meaning: &Meaning, change: Change<'_>) -> Written {
    let mut values = Map::new();
    let mut map = Map::new();
    for entry in entries(statement) {
        let value = value_of(entry, change)?;
        let source = entry.name();
        if source == "default" {
            map.insert("default".to_owned(), text(meaning, &value)?.into());
            continue;
        }
        let value = match source.strip_prefix('~') {
            Some(pattern) => {
                let pattern = pattern.strip_prefix('*').unwrap_or(pattern);
                Pattern::parse(&format!("~{pattern}"), DECODED)
                    .map_err(|error| error.to_string())?;
                text(&with_groups(meaning, pattern), &value)?
            }
            None => text(meaning, &value)?,
        };
        values.insert(source.to_owned(), value.into());
    }
    let mut statements = statement.inner().iter();
    let has_hosts =
        statements.any(|entry| entry.name() == "hostnames" && entry.arguments().is_empty());
    let kind = if has_hosts { "hosts" } else { "values" };
    map.insert(kind.to_owned(), values.into());
    Ok(map)
}

/// The meaning of variables in a value for a regular expression, whose groups have names of their own.
fn with_groups(meaning: &Meaning, pattern: &str) -> Meaning {
    let mut inner = meaning.clone();
    let digits = (1..=captures_in(pattern)).map(|number| number.to_string());
    for name in digits.chain(groups(pattern, "").into_keys()) {
        let group = Piece::Variable(format!("match_{name}"));
        inner.unknown.remove(&name);
        inner.named.insert(name, Text(vec![group]));
    }
    inner
}

/// The number of groups in an expression; nine at most have a variable.
fn captures_in(pattern: &str) -> usize {
    let bare = pattern.replace("\\(", "");
    let groups = bare.split('(').skip(1);
    let named = ["?<", "?P<", "?'"];
    let is_group = |rest: &&str| {
        let is_named = named.iter().any(|begin| rest.starts_with(begin));
        !rest.starts_with('?') || is_named && !rest.starts_with("?<=") && !rest.starts_with("?<!")
    };
    groups.filter(is_group).count().min(9)
}

fn addresses(statement: &Statement, change: Change<'_>) -> Written {
    let mut values = Map::new();
    let mut map = Map::new();
    for entry in entries(statement) {
        match entry.name() {
            "delete" => {
                values.remove(entry.argument(0));
                continue;
            }
            name @ ("proxy" | "proxy_recursive") => {
                return Err(format!(
                    "`{name}` is not carried over: a listener says which proxies are trusted"
                ));
            }
            _ => {}
        }
        let value = Text::literal(value_of(entry, change)?).template();
        match entry.name() {
            "default" => drop(map.insert("default".to_owned(), value.into())),
            network => drop(values.insert(network.to_owned(), value.into())),
        }
    }
    map.insert("addresses".to_owned(), values.into());
    Ok(map)
}

fn shares(statement: &Statement, meaning: &Meaning, change: Change<'_>) -> Written {
    let mut shares = Vec::new();
    let mut map = Map::new();
    for entry in entries(statement) {
        let value = text(meaning, &value_of(entry, change)?)?;
        match entry.name().strip_suffix('%').map(str::parse::<f64>) {
            Some(Ok(percent)) => shares.push(json!({"percent": percent, "value": value})),
            _ if entry.name() == "*" => drop(map.insert("default".to_owned(), value.into())),
            _ => return Err(format!("`{}` is not a share", entry.name())),
        }
    }
    map.extend(when("shares", shares));
    Ok(map)
}
