//! Documents, heads and answers as stored, and the document that a node should run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tutti_options::source::is_label;

use crate::keys;
use crate::purges::LastPurge;
use crate::sharing::Sharing;

/// Identifies a document by its generation and its content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct DocumentVersion {
    /// The number of the document.
    pub generation: u64,
    /// SHA-256 of its text: a store that is restored from a copy issues generations a second time.
    pub digest: String,
}

impl DocumentVersion {
    /// Returns the version of a text.
    pub fn of(generation: u64, text: &str) -> DocumentVersion {
        DocumentVersion {
            generation,
            digest: digest(text),
        }
    }
}

/// Returns the SHA-256 of a text, in hexadecimal digits.
pub fn digest(text: &str) -> String {
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    data_encoding::HEXLOWER.encode(digest.as_ref())
}

/// The progress of a roll-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RolloutState {
    /// The nodes of its waves run the new document, others the former one.
    Rolling,
    /// All nodes run the new one.
    Done,
    /// All nodes run the former one again.
    Returned,
}

impl RolloutState {
    /// Its name for people.
    pub fn word(self) -> &'static str {
        match self {
            RolloutState::Rolling => "rolling",
            RolloutState::Done => "done",
            RolloutState::Returned => "returned",
        }
    }
}

/// The document that nodes should run, and its roll-out. It contains everything that a roll-out needs: the command that
/// drives it may be interrupted at any moment, and another one continues from here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rollout {
    /// A random id: no two roll-outs have the same, so that equal heads belong to the same roll-out.
    pub id: String,
    /// The number of the roll-out.
    pub number: u64,
    /// The nodes it applies to: `all`, or those with a label, `LABEL=VALUE`.
    pub selector: String,
    /// The new document; `None`: these nodes no longer have a separate one.
    pub version: Option<DocumentVersion>,
    /// The former document.
    pub former: Option<DocumentVersion>,
    /// The progress.
    pub state: RolloutState,
    /// The sizes of its waves, as requested.
    pub waves: Vec<String>,
    /// The number of the last started wave, from 1 on.
    pub wave: usize,
    /// The nodes of the started waves.
    pub nodes: Vec<String>,
    /// The user who requested it.
    pub by: String,
    /// When it started, in seconds since 1970.
    pub time: u64,
    /// The user's message.
    #[serde(default)]
    pub comment: Option<String>,
    /// Why it was rolled back.
    #[serde(default)]
    pub reason: Option<String>,
}

impl Rollout {
    /// Returns the document for a node; `None`: this head has none.
    pub fn for_node(&self, name: &str) -> Option<&DocumentVersion> {
        match self.state {
            RolloutState::Done => self.version.as_ref(),
            RolloutState::Returned => self.former.as_ref(),
            RolloutState::Rolling if self.nodes.iter().any(|node| node == name) => {
                self.version.as_ref()
            }
            RolloutState::Rolling => self.former.as_ref(),
        }
    }

    /// True if the roll-out waits for this node, which should then report its state immediately.
    pub fn waits_for(&self, name: &str) -> bool {
        self.state == RolloutState::Rolling && self.nodes.iter().any(|node| node == name)
    }

    /// Returns the document that all nodes have: the one to which the next roll-out would roll back.
    pub fn settled(&self) -> Option<&DocumentVersion> {
        match self.state {
            RolloutState::Done => self.version.as_ref(),
            RolloutState::Rolling | RolloutState::Returned => self.former.as_ref(),
        }
    }

    /// Returns the stored text.
    pub fn to_text(&self) -> String {
        // Strings and numbers: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A document that a node could not apply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// The document.
    pub version: DocumentVersion,
    /// The place of its fault, as a JSON pointer.
    pub pointer: String,
    /// The reason, in one sentence.
    pub reason: String,
}

/// The health of a node since it runs its document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeHealth {
    /// Requests that were answered.
    pub requests: u64,
    /// Those of them with a 5xx.
    pub errors: u64,
    /// Failed starts of applications.
    pub start_failures: u64,
    /// Routers that have ended by themselves or were replaced because they did not react.
    pub router_ends: u64,
    /// The server has not answered since the document was applied, or not the last time that it was asked.
    pub is_unseen: bool,
}

