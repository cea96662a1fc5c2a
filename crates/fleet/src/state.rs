//! The documents that this node should run, runs, and has rejected. No I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tutti_dialer::Backoff;
use tutti_fleet_store::purges::LastPurge;
use tutti_fleet_store::records::{DocumentVersion, NodeHealth, NodeReport, Rejection};
use tutti_fleet_store::sharing::Sharing;
use tutti_fleet_store::{now, random_word};
use tutti_options::source::LiveNode;
use tutti_protocol::{
    FleetCertificates, FleetStanding, RefusedCertificate, RefusedDocument, SourceNews, SourcePlan,
};

/// The first pause before a rejected document is retried. The cause may have been this machine: a full disk, a port in
/// use, a missing language.
const FIRST_REFUSAL: Duration = Duration::from_secs(5);

/// The longest pause: each attempt may start processes.
const LONGEST_REFUSAL: Duration = Duration::from_secs(300);

/// The document in force, as main keeps it for the next process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Applied {
    pub(crate) version: DocumentVersion,
    /// The selector of its head.
    pub(crate) selector: String,
    /// A digest of it on this node.
    pub(crate) form: String,
    /// When it was applied, in seconds since 1970.
    pub(crate) since: u64,
    /// Another document was being applied after it, with unknown result: this process or the server was interrupted.
    #[serde(default)]
    pub(crate) is_doubtful: bool,
}

/// A document that this node has rejected.
struct Refused {
    refusal: Rejection,
    /// Its time, in seconds since 1970.
    at: u64,
    backoff: Backoff,
    /// When it is retried.
    next: Instant,
}

/// The counters of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) start_failures: u64,
    pub(crate) router_ends: u64,
}

impl Counts {
    /// Returns the counters since an earlier moment. A router that has started since counts from zero.
    fn since(self, before: Counts) -> NodeHealth {
        // A new version of main counts from zero, too.
        let router_ends = match self.router_ends < before.router_ends {
            true => self.router_ends,
            false => self.router_ends - before.router_ends,
        };
        let before = match self.requests < before.requests {
            true => Counts::default(),
            false => before,
        };
        NodeHealth {
            router_ends,
            is_unseen: false,
            requests: self.requests.saturating_sub(before.requests),
            errors: self.errors.saturating_sub(before.errors),
            start_failures: self.start_failures.saturating_sub(before.start_failures),
        }
    }
}

#[derive(Default)]
struct State {
    /// The endpoint of the store; `None`: not connected.
    endpoint: Option<String>,
    error: Option<String>,
    /// Why this node's answer cannot be stored, although the store can be read.
    unheld: Option<String>,
    /// The number of times that the store has become available.
    found: u64,
    wanted: Option<DocumentVersion>,
    wanted_since: u64,
    is_rolling: bool,
    applied: Option<Applied>,
    /// The document in force was doubtful before the current attempt.
    was_doubtful: bool,
    refused: Option<Refused>,
    /// The counters when the document was applied.
    before: Option<Counts>,
    /// Routers that had ended before it was applied.
    ends_before: Option<u64>,
    /// The server answered when it was asked last.
    is_seen: bool,
    counts: Counts,
    differs: bool,
    /// The address that is in the store.
    placed: Option<IpAddr>,
    /// The server stops.
    is_leaving: bool,
    certificates: FleetCertificates,
    /// Digests of the challenge responses that the router serves.
    given: BTreeSet<String>,
    /// The last purge of caches that was made.
    purged: LastPurge,
    /// All purges in the store have been made.
    is_purged: bool,
    /// The number of live nodes, once known.
    nodes: Option<u32>,
}

impl State {
    /// Returns how this node takes part in certificates, for the fleet.
    fn sharing(&self) -> Sharing {
        let refused = self.certificates.refused.iter();
        Sharing {
            has_key: self.certificates.key.is_some(),
            answers: self.given.clone(),
            refused: refused
                .map(|(name, refused)| (name.clone(), refused.reason.clone()))
                .collect(),
            error: self.certificates.error.clone(),
        }
    }
}

