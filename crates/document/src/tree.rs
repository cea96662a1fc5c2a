//! The document: a JSON tree with the position of each value, and the edits of the control API.
//!
//! Used by the control API (the stored configuration) and by the CLI. Members keep their order and numbers their
//! notation, so that reading returns what was written. Each value knows its bytes; after an edit only those of the last
//! sent bytes have positions, so a diagnostic never points to text that the client cannot see.

use std::collections::{HashMap, HashSet};

use tutti_options::{Scalar, Tree};

use crate::diagnostic::{Diagnostic, Diagnostics, FaultKind, SourceText, shorten};
use crate::pointer::{Pointer, push_segment};
use crate::suggest;

/// A configuration, or a part of one.
#[derive(Clone, Debug)]
pub struct Document {
    root: TreeNode,
    /// The bytes of the last change: one text, or several files.
    sent: Vec<SourceText>,
    /// Mistakes in those bytes that the parser accepted.
    remarks: Vec<Diagnostic>,
}

/// A value and its position.
#[derive(Clone, Debug)]
pub struct TreeNode {
    /// The value.
    pub value: Value,
    /// The position of its text.
    pub span: SourceSpan,
}

/// A JSON value.
#[derive(Clone, Debug)]
pub enum Value {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// As it was written.
    Number(Box<str>),
    /// Unescaped.
    String(Box<str>),
    /// Elements.
    Array(Vec<TreeNode>),
    /// Members in the order they were written; no two have the same name.
    Object(Vec<Member>),
}

/// One member of an object.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its name.
    pub name: Box<str>,
    /// The position of its name.
    pub name_span: SourceSpan,
    /// Its value.
    pub node: TreeNode,
}

/// A range of the bytes with this identity; 0 is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceSpan {
    pub(crate) source: u32,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl SourceSpan {
    /// No position.
    pub const NONE: Self = Self {
        source: 0,
        start: 0,
        end: 0,
    };

    /// True if it is the position of some bytes.
    pub fn is_known(self) -> bool {
        self.source != 0
    }
}

/// Sets the location of a fault, if the value is in these texts.
pub fn locate(texts: &[SourceText], diagnostic: &mut Diagnostic, span: SourceSpan) {
    if let Some(source) = texts.iter().find(|source| source.id == span.source) {
        diagnostic.location = Some(source.locate(span.start as usize, span.end as usize));
        diagnostic.file = source.name.clone();
        diagnostic.format = source.format;
    }
}

impl Default for Document {
    fn default() -> Self {
        Document::empty()
    }
}

impl PartialEq for Document {
    fn eq(&self, other: &Self) -> bool {
        self.root == other.root
    }
}

/// Values are equal regardless of their positions.
impl PartialEq for TreeNode {
    fn eq(&self, other: &Self) -> bool {
        match (&self.value, &other.value) {
            (Value::Null, Value::Null) => true,
            (Value::Bool(a), Value::Bool(b)) => a == b,
            (Value::Number(a), Value::Number(b)) | (Value::String(a), Value::String(b)) => a == b,
            (Value::Array(a), Value::Array(b)) => a == b,
            (Value::Object(a), Value::Object(b)) => {
                a.len() == b.len()
                    && a.iter()
                        .zip(b)
                        .all(|(a, b)| a.name == b.name && a.node == b.node)
            }
            _ => false,
        }
    }
}

impl<'d> Tree<'d> for &'d TreeNode {
    fn scalar(self) -> Scalar<'d> {
        match &self.value {
            Value::Null => Scalar::Null,
            Value::Bool(value) => Scalar::Boolean(*value),
            Value::Number(text) => match self.whole_number() {
                Some(integer) => Scalar::Integer(integer),
                None => text.parse().map_or(Scalar::Null, Scalar::Number),
            },
            Value::String(text) => Scalar::Text(text),
            Value::Array(_) => Scalar::Array,
            Value::Object(_) => Scalar::Object,
        }
    }

    fn member(self, name: &str) -> Option<Self> {
        match &self.value {
            Value::Object(_) => self.child(name),
            _ => None,
        }
    }

    fn members(self) -> Vec<(&'d str, Self)> {
        let members = TreeNode::members(self).iter();
        members
            .map(|member| (&*member.name, &member.node))
            .collect()
    }

    fn elements(self) -> Vec<Self> {
        TreeNode::elements(self).iter().collect()
    }
}