/// The answer of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NodeReport {
    /// Its name.
    pub name: String,
    /// A random id of the process that reports: two nodes with one name differ in it.
    pub process: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The version of its server.
    pub server: String,
    /// The last document that it has applied.
    pub version: Option<DocumentVersion>,
    /// When it applied it, in seconds since 1970.
    pub since: u64,
    /// Its configuration has been changed manually since.
    pub differs: bool,
    /// The document that it should run but cannot.
    pub refused: Option<Rejection>,
    /// Its health.
    pub health: NodeHealth,
    /// Its part in the certificates of the fleet.
    pub certificates: Sharing,
    /// The last purge of caches that it has made.
    pub purged: LastPurge,
    /// The time of this answer, in seconds since 1970.
    pub time: u64,
}

/// Parses the text stored under each name; unreadable ones are skipped.
pub fn read_all<T: for<'de> Deserialize<'de>>(
    entries: &BTreeMap<String, String>,
    prefix: &str,
) -> BTreeMap<String, T> {
    let entries = entries.iter().filter_map(|(key, text)| {
        let name = key.strip_prefix(prefix)?;
        Some((name.to_owned(), serde_json::from_str(text).ok()?))
    });
    entries.collect()
}

/// Returns the selectors of the heads for a node with these labels, the one that takes precedence first: those of its
/// labels by the names of the labels, then the one of all nodes.
pub fn selectors(labels: &BTreeMap<String, String>) -> impl Iterator<Item = String> {
    let own = labels
        .iter()
        .map(|(label, value)| format!("{label}={value}"));
    let own = own.filter(|selector| is_label(selector));
    own.chain([keys::ALL.to_owned()])
}

/// Returns the document that a node should run, and the selector of its head: the first of its [`selectors`] that has
/// one.
pub fn choose<'h>(
    heads: &'h BTreeMap<String, Rollout>,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> Option<(&'h str, &'h DocumentVersion)> {
    selectors(labels).find_map(|selector| {
        let (selector, head) = heads.get_key_value(&selector)?;
        Some((selector.as_str(), head.for_node(name)?))
    })
}

