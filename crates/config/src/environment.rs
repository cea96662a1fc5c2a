//! Environment variables in configuration files: `${env:NAME}` and `${env:NAME:-default}`.
//!
//! Only for files: values sent over the control socket are not changed. The notation cannot be confused with request
//! variables, none of which has a colon in its name (`docs/project/decisions/0180`). A value that is exactly one
//! reference gets the type of its option, so that `"processes": "${env:WORKERS:-4}"` is a number. Must never happen:
//! that a variable without value and default is treated as empty.

use std::collections::HashSet;

use tutti_document::{ConfigPath, Diagnostic, Document, Member, TreeNode, Value, shorten};

use crate::table::{ApplicationType, ROOT, ValueKind};

/// Returns the value of an environment variable.
pub type Environment<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// The beginning of a reference; preceded by another `$`, it is text.
const BEGIN: &str = "${env:";

static WHOLE: ValueKind = ValueKind::Object(|| &ROOT);

/// Replaces all references; returns the faults.
pub(crate) fn interpolate(document: &mut Document, values: &Environment<'_>) -> Vec<Diagnostic> {
    let mut interpolation = Interpolation {
        values,
        faults: Vec::new(),
    };
    let mut root = document.root().clone();
    interpolation.node(&mut root, Some(&WHOLE), &ConfigPath::root());
    let mut faults = Vec::new();
    for (mut fault, span) in interpolation.faults {
        document.locate(&mut fault, span);
        faults.push(fault);
    }
    document.replace_root(root);
    faults
}

struct Interpolation<'e> {
    values: &'e Environment<'e>,
    faults: Vec<(Diagnostic, tutti_document::SourceSpan)>,
}

impl Interpolation<'_> {
    fn node(
        &mut self,
        node: &mut TreeNode,
        kind: Option<&'static ValueKind>,
        place: &ConfigPath<'_>,
    ) {
        let span = node.span;
        let replaced = match &mut node.value {
            Value::String(text) if text.contains(BEGIN) => match self.expand(text, place) {
                Ok(expanded) => {
                    let is_one = text.starts_with(BEGIN) && text.find('}') == Some(text.len() - 1);
                    is_one
                        .then(|| kind.and_then(|kind| typed(kind, &expanded)))
                        .flatten()
                        .or(Some(Value::String(expanded.into())))
                }
                Err(fault) => {
                    self.faults.push((*fault, span));
                    None
                }
            },
            Value::Array(elements) => {
                let inner = kind.and_then(element_kind);
                for (index, element) in elements.iter_mut().enumerate() {
                    self.node(element, inner, &place.index(index));
                }
                None
            }
            Value::Object(members) => {
                self.members(members, kind, place);
                None
            }
            _ => None,
        };
        if let Some(value) = replaced {
            node.value = value;
        }
    }

    fn members(
        &mut self,
        members: &mut [Member],
        kind: Option<&'static ValueKind>,
        place: &ConfigPath<'_>,
    ) {
        let of_type = members
            .iter()
            .find(|member| &*member.name == "type")
            .and_then(|member| member.node.as_str())
            .map(str::to_owned);
        let mut seen = HashSet::new();
        for member in members {
            if member.name.contains(BEGIN) {
                match self.expand(&member.name, place) {
                    Ok(name) => member.name = name.into(),
                    Err(fault) => self.faults.push((*fault, member.name_span)),
                }
            }
            let inner = kind.and_then(|kind| member_kind(kind, &member.name, of_type.as_deref()));
            let name = member.name.clone();
            self.node(&mut member.node, inner, &place.name(&name));
            let (name, span) = (member.name.clone(), member.name_span);
            if !seen.insert(name.clone()) {
                let message = format!("the name `{}` is repeated", shorten(&name));
                let fault = Diagnostic::new(place.pointer(), message);
                self.faults.push((fault, span));
            }
        }
    }

    fn expand(&self, text: &str, place: &ConfigPath<'_>) -> Result<String, Box<Diagnostic>> {
        let fault = |message: String| Diagnostic::new(place.pointer(), message);
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(BEGIN) {
            let (before, reference) = rest.split_at(at);
            if let Some(before) = before.strip_suffix('$') {
                expanded.push_str(before);
                expanded.push_str(BEGIN);
                rest = reference.get(BEGIN.len()..).unwrap_or_default();
                continue;
            }
            expanded.push_str(before);
            let inside = reference.get(BEGIN.len()..).unwrap_or_default();
            let Some((inside, after)) = inside.split_once('}') else {
                return Err(Box::new(fault("a `${env:` is not closed".to_owned()).suggest(
                    "write `${env:NAME}` or `${env:NAME:-default}`; `$${env:` for the text itself",
                )));
            };
            rest = after;
            let (name, default) = match inside.split_once(":-") {
                Some((name, default)) => (name, Some(default)),
                None => (inside, None),
            };
            if !is_name(name) {
                let message = format!("`{}` is not the name of a variable", shorten(name));
                return Err(Box::new(fault(message).expect("letters, digits and `_`")));
            }
            // As in a shell: if there is a default, an empty variable counts as unset.
            let value = (self.values)(name).filter(|value| default.is_none() || !value.is_empty());
            match value.as_deref().or(default) {
                Some(value) => expanded.push_str(value),
                None => {
                    let message = format!("the environment variable `{name}` is not set");
                    let hint = format!("set it, or give a default: `${{env:{name}:-default}}`");
                    return Err(Box::new(fault(message).suggest(hint)));
                }
            }
        }
        expanded.push_str(rest);
        Ok(expanded)
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Returns the value in the type of the option, if that cannot be a string.
fn typed(kind: &ValueKind, text: &str) -> Option<Value> {
    let kinds = match kind {
        ValueKind::OneOf(kinds) => kinds,
        one => std::slice::from_ref(one),
    };
    let is_number = || {
        let value = serde_json::from_str::<serde_json::Value>(text);
        value.is_ok_and(|value| value.is_number())
    };
    kinds.iter().find_map(|kind| match kind {
        ValueKind::Boolean => text.parse().ok().map(Value::Bool),
        ValueKind::Integer(..) | ValueKind::Number(..) | ValueKind::Size(..) if is_number() => {
            Some(Value::Number(text.into()))
        }
        _ => None,
    })
}

fn element_kind(kind: &'static ValueKind) -> Option<&'static ValueKind> {
    match kind {
        ValueKind::Array(element) => Some(element),
        ValueKind::OneOf(kinds) => kinds.iter().find_map(element_kind),
        _ => None,
    }
}

fn member_kind(
    kind: &'static ValueKind,
    name: &str,
    of_type: Option<&str>,
) -> Option<&'static ValueKind> {
    match kind {
        ValueKind::Object(table) => table().option(name).map(|option| &option.kind),
        ValueKind::Map(_, values) => Some(values),
        ValueKind::Application => {
            let (known, _) = ApplicationType::of(of_type?)?;
            known.object.option(name).map(|option| &option.kind)
        }
        ValueKind::OneOf(kinds) => kinds
            .iter()
            .find_map(|kind| member_kind(kind, name, of_type)),
        _ => None,
    }
}