impl Document {
    /// Creates `{}` without a position.
    pub fn empty() -> Self {
        Document {
            root: TreeNode {
                value: Value::Object(Vec::new()),
                span: SourceSpan::default(),
            },
            sent: Vec::new(),
            remarks: Vec::new(),
        }
    }

    pub(crate) fn from_source(root: TreeNode, source: SourceText) -> Self {
        Document::from_sources(root, vec![source])
    }

    /// Creates a document from a tree that was merged from several texts.
    pub fn from_sources(root: TreeNode, sent: Vec<SourceText>) -> Self {
        Document {
            root,
            sent,
            remarks: Vec::new(),
        }
    }

    /// Adds mistakes that the parser accepted, each with its place.
    #[must_use]
    pub fn with_remarks(mut self, remarks: Vec<Diagnostic>) -> Self {
        self.remarks = remarks;
        self
    }

    /// Mistakes in the bytes of the last change that the parser accepted: warnings for the user.
    pub fn remarks(&self) -> &[Diagnostic] {
        &self.remarks
    }

    /// Splits it into the tree and its sources.
    pub fn into_parts(self) -> (TreeNode, Vec<SourceText>) {
        (self.root, self.sent)
    }

    /// The whole tree.
    pub fn root(&self) -> &TreeNode {
        &self.root
    }

    /// Forgets the bytes that were sent: later diagnostics have no location.
    pub fn forget_source(&mut self) {
        self.sent.clear();
        self.remarks.clear();
    }

    /// Takes over the positions of a part that is now at this path. A part without positions leaves those of the change
    /// unchanged.
    fn locate_part<S: AsRef<str>>(
        &mut self,
        path: &[S],
        sent: Vec<SourceText>,
        remarks: Vec<Diagnostic>,
    ) {
        if sent.is_empty() {
            return;
        }
        let base = Pointer::from_segments(path);
        self.sent = sent;
        self.remarks = Diagnostics(remarks).under(&base).0;
    }

    /// The value at this path.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`].
    pub fn get<S: AsRef<str>>(&self, path: &[S]) -> Result<&TreeNode, Diagnostics> {
        let mut node = &self.root;
        for (depth, segment) in path.iter().enumerate() {
            node = node
                .child(segment.as_ref())
                .ok_or_else(|| not_found(node, path, depth))?;
        }
        Ok(node)
    }

    /// The value at this pointer.
    pub fn at(&self, pointer: &Pointer) -> Option<&TreeNode> {
        let mut node = &self.root;
        for segment in pointer.segments() {
            node = node.child(&segment)?;
        }
        Some(node)
    }

    /// Replaces the value at this path, adds a member, or appends an element if the index is the length of the array.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`] if its parent does not exist; [`FaultKind::Invalid`] if the parent cannot contain
    /// anything.
    pub fn put<S: AsRef<str>>(&mut self, path: &[S], part: Document) -> Result<(), Diagnostics> {
        let Some((last, parents)) = path.split_last() else {
            *self = part;
            return Ok(());
        };
        let last = last.as_ref();
        let parent = descend(&mut self.root, parents)?;
        match &mut parent.value {
            Value::Object(members) => match members.iter_mut().find(|member| *member.name == *last)
            {
                Some(member) => member.node = part.root,
                None => {
                    members.push(Member {
                        name: last.into(),
                        name_span: SourceSpan::default(),
                        node: part.root,
                    });
                }
            },
            Value::Array(elements) => match array_index(last) {
                Some(index) if index == elements.len() => elements.push(part.root),
                Some(index) if index < elements.len() => {
                    if let Some(element) = elements.get_mut(index) {
                        *element = part.root;
                    }
                }
                _ => return Err(not_found(parent, path, parents.len())),
            },
            _ => {
                let message = format!("a {} has no members", parent.kind());
                return Err(Diagnostics::one(Diagnostic::new(
                    Pointer::from_segments(parents),
                    message,
                )));
            }
        }
        self.locate_part(path, part.sent, part.remarks);
        Ok(())
    }

