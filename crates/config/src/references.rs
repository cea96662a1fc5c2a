//! The references of a configuration: every place that names another object, and the object.
//!
//! One traversal of the option table, which declares the options that are names. It uses a document and not the typed
//! configuration, because missing objects must be known before there is one. Values that the table does not accept have
//! no references: the check reports them.

use std::path::PathBuf;

use tutti_document::{ConfigPath, Pointer, TreeNode, Value};

use crate::check;
use crate::pattern::percent_decode;
use crate::table::{Object, Opt, ROOT, Referent, Text, ValueKind};
use crate::template::Template;

/// A place that names an object.
#[derive(Clone, Debug)]
pub struct Reference<'d> {
    /// The place of the name.
    pub pointer: Pointer,
    /// The value there.
    pub node: &'d TreeNode,
    /// The option: the name of its object and its own.
    pub option: (&'static str, &'static str),
    /// The named object.
    pub target: ReferenceTarget,
}

/// A named object. It may be missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReferenceTarget {
    /// A part of the configuration, `/applications/NAME` for example.
    Part(Pointer),
    /// A certificate bundle of `/certificates`.
    Certificate(String),
    /// A script module of `/js_modules`.
    ScriptModule(String),
    /// The module that runs an application: a language, with a version or without.
    Module(String),
    /// A file or a folder.
    File(PathBuf),
}

/// Returns all references of a document, in its order. A destination with variables has none: it is computed for each
/// request.
pub fn references(document: &tutti_document::Document) -> Vec<Reference<'_>> {
    of_root(document.root())
}

/// Returns the references of the root of a document.
pub(crate) fn of_root(root: &TreeNode) -> Vec<Reference<'_>> {
    let mut walk = Walk {
        scripts: script_modules(root),
        found: Vec::new(),
    };
    walk.object(&ROOT, root, &ConfigPath::root());
    walk.found
}

/// Returns the names of the script modules that templates can use.
fn script_modules(root: &TreeNode) -> Vec<&str> {
    let settings = root.child("settings");
    let Some(named) = settings.and_then(|settings| settings.child("js_module")) else {
        return Vec::new();
    };
    let names = named.elements().iter().chain([named]);
    names.filter_map(TreeNode::as_str).collect()
}

struct Walk<'d> {
    scripts: Vec<&'d str>,
    found: Vec<Reference<'d>>,
}

/// The name of an object of options, and of an option of it.
type OptionName = (&'static str, &'static str);

impl<'d> Walk<'d> {
    fn object(&mut self, table: &'static Object, node: &'d TreeNode, place: &ConfigPath<'_>) {
        for member in node.members() {
            if let Some(Opt { name, kind, .. }) = table.option(&member.name) {
                let place = place.name(&member.name);
                self.kind((table.name, name), kind, &member.node, &place);
            }
        }
    }

    fn kind(
        &mut self,
        option: OptionName,
        kind: &ValueKind,
        node: &'d TreeNode,
        place: &ConfigPath<'_>,
    ) {
        match (kind, &node.value) {
            (ValueKind::String(text), Value::String(value)) => {
                self.text(option, text, (node, value), place);
            }
            (ValueKind::Array(element), Value::Array(elements)) => {
                for (index, node) in elements.iter().enumerate() {
                    self.kind(option, element, node, &place.index(index));
                }
            }
            (ValueKind::Object(table), Value::Object(_)) => self.object(table(), node, place),
            (ValueKind::Map(_, values), Value::Object(members)) => {
                for member in members {
                    self.kind(option, values, &member.node, &place.name(&member.name));
                }
            }
            (ValueKind::Json, Value::String(value)) => {
                self.text(option, &Text::TemplateOrEmpty, (node, value), place);
            }
            (ValueKind::Json, Value::Array(_)) => {
                self.kind(option, &ValueKind::Array(&ValueKind::Json), node, place);
            }
            (ValueKind::Json, Value::Object(members)) => {
                for member in members {
                    self.kind(
                        option,
                        &ValueKind::Json,
                        &member.node,
                        &place.name(&member.name),
                    );
                }
            }
            (ValueKind::Application, Value::Object(_)) => {
                self.object(check::application_table(node), node, place);
            }
            (ValueKind::OneOf(kinds), value) => {
                if let Some(kind) = kinds.iter().find(|kind| check::accepts(kind, value)) {
                    self.kind(option, kind, node, place);
                }
            }
            _ => {}
        }
    }

