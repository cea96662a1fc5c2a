//! Random edits of JSON documents that keep their structure mostly sound: most of what comes out is nearly right, which is where
//! checks go wrong.
//!
//! Used by the tests and the fuzz target of configurations. The same choices give the same edits.

use serde_json::{Map, Value};

/// Where decisions come from: bytes of a fuzzer while they last, then a generator seeded by them.
#[derive(Debug, Clone)]
pub struct Choices<'a> {
    bytes: &'a [u8],
    state: u64,
}

impl<'a> Choices<'a> {
    /// Decisions by these bytes.
    pub fn new(bytes: &'a [u8]) -> Self {
        // FNV-1a; an xorshift generator must not begin with zero.
        let state = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Choices {
            bytes,
            state: state | 1,
        }
    }

    fn next(&mut self) -> u64 {
        if let Some((first, rest)) = self.bytes.split_first() {
            self.bytes = rest;
            return u64::from(*first);
        }
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state >> 8
    }

    /// Less than `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next()).unwrap_or(0) % limit.max(1)
    }

    fn one<'b, T>(&mut self, list: &'b [T]) -> Option<&'b T> {
        list.get(self.below(list.len()))
    }
}

/// Values at the edges of what options take.
const SCALARS: &[&str] = &[
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "2.5",
    "65536",
    "1e3",
    "9223372036854775807",
    "1e300",
    "\"\"",
    "\"$\"",
    "\"${\"",
    "\"$uri\"",
    "\"${host}x\"",
    "\"`x`\"",
    "\"!\"",
    "\"~(\"",
    "\"~^/a(b|c)$\"",
    "\"*\"",
    "\"!*.x\"",
    "\"%\"",
    "\"%zz\"",
    "\"%2F\"",
    "\"routes\"",
    "\"routes/none\"",
    "\"applications/\"",
    "\"upstreams/u\"",
    "\"127.0.0.1\"",
    "\"10.0.0.0/33\"",
    "\"unix:\"",
    "\"::1\"",
    "\"*:80-70\"",
    "\"12K\"",
    "\"http\"",
    "\"php\"",
    "\"php 9\"",
    "\"/\"",
    "\"/a\\u0000b\"",
    "\"~1/x\"",
    "[]",
    "{}",
];

/// The parts of documents, of which another one can be made.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    names: Vec<String>,
    values: Vec<Value>,
}

impl Parts {
    /// All names and values in these documents.
    pub fn of(documents: &[Value]) -> Self {
        let mut parts = Parts::default();
        for document in documents {
            parts.add(document);
        }
        parts.names.sort();
        parts.names.dedup();
        parts
    }

    fn add(&mut self, value: &Value) {
        match value {
            Value::Object(members) => {
                for (name, value) in members {
                    self.names.push(name.clone());
                    self.add(value);
                }
            }
            Value::Array(elements) => elements.iter().for_each(|element| self.add(element)),
            _ => {}
        }
        self.values.push(value.clone());
    }
}

/// Makes one to four edits.
pub fn edit(document: &mut Value, parts: &Parts, choices: &mut Choices<'_>) {
    for _ in 0..=choices.below(4) {
        let count = size(document);
        let target = choices.below(count);
        if let Some(node) = nth(document, &mut { target }) {
            edit_node(node, parts, choices);
        }
    }
}

fn size(value: &Value) -> usize {
    1 + match value {
        Value::Object(members) => members.values().map(size).sum(),
        Value::Array(elements) => elements.iter().map(size).sum(),
        _ => 0,
    }
}

fn nth<'v>(value: &'v mut Value, left: &mut usize) -> Option<&'v mut Value> {
    if *left == 0 {
        return Some(value);
    }
    *left -= 1;
    match value {
        Value::Object(members) => members.values_mut().find_map(|value| nth(value, left)),
        Value::Array(elements) => elements.iter_mut().find_map(|value| nth(value, left)),
        _ => None,
    }
}

fn scalar(choices: &mut Choices<'_>) -> Value {
    let text = choices.one(SCALARS).copied().unwrap_or("null");
    serde_json::from_str(text).unwrap_or_default()
}

fn edit_node(node: &mut Value, parts: &Parts, choices: &mut Choices<'_>) {
    let is_container = matches!(node, Value::Object(_) | Value::Array(_));
    match choices.below(if is_container { 9 } else { 3 }) {
        0 => *node = scalar(choices),
        1 => {
            if let Some(value) = choices.one(&parts.values) {
                *node = value.clone();
            }
        }
        2 => *node = Value::Array(vec![node.take()]),
        _ => match node {
            Value::Object(members) => edit_members(members, parts, choices),
            Value::Array(elements) => edit_elements(elements, parts, choices),
            _ => {}
        },
    }
}

fn edit_members(members: &mut Map<String, Value>, parts: &Parts, choices: &mut Choices<'_>) {
    let names: Vec<String> = members.keys().cloned().collect();
    let name = choices.one(&names).cloned();
    match (choices.below(4), name) {
        (0, Some(name)) => {
            members.remove(&name);
        }
        (1, Some(name)) => {
            // Misspelt, or the name of something else.
            let mut other = match choices.one(&parts.names) {
                Some(other) if choices.below(2) == 0 => other.clone(),
                _ => name.clone(),
            };
            if other == name && name.is_ascii() && !name.is_empty() {
                other.remove(choices.below(name.len()));
            }
            if let Some(value) = members.remove(&name) {
                members.insert(other, value);
            }
        }
        (2, Some(name)) => {
            if let Some(value) = members.get_mut(&name) {
                *value = scalar(choices);
            }
        }
        _ => {
            let name = choices.one(&parts.names).cloned().unwrap_or_default();
            let value = match choices.one(&parts.values) {
                Some(value) if choices.below(2) == 0 => value.clone(),
                _ => scalar(choices),
            };
            members.insert(name, value);
        }
    }
}

fn edit_elements(elements: &mut Vec<Value>, parts: &Parts, choices: &mut Choices<'_>) {
    let index = choices.below(elements.len());
    match choices.below(3) {
        0 if !elements.is_empty() => {
            elements.remove(index);
        }
        1 if !elements.is_empty() => {
            let copy = elements.get(index).cloned().unwrap_or_default();
            elements.push(copy);
        }
        _ => elements.push(choices.one(&parts.values).cloned().unwrap_or_default()),
    }
}
