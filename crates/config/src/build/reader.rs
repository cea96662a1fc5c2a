//! Objects of the document as they are read: their options by their rows, never by a name written here.

use tutti_document::{Member, Pointer, SourceSpan, TreeNode, Value};
use tutti_options::Options;
use tutti_options::table::Opt;

use crate::address::{AddressPattern, AddressSet};
use crate::model::Condition;
use crate::pattern::{Pattern, Patterns, Syntax};
use crate::template::Template;

/// An object of options that says nothing.
static NOTHING: TreeNode = TreeNode {
    value: Value::Null,
    span: SourceSpan::NONE,
};

/// An object of options, and where it is.
#[derive(Clone)]
pub(super) struct Reader<'d> {
    pub(super) node: &'d TreeNode,
    pub(super) pointer: Pointer,
}

impl<'d> Reader<'d> {
    pub(super) fn new(node: &'d TreeNode, pointer: Pointer) -> Self {
        Reader { node, pointer }
    }

    /// Everything in it that has a type of its own, defaults applied.
    pub(super) fn read<T: Options>(&self) -> T {
        T::of(Some(self.node))
    }

    /// An option that is there.
    pub(super) fn get(&self, option: &Opt) -> Option<(&'d TreeNode, Pointer)> {
        let node = self.node.child(option.name)?;
        Some((node, self.place(option)))
    }

    /// The place of an option, there or not.
    pub(super) fn place(&self, option: &Opt) -> Pointer {
        self.pointer.child(option.name)
    }

    pub(super) fn has(&self, option: &Opt) -> bool {
        self.node.child(option.name).is_some()
    }

    /// An option with its name.
    pub(super) fn member(&self, option: &Opt) -> Option<&'d Member> {
        let mut members = self.node.members().iter();
        members.find(|member| *member.name == *option.name)
    }

    /// The object that an option is.
    pub(super) fn inner(&self, option: &Opt) -> Option<Reader<'d>> {
        let (node, pointer) = self.get(option)?;
        Some(Reader { node, pointer })
    }

    /// The same; one that says nothing where it is not there.
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

    /// A template; an empty string is none.
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

/// A string, or the strings of an array.
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

/// The node itself, or the elements of an array, each with its place.
pub(super) fn each<'n>(node: &'n TreeNode, pointer: &Pointer) -> Vec<(&'n TreeNode, Pointer)> {
    let Value::Array(elements) = &node.value else {
        return vec![(node, pointer.clone())];
    };
    let elements = elements.iter().enumerate();
    elements
        .map(|(index, node)| (node, pointer.index(index)))
        .collect()
}

/// A pattern, or an array of them.
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
