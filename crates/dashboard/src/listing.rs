//! A configuration as lines, each with its place: faults are shown at their places, and two configurations can be
//! compared.

use std::collections::BTreeMap;

use tutti_config::{Diagnostic, Document, Pointer};
use tutti_config::{TreeNode, Value};

use crate::redact::{Redactor, announces_secret, is_secret_name};

/// Maximum lines to show: longer ones can be read with the control API.
pub(crate) const MOST_LINES: usize = 5000;

/// Sections whose members have user-defined names: an application called `auth` is not a secret.
const OF_NAMED_THINGS: [&str; 9] = [
    "applications",
    "listeners",
    "routes",
    "schedules",
    "servers",
    "spoolers",
    "streams",
    "targets",
    "upstreams",
];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) pointer: Pointer,
}

/// The lines of a configuration without its secrets.
pub(crate) struct Listing {
    pub(crate) lines: Vec<Line>,
    /// There are more lines.
    pub(crate) is_cut: bool,
    /// The first line of each place.
    places: BTreeMap<String, usize>,
    /// Places whose values are not shown.
    hidden: Vec<String>,
}

impl Listing {
    pub(crate) fn of(document: &Document, redactor: &Redactor) -> Listing {
        let mut writer = Writer {
            redactor,
            listing: Listing {
                lines: Vec::new(),
                is_cut: false,
                places: BTreeMap::new(),
                hidden: Vec::new(),
            },
        };
        let root = ListedValue {
            pointer: Pointer::root(),
            depth: 0,
            is_hidden: false,
            has_own_name: false,
        };
        writer.node(document.root(), &root, String::new(), "");
        writer.listing
    }

    /// Returns the line of a place, counted from 0, or of the closest enclosing one if it does not exist.
    pub(crate) fn line_of(&self, pointer: &Pointer) -> Option<usize> {
        let mut text = pointer.as_str();
        loop {
            if let Some(line) = self.places.get(text) {
                return Some(*line);
            }
            text = text.get(..text.rfind('/')?)?;
        }
    }

    /// True if the value there must not be shown.
    pub(crate) fn hides(&self, pointer: &Pointer) -> bool {
        let pointer = pointer.as_str();
        self.hidden.iter().any(|hidden| {
            let rest = pointer.strip_prefix(hidden.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }

    /// Describes a fault; if it concerns a hidden value, the message does not repeat it.
    pub(crate) fn words_of(&self, fault: &Diagnostic, redactor: &Redactor) -> String {
        if self.hides(&fault.pointer) {
            return "this value is invalid; it is hidden here, but the response of the control API has the details".to_owned();
        }
        words(fault, redactor)
    }

    pub(crate) fn texts(&self) -> Vec<&str> {
        self.lines.iter().map(|line| line.text.as_str()).collect()
    }
}

/// Describes a fault: message and remedy. It is shown at its place.
pub(crate) fn words(fault: &Diagnostic, redactor: &Redactor) -> String {
    let mut text = fault.message.clone();
    if let Some(expected) = &fault.expected {
        text = format!("{text}; expected {expected}");
    }
    if let Some(suggestion) = &fault.suggestion {
        text = format!("{text}; {suggestion}");
    }
    if text.contains("://") {
        let words = text
            .split(' ')
            .map(|word| redactor.text(word).unwrap_or_else(|| word.to_owned()));
        text = words.collect::<Vec<_>>().join(" ");
    }
    text
}

struct ListedValue {
    pointer: Pointer,
    depth: usize,
    is_hidden: bool,
    /// Its name is user-defined.
    has_own_name: bool,
}

struct Writer<'r> {
    redactor: &'r Redactor,
    listing: Listing,
}

impl Writer<'_> {
    fn line(&mut self, place: &ListedValue, text: &str) {
        if self.listing.lines.len() >= MOST_LINES {
            self.listing.is_cut = true;
            return;
        }
        let number = self.listing.lines.len();
        let pointer = place.pointer.as_str();
        self.listing
            .places
            .entry(pointer.to_owned())
            .or_insert(number);
        self.listing.lines.push(Line {
            text: format!("{}{text}", "  ".repeat(place.depth)),
            pointer: place.pointer.clone(),
        });
    }

    /// `label` precedes the value on its line, `end` follows it.
    fn node(&mut self, node: &TreeNode, place: &ListedValue, label: String, end: &str) {
        if self.listing.is_cut {
            return;
        }
        match &node.value {
            Value::Object(all) if !all.is_empty() => {
                self.line(place, &format!("{label}{{"));
                let section = place.pointer.as_str().rsplit('/').next();
                // An application called `servers` is not a section.
                let has_own_names = !place.has_own_name
                    && section.is_some_and(|name| OF_NAMED_THINGS.contains(&name));
                for (index, member) in all.iter().enumerate() {
                    let is_secret =
                        !has_own_names && !place.is_hidden && is_secret_name(&member.name);
                    let inner = ListedValue {
                        pointer: place.pointer.child(&member.name),
                        depth: place.depth + 1,
                        is_hidden: place.is_hidden || is_secret,
                        has_own_name: has_own_names,
                    };
                    if is_secret {
                        self.listing.hidden.push(inner.pointer.as_str().to_owned());
                    }
                    let label = format!("{}: ", quoted(&member.name));
                    self.node(&member.node, &inner, label, comma(index, all.len()));
                }
                self.line(place, &format!("}}{end}"));
            }
            Value::Array(all) if !all.is_empty() => {
                self.line(place, &format!("{label}["));
                let mut is_announced = false;
                for (index, element) in all.iter().enumerate() {
                    let inner = ListedValue {
                        pointer: place.pointer.index(index),
                        depth: place.depth + 1,
                        is_hidden: place.is_hidden || is_announced,
                        has_own_name: false,
                    };
                    if is_announced {
                        self.listing.hidden.push(inner.pointer.as_str().to_owned());
                    }
                    is_announced = element.as_str().is_some_and(announces_secret);
                    self.node(element, &inner, String::new(), comma(index, all.len()));
                }
                self.line(place, &format!("]{end}"));
            }
            value => {
                let shown = self.scalar(value, place);
                self.line(place, &format!("{label}{shown}{end}"));
            }
        }
    }

    fn scalar(&mut self, value: &Value, place: &ListedValue) -> String {
        let plain = match value {
            Value::Null => "null".to_owned(),
            // A switch is not a secret, whatever its name.
            Value::Bool(is_on) => return is_on.to_string(),
            Value::Number(number) => number.to_string(),
            Value::String(text) => match self.redactor.text(text) {
                Some(hidden) if !place.is_hidden => {
                    self.listing.hidden.push(place.pointer.as_str().to_owned());
                    return quoted(&hidden);
                }
                _ => quoted(text),
            },
            Value::Array(_) => return "[]".to_owned(),
            Value::Object(_) => return "{}".to_owned(),
        };
        if place.is_hidden {
            return format!("({})", self.redactor.mark(&plain));
        }
        plain
    }
}

fn comma(index: usize, all: usize) -> &'static str {
    if index + 1 < all { "," } else { "" }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(text: &str) -> Listing {
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        Listing::of(&document, &Redactor::new())
    }

