//! Printing of values: as the control API shows them, and on one line.
//!
//! Called by the document. Printing and parsing again gives the same document, and the same text.

use std::fmt::Write as _;

use crate::document::{Node, Value};

/// Indented with tabs, as `curl` shows a configuration of NGINX Unit.
pub(crate) fn pretty(node: &Node, depth: usize, text: &mut String) {
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

/// On one line, without spaces; stops soon after `limit` bytes.
pub(crate) fn compact(node: &Node, limit: usize, text: &mut String) {
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

fn container(node: &Node) -> bool {
    matches!(node.value, Value::Object(_) | Value::Array(_))
}

fn indent(depth: usize, text: &mut String) {
    text.extend(std::iter::repeat_n('\t', depth));
}

/// A JSON string (RFC 8259 §7): only what must be escaped is.
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
