//! Reads objects of the document: options are always accessed by their rows, never by a name written here.

use tutti_document::{Member, Pointer, SourceSpan, TreeNode, Value};
use tutti_options::Options;
use tutti_options::table::Opt;

use crate::address::{AddressPattern, AddressSet};
use crate::model::Condition;
use crate::pattern::{Pattern, Patterns, Syntax};
use crate::template::Template;

/// An object without options.
static NOTHING: TreeNode = TreeNode {
    value: Value::Null,
    span: SourceSpan::NONE,
};

/// An object of options, with its place.
#[derive(Clone)]
pub(super) struct Reader<'d> {
    pub(super) node: &'d TreeNode,
    pub(super) pointer: Pointer,
}

impl<'d> Reader<'d> {
    pub(super) fn new(node: &'d TreeNode, pointer: Pointer) -> Self {
        Reader { node, pointer }
    }

    /// Reads all its typed options, with defaults applied.
    pub(super) fn read<T: Options>(&self) -> T {
        T::of(Some(self.node))
    }

    /// Returns an option that is present.
    pub(super) fn get(&self, option: &Opt) -> Option<(&'d TreeNode, Pointer)> {
        let node = self.node.child(option.name)?;
        Some((node, self.place(option)))
    }

    /// Returns the place of an option, present or not.
    pub(super) fn place(&self, option: &Opt) -> Pointer {
        self.pointer.child(option.name)
    }

    pub(super) fn has(&self, option: &Opt) -> bool {
        self.node.child(option.name).is_some()
    }

    /// Returns an option with its name.
    pub(super) fn member(&self, option: &Opt) -> Option<&'d Member> {
        let mut members = self.node.members().iter();
        members.find(|member| *member.name == *option.name)
    }

    /// Returns the object that is the value of an option.
    pub(super) fn inner(&self, option: &Opt) -> Option<Reader<'d>> {
        let (node, pointer) = self.get(option)?;
        Some(Reader { node, pointer })
    }

    /// Returns the object that is the value of an option; an empty one if it is absent.
    pub(super) fn inner_or_nothing(&self, option: &Opt) -> Reader<'d> {
        self.inner(option).unwrap_or_else(|| Reader {
            node: &NOTHING,
            pointer: self.place(option),
        })
    }

    pub(super) fn text(&self, option: &Opt) -> Option<&'d str> {
        self.node.child(option.name).and_then(TreeNode::as_str)
    }

    pub(super) fn template(&self, option: &Opt) -> Option<Template> {
        Template::parse(self.text(option)?).ok()
    }

    /// Reads a template; an empty string counts as absent.
    pub(super) fn some_template(&self, option: &Opt) -> Option<Template> {
        self.template(option)
            .filter(|template| !template.source().is_empty())
    }

    pub(super) fn condition(&self, option: &Opt) -> Option<Condition> {
        let text = self.text(option)?;
        let (negated, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        Some(Condition {
            negated,
            template: Template::parse(rest).ok()?,
        })
    }

    pub(super) fn patterns(&self, option: &Opt, syntax: Syntax) -> Option<Patterns> {
        let (node, _) = self.get(option)?;
        Some(patterns(node, syntax))
    }

    pub(super) fn addresses(&self, option: &Opt) -> Option<AddressSet> {
        let (node, _) = self.get(option)?;
        Some(AddressSet::new(address_patterns(node)))
    }
}

/// Returns a string, or the strings of an array.
pub(super) fn strings(node: &TreeNode) -> Vec<&str> {
    match node.as_str() {
        Some(text) => vec![text],
        None => node
            .elements()
            .iter()
            .filter_map(TreeNode::as_str)
            .collect(),
    }
}

/// Returns the node itself, or the elements of an array, each with its place.
pub(super) fn each<'n>(node: &'n TreeNode, pointer: &Pointer) -> Vec<(&'n TreeNode, Pointer)> {
    let Value::Array(elements) = &node.value else {
        return vec![(node, pointer.clone())];
    };
    let elements = elements.iter().enumerate();
    elements
        .map(|(index, node)| (node, pointer.index(index)))
        .collect()
}

/// Reads a pattern, or an array of them.
pub(crate) fn patterns(node: &TreeNode, syntax: Syntax) -> Patterns {
    let parsed = strings(node)
        .into_iter()
        .filter_map(|text| Pattern::parse(text, syntax).ok());
    Patterns::new(parsed.collect())
}

fn address_patterns(node: &TreeNode) -> Vec<AddressPattern> {
    strings(node)
        .into_iter()
        .filter_map(|text| AddressPattern::parse(text).ok())
        .collect()
}
