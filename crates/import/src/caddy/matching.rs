//! Caddy's matchers, as conditions of a step.

use serde_json::{Map, Value};

use super::tree::Directive;
use crate::output::{literal, one_or_many, when};

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
        for (name, condition) in one(matcher, false)? {
            // Two about the same are both to hold, which one option cannot say.
            if conditions.insert(name, condition).is_some() {
                return None;
            }
        }
    }
    Some(conditions)
}

/// True for a token that is a matcher.
pub(super) fn is_token(token: &str) -> bool {
    token == "*" || token.starts_with(['/', '@'])
}

fn one(matcher: &Directive, negated: bool) -> Option<Map<String, Value>> {
    let sign = if negated { "!" } else { "" };
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
        "protocol" if !negated && matches!(matcher.argument(0), "http" | "https") => {
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
        "header" if !negated && arguments.len() == 2 => {
            let pattern = matcher.argument(1).to_owned();
            when(
                "headers",
                Map::from_iter([(matcher.argument(0).to_owned(), Value::from(pattern))]),
            )
        }
        "not" if !negated => {
            if arguments.is_empty() {
                let [only] = matcher.inner() else {
                    return None;
                };
                return one(only, true);
            }
            let inner = Directive {
                place: matcher.place.clone(),
                words: arguments.to_vec(),
                block: None,
            };
            return one(&inner, true);
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
