//! The typed configuration as goldens show it: only the fields whose value differs from that of an empty object.
//!
//! A new option with its default is then in no golden.

use std::collections::HashMap;
use std::fmt::Write as _;

use tutti_config::{Config, ValidationContext, parse, validate};

/// One of each object, with the required members only. The values are such that no golden has them.
const SAMPLE: &str = r#"{
    "listeners": {"*:1": {"pass": "routes", "http2": {}, "forwarded": {"source": [], "client_ip": "Sample"}, "tls": {
        "certificate": "sample", "session": {}, "client_ca": "sample"}}},
    "routes": [
        {"match": {}, "action": {"share": "/sample"}},
        {"match": {}, "action": {"return": 999}},
        {"match": {}, "action": {"proxy": "http://192.0.2.1:1"}}
    ],
    "upstreams": {"sample": {"servers": {"192.0.2.1:1": {}}, "http_version": 1, "health_check": {}, "tls": {}},
        "fastcgi": {"servers": {"192.0.2.1:1": {}}, "fastcgi": {"root": "/sample"}}},
    "applications": {
        "php": {"type": "php", "root": "/sample", "isolation": {"cgroup": {"path": "sample"}}, "processes": {}},
        "python": {"type": "python", "module": "sample"},
        "perl": {"type": "perl", "script": "/sample"},
        "external": {"type": "external", "executable": "/sample"},
        "node": {"type": "node", "script": "/sample"}
    },
    "settings": {"telemetry": {"endpoint": "http://192.0.2.1", "protocol": "http"},
        "http": {"compression": {"compressors": {"encoding": "gzip"}}}}
}"#;

/// A value as `{:#?}` prints it.
#[derive(Clone, PartialEq)]
enum Shown {
    /// On one line.
    Atom(String),
    /// Its opening, its contents with the names of fields or keys, and its closing.
    Block(String, Vec<(String, Shown)>, char),
}

/// The fields of a structure by its name.
type Defaults = HashMap<String, Vec<(String, Shown)>>;

/// Returns the typed configuration without the fields that are as in the sample.
pub(crate) fn differing(config: &Config) -> String {
    let context = ValidationContext::with_modules([
        ("external", ""),
        ("node", ""),
        ("wasm-wasi-component", ""),
        ("perl", "5.0.0"),
        ("php", "8.0.0"),
        ("python", "3.0.0"),
    ]);
    let sample = validate(&parse(SAMPLE.as_bytes()).unwrap(), &context).unwrap();
    let mut defaults = Defaults::new();
    collect(&read(&format!("{sample:#?}")), &mut defaults);
    // The sample is not empty itself.
    collect(&read(&format!("{:#?}", Config::default())), &mut defaults);
    let shown = prune(read(&format!("{config:#?}")), &defaults);
    let mut text = String::new();
    print(&shown, 0, &mut text);
    text.push('\n');
    text
}

fn read(text: &str) -> Shown {
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    value(first, &mut lines)
}

/// The value that begins with `first`, a line without indentation and name.
fn value<'t>(first: &str, lines: &mut impl Iterator<Item = &'t str>) -> Shown {
    if !first.ends_with(['{', '[', '(']) {
        return Shown::Atom(first.trim_end_matches(',').to_owned());
    }
    let mut items = Vec::new();
    loop {
        let line = lines.next().unwrap().trim_start();
        if let Some(close) = line.chars().next().filter(|c| matches!(c, '}' | ']' | ')')) {
            return Shown::Block(first.to_owned(), items, close);
        }
        let (name, rest) = line.split_at(name_length(line));
        items.push((name.to_owned(), value(rest, lines)));
    }
}

/// Length of `name: ` or `"key": ` at the front of a line; 0 if there is none.
fn name_length(line: &str) -> usize {
    let end = if line.starts_with('"') {
        let mut is_escaped = false;
        let closing = line.char_indices().skip(1).find(|(_, c)| {
            let closes = *c == '"' && !is_escaped;
            is_escaped = *c == '\\' && !is_escaped;
            closes
        });
        closing.unwrap().0 + 1
    } else {
        line.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(line.len())
    };
    if line[end..].starts_with(": ") {
        end + 2
    } else {
        0
    }
}

/// Notes the fields of every structure; later ones take precedence.
fn collect(shown: &Shown, defaults: &mut Defaults) {
    if let Shown::Block(open, items, _) = shown {
        for (_, item) in items {
            collect(item, defaults);
        }
        if is_structure(open) {
            defaults.insert(open.clone(), items.clone());
        }
    }
}

fn is_structure(open: &str) -> bool {
    open.starts_with(|c: char| c.is_ascii_uppercase()) && open.ends_with('{')
}

fn prune(shown: Shown, defaults: &Defaults) -> Shown {
    let Shown::Block(open, mut items, close) = shown else {
        return shown;
    };
    if is_structure(&open)
        && let Some(default) = defaults.get(&open)
    {
        items.retain(|item| !default.contains(item));
    }
    let items = items.into_iter();
    let items = items.map(|(name, item)| (name, prune(item, defaults)));
    Shown::Block(open, items.collect(), close)
}

fn print(shown: &Shown, depth: usize, text: &mut String) {
    match shown {
        Shown::Atom(atom) => text.push_str(atom),
        Shown::Block(open, items, close) if items.is_empty() => {
            let _ = write!(text, "{open}{close}");
        }
        Shown::Block(open, items, close) => {
            text.push_str(open);
            for (name, item) in items {
                let _ = write!(text, "\n{:1$}{name}", "", (depth + 1) * 4);
                print(item, depth + 1, text);
                text.push(',');
            }
            let _ = write!(text, "\n{:1$}{close}", "", depth * 4);
        }
    }
}
