//! `return`: its status, its `location` and its body.

use std::sync::Arc;

use tutti_document::{Diagnostic, TreeNode, Value};

use super::builder::Builder;
use super::reader::Reader;
use crate::model::{ContentPart, Return, ReturnContent};
use crate::table::ActionOptions;
use crate::template::Template;

impl<'d> Builder<'d> {
    pub(super) fn returned(
        &mut self,
        reader: &Reader<'d>,
        options: ActionOptions,
    ) -> Option<Return> {
        let status = options.status?;
        if let (true, Some(member)) = (
            reader.has(&ActionOptions::body),
            reader.member(&ActionOptions::json),
        ) {
            let place = reader.place(&ActionOptions::json);
            let diagnostic = Diagnostic::new(place, "`body` and `json` exclude each other");
            self.faults
                .name(diagnostic.suggest("remove one of them"), member);
        }
        let bodies = [&ActionOptions::body, &ActionOptions::json];
        let body = bodies.into_iter().find_map(|option| reader.member(option));
        if let Some(member) = body.filter(|_| !has_body(status)) {
            let message = format!("a response with status {status} has no body");
            let diagnostic = Diagnostic::new(reader.pointer.child(&member.name), message);
            let hint = format!("remove `{}`, or choose another status", member.name);
            self.faults.name(diagnostic.suggest(hint), member);
        }
        if let (None, Some(member)) = (body, reader.member(&ActionOptions::content_type)) {
            let place = reader.place(&ActionOptions::content_type);
            let message = "`content_type` has no effect without `body`, `json`";
            self.faults.name(Diagnostic::new(place, message), member);
        }
        Some(Return {
            status,
            location: reader.template(&ActionOptions::location),
            content: content(reader, options.content_type).map(Arc::new),
        })
    }
}

/// RFC 9110 §6.4.1, §15.3.6.
fn has_body(status: u16) -> bool {
    !matches!(status, 100..=199 | 204 | 205 | 304)
}

fn content(reader: &Reader<'_>, content_type: Option<String>) -> Option<ReturnContent> {
    let mut body = Body::default();
    let default = match reader.get(&ActionOptions::json) {
        Some((node, _)) => {
            body.json(node)?;
            "application/json"
        }
        None => {
            body.text(reader.template(&ActionOptions::body)?);
            "text/plain; charset=utf-8"
        }
    };
    Some(ReturnContent {
        content_type: content_type.unwrap_or_else(|| default.to_owned()),
        parts: body.finish(),
    })
}

/// The body being built.
#[derive(Default)]
struct Body {
    parts: Vec<ContentPart>,
    /// The end of it, if that is literal.
    literal: String,
}

impl Body {
    fn text(&mut self, template: Template) {
        match template.as_literal() {
            Some(text) => self.literal.push_str(text),
            None => self.push(ContentPart::Text(template)),
        }
    }

    fn push(&mut self, part: ContentPart) {
        self.flush();
        self.parts.push(part);
    }

    fn flush(&mut self) {
        if !self.literal.is_empty() {
            let literal = std::mem::take(&mut self.literal);
            self.parts.push(ContentPart::Literal(literal.into()));
        }
    }

    /// Appends a value, on one line; `None` if one of its strings is not a template, which has been reported.
    fn json(&mut self, node: &TreeNode) -> Option<()> {
        match &node.value {
            Value::String(text) => {
                let template = Template::parse(text).ok()?;
                match template.as_literal() {
                    Some(text) => self.quoted(text),
                    None => {
                        self.literal.push('"');
                        self.push(ContentPart::JsonText(template));
                        self.literal.push('"');
                    }
                }
            }
            Value::Array(elements) => {
                self.literal.push('[');
                for (index, element) in elements.iter().enumerate() {
                    self.separator(index);
                    self.json(element)?;
                }
                self.literal.push(']');
            }
            Value::Object(members) => {
                self.literal.push('{');
                for (index, member) in members.iter().enumerate() {
                    self.separator(index);
                    self.quoted(&member.name);
                    self.literal.push(':');
                    self.json(&member.node)?;
                }
                self.literal.push('}');
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {
                self.literal.push_str(&node.to_compact_json());
            }
        }
        Some(())
    }

    fn separator(&mut self, index: usize) {
        if index > 0 {
            self.literal.push(',');
        }
    }

    fn quoted(&mut self, text: &str) {
        self.literal
            .push_str(&serde_json::Value::from(text).to_string());
    }

    fn finish(mut self) -> Vec<ContentPart> {
        self.flush();
        self.parts
    }
}