/// This node of the fleet.
pub(crate) struct Node {
    pub(crate) name: String,
    /// A random id of this process.
    pub(crate) process: String,
    pub(crate) labels: BTreeMap<String, String>,
    /// Its address for others, if configured.
    address: Option<IpAddr>,
    /// Its source names a file with keys.
    pub(crate) wants_key: bool,
    state: Mutex<State>,
    changes: watch::Sender<u64>,
}

impl State {
    /// Returns the document in force, if it is certain. While another is being applied, it is the former one.
    fn known(&self) -> Option<&Applied> {
        let applied = self.applied.as_ref();
        applied.filter(|applied| {
            !applied.is_doubtful || self.wanted.as_ref() != Some(&applied.version)
        })
    }
}

/// The task that follows from a head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// None: it runs that document, or there is none.
    Nothing,
    /// It has rejected that document, and should retry after this time.
    Later(Duration),
    /// Apply this document.
    Apply(DocumentVersion, String),
}

impl Node {
    pub(crate) fn new(plan: &SourcePlan, name: String, kept: Option<&str>) -> Node {
        let applied = kept.and_then(|text| serde_json::from_str(text).ok());
        Node {
            name,
            process: random_word(),
            labels: plan.labels.clone(),
            address: plan.address,
            wants_key: plan.secret_file.is_some(),
            state: Mutex::new(State {
                applied,
                ..State::default()
            }),
            changes: watch::Sender::new(0),
        }
    }

    /// Adds the shared state that the former process has kept.
    pub(crate) fn with_standing(self, purged: Option<&str>, nodes: Option<u32>) -> Node {
        {
            let mut state = self.state();
            let purged = purged.and_then(|text| serde_json::from_str(text).ok());
            state.purged = purged.unwrap_or_default();
            state.nodes = nodes;
        }
        self
    }

    /// Returns the last purge of caches that it has made.
    pub(crate) fn purged(&self) -> LastPurge {
        self.state().purged.clone()
    }

    /// Records that it has made this one.
    pub(crate) fn has_purged(&self, mark: LastPurge) {
        self.change(|state| state.purged = mark);
    }

    /// Records whether all purges in the store have been made.
    pub(crate) fn set_purged(&self, is_purged: bool) {
        if self.state().is_purged != is_purged {
            self.change(|state| state.is_purged = is_purged);
        }
    }

    /// Returns the last known number of nodes.
    pub(crate) fn nodes(&self) -> Option<u32> {
        self.state().nodes
    }

    /// Records the number of nodes.
    pub(crate) fn has_nodes(&self, nodes: u32) {
        self.change(|state| state.nodes = Some(nodes));
    }

