//! The rest of a stored configuration if parts of it cannot be served on this machine now.
//!
//! A module may have been removed by an upgrade, a port may be in use, a disk may not be mounted. Everything that
//! depends on something missing is disabled, following the references of the configuration
//! ([`tutti_config::references`]), and the rest is served. Called when a stored configuration is restored; a client's
//! change is applied whole or not at all. Must never happen: that disabling a part gives access to something it
//! protected. So a faulty step of a route is not left out: the requests that match it get 503, and if they cannot be
//! determined, all requests that reach it.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use tutti_config::{
    Config, Diagnostic, Diagnostics, Document, Pointer, Reference, ReferenceTarget,
    ValidationContext, Value, references,
};

#[cfg(test)]
mod tests;

/// Removing one fault can reveal others; a document in which this does not end is not worth more effort.
const MOST_ROUNDS: usize = 100;

/// A refusing action, a step for all requests, and a route of one step.
const REFUSAL: &str = r#"{"return": 503}"#;
const REFUSING_STEP: &str = r#"{"action": {"return": 503}}"#;
const REFUSING_ROUTE: &str = r#"[{"action": {"return": 503}}]"#;

/// Returns the valid part of the document; `None` if there is none.
pub fn sound(document: &Document, context: &ValidationContext) -> Option<Config> {
    let mut left = document.clone();
    for _ in 0..MOST_ROUNDS {
        match tutti_config::validate(&left, context) {
            Ok(config) => return Some(config),
            Err(faults) => drop(prune(&mut left, &faults)?),
        }
    }
    None
}

/// Disables the parts of the document that have these faults, and everything that depends on them. Returns the
/// dependent parts, each with the reason; `None` if nothing could be disabled.
pub fn prune(document: &mut Document, faults: &Diagnostics) -> Option<Diagnostics> {
    let pointers = faults.0.iter().map(|fault| &fault.pointer);
    let mut parts: BTreeSet<Part> = pointers.filter_map(|at| Part::of(document, at)).collect();
    let dependent = add_dependent(document, &mut parts);
    let mut is_changed = false;
    // Later elements of an array are removed first: places before them stay valid.
    for part in parts.iter().rev() {
        is_changed |= part.disable(document);
    }
    is_changed.then_some(dependent)
}

/// Adds the parts that refer to removed ones, until there are no more.
fn add_dependent(document: &Document, parts: &mut BTreeSet<Part>) -> Diagnostics {
    let references = references(document);
    let mut dependent = Vec::new();
    let mut is_complete = false;
    while !is_complete {
        is_complete = true;
        for reference in &references {
            let is_disabled = parts.iter().any(|part| part.contains(&reference.pointer));
            if is_disabled
                || !parts
                    .iter()
                    .any(|part| part.removes(reference, &references))
            {
                continue;
            }
            if let Some(part) = Part::of(document, &reference.pointer) {
                dependent.push(depends(reference));
                parts.insert(part);
                is_complete = false;
            }
        }
    }
    Diagnostics(dependent)
}

fn depends(reference: &Reference<'_>) -> Diagnostic {
    let target = match &reference.target {
        ReferenceTarget::Part(part) => part.as_str().trim_start_matches('/').to_owned(),
        ReferenceTarget::Certificate(name) => format!("certificates/{name}"),
        ReferenceTarget::ScriptModule(name) => format!("js_modules/{name}"),
        ReferenceTarget::Module(name) => name.clone(),
        ReferenceTarget::File(path) => path.display().to_string(),
    };
    let message = format!("it is disabled, because `{target}` is, which it depends on");
    Diagnostic::apply(reference.pointer.clone(), message)
}

/// The smallest part of a configuration that can be disabled alone.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    path: Vec<String>,
    pointer: Pointer,
    /// The value that replaces it; `None`: it is removed.
    instead: Option<&'static str>,
}

