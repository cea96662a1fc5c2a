//! Printing of values: in the format of the control API, and on one line.
//!
//! Printing and parsing again gives the same document, and the same text.

use std::fmt::Write as _;

use crate::diagnostic::Diagnostics;
use crate::diagnostic::shorten;
use crate::tree::{TreeNode, Value};

impl TreeNode {
    /// Prints the value as [`Document::to_json`] does.
    pub fn to_json(&self) -> String {
        let mut text = String::new();
        pretty(self, 0, &mut text);
        text
    }

    /// Prints the value as YAML; parsing it gives the same value.
    pub fn to_yaml(&self) -> String {
        let mut text = String::new();
        yaml(self, 0, &mut text);
        text
    }

    /// Prints the value as TOML; parsing it gives the same value, except for the order of members.
    ///
    /// # Errors
    /// TOML cannot represent it: a `null`, a number out of its range.
    pub fn to_toml(&self) -> Result<String, Diagnostics> {
        crate::toml::print(self)
    }

    /// Prints the value on one line, without spaces.
    pub fn to_compact_json(&self) -> String {
        let mut text = String::new();
        compact(self, usize::MAX, &mut text);
        text
    }

    /// Prints the value on one line, truncated, for a report.
    pub fn shown(&self) -> String {
        let mut text = String::new();
        compact(self, 400, &mut text);
        shorten(&text)
    }
}

/// Indented with tabs, as `curl` shows a configuration of NGINX Unit.
fn pretty(node: &TreeNode, depth: usize, text: &mut String) {
    match &node.value {
        Value::Object(members) if !members.is_empty() => {
            text.push_str("{\n");
            let mut previous_is_container = false;
            for (index, member) in members.iter().enumerate() {
                let is_container = container(&member.node);
                if index > 0 {
                    text.push_str(if is_container || previous_is_container {
                        ",\n\n"
                    } else {
                        ",\n"
                    });
                }
                previous_is_container = is_container;
                indent(depth + 1, text);
                string(&member.name, text);
                text.push_str(": ");
                pretty(&member.node, depth + 1, text);
            }
            text.push('\n');
            indent(depth, text);
            text.push('}');
        }
        Value::Array(elements) if !elements.is_empty() => {
            text.push_str("[\n");
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    text.push_str(",\n");
                }
                indent(depth + 1, text);
                pretty(element, depth + 1, text);
            }
            text.push('\n');
            indent(depth, text);
            text.push(']');
        }
        _ => compact(node, usize::MAX, text),
    }
}

/// Prints on one line, without spaces; stops soon after `limit` bytes.
fn compact(node: &TreeNode, limit: usize, text: &mut String) {
    match &node.value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => text.push_str(number),
        Value::String(value) => string(value, text),
        Value::Array(elements) => {
            text.push('[');
            for (index, element) in elements.iter().enumerate() {
                if text.len() > limit {
                    return;
                }
                if index > 0 {
                    text.push(',');
                }
                compact(element, limit, text);
            }
            text.push(']');
        }
        Value::Object(members) => {
            text.push('{');
            for (index, member) in members.iter().enumerate() {
                if text.len() > limit {
                    return;
                }
                if index > 0 {
                    text.push(',');
                }
                string(&member.name, text);
                text.push(':');
                compact(&member.node, limit, text);
            }
            text.push('}');
        }
    }
}

/// Prints YAML in block style; texts that another YAML reader could interpret differently are quoted.
fn yaml(node: &TreeNode, depth: usize, text: &mut String) {
    match &node.value {
        Value::Object(members) if !members.is_empty() => {
            for (index, member) in members.iter().enumerate() {
                if index > 0 {
                    text.extend(std::iter::repeat_n("  ", depth));
                }
                yaml_text(&member.name, text);
                text.push(':');
                if is_block(&member.node) {
                    text.push('\n');
                    let inner = match member.node.value {
                        // The dashes of a list need no indentation.
                        Value::Array(_) => depth,
                        _ => depth + 1,
                    };
                    text.extend(std::iter::repeat_n("  ", inner));
                    yaml(&member.node, inner, text);
                } else {
                    text.push(' ');
                    yaml(&member.node, depth, text);
                }
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            for (index, element) in elements.iter().enumerate() {
                if index > 0 {
                    text.extend(std::iter::repeat_n("  ", depth));
                }
                text.push_str("- ");
                yaml(element, depth + 1, text);
            }
        }
        Value::String(value) => {
            yaml_text(value, text);
            text.push('\n');
        }
        _ => {
            compact(node, usize::MAX, text);
            text.push('\n');
        }
    }
}

fn is_block(node: &TreeNode) -> bool {
    match &node.value {
        Value::Object(members) => !members.is_empty(),
        Value::Array(elements) => !elements.is_empty(),
        _ => false,
    }
}

/// Only texts are unquoted that begin with a letter, `/` or `_` and contain no character with a meaning in YAML.
fn yaml_text(value: &str, text: &mut String) {
    const WORDS: [&str; 9] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    let is_plain = value.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '/'))
        && value
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'/' | b'.' | b'-'))
        && !WORDS.contains(&value.to_ascii_lowercase().as_str());
    if is_plain {
        text.push_str(value);
    } else {
        string(value, text);
    }
}

fn container(node: &TreeNode) -> bool {
    matches!(node.value, Value::Object(_) | Value::Array(_))
}

fn indent(depth: usize, text: &mut String) {
    text.extend(std::iter::repeat_n('\t', depth));
}

/// Prints a JSON string (RFC 8259 §7): escapes only what it must.
pub(crate) fn string(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            control if control < '\u{20}' => {
                // Writing to a string cannot fail.
                let _ = write!(text, "\\u{:04x}", u32::from(control));
            }
            other => text.push(other),
        }
    }
    text.push('"');
}
