//! The documents that this node is to run, runs, and has refused. No I/O.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tutti_fleet_store::now;
use tutti_fleet_store::purges::Mark;
use tutti_fleet_store::records::{Answer, Health, Refusal, Version};
use tutti_protocol::{FleetStanding, RefusedDocument, SourceNews, SourcePlan};

/// The document that is in force, as main keeps it for the next process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) version: Version,
    /// The head that it is of.
    pub(crate) selector: String,
    /// A digest of it on this node.
    pub(crate) form: String,
    /// Since when, in seconds since 1970.
    pub(crate) since: u64,
}

/// The counts of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) start_failures: u64,
}

impl Counts {
    /// The counts since an earlier moment. A router that has begun since counts from nothing.
    fn since(self, before: Counts) -> Health {
        let before = match self.requests < before.requests {
            true => Counts::default(),
            false => before,
        };
        Health {
            requests: self.requests.saturating_sub(before.requests),
            errors: self.errors.saturating_sub(before.errors),
            start_failures: self.start_failures.saturating_sub(before.start_failures),
        }
    }
}

#[derive(Default)]
struct State {
    /// Where the store is; `None`: not connected.
    endpoint: Option<String>,
    error: Option<String>,
    /// How often the store has been found.
    found: u64,
    wanted: Option<Version>,
    wanted_since: u64,
    is_rolling: bool,
    applied: Option<Applied>,
    refused: Option<(Refusal, u64)>,
    /// The counts when the document came into force.
    before: Option<Counts>,
    counts: Counts,
    differs: bool,
    /// The last purge of caches that was made.
    purged: Mark,
    /// All purges that the store has are made.
    is_purged: bool,
    /// Nodes that are there; 0: not known.
    nodes: u32,
}

/// This node of the fleet.
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) labels: BTreeMap<String, String>,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

/// The task that a head gives.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Nothing: it runs that document, has refused it, or there is none.
    Nothing,
    /// Put this document in force.
    Apply(Version, String),
}

impl Node {
    pub(crate) fn new(plan: &SourcePlan, name: String, kept: Option<&str>) -> Node {
        let applied = kept.and_then(|text| serde_json::from_str(text).ok());
        Node {
            name,
            labels: plan.labels.clone(),
            state: Mutex::new(State {
                applied,
                ..State::default()
            }),
            changes: watch::Sender::new(0),
        }
    }

    /// The same with what the process before has had kept of what nodes share.
    pub(crate) fn with_standing(self, purged: Option<&str>, nodes: Option<u32>) -> Node {
        {
            let mut state = self.state();
            let purged = purged.and_then(|text| serde_json::from_str(text).ok());
            state.purged = purged.unwrap_or_default();
            state.nodes = nodes.unwrap_or_default();
        }
        self
    }

    /// The last purge of caches that it has made.
    pub(crate) fn purged(&self) -> Mark {
        self.state().purged.clone()
    }

    /// It has made this one.
    pub(crate) fn has_purged(&self, mark: Mark) {
        self.change(|state| state.purged = mark);
    }

    /// All purges that the store has are made, or nobody knows.
    pub(crate) fn knows_purges(&self, is_purged: bool) {
        if self.state().is_purged != is_purged {
            self.change(|state| state.is_purged = is_purged);
        }
    }

    /// The number of nodes when it was known last; 0: it never was.
    pub(crate) fn nodes(&self) -> u32 {
        self.state().nodes
    }

    /// There are so many.
    pub(crate) fn has_nodes(&self, nodes: u32) {
        self.change(|state| state.nodes = nodes);
    }

