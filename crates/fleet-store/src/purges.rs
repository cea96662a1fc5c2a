//! Cache purges in the store, and those of them that a node has yet to make. No I/O.
//!
//! Purges are numbered consecutively, and each refers to the one before it, so that a node notices if it has missed
//! one: a store keeps only the last of them, and one that is restored from a copy issues numbers a second time. Must
//! never happen: that a node considers itself up to date when it is not. If it cannot know, it purges everything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tutti_protocol::PurgeScope;

/// Maximum number of purges that are kept for offline nodes.
pub const MOST_KEPT: u64 = 1000;

/// Minimum time for which they are kept, in seconds, if there are not more of them.
pub const KEPT_FOR: u64 = 86_400;

/// Old purges that are removed with a new one: an etcd transaction has at most 128 operations (its `--max-txn-ops`).
const MOST_REMOVED: usize = 100;

/// A purge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PurgeRecord {
    /// A random id.
    pub id: String,
    /// Its number, from 1 on.
    pub number: u64,
    /// The id of the one before; empty: this is the first.
    pub former: String,
    /// The name of the cache; `None`: all caches of a node.
    pub cache: Option<String>,
    /// The responses to purge.
    pub what: PurgeScope,
    /// The user who requested it.
    pub by: String,
    /// Its time, in seconds since 1970.
    pub time: u64,
}

/// The last purge that a node has made. The default is that of a node that has made none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastPurge {
    /// Its number.
    pub number: u64,
    /// Its id.
    pub id: String,
}

impl LastPurge {
    /// The mark of a purge.
    pub fn of(purge: &PurgeRecord) -> LastPurge {
        LastPurge {
            number: purge.number,
            id: purge.id.clone(),
        }
    }

    /// True if a node with this mark has made a purge.
    pub fn has(&self, purge: &PurgeRecord) -> bool {
        match self.number == purge.number {
            true => self.id == purge.id,
            false => self.number > purge.number,
        }
    }
}

/// The purges that a node has yet to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due<'p> {
    /// These, in this order; if empty, the node is up to date.
    These(Vec<&'p PurgeRecord>),
    /// More than the store has, or unknown: everything must be purged, and the mark becomes this one.
    Everything(LastPurge),
}

/// Returns the purges that a node with this mark has yet to make.
pub fn due<'p>(mark: &LastPurge, purges: &'p BTreeMap<String, PurgeRecord>) -> Due<'p> {
    let kept = chain(purges);
    let Some(first) = kept.first() else {
        return match mark.number {
            0 => Due::These(Vec::new()),
            // The store has lost all of them, or is another.
            _ => Due::Everything(LastPurge::default()),
        };
    };
    if let Some(place) = kept.iter().position(|purge| LastPurge::of(purge) == *mark) {
        return Due::These(kept.into_iter().skip(place + 1).collect());
    }
    if first.number == mark.number.saturating_add(1) && first.former == mark.id {
        return Due::These(kept);
    }
    let last = kept.last().map(|last| LastPurge::of(last));
    Due::Everything(last.unwrap_or_default())
}

/// Returns the last purges, each of which refers to the one before.
fn chain(purges: &BTreeMap<String, PurgeRecord>) -> Vec<&PurgeRecord> {
    let mut all: Vec<&PurgeRecord> = purges.values().collect();
    all.sort_by_key(|purge| purge.number);
    let is_break = |pair: &[&PurgeRecord]| match pair {
        [one, next] => next.number != one.number.saturating_add(1) || next.former != one.id,
        _ => false,
    };
    match all.windows(2).rposition(is_break) {
        Some(place) => all.split_off(place + 1),
        None => all,
    }
}

/// Returns the mark that the next purge follows.
pub fn last(purges: &BTreeMap<String, PurgeRecord>) -> LastPurge {
    let last = purges.values().max_by_key(|purge| purge.number);
    last.map(LastPurge::of).unwrap_or_default()
}