impl Part {
    /// Returns the part that this place belongs to; the whole document is not one.
    fn of(document: &Document, pointer: &Pointer) -> Option<Part> {
        let mut path: Vec<String> = pointer.segments().collect();
        let names: Vec<&str> = path.iter().map(String::as_str).collect();
        let (length, instead) = match names.as_slice() {
            [] => return None,
            ["routes", rest @ ..] => {
                let (length, instead) = part_of_routes(document, rest);
                (
                    length + 1,
                    Some(instead).filter(|instead| !instead.is_empty()),
                )
            }
            ["settings", "maintenance", ..] => (2, Some("{}")),
            ["listeners", _, "tls", "certificate", index, ..]
                if is_index(index) && has_several(document, names.get(..4).unwrap_or_default()) =>
            {
                (5, None)
            }
            ["listeners", _, "error_pages", _, ..] | ["applications", _, "mules", _, ..] => {
                (4, None)
            }
            ["listeners", _, "error_pages" | "http3", ..]
            | [
                "settings",
                "http" | "cache" | "limit_stores" | "acme",
                _,
                ..,
            ] => (3, None),
            ["settings", "js_module", index, ..] if is_index(index) => (3, None),
            ["access_log", index, ..] if is_index(index) => (2, None),
            ["access_log" | "slow_log", ..] => (1, None),
            [_, _, ..] => (2, None),
            [_] => (1, None),
        };
        path.truncate(length);
        Some(Part {
            pointer: Pointer::from_segments(&path),
            path,
            instead,
        })
    }

    fn contains(&self, pointer: &Pointer) -> bool {
        let rest = pointer.as_str().strip_prefix(self.pointer.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// True if the target of the reference is removed with this part.
    fn removes(&self, reference: &Reference<'_>, all: &[Reference<'_>]) -> bool {
        match &reference.target {
            ReferenceTarget::Part(target) => self.instead.is_none() && self.contains(target),
            ReferenceTarget::ScriptModule(_) => {
                let is_named_here = |one: &Reference<'_>| {
                    one.target == reference.target && self.contains(&one.pointer)
                };
                self.path.first().is_some_and(|first| first == "settings")
                    && all.iter().any(is_named_here)
            }
            ReferenceTarget::Certificate(_)
            | ReferenceTarget::Module(_)
            | ReferenceTarget::File(_) => false,
        }
    }

    /// Returns whether that is possible.
    fn disable(&self, document: &mut Document) -> bool {
        match self.instead {
            None => document.delete(&self.path).is_ok(),
            Some(text) => tutti_config::parse(text.as_bytes())
                .is_ok_and(|part| document.put(&self.path, part).is_ok()),
        }
    }
}

impl Ord for Part {
    /// In the order of the document, with indexes as numbers.
    fn cmp(&self, other: &Part) -> Ordering {
        let key = |segment: &String| (segment.parse::<usize>().ok(), segment.clone());
        let (ours, theirs) = (self.path.iter().map(key), other.path.iter().map(key));
        ours.cmp(theirs).then(self.instead.cmp(&other.instead))
    }
}

impl PartialOrd for Part {
    fn partial_cmp(&self, other: &Part) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Returns how much of this path below `routes` names a part, and its replacement; an empty one means removal.
fn part_of_routes(document: &Document, path: &[&str]) -> (usize, &'static str) {
    let routes = document.root().child("routes");
    let is_array = routes.is_some_and(|routes| matches!(routes.value, Value::Array(_)));
    let (before, steps) = match path {
        path if is_array => (0, path),
        [_, steps @ ..] => (1, steps),
        [] => (0, path),
    };
    match steps {
        [_, "action", rest @ ..] => {
            let (length, instead) = part_of_action(rest);
            (before + 2 + length, instead)
        }
        [_, ..] => (before + 1, REFUSING_STEP),
        // `routes` as a whole or one of them: without the former, no listener leads anywhere.
        [] => (before, REFUSING_ROUTE),
    }
}

/// Returns the same for a path below an action.
fn part_of_action(path: &[&str]) -> (usize, &'static str) {
    match path {
        // Without error pages the client gets what it gets if an error page fails.
        ["error_pages", _, ..] => (2, ""),
        ["error_pages" | "mirror" | "early_hints" | "cache", ..] => (1, ""),
        ["found" | "folder" | "fallback", rest @ ..] => {
            let (length, instead) = part_of_action(rest);
            (length + 1, instead)
        }
        _ => (0, REFUSAL),
    }
}

/// True if there is an array of more than one element.
fn has_several(document: &Document, path: &[&str]) -> bool {
    let found = document.get(path);
    found.is_ok_and(|node| node.elements().len() > 1)
}

fn is_index(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
