//! The nodes of the fleet that take requests, from the store to main.
//!
//! Followed only if a router needs them: answers of nodes change often, addresses do not. Must never happen: that an
//! unavailable store, or one that has just come back, removes a node that is online.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tutti_fleet_store::keys::ADDRESSES;
use tutti_fleet_store::records::read_all;
use tutti_fleet_store::store::{Entries, FleetStoreError};
use tutti_options::source::{LiveNode, LiveNodes};

use crate::controller::Controller;
use crate::watching::Follower;

/// Sends main the addresses of nodes.
pub(crate) struct Nodes {
    controller: Arc<Controller>,
    /// Time for a node to be in the store again.
    life: Duration,
    known: Known,
    is_lost: bool,
}

impl Nodes {
    /// Starts with those known from `before`.
    pub(crate) fn new(controller: Arc<Controller>, life: Duration, before: Vec<LiveNode>) -> Nodes {
        Nodes {
            controller,
            life,
            known: Known::of(before),
            is_lost: false,
        }
    }
}

impl Follower for Nodes {
    /// A starting fleet is one change.
    const TOGETHER: Duration = Duration::from_millis(50);

    fn found(&mut self, _server: String) {
        self.is_lost = false;
        self.known.found(Instant::now(), self.life);
    }

    async fn process(&mut self, entries: &Entries) -> Result<Option<Duration>, FleetStoreError> {
        let now = Instant::now();
        self.controller.send_nodes(LiveNodes {
            nodes: Some(self.known.update(entries, now)),
            lost: None,
        });
        let until = self.known.doubtful_until;
        Ok(until.map(|until| until.saturating_duration_since(now)))
    }

    fn lost(&mut self, error: FleetStoreError) {
        if !std::mem::replace(&mut self.is_lost, true) {
            self.controller.send_nodes(LiveNodes {
                nodes: None,
                lost: Some(error.message),
            });
        }
    }
}

/// The nodes that were reported last.
#[derive(Default)]
struct Known {
    nodes: BTreeMap<String, LiveNode>,
    /// Nodes from before the store was lost that have not been in it since.
    doubtful: BTreeMap<String, LiveNode>,
    /// Until then they still count.
    doubtful_until: Option<Instant>,
}

impl Known {
    /// Starts with nodes that a former process reported.
    fn of(before: Vec<LiveNode>) -> Known {
        let before = before.into_iter();
        Known {
            nodes: before.map(|node| (node.name.clone(), node)).collect(),
            ..Known::default()
        }
    }

    /// The store is available, again or for the first time. Leases may have expired in the meantime, because they could
    /// not be prolonged.
    fn found(&mut self, now: Instant, life: Duration) {
        self.doubtful.append(&mut self.nodes);
        self.doubtful_until = (!self.doubtful.is_empty()).then(|| now + life);
    }

    /// Returns the nodes that count now.
    fn update(&mut self, entries: &Entries, now: Instant) -> Vec<LiveNode> {
        let nodes: BTreeMap<String, LiveNode> = read_all(entries, ADDRESSES);
        let nodes = nodes.into_iter().filter(|(name, node)| node.name == *name);
        self.nodes = nodes.take(LiveNodes::MOST).collect();
        if self.doubtful_until.is_some_and(|until| until <= now) {
            self.doubtful.clear();
        }
        // A node that was in the store again and is removed is gone.
        let nodes = &self.nodes;
        self.doubtful.retain(|name, _| !nodes.contains_key(name));
        if self.doubtful.is_empty() {
            self.doubtful_until = None;
        }
        let all = self.nodes.values().chain(self.doubtful.values());
        let mut all: Vec<LiveNode> = all.cloned().collect();
        all.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(15);

    fn entries(names: &[&str]) -> Entries {
        let entries = names.iter().map(|&name| {
            let node = LiveNode {
                name: name.to_owned(),
                address: [10, 0, 0, 1].into(),
                labels: BTreeMap::new(),
            };
            let text = serde_json::to_string(&node).unwrap();
            (format!("{ADDRESSES}{name}"), text)
        });
        entries.collect()
    }

    fn names(nodes: &[LiveNode]) -> Vec<&str> {
        nodes.iter().map(|node| node.name.as_str()).collect()
    }

    #[test]
    fn nodes_come_and_go_with_the_store() {
        let mut known = Known::default();
        let now = Instant::now();
        known.found(now, LIFE);
        assert_eq!(names(&known.update(&entries(&["b", "a"]), now)), ["a", "b"]);
        assert_eq!(names(&known.update(&entries(&["b"]), now)), ["b"]);
        assert_eq!(known.doubtful_until, None);
        // A text that is not a node, and one under another's name.
        let mut odd = entries(&["c"]);
        odd.insert(format!("{ADDRESSES}d"), "{".to_owned());
        let other = odd.values().next().cloned().unwrap_or_default();
        odd.insert(format!("{ADDRESSES}e"), other);
        assert_eq!(names(&known.update(&odd, now)), ["c"]);
    }

    #[test]
    fn a_store_that_was_away_takes_nodes_away_when_they_had_time_to_come_back() {
        let mut known = Known::default();
        let now = Instant::now();
        known.found(now, LIFE);
        known.update(&entries(&["a", "b", "c"]), now);
        // Only one has registered again so far.
        known.found(now, LIFE);
        assert_eq!(names(&known.update(&entries(&["a"]), now)), ["a", "b", "c"]);
        // One registers and leaves, one registers, one never does.
        known.update(&entries(&["a", "b"]), now);
        assert_eq!(names(&known.update(&entries(&["a"]), now)), ["a", "c"]);
        assert!(known.doubtful_until.is_some());
        let later = now + LIFE;
        assert_eq!(names(&known.update(&entries(&["a"]), later)), ["a"]);
        assert_eq!(known.doubtful_until, None);
    }

    #[test]
    fn a_store_that_is_lost_twice_takes_nothing_away_either() {
        let mut known = Known::default();
        let now = Instant::now();
        known.found(now, LIFE);
        known.update(&entries(&["a", "b"]), now);
        known.found(now, LIFE);
        known.update(&entries(&[]), now);
        known.found(now, LIFE);
        assert_eq!(names(&known.update(&entries(&[]), now)), ["a", "b"]);
    }
}