/// Returns the names of the nodes that would run the document of a head of this selector: those for which no other head
/// takes precedence.
pub fn concerned(
    heads: &BTreeMap<String, Rollout>,
    answers: &BTreeMap<String, NodeReport>,
    selector: &str,
) -> Vec<String> {
    let is_concerned = |answer: &&NodeReport| {
        let has_document = |one: &String| {
            let head = heads.get(one);
            one == selector || head.is_some_and(|head| head.for_node(&answer.name).is_some())
        };
        let first = selectors(&answer.labels).find(has_document);
        first.as_deref() == Some(selector)
    };
    let answers = answers.values().filter(is_concerned);
    answers.map(|answer| answer.name.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(generation: u64) -> DocumentVersion {
        DocumentVersion::of(generation, &generation.to_string())
    }

    fn head(
        selector: &str,
        state: RolloutState,
        to: Option<u64>,
        from: Option<u64>,
        nodes: &[&str],
    ) -> Rollout {
        Rollout {
            id: "x".to_owned(),
            number: 1,
            selector: selector.to_owned(),
            version: to.map(version),
            former: from.map(version),
            state,
            waves: Vec::new(),
            wave: 1,
            nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
            by: String::new(),
            time: 0,
            comment: None,
            reason: None,
        }
    }

    fn labels(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        let all = all
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        all.collect()
    }

    fn answer(name: &str, all: &[(&str, &str)]) -> (String, NodeReport) {
        let answer = NodeReport {
            name: name.to_owned(),
            labels: labels(all),
            ..NodeReport::default()
        };
        (name.to_owned(), answer)
    }

    #[test]
    fn nodes_run_the_new_document_once_their_wave_has_begun() {
        let generation =
            |head: &Rollout, name| head.for_node(name).map(|version| version.generation);
        let rolling = head("all", RolloutState::Rolling, Some(2), Some(1), &["a"]);
        assert_eq!(generation(&rolling, "a"), Some(2));
        assert_eq!(generation(&rolling, "b"), Some(1));
        assert_eq!(rolling.settled(), Some(&version(1)));
        assert!(rolling.waits_for("a") && !rolling.waits_for("b"));
        let done = head("all", RolloutState::Done, Some(2), Some(1), &["a"]);
        assert_eq!(generation(&done, "b"), Some(2));
        assert_eq!(done.settled(), Some(&version(2)));
        assert!(!done.waits_for("a"));
        let returned = head("all", RolloutState::Returned, Some(2), Some(1), &["a", "b"]);
        assert_eq!(generation(&returned, "a"), Some(1));
        let first = head("all", RolloutState::Rolling, Some(1), None, &["a"]);
        assert_eq!(generation(&first, "b"), None);
        assert_eq!(
            serde_json::from_str::<Rollout>(&first.to_text()).unwrap(),
            first
        );
    }

    #[test]
    fn a_label_goes_before_all_while_it_has_a_document() {
        let heads = |canary: Rollout| {
            BTreeMap::from([
                (
                    "all".to_owned(),
                    head("all", RolloutState::Done, Some(1), None, &[]),
                ),
                ("role=canary".to_owned(), canary),
            ])
        };
        let own = labels(&[("role", "canary"), ("zone", "a")]);
        let of_zone = labels(&[("zone", "a")]);
        let of = |heads: &BTreeMap<String, Rollout>, name, labels| {
            choose(heads, name, labels)
                .map(|(selector, version)| (selector.to_owned(), version.generation))
        };
        let with = heads(head("role=canary", RolloutState::Done, Some(2), None, &[]));
        assert_eq!(of(&with, "a", &own), Some(("role=canary".to_owned(), 2)));
        assert_eq!(of(&with, "a", &of_zone), Some(("all".to_owned(), 1)));
        // Its wave has not started, and there was no former document.
        let rolling = heads(head(
            "role=canary",
            RolloutState::Rolling,
            Some(2),
            None,
            &["b"],
        ));
        assert_eq!(of(&rolling, "a", &own), Some(("all".to_owned(), 1)));
        assert_eq!(of(&rolling, "b", &own), Some(("role=canary".to_owned(), 2)));
        let released = heads(head("role=canary", RolloutState::Done, None, Some(2), &[]));
        assert_eq!(of(&released, "a", &own), Some(("all".to_owned(), 1)));
        assert_eq!(of(&BTreeMap::new(), "a", &own), None);
    }

    #[test]
    fn a_head_concerns_the_nodes_that_no_other_has() {
        let answers = BTreeMap::from([
            answer("a", &[("role", "canary")]),
            answer("b", &[("role", "canary"), ("zone", "z")]),
            answer("c", &[]),
        ]);
        let none = BTreeMap::new();
        assert_eq!(concerned(&none, &answers, "all"), ["a", "b", "c"]);
        assert_eq!(concerned(&none, &answers, "role=canary"), ["a", "b"]);
        let canary = head("role=canary", RolloutState::Done, Some(2), None, &[]);
        let heads = BTreeMap::from([("role=canary".to_owned(), canary)]);
        assert_eq!(concerned(&heads, &answers, "all"), ["c"]);
        assert_eq!(concerned(&heads, &answers, "role=canary"), ["a", "b"]);
        // The first by name takes precedence.
        assert!(concerned(&heads, &answers, "zone=z").is_empty());
    }

    #[test]
    fn nodes_and_commands_agree_on_the_label_that_takes_precedence() {
        // In the order of the names of labels `role` comes first, in that of the selectors `role-tier=gold`.
        let all = [("role", "web"), ("role-tier", "gold")];
        let answers = BTreeMap::from([answer("a", &all)]);
        let selectors = ["all", "role-tier=gold", "role=web"];
        let heads = selectors.map(|one| {
            let head = head(one, RolloutState::Done, Some(2), None, &[]);
            (one.to_owned(), head)
        });
        let heads = BTreeMap::from(heads);
        let chosen = choose(&heads, "a", &labels(&all)).map(|(selector, _)| selector);
        for selector in selectors {
            let mut others = heads.clone();
            others.remove(selector);
            let is_chosen = chosen == Some(selector);
            assert_eq!(
                !concerned(&others, &answers, selector).is_empty(),
                is_chosen,
                "{selector}"
            );
        }
    }
}