    #[test]
    fn lines_know_their_places() {
        let listing = listing(r#"{"a": {"b": [1, "x"], "c": {}}, "d/e": null}"#);
        let texts = [
            "{",
            "  \"a\": {",
            "    \"b\": [",
            "      1,",
            "      \"x\"",
            "    ],",
            "    \"c\": {}",
            "  },",
            "  \"d/e\": null",
            "}",
        ];
        assert_eq!(listing.texts(), texts);
        let line = |pointer: &str| listing.line_of(&Pointer::from_escaped(pointer));
        assert_eq!(line("/a/b/1"), Some(4));
        assert_eq!(line("/a/missing"), Some(1));
        assert_eq!(line("/d~1e"), Some(8));
        assert_eq!(line(""), Some(0));
    }

    #[test]
    fn secrets_are_in_no_line_and_in_no_fault() {
        let text = r#"{"applications": {"auth": {"type": "php"}, "a": {"environment": {"N": "hunter2"}, "arguments": ["--token", "hunter2", "--secret=hunter2"],
            "options": {"admin": {"db.password": "hunter2"}}}}, "listeners": {"*:1": {"tls": {"session": {"tickets": ["hunter2"]}}}},
            "settings": {"telemetry": {"endpoint": "http://a:hunter2@b/"}}}"#;
        let listing = listing(text);
        let all = listing.texts().join("\n");
        assert!(!all.contains("hunter2"), "{all}");
        assert_eq!(all.matches("hidden, ").count(), 6, "{all}");
        assert!(all.contains("\"type\": \"php\""), "{all}");
        let redactor = Redactor::new();
        for place in [
            "/applications/a/environment/N",
            "/applications/a/arguments/1",
            "/settings/telemetry/endpoint",
        ] {
            let fault = Diagnostic::new(Pointer::from_escaped(place), "`hunter2` is wrong");
            assert!(
                !listing.words_of(&fault, &redactor).contains("hunter2"),
                "{place}"
            );
        }
    }

    #[test]
    fn secrets_of_things_that_are_called_like_a_section_are_hidden() {
        for name in OF_NAMED_THINGS {
            let application = format!(r#"{{"{name}": {{"environment": {{"X": "hunter2"}}}}}}"#);
            let listing = listing(&format!(r#"{{"applications": {application}}}"#));
            let all = listing.texts().join("\n");
            assert!(
                all.contains("hidden, ") && !all.contains("hunter2"),
                "{all}"
            );
        }
    }

    #[test]
    fn a_long_configuration_is_cut() {
        let numbers: Vec<String> = (0..2 * MOST_LINES)
            .map(|number| number.to_string())
            .collect();
        let listing = listing(&format!("{{\"a\": [{}]}}", numbers.join(",")));
        assert!(listing.is_cut);
        assert_eq!(listing.lines.len(), MOST_LINES);
    }
}