    /// Returns the state of the fleet, for the router.
    pub(crate) fn standing(&self) -> FleetStanding {
        let state = self.state();
        FleetStanding {
            nodes: state.nodes.unwrap_or(1),
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

    /// Returns the record by which others reach this node; `None`: they cannot. `local` is the address from which it
    /// reaches the store: an address of this machine alone is of no use to others.
    pub(crate) fn place(&self, local: Option<IpAddr>) -> Option<LiveNode> {
        let local = local.filter(|local| !local.is_loopback() && !local.is_unspecified());
        let address = self.address.or(local)?;
        (!self.is_leaving()).then(|| LiveNode {
            name: self.name.clone(),
            address,
            labels: self.labels.clone(),
        })
    }

    /// Records the address that is in the store.
    pub(crate) fn placed(&self, address: Option<IpAddr>) {
        if self.state().placed != address {
            self.change(|state| state.placed = address);
        }
    }

    /// True if others know an address.
    pub(crate) fn is_placed(&self) -> bool {
        self.state().placed.is_some()
    }

    /// The server stops: others should send no more requests.
    pub(crate) fn leave(&self) {
        self.change(|state| state.is_leaving = true);
    }

    /// True if it stops.
    pub(crate) fn is_leaving(&self) -> bool {
        self.state().is_leaving
    }

    /// Returns a channel that reports changes of this node's answer.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// The store is available.
    pub(crate) fn found(&self, endpoint: String) {
        self.change(|state| {
            state.endpoint = Some(endpoint);
            state.error = None;
            state.found += 1;
        });
    }

    /// Returns how often the store has become available: it may be another each time.
    pub(crate) fn times_found(&self) -> u64 {
        self.state().found
    }

    /// The store is not available.
    pub(crate) fn lost(&self, reason: &str) {
        self.change(|state| {
            state.endpoint = None;
            state.error = Some(reason.to_owned());
        });
    }

    /// Records why this node's answer cannot be stored. True if that is news: the store can be read, and the node's
    /// answer could be stored before.
    pub(crate) fn unheld(&self, reason: Option<&str>) -> bool {
        let is_changed = {
            let mut state = self.state();
            let reason = reason.filter(|_| state.endpoint.is_some());
            let before = std::mem::replace(&mut state.unheld, reason.map(str::to_owned));
            // Another reason is no change: the caller would try again at once, which may give another one each time.
            before.is_some() != reason.is_some()
        };
        if is_changed {
            self.change(|_| ());
        }
        is_changed && self.state().unheld.is_some()
    }

    /// Processes the document that the store selects.
    pub(crate) fn want(
        &self,
        chosen: Option<(&str, &DocumentVersion)>,
        is_rolling: bool,
        moment: Instant,
    ) -> Task {
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
                && !applied.is_doubtful
            {
                selector.clone_into(&mut applied.selector);
                return Task::Nothing;
            }
            let refused = state.refused.as_ref();
            let next = refused.filter(|refused| refused.refusal.version == *version);
            match next.map(|refused| refused.next.saturating_duration_since(moment)) {
                Some(pause) if !pause.is_zero() => Task::Later(pause),
                _ => Task::Apply(version.clone(), selector.to_owned()),
            }
        })
    }

    /// Called before a document is applied; returns the text to keep. A later process must not assume that the former
    /// document is still in force.
    pub(crate) fn attempts(&self) -> Option<String> {
        let mut state = self.state();
        let applied = state.applied.as_mut()?;
        let was_doubtful = std::mem::replace(&mut applied.is_doubtful, true);
        let text = serde_json::to_string(applied).unwrap_or_default();
        state.was_doubtful = was_doubtful;
        (!was_doubtful).then_some(text)
    }

    /// Records that a document is in force; returns the text to keep.
    pub(crate) fn applied(
        &self,
        version: DocumentVersion,
        selector: String,
        form: String,
        router_ends: u64,
    ) -> String {
        self.change(|state| {
            let applied = Applied {
                version,
                selector,
                form,
                since: now(),
                is_doubtful: false,
            };
            state
                .refused
                .take_if(|refused| refused.refusal.version == applied.version);
            let text = serde_json::to_string(&applied).unwrap_or_default();
            state.applied = Some(applied);
            state.differs = false;
            // Counted from the next sample on.
            state.before = None;
            state.ends_before = Some(router_ends);
            text
        })
    }

    /// Records that a document cannot be applied. Returns false if it already failed for the same reason, and the pause
    /// until the next attempt.
    pub(crate) fn refused(&self, refusal: Rejection, moment: Instant) -> (bool, Duration) {
        self.change(|state| {
            let before = state.refused.take();
            let before = before.filter(|before| before.refusal.version == refusal.version);
            let is_news = before
                .as_ref()
                .is_none_or(|before| before.refusal != refusal);
            let backoff = before.map(|before| before.backoff);
            let first = || Backoff::beginning_with(FIRST_REFUSAL, LONGEST_REFUSAL);
            let mut backoff = backoff.unwrap_or_else(first);
            let pause = backoff.after_failure();
            state.refused = Some(Refused {
                refusal,
                at: now(),
                next: moment + pause,
                backoff,
            });
            (is_news, pause)
        })
    }

