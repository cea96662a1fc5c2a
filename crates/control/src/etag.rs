//! Entity tags of configuration values, and the conditions that use them (RFC 9110 §8.8.3, §13.1).
//!
//! A tag is computed from the value itself, at any depth: a change elsewhere in the configuration does not invalidate
//! the edit of one application.

use std::hash::{DefaultHasher, Hasher};

use tutti_config::TreeNode;

/// The strong entity tag of a value.
pub(crate) fn of(node: &TreeNode) -> String {
    let text = node.to_compact_json();
    // Two 64-bit hashes with different seeds: values do not collide in both by accident.
    let half = |seed: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(seed);
        hasher.write(text.as_bytes());
        hasher.finish()
    };
    format!("\"{:016x}{:016x}\"", half(1), half(2))
}

/// The value of a condition: `*` or a list of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// `*`: any value that exists.
    Any,
    /// Tags with their quotes, without `W/`; the flag marks weak ones.
    Tags(Vec<(bool, String)>),
}

impl Condition {
    /// Reads all lines of a field together; `None` if there are none.
    pub(crate) fn read<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Option<Condition> {
        let lines: Vec<String> = lines
            .map(|line| String::from_utf8_lossy(line).into_owned())
            .collect();
        if lines.is_empty() {
            return None;
        }
        let value = lines.join(",");
        if value.trim() == "*" {
            return Some(Condition::Any);
        }
        let tags = value
            .split(',')
            .map(str::trim)
            .filter(|tag| !tag.is_empty())
            .map(|tag| match tag.strip_prefix("W/") {
                Some(opaque) => (true, opaque.to_owned()),
                None => (false, tag.to_owned()),
            })
            .collect();
        Some(Condition::Tags(tags))
    }

    /// `If-Match`: strong comparison.
    pub(crate) fn matches(&self, current: Option<&str>) -> bool {
        match (self, current) {
            (_, None) => false,
            (Condition::Any, Some(_)) => true,
            (Condition::Tags(tags), Some(current)) => {
                tags.iter().any(|(is_weak, tag)| !is_weak && tag == current)
            }
        }
    }

    /// `If-None-Match`: weak comparison; true if the request may proceed.
    pub(crate) fn matches_none(&self, current: Option<&str>) -> bool {
        match (self, current) {
            (_, None) => true,
            (Condition::Any, Some(_)) => false,
            (Condition::Tags(tags), Some(current)) => tags.iter().all(|(_, tag)| tag != current),
        }
    }
}

/// The conditions of a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) if_match: Option<Condition>,
    pub(crate) if_none_match: Option<Condition>,
}

impl Conditions {
    /// True if a change may proceed, given that the value is `current` now.
    pub(crate) fn allow_change(&self, current: Option<&str>) -> bool {
        self.if_match
            .as_ref()
            .is_none_or(|condition| condition.matches(current))
            && self
                .if_none_match
                .as_ref()
                .is_none_or(|condition| condition.matches_none(current))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(text: &str) -> Condition {
        Condition::read(std::iter::once(text.as_bytes())).unwrap()
    }

    #[test]
    fn a_tag_differs_between_values_but_not_between_spellings() {
        let tag = |text: &str| of(tutti_config::parse(text.as_bytes()).unwrap().root());
        assert_eq!(tag("{\"a\": 1}"), tag("{ \"a\" :1 } // comment"));
        assert_ne!(tag("{\"a\":1}"), tag("{\"a\":2}"));
    }

    #[test]
    fn if_match_compares_strongly_and_needs_a_value() {
        assert!(read("\"x\", \"y\"").matches(Some("\"y\"")));
        assert!(!read("W/\"y\"").matches(Some("\"y\"")));
        assert!(!read("*").matches(None));
        assert!(read("*").matches(Some("\"y\"")));
    }

    #[test]
    fn if_none_match_compares_weakly() {
        assert!(!read("W/\"y\"").matches_none(Some("\"y\"")));
        assert!(read("\"x\"").matches_none(Some("\"y\"")));
        assert!(read("*").matches_none(None));
        assert!(!read("*").matches_none(Some("\"y\"")));
    }
}