    /// Appends to the array at this path.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`]; [`FaultKind::Invalid`] if the value is not an array.
    pub fn post<S: AsRef<str>>(&mut self, path: &[S], part: Document) -> Result<(), Diagnostics> {
        let node = descend(&mut self.root, path)?;
        match &mut node.value {
            Value::Array(elements) => {
                elements.push(part.root);
                let mut place: Vec<String> = path.iter().map(|one| one.as_ref().into()).collect();
                place.push((elements.len() - 1).to_string());
                self.locate_part(&place, part.sent, part.remarks);
            }
            _ => {
                let message = format!(
                    "POST appends to an array, but this is {}",
                    article(node.kind())
                );
                let diagnostic = Diagnostic::new(Pointer::from_segments(path), message);
                return Err(Diagnostics::one(
                    diagnostic.suggest("use PUT to replace or add a value"),
                ));
            }
        }
        Ok(())
    }

    /// Changes the value at this path by a merge patch (RFC 7386): members of the patch replace, add or, if `null`,
    /// remove; all others are kept. A missing value at the path starts as an empty object.
    pub fn patch<S: AsRef<str>>(&mut self, path: &[S], patch: Document) -> Result<(), Diagnostics> {
        let remarks = patch.remarks.clone();
        let (change, sent) = patch.into_parts();
        let before = self.get(path).ok().cloned();
        let mut node = before.unwrap_or_else(|| Document::empty().root);
        merge_patch(&mut node, change);
        self.put(
            path,
            Document::from_sources(node, sent).with_remarks(remarks),
        )
    }

    /// Removes the value at this path; removing the whole document leaves `{}`.
    ///
    /// # Errors
    /// [`FaultKind::NotFound`].
    pub fn delete<S: AsRef<str>>(&mut self, path: &[S]) -> Result<(), Diagnostics> {
        let Some((last, parents)) = path.split_last() else {
            *self = Document::empty();
            return Ok(());
        };
        let last = last.as_ref();
        let parent = descend(&mut self.root, parents)?;
        let found = match &mut parent.value {
            Value::Object(members) => {
                let position = members.iter().position(|member| *member.name == *last);
                position.map(|position| members.remove(position).node)
            }
            Value::Array(elements) => array_index(last)
                .filter(|index| *index < elements.len())
                .map(|index| elements.remove(index)),
            _ => None,
        };
        if found.is_none() {
            return Err(not_found(parent, path, parents.len()));
        }
        self.forget_source();
        Ok(())
    }

    /// Prints the document, indented with tabs; an empty line separates a value with members from its neighbours.
    pub fn to_json(&self) -> String {
        self.root.to_json()
    }

    /// Replaces the tree by another one from the same bytes.
    pub fn replace_root(&mut self, root: TreeNode) {
        self.root = root;
    }

    /// Sets the location of a fault, if the value was sent last.
    pub fn locate(&self, diagnostic: &mut Diagnostic, span: SourceSpan) {
        locate(&self.sent, diagnostic, span);
    }
}

impl Member {
    /// Returns the position of its name. A member added by its path has none, but its value has one.
    pub fn place(&self) -> SourceSpan {
        if self.name_span.source == 0 {
            self.node.span
        } else {
            self.name_span
        }
    }
}

impl TreeNode {
    /// Returns the whole number that a node represents, even if it is written `1e3` or `10.0`.
    pub fn whole_number(&self) -> Option<i64> {
        /// Beyond 2^53 not every integer is a float.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let Value::Number(number) = &self.value else {
            return None;
        };
        if let Ok(number) = number.parse::<i64>() {
            return Some(number);
        }
        let float = number.parse::<f64>().ok()?;
        if float.fract() == 0.0 && float.abs() < EXACT {
            // The range was checked: no digits are lost.
            #[allow(clippy::cast_possible_truncation)]
            return Some(float as i64);
        }
        None
    }

    /// Returns the member with that name, or the element with that index.
    pub fn child(&self, segment: &str) -> Option<&TreeNode> {
        match &self.value {
            Value::Object(members) => members
                .iter()
                .find(|member| *member.name == *segment)
                .map(|member| &member.node),
            Value::Array(elements) => elements.get(array_index(segment)?),
            _ => None,
        }
    }

    fn child_mut(&mut self, segment: &str) -> Option<&mut TreeNode> {
        match &mut self.value {
            Value::Object(members) => members
                .iter_mut()
                .find(|member| *member.name == *segment)
                .map(|member| &mut member.node),
            Value::Array(elements) => elements.get_mut(array_index(segment)?),
            _ => None,
        }
    }

    /// Returns the members; none if it is not an object.
    pub fn members(&self) -> &[Member] {
        match &self.value {
            Value::Object(members) => members,
            _ => &[],
        }
    }

    /// Returns the elements; none if it is not an array.
    pub fn elements(&self) -> &[TreeNode] {
        match &self.value {
            Value::Array(elements) => elements,
            _ => &[],
        }
    }

    /// Returns the text of a string.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the name of its type.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
        }
    }
}

