//! Caddy's matchers, as conditions of a step.

use serde_json::{Map, Value};
use tutti_config::pattern::Case;

use super::tree::Directive;
use crate::output::{literal, one_or_many, when};
use crate::template::{quoted, regex};

/// Conditions for the token that stands before a directive's arguments: `*`, `/path*` or `@name`. `None`: they cannot be written.
pub(super) fn of_token(token: &str, named: &[Directive]) -> Option<Map<String, Value>> {
    if token == "*" {
        return Some(Map::new());
    }
    if token.starts_with('/') {
        return Some(when("uri", path(token)));
    }
    let definition = named.iter().find(|definition| definition.name() == token)?;
    let mut conditions = Map::new();
    let single = Directive {
        place: definition.place.clone(),
        words: definition.arguments().to_vec(),
        block: None,
    };
    let all: Vec<&Directive> = if definition.arguments().is_empty() {
        definition.inner().iter().collect()
    } else {
        vec![&single]
    };
    for matcher in all {
        for (name, condition) in one(matcher, "")? {
            let both = match conditions.remove(&name) {
                None => condition,
                Some(known) => both(known, condition)?,
            };
            conditions.insert(name, both);
        }
    }
    Some(conditions)
}

/// Combines two conditions about the same thing, which must both hold; `None` where one option cannot express it.
fn both(one: Value, other: Value) -> Option<Value> {
    let list = |value: Value| match value {
        Value::Array(list) => Some(list),
        Value::String(_) => Some(vec![value]),
        _ => None,
    };
    if let (Value::Object(fields), Value::Object(others)) = (&one, &other) {
        let is_new = |name: &String| !fields.keys().any(|known| known.eq_ignore_ascii_case(name));
        if !others.keys().all(is_new) {
            return None;
        }
        return Some(fields.clone().into_iter().chain(others.clone()).collect());
    }
    let (one, other) = (list(one)?, list(other)?);
    let is_negative = |value: &Value| value.as_str().is_some_and(|text| text.starts_with('!'));
    // One of the patterns must match, and none of those with `!`.
    (one.iter().all(is_negative) || other.iter().all(is_negative))
        .then(|| one.into_iter().chain(other).collect::<Vec<_>>().into())
}

/// The conditions as a test in JavaScript; `None` where there is none.
pub(super) fn as_test(conditions: &Map<String, Value>) -> Option<String> {
    let mut tests = Vec::new();
    for (name, condition) in conditions {
        let patterns: Vec<&str> = match condition {
            Value::Array(all) => all.iter().map(Value::as_str).collect::<Option<_>>()?,
            Value::String(one) => vec![one],
            _ => return None,
        };
        let mut any = Vec::new();
        for pattern in patterns {
            any.push(match name.as_str() {
                "uri" => {
                    let source = pattern.strip_prefix("~(?is)")?;
                    // Before a directive changes it.
                    let path = "(vars.request_uri ?? '').replace(/\\?[^]*$/, '')";
                    format!("{}.test({path})", regex(source, Case::Ignore)?)
                }
                "method" if !pattern.starts_with(['!', '~']) && !pattern.contains('*') => {
                    format!("vars.method === {}", quoted(&pattern.to_ascii_uppercase()))
                }
                _ => return None,
            });
        }
        tests.push(format!("({})", any.join(" || ")));
    }
    Some(tests.join(" && "))
}

/// True for a token that is a matcher.
pub(super) fn is_token(token: &str) -> bool {
    token == "*" || token.starts_with(['/', '@'])
}

fn one(matcher: &Directive, sign: &str) -> Option<Map<String, Value>> {
    let signed = |patterns: Vec<String>| {
        one_or_many(
            patterns
                .into_iter()
                .map(|pattern| format!("{sign}{pattern}"))
                .collect(),
        )
    };
    let arguments = matcher.arguments();
    if arguments.iter().any(|argument| argument.contains('{')) {
        return None;
    }
    Some(match matcher.name() {
        "path" => when(
            "uri",
            signed(arguments.iter().map(|text| path(text)).collect()),
        ),
        "path_regexp" => {
            let expression = arguments.last()?;
            tutti_config::pattern::Pattern::parse(
                &format!("~{expression}"),
                tutti_config::table::DECODED,
            )
            .ok()?;
            when("uri", signed(vec![format!("~{expression}")]))
        }
        "method" => when("method", signed(arguments.to_vec())),
        "host" => when(
            "host",
            signed(
                arguments
                    .iter()
                    .map(|host| host.to_ascii_lowercase())
                    .collect(),
            ),
        ),
        "protocol" if sign.is_empty() && matches!(matcher.argument(0), "http" | "https") => {
            when("scheme", matcher.argument(0))
        }
        "remote_ip" => {
            let own: Vec<String> = arguments
                .iter()
                .filter(|argument| *argument != "forwarded")
                .cloned()
                .collect();
            if own.len() != arguments.len() {
                return None;
            }
            let mut patterns = Vec::new();
            for address in own {
                match address.as_str() {
                    "private_ranges" => patterns.extend(
                        [
                            "192.168.0.0/16",
                            "172.16.0.0/12",
                            "10.0.0.0/8",
                            "127.0.0.0/8",
                            "fd00::/8",
                            "::1",
                        ]
                        .map(str::to_owned),
                    ),
                    _ => patterns.push(address),
                }
            }
            when("source", signed(patterns))
        }
        "header" if sign.is_empty() && arguments.len() == 2 => {
            let pattern = matcher.argument(1).to_owned();
            when(
                "headers",
                Map::from_iter([(matcher.argument(0).to_owned(), Value::from(pattern))]),
            )
        }
        "not" if sign.is_empty() => {
            if arguments.is_empty() {
                let [only] = matcher.inner() else {
                    return None;
                };
                return one(only, "!");
            }
            let inner = Directive {
                place: matcher.place.clone(),
                words: arguments.to_vec(),
                block: None,
            };
            return one(&inner, "!");
        }
        _ => return None,
    })
}

/// A path of a matcher, which ignores case and has `*` for any characters.
fn path(text: &str) -> String {
    if !text.chars().any(char::is_alphabetic) {
        let pieces: Vec<String> = text.split('*').map(literal).collect();
        return pieces.join("*");
    }
    let mut expression = "~(?is)^".to_owned();
    for character in text.chars() {
        match character {
            '*' => expression.push_str(".*"),
            other => {
                if r"\.+?()|[]{}^$#&-~".contains(other) {
                    expression.push('\\');
                }
                expression.push(other);
            }
        }
    }
    expression + "$"
}