    /// An attempt was rejected, and nothing has changed. Returns the text to keep.
    pub(crate) fn attempt_refused(&self) -> Option<String> {
        let mut state = self.state();
        let was_doubtful = state.was_doubtful;
        let applied = state.applied.as_mut().filter(|_| !was_doubtful)?;
        applied.is_doubtful = false;
        Some(serde_json::to_string(applied).unwrap_or_default())
    }

    /// Records a sample of the server.
    pub(crate) fn seen(&self, counts: Counts, form: &str) {
        let mut state = self.state();
        state.counts = counts;
        state.is_seen = true;
        let router_ends = state.ends_before.unwrap_or(counts.router_ends);
        state.before.get_or_insert(Counts {
            router_ends,
            ..counts
        });
        let applied = state.applied.as_ref();
        state.differs = applied.is_some_and(|applied| applied.form != form);
    }

    /// Records that the server did not answer.
    pub(crate) fn not_seen(&self) {
        self.state().is_seen = false;
    }

    /// Changes the state of the fleet's certificates.
    pub(crate) fn certificates<T>(&self, change: impl FnOnce(&mut FleetCertificates) -> T) -> T {
        let mut state = self.state();
        let before = state.certificates.clone();
        let done = change(&mut state.certificates);
        let is_changed = state.certificates != before;
        drop(state);
        if is_changed {
            self.changes.send_modify(|number| *number += 1);
        }
        done
    }

    /// Records that a certificate of the fleet cannot be applied.
    pub(crate) fn refuse_certificate(&self, name: &str, reason: String) {
        self.certificates(|certificates| {
            let known = certificates.refused.get(name);
            if known.is_none_or(|known| known.reason != reason) {
                let refused = RefusedCertificate { reason, at: now() };
                certificates.refused.insert(name.to_owned(), refused);
            }
        });
    }

    /// Records the challenge responses that the router serves.
    pub(crate) fn gives(&self, given: BTreeSet<String>) {
        self.change(|state| state.given = given);
    }

    /// True if a roll-out is in progress that may wait for this node.
    pub(crate) fn is_rolling(&self) -> bool {
        let state = self.state();
        let version = state.known().map(|applied| &applied.version);
        state.is_rolling || version != state.wanted.as_ref()
    }

    /// Returns the answer for the fleet, without a time.
    pub(crate) fn answer(&self) -> NodeReport {
        let state = self.state();
        let applied = state.known();
        let refused = state.refused.as_ref().map(|refused| &refused.refusal);
        NodeReport {
            name: self.name.clone(),
            process: self.process.clone(),
            labels: self.labels.clone(),
            server: env!("CARGO_PKG_VERSION").to_owned(),
            version: applied.map(|applied| applied.version.clone()),
            since: applied.map_or(0, |applied| applied.since),
            differs: state.differs,
            refused: refused
                .filter(|refusal| Some(&refusal.version) == state.wanted.as_ref())
                .cloned(),
            health: NodeHealth {
                is_unseen: applied.is_some() && !(state.is_seen && state.before.is_some()),
                ..state.counts.since(state.before.unwrap_or(state.counts))
            },
            certificates: state.sharing(),
            purged: state.purged.clone(),
            time: 0,
        }
    }

