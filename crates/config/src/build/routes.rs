//! Routes: steps, conditions, actions.

use std::sync::Arc;

use tutti_document::{Diagnostic, Member, Pointer, TreeNode, Value};
use tutti_options::prefix;
use tutti_options::table::Opt;

use super::builder::Builder;
use super::reader::{Reader, patterns, strings};
use crate::model::{
    Action, ActionKind, Conditions, FieldPatterns, FieldSets, Referers, ResponseHeader, Route,
    RouteStep, Routes, Share,
};
use crate::pattern::{Case, Syntax, percent_decode};
use crate::table::{
    ActionOptions, AddedFields, CASELESS, DECODED, MatchOptions, PLAIN, QUERY, ShareOptions,
    StepOptions,
};
use crate::template::Template;

impl<'d> Builder<'d> {
    pub(super) fn routes(&mut self, node: &'d TreeNode, pointer: &Pointer) -> Routes {
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

    fn route(&mut self, node: &'d TreeNode, name: Option<String>, pointer: Pointer) -> Route {
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

    fn step(&mut self, node: &'d TreeNode, pointer: Pointer) -> Option<RouteStep> {
        let reader = Reader::new(node, pointer);
        let conditions = reader
            .inner(&StepOptions::conditions)
            .map(|reader| conditions(&reader))
            .unwrap_or_default();
        let action = reader
            .inner(&StepOptions::action)
            .and_then(|reader| self.action(reader))?;
        let is_group = &mut |text: &str| text.contains("match_");
        Some(RouteStep {
            has_groups: any_text(node, is_group),
            pointer: reader.pointer,
            conditions,
            action,
        })
    }

    pub(super) fn action(&mut self, reader: Reader<'d>) -> Option<Action> {
        let options: ActionOptions = reader.read();
        let request_method = options.request_method.clone();
        let kind = if let Some((node, pointer)) = reader.get(&ActionOptions::pass) {
            self.pass(node, pointer).map(ActionKind::Pass)
        } else if reader.has(&ActionOptions::status) {
            self.returned(&reader, options).map(ActionKind::Return)
        } else if reader.has(&ActionOptions::proxy) {
            self.proxy(&reader).map(ActionKind::Proxy)
        } else if let Some((node, pointer)) = reader.get(&ActionOptions::share) {
            Some(self.share(&reader, node, pointer))
        } else {
            None
        };
        let response_headers = self.response_headers(&reader);
        let request_headers = self.request_headers(&reader, kind.as_ref());
        self.refuse_unread(&reader, kind.as_ref());
        let guard = self.guard(&reader);
        let delivery = self.delivery(&reader);
        let cache = self.cache(&reader, kind.as_ref());
        let scope = self.scope(&reader, &ActionOptions::http);
        Some(Action {
            cache: cache.map(Arc::new),
            kind: kind?,
            guard,
            request_headers,
            request_body: reader.template(&ActionOptions::request_body),
            request_method,
            rewrite: reader.some_template(&ActionOptions::rewrite),
            response_headers,
            delivery,
            scope,
            pointer: reader.pointer,
        })
    }

    fn share(&mut self, reader: &Reader<'d>, node: &'d TreeNode, pointer: Pointer) -> ActionKind {
        if matches!(&node.value, Value::Array(paths) if paths.is_empty()) {
            let diagnostic = Diagnostic::new(pointer, "the array of paths is empty");
            let hint = "write a path, for example `\"/srv/www$uri\"`";
            self.faults.value(diagnostic.suggest(hint), node);
        }
        let paths = strings(node)
            .into_iter()
            .filter_map(|path| Template::parse(path).ok())
            .collect();
        let options: ShareOptions = reader.read();
        self.check_prefix(reader, &options);
        let found = reader
            .inner(&ShareOptions::found)
            .and_then(|reader| self.action(reader));
        let folder = reader
            .inner(&ShareOptions::folder)
            .and_then(|reader| self.action(reader));
        let fallback = reader
            .inner(&ShareOptions::fallback)
            .and_then(|reader| self.action(reader));
        ActionKind::Share(Arc::new(Share {
            paths,
            prefix: prefix::trimmed(options.prefix.as_deref()).to_owned(),
            types: reader.patterns(&ShareOptions::types, CASELESS),
            deny: reader.patterns(&ShareOptions::deny, DECODED),
            found: found.map(Box::new),
            folder: folder.map(Box::new),
            fallback: fallback.map(Box::new),
            chroot: reader.some_template(&ShareOptions::chroot),
            options,
        }))
    }

    fn check_prefix(&mut self, reader: &Reader<'d>, options: &ShareOptions) {
        let prefix = options.prefix.as_deref();
        if let (Some(prefix), Some((node, pointer))) = (
            prefix.filter(|prefix| !prefix.starts_with('/')),
            reader.get(&ShareOptions::prefix),
        ) {
            let diagnostic = Diagnostic::new(pointer, "`prefix` must begin with a slash");
            self.faults
                .value(diagnostic.suggest(format!("write `\"/{prefix}\"`")), node);
        }
    }

    /// Builds the changes of both options; a field that both name would have two values.
    fn response_headers(&mut self, reader: &Reader<'d>) -> Vec<ResponseHeader> {
        let mut changes = Vec::new();
        self.check_server(reader, &ActionOptions::response_headers);
        self.check_server(reader, &ActionOptions::response_headers_always);
        if let Some((node, _)) = reader.get(&ActionOptions::response_headers) {
            changes.extend(response_headers(node).map(|(_, change)| change));
        }
        if let Some((node, pointer)) = reader.get(&ActionOptions::response_headers_always) {
            for (member, change) in response_headers(node) {
                let same = |other: &ResponseHeader| other.name.eq_ignore_ascii_case(&change.name);
                // One that removes the others' fields leaves those that are added.
                let goes_beside = change.is_added || change.value.is_none();
                let is_replaced = |other: &ResponseHeader| !(other.is_added && goes_beside);
                let mut others = changes.iter();
                if others.any(|other| !other.always && same(other) && is_replaced(other)) {
                    let pointer = pointer.child(&change.name);
                    let message = format!("`{}` is also set in `response_headers`", change.name);
                    let diagnostic = Diagnostic::new(pointer, message);
                    let hint = "remove it there: this one applies to every status";
                    self.faults.value(diagnostic.suggest(hint), &member.node);
                }
                changes.push(ResponseHeader {
                    always: true,
                    ..change
                });
            }
        }
        changes
    }

    /// `Server` has no other value than the server's own or that of an upstream, but may be removed.
    fn check_server(&mut self, reader: &Reader<'d>, option: &Opt) {
        let Some((node, pointer)) = reader.get(option) else {
            return;
        };
        for member in node.members() {
            let is_set = !matches!(member.node.value, Value::Null);
            if is_set && member.name.eq_ignore_ascii_case("server") {
                let message = format!("`{}` is set by the server itself", member.name);
                let diagnostic = Diagnostic::new(pointer.child(&member.name), message);
                let hint = "write `null` to remove it";
                self.faults.name(diagnostic.suggest(hint), member);
            }
        }
    }
}

/// True if a string of a value is one of these.
fn any_text(node: &TreeNode, is_one: &mut dyn FnMut(&str) -> bool) -> bool {
    node.as_str().is_some_and(&mut *is_one)
        || node.elements().iter().any(|node| any_text(node, is_one))
        || node
            .members()
            .iter()
            .any(|member| any_text(&member.node, is_one))
}

/// The changes of an option, each with its member.
fn response_headers(node: &TreeNode) -> impl Iterator<Item = (&Member, ResponseHeader)> {
    node.members().iter().flat_map(|member| {
        let added = member.node.child(AddedFields::add.name);
        let values = match added {
            Some(added) => strings(added).into_iter().map(Some).collect(),
            None => vec![member.node.as_str()],
        };
        values.into_iter().map(move |value| {
            let change = ResponseHeader {
                always: false,
                name: member.name.to_string(),
                value: value.and_then(|text| Template::parse(text).ok()),
                is_added: added.is_some(),
            };
            (member, change)
        })
    })
}

fn conditions(reader: &Reader<'_>) -> Conditions {
    let fields = |option, syntax: Syntax| {
        let (node, _) = reader.get(option)?;
        Some(field_sets(node, syntax))
    };
    Conditions {
        uri: reader.patterns(&MatchOptions::uri, DECODED),
        host: reader.patterns(&MatchOptions::host, CASELESS),
        method: reader.patterns(&MatchOptions::method, CASELESS),
        query: reader.patterns(&MatchOptions::query, QUERY),
        https: reader
            .text(&MatchOptions::scheme)
            .map(|scheme| scheme.eq_ignore_ascii_case("https")),
        arguments: fields(&MatchOptions::arguments, QUERY),
        cookies: fields(&MatchOptions::cookies, PLAIN),
        headers: fields(&MatchOptions::headers, CASELESS),
        referer: reader
            .get(&MatchOptions::referer)
            .map(|(node, _)| Referers::new(strings(node))),
        source: reader.addresses(&MatchOptions::source),
        destination: reader.addresses(&MatchOptions::destination),
        condition: reader.condition(&MatchOptions::condition),
    }
}

/// An object means the same as an array with this one object.
fn field_sets(node: &TreeNode, syntax: Syntax) -> FieldSets {
    let object = |node: &TreeNode| {
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