/// Returns the names of purges that can be removed when another is added: the oldest first, and without a gap.
pub fn outdated(purges: &BTreeMap<String, PurgeRecord>, now: u64) -> Vec<String> {
    let newest = last(purges).number.saturating_add(1);
    let mut all: Vec<(&String, &PurgeRecord)> = purges.iter().collect();
    all.sort_by_key(|(_, purge)| purge.number);
    let is_outdated = |purge: &PurgeRecord| {
        purge.number.saturating_add(MOST_KEPT) <= newest
            || purge.time.saturating_add(KEPT_FOR) < now
    };
    let outdated = all.into_iter().take_while(|(_, purge)| is_outdated(purge));
    let names = outdated.map(|(name, _)| name.clone());
    names.take(MOST_REMOVED).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn purge(number: u64, time: u64) -> PurgeRecord {
        PurgeRecord {
            id: format!("id-{number}"),
            number,
            former: match number {
                1 => String::new(),
                _ => format!("id-{}", number - 1),
            },
            cache: None,
            what: PurgeScope::All,
            by: String::new(),
            time,
        }
    }

    fn store(numbers: impl IntoIterator<Item = u64>) -> BTreeMap<String, PurgeRecord> {
        let all = numbers.into_iter();
        all.map(|number| (format!("{number:012}"), purge(number, 0)))
            .collect()
    }

    fn mark(number: u64) -> LastPurge {
        LastPurge::of(&purge(number, 0))
    }

    /// Returns the numbers of the due purges; `None`: everything.
    fn numbers(mark: &LastPurge, purges: &BTreeMap<String, PurgeRecord>) -> Option<Vec<u64>> {
        match due(mark, purges) {
            Due::These(these) => Some(these.iter().map(|purge| purge.number).collect()),
            Due::Everything(_) => None,
        }
    }

    #[test]
    fn a_node_makes_those_that_it_has_not_made_in_their_order() {
        let none = LastPurge::default();
        assert_eq!(numbers(&none, &store([])), Some(vec![]));
        assert_eq!(numbers(&none, &store(1..=3)), Some(vec![1, 2, 3]));
        assert_eq!(numbers(&mark(2), &store(1..=4)), Some(vec![3, 4]));
        assert_eq!(numbers(&mark(4), &store(1..=4)), Some(vec![]));
        // Its own purge is no longer kept, but it has missed none.
        assert_eq!(numbers(&mark(4), &store(5..=6)), Some(vec![5, 6]));
    }

    #[test]
    fn a_node_that_does_not_know_purges_everything() {
        assert_eq!(numbers(&mark(3), &store(5..=6)), None);
        assert_eq!(due(&mark(3), &store(5..=6)), Due::Everything(mark(6)));
        // A node that has never followed, and a store that has lost the first purge.
        assert_eq!(numbers(&LastPurge::default(), &store(5..=6)), None);
        // A store that was restored from a copy: with fewer, with others of the same number, with none.
        assert_eq!(due(&mark(7), &store(1..=4)), Due::Everything(mark(4)));
        let other = LastPurge {
            number: 4,
            id: "other".to_owned(),
        };
        assert_eq!(numbers(&other, &store(1..=6)), None);
        assert_eq!(numbers(&other, &store(5..=6)), None);
        assert_eq!(
            due(&mark(7), &store([])),
            Due::Everything(LastPurge::default())
        );
        // One in the middle was removed.
        assert_eq!(numbers(&mark(2), &store([1, 2, 4, 5])), None);
        assert_eq!(numbers(&mark(4), &store([1, 2, 4, 5])), Some(vec![5]));
    }

    #[test]
    fn old_ones_go_when_another_comes() {
        let most = usize::try_from(MOST_KEPT).unwrap();
        assert!(outdated(&store(1..=MOST_KEPT - 1), KEPT_FOR).is_empty());
        let full = store(1..=MOST_KEPT);
        assert_eq!(outdated(&full, 0), ["000000000001"]);
        assert_eq!(full.len(), most);
        let old = outdated(&full, KEPT_FOR + 1);
        assert_eq!(old.len(), MOST_REMOVED);
        assert_eq!(old[0], "000000000001");
        // A clock that is behind causes no gap.
        let mut mixed = store(1..=3);
        mixed.get_mut("000000000002").unwrap().time = 10;
        assert_eq!(outdated(&mixed, KEPT_FOR + 5), ["000000000001"]);
        assert_eq!(last(&mixed), mark(3));
        assert_eq!(last(&store([])), LastPurge::default());
    }

    #[test]
    fn a_mark_says_what_has_been_made() {
        assert!(mark(3).has(&purge(3, 0)) && mark(4).has(&purge(3, 0)));
        assert!(!mark(2).has(&purge(3, 0)) && !LastPurge::default().has(&purge(1, 0)));
        let other = LastPurge {
            number: 3,
            id: "other".to_owned(),
        };
        assert!(!other.has(&purge(3, 0)));
    }
}