    /// Returns the state for `/status`.
    pub(crate) fn news(&self) -> SourceNews {
        let state = self.state();
        let applied = state.known();
        let wanted = state.wanted.as_ref();
        SourceNews {
            name: self.name.clone(),
            address: state.placed,
            endpoint: state.endpoint.clone(),
            error: state.error.clone().or_else(|| state.unheld.clone()),
            wanted: wanted.map(|version| version.generation),
            wanted_since: wanted.map(|_| state.wanted_since),
            generation: applied.map(|applied| applied.version.generation),
            since: applied.map(|applied| applied.since),
            selector: applied.map(|applied| applied.selector.clone()),
            differs: state.differs,
            nodes: state.nodes,
            purge: state.purged.number,
            certificates: state.certificates.clone(),
            refused: state
                .refused
                .as_ref()
                .map(|Refused { refusal, at, .. }| RefusedDocument {
                    generation: refusal.version.generation,
                    pointer: refusal.pointer.clone(),
                    reason: refusal.reason.clone(),
                    at: *at,
                }),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use tutti_protocol::EtcdPlan;

    use super::*;

    fn want(node: &Node, chosen: Option<(&str, &DocumentVersion)>, is_rolling: bool) -> Task {
        node.want(chosen, is_rolling, Instant::now())
    }

    pub(crate) fn node(kept: Option<&str>) -> Node {
        let plan = SourcePlan {
            name: None,
            labels: BTreeMap::new(),
            address: None,
            secret_file: None,
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
        let version = DocumentVersion::of(3, "{}");
        let first = node(None);
        let wanted = Some(("all", &version));
        let task = Task::Apply(version.clone(), "all".to_owned());
        assert_eq!(want(&first, wanted, true), task);
        assert!(first.is_rolling());
        let kept = first.applied(version.clone(), "all".to_owned(), "form".to_owned(), 0);
        assert_eq!(want(&first, wanted, false), Task::Nothing);
        assert!(!first.is_rolling());
        let next = node(Some(&kept));
        assert_eq!(want(&next, wanted, false), Task::Nothing);
        // The same generation with another text, after a restore.
        let other = DocumentVersion::of(3, "[]");
        assert!(matches!(
            want(&next, Some(("all", &other)), false),
            Task::Apply(..)
        ));
        assert!(matches!(
            want(&node(Some("{")), wanted, false),
            Task::Apply(..)
        ));
    }

    #[test]
    fn a_refused_document_is_reported_while_it_is_wanted_and_tried_again_later() {
        let (one, two) = (DocumentVersion::of(1, "1"), DocumentVersion::of(2, "2"));
        let node = node(None);
        node.applied(one.clone(), "all".to_owned(), String::new(), 0);
        assert!(matches!(
            want(&node, Some(("all", &two)), true),
            Task::Apply(..)
        ));
        let refusal = |reason: &str| Rejection {
            version: two.clone(),
            pointer: "/routes".to_owned(),
            reason: reason.to_owned(),
        };
        let moment = Instant::now();
        let (is_news, pause) = node.refused(refusal("no"), moment);
        assert!(is_news && !pause.is_zero());
        assert_eq!(
            node.want(Some(("all", &two)), true, moment),
            Task::Later(pause)
        );
        assert_eq!(
            node.answer().refused.map(|refusal| refusal.version),
            Some(two.clone())
        );
        let later = moment + pause;
        assert!(matches!(
            node.want(Some(("all", &two)), true, later),
            Task::Apply(..)
        ));
        assert!(!node.refused(refusal("no"), later).0);
        assert!(node.refused(refusal("another reason"), later).0);
        assert!(matches!(
            node.want(Some(("all", &two)), true, later),
            Task::Later(_)
        ));
        assert_eq!(node.answer().version, Some(one.clone()));
        assert_eq!(want(&node, Some(("all", &one)), false), Task::Nothing);
        assert_eq!(node.answer().refused, None);
        assert!(node.news().refused.is_some());
        // With free disk space again.
        want(&node, Some(("all", &two)), false);
        node.applied(two, "all".to_owned(), String::new(), 0);
        assert_eq!(node.answer().refused, None);
        assert!(node.news().refused.is_none());
    }

    #[test]
    fn a_document_with_an_unknown_outcome_does_not_confirm_the_one_before() {
        let (one, two) = (DocumentVersion::of(1, "1"), DocumentVersion::of(2, "2"));
        let first = node(None);
        assert_eq!(first.attempts(), None);
        first.applied(one.clone(), "all".to_owned(), String::new(), 0);
        want(&first, Some(("all", &two)), true);
        let kept = first.attempts().unwrap();
        // It is certain until the head selects another.
        assert_eq!(first.answer().version, Some(one.clone()));
        // The process ends, and the roll-out is rolled back: the second document may or may not be in force.
        let next = node(Some(&kept));
        let back = Some(("all", &one));
        assert!(matches!(want(&next, back, false), Task::Apply(..)));
        assert_eq!(next.answer().version, None);
        assert!(next.is_rolling());
        // A rejection of the next attempt proves nothing.
        assert_eq!(next.attempts(), None);
        assert_eq!(next.attempt_refused(), None);
        assert!(matches!(want(&next, back, false), Task::Apply(..)));
        next.applied(one.clone(), "all".to_owned(), String::new(), 0);
        assert_eq!(want(&next, back, false), Task::Nothing);
        assert_eq!(next.answer().version, Some(one.clone()));
        // A rejected document has changed nothing.
        let kept = next.attempts().unwrap();
        assert!(matches!(
            want(&node(Some(&kept)), back, false),
            Task::Apply(..)
        ));
        let kept = next.attempt_refused().unwrap();
        assert_eq!(want(&node(Some(&kept)), back, false), Task::Nothing);
    }

    #[test]
    fn the_announced_address_is_one_at_which_others_reach_this_node() {
        let of = |node: &Node, local: &str| node.place(local.parse().ok()).map(|one| one.address);
        let plain = node(None);
        assert_eq!(of(&plain, "10.0.0.1"), "10.0.0.1".parse().ok());
        for own in ["127.0.0.1", "::1", "0.0.0.0", ""] {
            assert_eq!(of(&plain, own), None, "{own}");
        }
        let written = Node {
            address: "127.0.0.2".parse().ok(),
            ..node(None)
        };
        assert_eq!(of(&written, "10.0.0.1"), "127.0.0.2".parse().ok());
        written.leave();
        assert_eq!(of(&written, "10.0.0.1"), None);
    }

    #[test]
    fn a_router_that_ends_or_hangs_with_the_document_is_reported() {
        let node = node(None);
        let sample = |requests, router_ends| Counts {
            requests,
            router_ends,
            ..Counts::default()
        };
        node.seen(sample(100, 2), "old");
        let version = DocumentVersion::of(1, "1");
        node.applied(version, "all".to_owned(), "new".to_owned(), 3);
        assert!(node.answer().health.is_unseen);
        node.not_seen();
        assert!(node.answer().health.is_unseen);
        // The router that answers is another one: the first with the document did not live until the first sample.
        node.seen(sample(0, 4), "new");
        let health = node.answer().health;
        assert_eq!((health.router_ends, health.is_unseen), (1, false));
        node.not_seen();
        let health = node.answer().health;
        assert_eq!((health.router_ends, health.is_unseen), (1, true));
        // Another main, and with it another router.
        node.seen(sample(0, 0), "new");
        assert_eq!(node.answer().health, NodeHealth::default());
    }

    #[test]
    fn health_is_counted_since_the_document_came() {
        let node = node(None);
        let counts = |requests, errors| Counts {
            requests,
            errors,
            ..Counts::default()
        };
        node.seen(counts(100, 50), "old");
        node.applied(
            DocumentVersion::of(1, "1"),
            "all".to_owned(),
            "new".to_owned(),
            0,
        );
        node.seen(counts(100, 50), "new");
        assert_eq!(node.answer().health, NodeHealth::default());
        node.seen(counts(110, 51), "new");
        let health = node.answer().health;
        assert_eq!((health.requests, health.errors), (10, 1));
        // Another router.
        node.seen(counts(4, 2), "by hand");
        let health = node.answer().health;
        assert_eq!((health.requests, health.errors), (4, 2));
        assert!(node.answer().differs && node.news().differs);
    }

    #[test]
    fn the_newest_reason_for_a_missing_answer_is_kept() {
        let node = node(None);
        // While the store cannot be read, that is the reason.
        assert!(!node.unheld(Some("no member answers")));
        node.found("member".to_owned());
        let mut changes = node.changes();
        assert!(node.unheld(Some("permission denied")));
        assert!(changes.has_changed().unwrap());
        changes.borrow_and_update();
        assert!(!node.unheld(Some("no space")));
        assert_eq!(node.news().error.as_deref(), Some("no space"));
        assert!(!changes.has_changed().unwrap());
        assert!(!node.unheld(None));
        assert_eq!(node.news().error, None);
        assert!(changes.has_changed().unwrap());
    }
}
