//! The servers of `proxy_pass` in a stream: one, or those that a map chooses by what a TLS client asks for.
//!
//! Must never: send a client to a server that nginx would not choose for it; what cannot be written is refused.

use tutti_config::pattern::Pattern;
use tutti_config::table::CASELESS;

use serde_json::{Map, Value, json};

use super::tree::Statement;
use crate::output::{one_or_many, when};

/// The conditions of a step, and the value of `proxy_pass` then.
pub(super) type Choice = (Map<String, Value>, String);

/// The subject of a variable of `ssl_preread`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    ServerName,
    Protocols,
    Version,
}

impl Subject {
    fn of(variable: &str) -> Option<Self> {
        match variable.trim_matches(['$', '{', '}']) {
            "ssl_preread_server_name" => Some(Self::ServerName),
            "ssl_preread_alpn_protocols" => Some(Self::Protocols),
            "ssl_preread_protocol" => Some(Self::Version),
            _ => None,
        }
    }
}

/// The order in which nginx compares the keys of a map: exact ones, the longest wildcards at the beginning, then at the
/// end, then expressions as they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Exact,
    Begins(std::cmp::Reverse<usize>),
    Ends(std::cmp::Reverse<usize>),
    Expression,
}

/// The choices of a map, in the order of steps; the last one has no conditions if there is a default.
///
/// # Errors
/// The problem, without a period.
pub(super) fn choices(map: &Statement) -> Result<Vec<Choice>, String> {
    let subject = Subject::of(map.argument(0));
    let subject = subject.ok_or_else(|| {
        format!(
            "the map depends on `{}`, which has no equivalent here",
            map.argument(0)
        )
    })?;
    let mut default = None;
    let mut keys = Vec::new();
    let mut has_wildcards = false;
    for entry in map.inner() {
        match (entry.name(), entry.arguments()) {
            ("hostnames", []) => has_wildcards = true,
            ("volatile", []) => {}
            ("include", _) => return Err("an `include` in a map is not followed".to_owned()),
            ("default", [value]) => default = Some(value.clone()),
            (key, [value]) => keys.push((key.to_owned(), value.clone())),
            _ => return Err("a map has a line that is no pair of a key and a value".to_owned()),
        }
    }
    let values = keys.iter().map(|(_, value)| value).chain(&default);
    if let Some(value) = values.clone().find(|value| value.contains('$')) {
        return Err(format!("its value `{value}` depends on the connection"));
    }
    let mut steps = match subject {
        Subject::ServerName => by_name(&keys, has_wildcards)?,
        Subject::Protocols => by_protocol(&keys)?,
        Subject::Version => by_version(&keys, default.as_deref())?,
    };
    if let Some(default) = default {
        steps.push((Map::new(), default));
    }
    Ok(steps)
}

fn by_name(keys: &[(String, String)], has_wildcards: bool) -> Result<Vec<Choice>, String> {
    let mut ranked: Vec<(Rank, Vec<String>, &String)> = Vec::new();
    for (key, value) in keys {
        let (rank, patterns) = name(key, has_wildcards)
            .ok_or_else(|| format!("its key `{key}` cannot be written as a pattern"))?;
        let are_valid = patterns
            .iter()
            .all(|pattern| Pattern::parse(pattern, CASELESS).is_ok());
        if !are_valid {
            return Err(format!("the expression `{key}` is not supported"));
        }
        ranked.push((rank, patterns, value));
    }
    // Stable: expressions stay in their order.
    ranked.sort_by_key(|(rank, ..)| *rank);
    let steps = ranked.into_iter();
    let steps = steps
        .map(|(_, patterns, value)| (when("server_name", one_or_many(patterns)), value.clone()));
    Ok(merged(steps.collect()))
}

/// The patterns for a key, and when it is compared; `None`: there are none.
fn name(key: &str, has_wildcards: bool) -> Option<(Rank, Vec<String>)> {
    let longest = |name: &str| std::cmp::Reverse(name.len());
    if let Some(expression) = key.strip_prefix('~') {
        let expression = expression.strip_prefix('*').unwrap_or(expression);
        return Some((Rank::Expression, vec![format!("~{expression}")]));
    }
    let key = key.strip_prefix('\\').unwrap_or(key);
    let is_name = |text: &str| {
        let mut letters = text.chars();
        letters.all(|one| one.is_ascii_alphanumeric() || "-._".contains(one))
    };
    if has_wildcards {
        if let Some(rest) = key.strip_prefix("*.").filter(|rest| is_name(rest)) {
            return Some((Rank::Begins(longest(rest)), vec![format!("*.{rest}")]));
        }
        if let Some(rest) = key.strip_prefix('.').filter(|rest| is_name(rest)) {
            let both = vec![rest.to_owned(), format!("*.{rest}")];
            return Some((Rank::Begins(longest(rest)), both));
        }
        if let Some(rest) = key.strip_suffix(".*").filter(|rest| is_name(rest)) {
            return Some((Rank::Ends(longest(rest)), vec![format!("{rest}.*")]));
        }
    }
    // A trailing period is not part of a name here.
    let key = key.strip_suffix('.').unwrap_or(key);
    is_name(key).then(|| (Rank::Exact, vec![key.to_owned()]))
}

