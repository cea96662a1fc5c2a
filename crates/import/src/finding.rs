//! Findings about a source: directives that are not carried over, where they stand, and what to do.

use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

/// A place in a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    pub(crate) file: Rc<str>,
    /// The line, from 1.
    pub(crate) line: usize,
}

/// The importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Importance {
    /// Something of the source is not in the configuration.
    Lost,
    /// Nothing is missing, but the administrator should know.
    Note,
}

/// A remark about a line of a source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Finding {
    /// The file.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// Its importance.
    pub importance: Importance,
    /// The directive.
    pub directive: String,
    /// The reason for the remark, without a period.
    pub problem: String,
    /// The cure.
    pub hint: String,
}

/// Findings, as they come up. One that is there already is not added: an included file may be read for several places.
#[derive(Default)]
pub(crate) struct Findings {
    list: Vec<Finding>,
    /// The same as a set, so that a source with a hundred thousand findings does not take a hundred thousand
    /// comparisons for each.
    known: HashSet<Finding>,
}

impl Findings {
    /// Something is not carried over.
    pub(crate) fn lost(
        &mut self,
        place: &SourceLocation,
        directive: &str,
        problem: &str,
        hint: &str,
    ) {
        self.add(Importance::Lost, place, directive, problem, hint);
    }

    /// Nothing is missing.
    pub(crate) fn note(
        &mut self,
        place: &SourceLocation,
        directive: &str,
        problem: &str,
        hint: &str,
    ) {
        self.add(Importance::Note, place, directive, problem, hint);
    }

    /// True if nothing is lost so far.
    pub(crate) fn is_whole(&self) -> bool {
        self.list
            .iter()
            .all(|finding| finding.importance != Importance::Lost)
    }

    fn add(
        &mut self,
        importance: Importance,
        place: &SourceLocation,
        directive: &str,
        problem: &str,
        hint: &str,
    ) {
        let finding = Finding {
            file: place.file.to_string(),
            line: place.line,
            importance,
            directive: directive.to_owned(),
            problem: problem.to_owned(),
            hint: with_guides(hint, |guide| format!("the guide `{guide}`")),
        };
        if self.known.insert(finding.clone()) {
            self.list.push(finding);
        }
    }

    /// By file, in the order in which files were met, and line.
    pub(crate) fn into_list(self) -> Vec<Finding> {
        let mut files: BTreeMap<String, usize> = BTreeMap::new();
        for finding in &self.list {
            let next = files.len();
            files.entry(finding.file.clone()).or_insert(next);
        }
        let mut list = self.list;
        list.sort_by_key(|finding| (files.get(&finding.file).copied(), finding.line));
        list
    }
}

/// A text in which the pages of the docs are named in another way: an installed machine has no file `docs/http/tls.md`, but its reader can
/// find the guide `http/tls`.
pub(crate) fn with_guides(text: &str, named: impl Fn(&str) -> String) -> String {
    let mut whole = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("`docs/") {
        whole.push_str(before);
        match after.split_once(".md`") {
            Some((guide, tail)) => {
                whole.push_str(&named(guide));
                rest = tail;
            }
            None => {
                whole.push_str("`docs/");
                rest = after;
            }
        }
    }
    whole + rest
}

/// A source that cannot be read at all.
#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", match .line { 0 => .file.clone(), line => format!("{}:{line}", .file) })]
pub struct UnreadableSource {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 where it is the file as a whole.
    pub line: usize,
    /// The reason.
    pub problem: String,
    /// The cure.
    pub hint: Option<String>,
}

impl UnreadableSource {
    /// A source that a line makes unreadable.
    pub(crate) fn at(place: &SourceLocation, problem: &str, hint: Option<&str>) -> Self {
        UnreadableSource {
            file: place.file.to_string(),
            line: place.line,
            problem: problem.to_owned(),
            hint: hint.map(str::to_owned),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_named_that_an_installed_machine_does_not_have() {
        let named = |text| with_guides(text, |guide| format!("the guide `{guide}`"));
        assert_eq!(
            named("see `docs/http/tls.md`, or (`docs/a.md`)"),
            "see the guide `http/tls`, or (the guide `a`)"
        );
        assert_eq!(named("`docs/x` stays"), "`docs/x` stays");
    }
}