    /// The fleet, for the router.
    pub(crate) fn standing(&self) -> FleetStanding {
        let state = self.state();
        FleetStanding {
            nodes: state.nodes.max(1),
            is_purged: state.is_purged,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let done = change(&mut self.state());
        self.changes.send_modify(|number| *number += 1);
        done
    }

    /// Tells of changes of what this node would say.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The store is there.
    pub(crate) fn found(&self, endpoint: Option<String>) {
        self.change(|state| {
            state.endpoint = endpoint;
            state.error = None;
            state.found += 1;
        });
    }

    /// How often the store has been found: it may be another each time.
    pub(crate) fn times_found(&self) -> u64 {
        self.state().found
    }

    /// The store is not there.
    pub(crate) fn lost(&self, reason: &str) {
        self.change(|state| {
            state.endpoint = None;
            state.error = Some(reason.to_owned());
        });
    }

    /// The store says what to run.
    pub(crate) fn want(&self, chosen: Option<(&str, &Version)>, is_rolling: bool) -> Task {
        self.change(|state| {
            state.is_rolling = is_rolling;
            let wanted = chosen.map(|(_, version)| version);
            if state.wanted.as_ref() != wanted {
                state.wanted = wanted.cloned();
                state.wanted_since = now();
            }
            let Some((selector, version)) = chosen else {
                return Task::Nothing;
            };
            if let Some(applied) = &mut state.applied
                && applied.version == *version
            {
                selector.clone_into(&mut applied.selector);
                return Task::Nothing;
            }
            let refused = state.refused.as_ref();
            match refused.is_some_and(|(refusal, _)| refusal.version == *version) {
                true => Task::Nothing,
                false => Task::Apply(version.clone(), selector.to_owned()),
            }
        })
    }

    /// A document is in force; what is to be kept of it.
    pub(crate) fn applied(&self, version: Version, selector: String, form: String) -> String {
        self.change(|state| {
            let applied = Applied {
                version,
                selector,
                form,
                since: now(),
            };
            let text = serde_json::to_string(&applied).unwrap_or_default();
            state.applied = Some(applied);
            state.differs = false;
            // Counted anew from the next look on.
            state.before = None;
            text
        })
    }

    /// A document cannot be put in force.
    pub(crate) fn refused(&self, refusal: Refusal) {
        self.change(|state| state.refused = Some((refusal, now())));
    }

    /// The server is so.
    pub(crate) fn seen(&self, counts: Counts, form: &str) {
        let mut state = self.state();
        state.counts = counts;
        state.before.get_or_insert(counts);
        let applied = state.applied.as_ref();
        state.differs = applied.is_some_and(|applied| applied.form != form);
    }

    /// A roll-out is under way that somebody may wait for.
    pub(crate) fn is_rolling(&self) -> bool {
        let state = self.state();
        let version = state.applied.as_ref().map(|applied| &applied.version);
        state.is_rolling || version != state.wanted.as_ref()
    }

    /// The answer for the fleet, as of no time.
    pub(crate) fn answer(&self) -> Answer {
        let state = self.state();
        let applied = state.applied.as_ref();
        let refused = state.refused.as_ref().map(|(refusal, _)| refusal);
        Answer {
            name: self.name.clone(),
            labels: self.labels.clone(),
            server: env!("CARGO_PKG_VERSION").to_owned(),
            version: applied.map(|applied| applied.version.clone()),
            since: applied.map_or(0, |applied| applied.since),
            differs: state.differs,
            refused: refused
                .filter(|refusal| Some(&refusal.version) == state.wanted.as_ref())
                .cloned(),
            health: state.counts.since(state.before.unwrap_or(state.counts)),
            purged: state.purged.clone(),
            time: 0,
        }
    }

    /// The news for `/status`.
    pub(crate) fn news(&self) -> SourceNews {
        let state = self.state();
        let applied = state.applied.as_ref();
        let wanted = state.wanted.as_ref();
        SourceNews {
            name: self.name.clone(),
            endpoint: state.endpoint.clone(),
            error: state.error.clone(),
            wanted: wanted.map(|version| version.generation),
            wanted_since: wanted.map(|_| state.wanted_since),
            generation: applied.map(|applied| applied.version.generation),
            since: applied.map(|applied| applied.since),
            selector: applied.map(|applied| applied.selector.clone()),
            differs: state.differs,
            nodes: state.nodes,
            purge: state.purged.number,
            refused: state.refused.as_ref().map(|(refusal, at)| RefusedDocument {
                generation: refusal.version.generation,
                pointer: refusal.pointer.clone(),
                reason: refusal.reason.clone(),
                at: *at,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use tutti_protocol::EtcdPlan;

    use super::*;

    fn node(kept: Option<&str>) -> Node {
        let plan = SourcePlan {
            name: None,
            labels: BTreeMap::new(),
            etcd: EtcdPlan {
                members: Vec::new(),
                prefix: String::new(),
                user: None,
                password_file: None,
                ca: None,
                identity: None,
                server_name: None,
            },
        };
        Node::new(&plan, "a".to_owned(), kept)
    }

    #[test]
    fn a_document_is_applied_once_also_by_the_next_process() {
        let version = Version::of(3, "{}");
        let first = node(None);
        let wanted = Some(("all", &version));
        let task = Task::Apply(version.clone(), "all".to_owned());
        assert_eq!(first.want(wanted, true), task);
        assert!(first.is_rolling());
        let kept = first.applied(version.clone(), "all".to_owned(), "form".to_owned());
        assert_eq!(first.want(wanted, false), Task::Nothing);
        assert!(!first.is_rolling());
        let next = node(Some(&kept));
        assert_eq!(next.want(wanted, false), Task::Nothing);
        // The same generation with another text, after a restore.
        let other = Version::of(3, "[]");
        assert!(matches!(
            next.want(Some(("all", &other)), false),
            Task::Apply(..)
        ));
        assert!(matches!(
            node(Some("{")).want(wanted, false),
            Task::Apply(..)
        ));
    }

    #[test]
    fn a_refused_document_is_told_while_it_is_wanted_and_not_tried_again() {
        let (one, two) = (Version::of(1, "1"), Version::of(2, "2"));
        let node = node(None);
        node.applied(one.clone(), "all".to_owned(), String::new());
        assert!(matches!(
            node.want(Some(("all", &two)), true),
            Task::Apply(..)
        ));
        node.refused(Refusal {
            version: two.clone(),
            pointer: "/routes".to_owned(),
            reason: "no".to_owned(),
        });
        assert_eq!(node.want(Some(("all", &two)), true), Task::Nothing);
        assert_eq!(
            node.answer().refused.map(|refusal| refusal.version),
            Some(two)
        );
        assert_eq!(node.answer().version, Some(one.clone()));
        assert_eq!(node.want(Some(("all", &one)), false), Task::Nothing);
        assert_eq!(node.answer().refused, None);
        assert!(node.news().refused.is_some());
    }

    #[test]
    fn health_is_counted_since_the_document_came() {
        let node = node(None);
        let counts = |requests, errors| Counts {
            requests,
            errors,
            start_failures: 0,
        };
        node.seen(counts(100, 50), "old");
        node.applied(Version::of(1, "1"), "all".to_owned(), "new".to_owned());
        node.seen(counts(100, 50), "new");
        assert_eq!(node.answer().health, Health::default());
        node.seen(counts(110, 51), "new");
        let health = node.answer().health;
        assert_eq!((health.requests, health.errors), (10, 1));
        // Another router.
        node.seen(counts(4, 2), "by hand");
        let health = node.answer().health;
        assert_eq!((health.requests, health.errors), (4, 2));
        assert!(node.answer().differs && node.news().differs);
    }
}