/// Steps for neighbours with the same value are one.
fn merged(steps: Vec<Choice>) -> Vec<Choice> {
    let mut merged: Vec<Choice> = Vec::new();
    for (conditions, value) in steps {
        let patterns = conditions.get("server_name").map(texts).unwrap_or_default();
        match merged.last_mut() {
            Some((known, last)) if *last == value => {
                let mut all = known.get("server_name").map(texts).unwrap_or_default();
                all.extend(patterns);
                known.insert("server_name".to_owned(), one_or_many(all));
            }
            _ => merged.push((conditions, value)),
        }
    }
    merged
}

fn texts(value: &Value) -> Vec<String> {
    let one = |value: &Value| value.as_str().map(str::to_owned);
    match value {
        Value::Array(elements) => elements.iter().filter_map(one).collect(),
        value => one(value).into_iter().collect(),
    }
}

/// nginx compares the whole list, joined by commas: only its documented form, `~\bNAME\b`, means one of its members.
fn by_protocol(keys: &[(String, String)]) -> Result<Vec<Choice>, String> {
    let one = |(key, value): &(String, String)| {
        let member = key
            .strip_prefix("~\\b")
            .and_then(|rest| rest.strip_suffix("\\b"));
        let member = member.map(|text| text.replace("\\.", ".").replace("\\/", "/"));
        let is_plain = |text: &String| {
            let mut letters = text.chars();
            letters.all(|one| one.is_ascii_alphanumeric() || "-./".contains(one))
        };
        let pattern = match (key.as_str(), member.filter(is_plain)) {
            ("", _) => String::new(),
            (_, Some(member)) => member,
            _ => return Err(format!("its key `{key}` is not of the form `~\\bNAME\\b`")),
        };
        Ok((when("alpn", pattern), value.clone()))
    };
    keys.iter().map(one).collect()
}

/// The newest version that a client offers decides: here only whether it is TLS at all.
fn by_version(keys: &[(String, String)], default: Option<&str>) -> Result<Vec<Choice>, String> {
    let value_of = |version: &str| {
        let found = keys.iter().find(|(key, _)| key == version);
        found.map(|(_, value)| value.as_str()).or(default)
    };
    if let Some((key, _)) = keys
        .iter()
        .find(|(key, _)| !key.is_empty() && !key.starts_with("TLSv1"))
    {
        return Err(format!("its key `{key}` is no version of TLS"));
    }
    let newest = value_of("TLSv1.3");
    if newest != value_of("TLSv1.2") {
        return Err("it distinguishes versions of TLS".to_owned());
    }
    let choice = |is_tls: bool, value: Option<&str>| {
        value.map(|value| (when("tls", json!(is_tls)), value.to_owned()))
    };
    let both = [choice(true, newest), choice(false, value_of(""))];
    Ok(both.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<(Value, String)>, String> {
        let statements = crate::nginx::tree::parse("a", text).unwrap();
        let steps = choices(&statements[0])?;
        Ok(steps
            .into_iter()
            .map(|(conditions, value)| (conditions.into(), value))
            .collect())
    }

    #[test]
    fn names_are_compared_in_the_order_of_nginx() {
        let steps = of("map $ssl_preread_server_name $a { hostnames; ~^shop\\d+\\. e; *.example.com w; default d;
            mail.* m; *.long.example.com l; .both.example b; www.example.com x; api.example.com x; }")
        .unwrap();
        assert_eq!(
            steps,
            [
                (
                    json!({"server_name": ["www.example.com", "api.example.com"]}),
                    "x".to_owned()
                ),
                (json!({"server_name": "*.long.example.com"}), "l".to_owned()),
                (
                    json!({"server_name": ["both.example", "*.both.example"]}),
                    "b".to_owned()
                ),
                (json!({"server_name": "*.example.com"}), "w".to_owned()),
                (json!({"server_name": "mail.*"}), "m".to_owned()),
                (json!({"server_name": "~^shop\\d+\\."}), "e".to_owned()),
                (json!({}), "d".to_owned()),
            ]
        );
    }

    #[test]
    fn a_map_that_cannot_be_written_is_refused() {
        for text in [
            "map $remote_addr $a { default d; }",
            "map $ssl_preread_server_name $a { *.example.com w; }",
            "map $ssl_preread_server_name $a { default $b; }",
            "map $ssl_preread_server_name $a { ~(?<x>a)(? b; }",
            "map $ssl_preread_alpn_protocols $a { h2,http/1.1 b; }",
            "map $ssl_preread_protocol $a { TLSv1.2 a; TLSv1.3 b; }",
        ] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn protocols_and_versions_are_conditions() {
        let steps =
            of("map $ssl_preread_alpn_protocols $a { ~\\bh2\\b b; ~\\bhttp/1.1\\b c; }").unwrap();
        assert_eq!(
            steps,
            [
                (json!({"alpn": "h2"}), "b".to_owned()),
                (json!({"alpn": "http/1.1"}), "c".to_owned())
            ]
        );
        let steps = of("map $ssl_preread_protocol $a { \"\" ssh; default web; }").unwrap();
        assert_eq!(
            steps,
            [
                (json!({"tls": true}), "web".to_owned()),
                (json!({"tls": false}), "ssh".to_owned()),
                (json!({}), "web".to_owned())
            ]
        );
    }
}
