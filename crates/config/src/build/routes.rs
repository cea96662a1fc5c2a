//! Routes: steps, conditions, actions.

use super::{Builder, Reader, strings};
use crate::address::{AddressPattern, AddressSet};
use crate::diagnostic::Diagnostic;
use crate::document::{Node, Value};
use crate::model::{
    Action, ActionKind, Condition, Conditions, FieldPatterns, FieldSets, ResponseHeader, Return,
    Route, Routes, Share, Step,
};
use crate::pattern::{Case, Pattern, Patterns, Syntax, percent_decode};
use crate::pointer::Pointer;
use crate::table::{ACTION, CASELESS, CONDITIONS, DECODED, PLAIN, STEP};
use crate::template::Template;

impl<'d> Builder<'d> {
    pub(super) fn routes(&mut self, node: &'d Node, pointer: &Pointer) -> Routes {
        let list = match &node.value {
            Value::Array(_) => vec![self.route(node, None, pointer.clone())],
            _ => {
                let members = node.members().iter();
                members
                    .map(|member| {
                        self.route(
                            &member.node,
                            Some(member.name.to_string()),
                            pointer.child(&member.name),
                        )
                    })
                    .collect()
            }
        };
        Routes { list }
    }

    fn route(&mut self, node: &'d Node, name: Option<String>, pointer: Pointer) -> Route {
        let steps = node.elements().iter().enumerate();
        let steps = steps
            .filter_map(|(index, node)| self.step(node, pointer.index(index)))
            .collect();
        Route {
            pointer,
            name,
            steps,
        }
    }

    fn step(&mut self, node: &'d Node, pointer: Pointer) -> Option<Step> {
        let reader = Reader {
            node,
            table: &STEP,
            pointer,
        };
        let conditions = reader
            .inner("match", &CONDITIONS)
            .map(|reader| conditions(&reader))
            .unwrap_or_default();
        let action = reader
            .inner("action", &ACTION)
            .and_then(|reader| self.action(reader))?;
        Some(Step {
            pointer: reader.pointer,
            conditions,
            action,
        })
    }

    fn action(&mut self, reader: Reader<'d>) -> Option<Action> {
        let kind = if let Some((node, pointer)) = reader.get("pass") {
            self.pass(node, pointer).map(ActionKind::Pass)
        } else if reader.get("return").is_some() {
            let status = u16::try_from(reader.integer("return")).ok()?;
            Some(ActionKind::Return(Return {
                status,
                location: reader.template("location"),
            }))
        } else if reader.get("proxy").is_some() {
            self.proxy(&reader).map(ActionKind::Proxy)
        } else if let Some((node, pointer)) = reader.get("share") {
            if matches!(&node.value, Value::Array(paths) if paths.is_empty()) {
                let diagnostic = Diagnostic::new(pointer, "the array of paths is empty");
                let hint = "write a path, for example `\"/srv/www$uri\"`";
                self.faults.value(diagnostic.suggest(hint), node);
            }
            let paths = strings(node)
                .into_iter()
                .filter_map(|path| Template::parse(path).ok())
                .collect();
            let fallback = reader
                .inner("fallback", &ACTION)
                .and_then(|reader| self.action(reader));
            Some(ActionKind::Share(Share {
                paths,
                index: reader.text("index"),
                types: reader
                    .get("types")
                    .map(|(node, _)| patterns(node, CASELESS)),
                deny: reader.get("deny").map(|(node, _)| patterns(node, DECODED)),
                fallback: fallback.map(Box::new),
                chroot: reader.some_template("chroot"),
                follow_symlinks: reader.boolean("follow_symlinks"),
                traverse_mounts: reader.boolean("traverse_mounts"),
            }))
        } else {
            None
        };
        let response_headers = reader
            .get("response_headers")
            .map(|(node, _)| response_headers(node))
            .unwrap_or_default();
        let request_headers = self.request_headers(&reader, kind.as_ref());
        Some(Action {
            kind: kind?,
            request_headers,
            rewrite: reader.some_template("rewrite"),
            response_headers,
            pointer: reader.pointer,
        })
    }
}

fn response_headers(node: &Node) -> Vec<ResponseHeader> {
    let members = node.members().iter();
    members
        .map(|member| ResponseHeader {
            name: member.name.to_string(),
            value: member
                .node
                .as_str()
                .and_then(|text| Template::parse(text).ok()),
        })
        .collect()
}

fn conditions(reader: &Reader<'_>) -> Conditions {
    let set = |name: &str, syntax: Syntax| reader.get(name).map(|(node, _)| patterns(node, syntax));
    let fields =
        |name: &str, syntax: Syntax| reader.get(name).map(|(node, _)| field_sets(node, syntax));
    let addresses = |name: &str| reader.get(name).map(|(node, _)| addresses(node));
    Conditions {
        uri: set("uri", DECODED),
        host: set("host", CASELESS),
        method: set("method", CASELESS),
        query: set("query", DECODED),
        https: reader
            .string("scheme")
            .map(|scheme| scheme.eq_ignore_ascii_case("https")),
        arguments: fields("arguments", DECODED),
        cookies: fields("cookies", PLAIN),
        headers: fields("headers", CASELESS),
        source: addresses("source"),
        destination: addresses("destination"),
        condition: reader.string("if").and_then(|text| condition(&text)),
    }
}

pub(super) fn condition(text: &str) -> Option<Condition> {
    let (negated, rest) = match text.strip_prefix('!') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    Some(Condition {
        negated,
        template: Template::parse(rest).ok()?,
    })
}

pub(crate) fn patterns(node: &Node, syntax: Syntax) -> Patterns {
    let parsed = strings(node)
        .into_iter()
        .filter_map(|text| Pattern::parse(text, syntax).ok());
    Patterns::new(parsed.collect())
}

fn address_patterns(node: &Node) -> Vec<AddressPattern> {
    strings(node)
        .into_iter()
        .filter_map(|text| AddressPattern::parse(text).ok())
        .collect()
}

fn addresses(node: &Node) -> AddressSet {
    AddressSet::new(address_patterns(node))
}

/// Of a `source` that says who is believed.
pub(super) fn trusted(node: &Node) -> AddressSet {
    AddressSet::trusted(address_patterns(node))
}

/// An object is the same as an array with this one object.
fn field_sets(node: &Node, syntax: Syntax) -> FieldSets {
    let object = |node: &Node| {
        let members = node.members().iter();
        members
            .map(|member| FieldPatterns {
                name: field_name(&member.name, syntax),
                patterns: patterns(&member.node, syntax),
            })
            .collect()
    };
    match &node.value {
        Value::Array(elements) => FieldSets(elements.iter().map(object).collect()),
        _ => FieldSets(vec![object(node)]),
    }
}

fn field_name(name: &str, syntax: Syntax) -> Vec<u8> {
    if syntax.percent {
        percent_decode(name).unwrap_or_default()
    } else if syntax.case == Case::Ignore {
        name.to_ascii_lowercase().into_bytes()
    } else {
        name.as_bytes().to_vec()
    }
}
