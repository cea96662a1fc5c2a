//! Configuration files: each in its language, with environment variables, merged into one document.
//!
//! Called by the controller with the files that main has read, and by `tutti config check`. Files are merged in the
//! given order: objects member by member; everything else may be set by only one file.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use tutti_document::{
    ConfigPath, Diagnostic, Diagnostics, Document, MOST_FAULTS, Member, SourceSpan, SourceText,
    TreeNode, Value, locate, read_source, shorten,
};
use tutti_options::Format;

use crate::environment::{Environment, interpolate};

/// A file: its content and its name, which selects the language and appears in faults.
#[derive(Clone, Debug)]
pub struct File {
    /// As the user would write it.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// The member with the schema for editors.
const SCHEMA: &str = "$schema";

/// Reads files, replaces environment variables, and merges the documents.
///
/// # Errors
/// The faults of all files, each with its file, line and column.
pub fn combine(files: &[File], environment: &Environment<'_>) -> Result<Document, Diagnostics> {
    let mut faults = Vec::new();
    let mut remarks = Vec::new();
    let mut documents = Vec::new();
    for file in files {
        let format = Format::of_file(&file.name).unwrap_or_default();
        match read_source(SourceText::new(&file.bytes, format).named(&file.name)) {
            Ok(mut document) => {
                faults.extend(interpolate(&mut document, environment));
                remarks.extend_from_slice(document.remarks());
                documents.push(document);
            }
            Err(of_file) => faults.extend(of_file.0),
        }
    }
    let is_one = files.len() == 1;
    let mut merge = Merge {
        sources: Vec::new(),
        faults,
        twice: Vec::new(),
        more: 0,
    };
    let mut whole = Document::empty().into_parts().0;
    let mut roots = Vec::new();
    for document in documents {
        let (mut root, sources) = document.into_parts();
        merge.sources.extend(sources);
        if let Value::Object(members) = &mut root.value {
            members.retain(|member| &*member.name != SCHEMA);
        }
        if is_one {
            whole = root;
        } else if !matches!(root.value, Value::Object(_)) {
            let mut fault = Diagnostic::default().expect("an object");
            fault.message = format!("the file is a value of type {}", root.kind());
            locate(&merge.sources, &mut fault, root.span);
            merge.faults.push(fault);
        } else {
            roots.push(root);
        }
    }
    merge.nodes(&mut whole, roots, &ConfigPath::root());
    // In the order of the files.
    merge.twice.sort_by_key(|(place, _)| *place);
    let twice = std::mem::take(&mut merge.twice).into_iter();
    merge.faults.extend(twice.map(|(_, fault)| fault));
    if merge.more > 0 {
        merge.faults.push(Diagnostic::more(merge.more));
    }
    if merge.faults.is_empty() {
        Ok(Document::from_sources(whole, merge.sources).with_remarks(remarks))
    } else {
        Err(Diagnostics(merge.faults))
    }
}

struct Merge {
    sources: Vec<SourceText>,
    faults: Vec<Diagnostic>,
    /// Values that an earlier file has set, each with its file and place there.
    twice: Vec<(SourceSpan, Diagnostic)>,
    /// The number of faults beyond [`MOST_FAULTS`]: finding the place of one takes time proportional to its file.
    more: usize,
}

impl Merge {
    /// Merges values of several files into one. All files are processed together, so that the members of an object are
    /// indexed once.
    fn nodes(&mut self, into: &mut TreeNode, others: Vec<TreeNode>, place: &ConfigPath<'_>) {
        let mut objects = Vec::new();
        for other in others {
            match (&into.value, other.value) {
                (Value::Object(_), Value::Object(members)) => objects.push(members),
                (_, value) => {
                    let second = TreeNode {
                        value,
                        span: other.span,
                    };
                    self.set_twice(into, &second, place);
                }
            }
        }
        if let Value::Object(members) = &mut into.value {
            self.members(members, objects, place);
        }
    }

    fn members(
        &mut self,
        members: &mut Vec<Member>,
        objects: Vec<Vec<Member>>,
        place: &ConfigPath<'_>,
    ) {
        if objects.is_empty() {
            return;
        }
        let names = members.iter().map(|member| member.name.clone());
        let mut index: HashMap<Box<str>, usize> = names.zip(0..).collect();
        // Values of one member in several files, by its position.
        let mut repeated: BTreeMap<usize, Vec<TreeNode>> = BTreeMap::new();
        for member in objects.into_iter().flatten() {
            match index.entry(member.name.clone()) {
                Entry::Occupied(there) => {
                    repeated.entry(*there.get()).or_default().push(member.node);
                }
                Entry::Vacant(free) => {
                    free.insert(members.len());
                    members.push(member);
                }
            }
        }
        for (position, nodes) in repeated {
            if let Some(member) = members.get_mut(position) {
                self.nodes(&mut member.node, nodes, &place.name(&member.name));
            }
        }
    }

    fn set_twice(&mut self, first: &TreeNode, second: &TreeNode, place: &ConfigPath<'_>) {
        if self.twice.len() >= MOST_FAULTS {
            self.more += 1;
            return;
        }
        let mut there = Diagnostic::default();
        let mut fault = Diagnostic::default();
        locate(&self.sources, &mut there, first.span);
        locate(&self.sources, &mut fault, second.span);
        fault.pointer = place.pointer();
        let what = match fault.pointer.as_str() {
            "" => "the configuration".to_owned(),
            pointer => format!("`{}`", shorten(pointer)),
        };
        let at = there.place();
        fault.message = format!(
            "{what} is set twice, first at {}",
            at.trim_end_matches(": ")
        );
        let hint = match first.value {
            Value::Array(_) => {
                "arrays are not merged: keep it in one file; named routes can each have a file"
            }
            _ => "keep it in one of the files",
        };
        fault.suggestion = Some(hint.to_owned());
        self.twice.push((second.span, fault));
    }
}
