//! A node's part in the certificates of its fleet, as contained in its answer.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// The fleet's certificates on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Sharing {
    /// It has keys, and serves the fleet's challenge responses.
    pub has_key: bool,
    /// Digests of the challenge responses that it serves, as stored.
    pub answers: BTreeSet<String>,
    /// Certificates that it could not apply, and why.
    pub refused: BTreeMap<String, String>,
    /// Why it does not take part.
    pub error: Option<String>,
}

impl Sharing {
    /// True if an authority can be asked to validate without waiting for this node: it serves these responses, or never
    /// will.
    pub fn is_ready(&self, digest: &str) -> bool {
        !self.has_key || self.answers.contains(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_without_keys_is_not_waited_for() {
        assert!(Sharing::default().is_ready("a"));
        let mut with_key = Sharing {
            has_key: true,
            ..Sharing::default()
        };
        assert!(!with_key.is_ready("a"));
        with_key.answers.insert("a".to_owned());
        assert!(with_key.is_ready("a") && !with_key.is_ready("b"));
    }
}