/// RFC 7386 §2. The depth is limited: both trees are no deeper than the parsers allow.
fn merge_patch(target: &mut TreeNode, patch: TreeNode) {
    let Value::Object(changes) = patch.value else {
        *target = patch;
        return;
    };
    if !matches!(target.value, Value::Object(_)) {
        target.value = Value::Object(Vec::new());
        target.span = patch.span;
    }
    let Value::Object(members) = &mut target.value else {
        return;
    };
    let mut removed = Vec::new();
    let mut positions: HashMap<Box<str>, usize> = members
        .iter()
        .enumerate()
        .map(|(position, member)| (member.name.clone(), position))
        .collect();
    for change in changes {
        let position = positions.get(&change.name).copied();
        match (position, &change.node.value) {
            (Some(position), Value::Null) => removed.push(position),
            (None, Value::Null) => {}
            (Some(position), _) => {
                if let Some(member) = members.get_mut(position) {
                    member.name_span = change.name_span;
                    merge_patch(&mut member.node, change.node);
                }
            }
            (None, _) => {
                let mut node = Document::empty().root;
                node.span = change.node.span;
                merge_patch(&mut node, change.node);
                positions.insert(change.name.clone(), members.len());
                members.push(Member {
                    name: change.name,
                    name_span: change.name_span,
                    node,
                });
            }
        }
    }
    if !removed.is_empty() {
        let removed: HashSet<usize> = removed.into_iter().collect();
        let mut position = 0;
        members.retain(|_| {
            position += 1;
            !removed.contains(&(position - 1))
        });
    }
}

fn array_index(segment: &str) -> Option<usize> {
    let canonical = segment == "0" || !segment.starts_with(['0', '+']);
    segment.parse().ok().filter(|_| canonical)
}

fn article(kind: &str) -> String {
    match kind {
        "null" => kind.to_owned(),
        "array" | "object" => format!("an {kind}"),
        _ => format!("a {kind}"),
    }
}

fn descend<'a, S: AsRef<str>>(
    mut node: &'a mut TreeNode,
    path: &[S],
) -> Result<&'a mut TreeNode, Diagnostics> {
    for (depth, segment) in path.iter().enumerate() {
        if node.child(segment.as_ref()).is_none() {
            return Err(not_found(node, path, depth));
        }
        node = match node.child_mut(segment.as_ref()) {
            Some(child) => child,
            None => {
                return Err(Diagnostics::one(Diagnostic::new(
                    Pointer::root(),
                    "the path does not exist",
                )));
            }
        };
    }
    Ok(node)
}

/// `path[depth]` does not exist in `parent`. The pointer is that of `parent`, which does exist.
fn not_found<S: AsRef<str>>(parent: &TreeNode, path: &[S], depth: usize) -> Diagnostics {
    let segment = path.get(depth).map_or("", |segment| segment.as_ref());
    let pointer = Pointer::from_segments(path.get(..depth).unwrap_or_default());
    let mut missing = pointer.as_str().to_owned();
    push_segment(&mut missing, segment);
    let mut diagnostic =
        Diagnostic::new(pointer, format!("`{}` does not exist", shorten(&missing)));
    diagnostic.kind = FaultKind::NotFound;
    diagnostic.suggestion = match &parent.value {
        Value::Array(elements) if elements.is_empty() => Some("the array is empty".to_owned()),
        Value::Array(elements) => Some(format!(
            "the array has the indexes 0 to {}",
            elements.len() - 1
        )),
        Value::Object(members) => {
            suggest::nearest(segment, members.iter().map(|member| &*member.name))
                .map(|name| format!("did you mean `{name}`?"))
        }
        _ => None,
    };
    Diagnostics::one(diagnostic)
}