    fn text(
        &mut self,
        option: OptionName,
        text: &Text,
        (node, value): (&'d TreeNode, &'d str),
        place: &ConfigPath<'_>,
    ) {
        let target = match text {
            Text::Name(referent) => named(*referent, value),
            Text::Pass => destination(value).map(ReferenceTarget::Part),
            Text::Module => Some(ReferenceTarget::Module(value.to_owned())),
            Text::Path | Text::Log => Some(ReferenceTarget::File(value.into())),
            _ => None,
        };
        if let Some(target) = target {
            self.found.push(Reference {
                pointer: place.pointer(),
                node,
                option,
                target,
            });
        }
        if matches!(
            text,
            Text::Pass
                | Text::Template
                | Text::TemplateOrEmpty
                | Text::FieldTemplate
                | Text::MapValue
                | Text::Condition
        ) {
            self.scripts_in(option, (node, value), place);
        }
    }

    /// Collects the script modules that a template in JavaScript uses. A false positive counts, too.
    fn scripts_in(
        &mut self,
        option: OptionName,
        (node, value): (&'d TreeNode, &'d str),
        place: &ConfigPath<'_>,
    ) {
        if !value.trim_start_matches('!').starts_with('`') {
            return;
        }
        let is_letter = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '$');
        let used = |name: &&&str| {
            value
                .split(|one| !is_letter(one))
                .any(|word| word == **name)
        };
        let used: Vec<&str> = self.scripts.iter().filter(used).copied().collect();
        for name in used {
            self.found.push(Reference {
                pointer: place.pointer(),
                node,
                option,
                target: ReferenceTarget::ScriptModule(name.to_owned()),
            });
        }
    }
}

fn named(referent: Referent, name: &str) -> Option<ReferenceTarget> {
    let part =
        |path: &[&str]| ReferenceTarget::Part(Pointer::from_segments([path, &[name]].concat()));
    Some(match referent {
        Referent::Application => part(&["applications"]),
        Referent::Limit => part(&["limits"]),
        Referent::LimitStore => part(&["settings", "limit_stores"]),
        Referent::CacheStore => part(&["settings", "cache"]),
        Referent::AcmeAccount => part(&["settings", "acme"]),
        Referent::Destination => return destination(name).map(ReferenceTarget::Part),
        Referent::Certificate if name.contains('/') => ReferenceTarget::File(name.into()),
        Referent::Certificate => ReferenceTarget::Certificate(name.to_owned()),
        Referent::ScriptModule => ReferenceTarget::ScriptModule(name.to_owned()),
    })
}

/// Returns the target of a destination without variables.
fn destination(text: &str) -> Option<Pointer> {
    let template = Template::parse(text).ok()?;
    let segments = segments_of(template.as_literal()?).ok()?;
    let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
    match *segments.as_slice() {
        ["routes"] => Some(Pointer::from_segments(["routes"])),
        ["applications", name, ..] => Some(Pointer::from_segments(["applications", name])),
        [
            section @ ("routes" | "upstreams" | "spoolers" | "streams"),
            name,
        ] => Some(Pointer::from_segments([section, name])),
        _ => None,
    }
}

/// Returns the names in a destination without variables.
pub(crate) fn segments_of(text: &str) -> Result<Vec<String>, String> {
    let decoded = |segment| {
        let decoded = percent_decode(segment).map_err(|error| error.to_string())?;
        String::from_utf8(decoded)
            .map_err(|_| "the destination is not UTF-8 when it is decoded".to_owned())
    };
    text.split('/').map(decoded).collect()
}
