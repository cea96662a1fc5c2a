//! The servers of a `proxy` whose address has variables: a group of one server for each address in use.
//!
//! The group of the `proxy` itself has no servers. It keeps these groups while requests use them, and for a while after.
//!
//! Must never: keep more groups than [`MOST`], however many addresses clients name.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustc_hash::FxHashMap;
use tokio::sync::Notify;
use tutti_config::model::UpstreamAddress;

use crate::Millis;

/// Servers of one `proxy` at the same time.
pub(crate) const MOST: usize = 1024;

/// A server that gets no requests for so long is dropped.
pub(crate) const KEPT_FOR: Millis = 60_000;

/// The same for a server whose name cannot be resolved. Its lookups end then: a client that invents names must not make the name servers
/// busy for longer than its requests last.
pub(crate) const UNRESOLVED_KEPT_FOR: Millis = 2_000;

/// A group of servers.
pub(crate) trait GroupUse {
    /// True if it has requests, or requests may wait for the first lookup of its name.
    fn is_busy(&self) -> bool;

    /// True if its name has been looked up, and has no address.
    fn is_unresolved(&self) -> bool;
}

/// The groups in use, by address.
#[derive(Debug)]
pub(crate) struct ComputedGroups<G> {
    list: Mutex<FxHashMap<UpstreamAddress, Known<G>>>,
    /// There are more of them.
    changed: Notify,
}

#[derive(Debug)]
struct Known<G> {
    group: Arc<G>,
    used: Millis,
}

impl<G> Default for ComputedGroups<G> {
    fn default() -> Self {
        Self {
            list: Mutex::default(),
            changed: Notify::new(),
        }
    }
}

impl<G: GroupUse> ComputedGroups<G> {
    fn lock(&self) -> MutexGuard<'_, FxHashMap<UpstreamAddress, Known<G>>> {
        // Each change is one call on the map.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All of them.
    pub(crate) fn groups(&self) -> Vec<Arc<G>> {
        let list = self.lock();
        list.values().map(|one| Arc::clone(&one.group)).collect()
    }

    /// The group at an address, made if there is none; `None`: so many are busy that there is no room for another.
    pub(crate) fn at(
        &self,
        address: &UpstreamAddress,
        now: Millis,
        make: impl FnOnce() -> G,
    ) -> Option<Arc<G>> {
        let mut list = self.lock();
        if let Some(known) = list.get_mut(address) {
            known.used = now;
            return Some(Arc::clone(&known.group));
        }
        if list.len() >= MOST {
            let idle = list.iter().filter(|(_, known)| !known.group.is_busy());
            let mut idle: Vec<(Millis, UpstreamAddress)> = idle
                .map(|(address, known)| (known.used, address.clone()))
                .collect();
            idle.sort_unstable_by_key(|(used, _)| *used);
            // Several at once, so that not every new address costs a search.
            for (_, address) in idle.iter().take(MOST / 16) {
                list.remove(address);
            }
            if list.len() >= MOST {
                return None;
            }
        }
        let group = Arc::new(make());
        let known = Known {
            group: Arc::clone(&group),
            used: now,
        };
        list.insert(address.clone(), known);
        drop(list);
        self.changed.notify_one();
        Some(group)
    }

    /// Drops those that have had no requests for a while.
    pub(crate) fn sweep(&self, now: Millis) {
        let mut list = self.lock();
        list.retain(|_, known| {
            let kept_for = match known.group.is_unresolved() {
                true => UNRESOLVED_KEPT_FOR,
                false => KEPT_FOR,
            };
            known.group.is_busy() || now.saturating_sub(known.used) < kept_for
        });
    }

    /// Waits until there are more.
    pub(crate) async fn has_more(&self) {
        self.changed.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[derive(Default)]
    struct Group {
        is_busy: Cell<bool>,
        is_unresolved: bool,
    }

    impl GroupUse for Group {
        fn is_busy(&self) -> bool {
            self.is_busy.get()
        }

        fn is_unresolved(&self) -> bool {
            self.is_unresolved
        }
    }

    fn busy() -> Group {
        Group {
            is_busy: Cell::new(true),
            ..Group::default()
        }
    }

    fn name(number: usize) -> UpstreamAddress {
        UpstreamAddress::Name {
            host: format!("n{number}.example"),
            port: 80,
        }
    }

    #[test]
    fn an_address_has_one_group_while_it_is_used_and_a_while_after() {
        let groups = ComputedGroups::default();
        let first = groups.at(&name(0), 0, busy).unwrap();
        let again = groups.at(&name(0), 10, busy).unwrap();
        assert!(Arc::ptr_eq(&first, &again));
        groups.sweep(10 + KEPT_FOR);
        assert_eq!(groups.groups().len(), 1, "it is busy");
        first.is_busy.set(false);
        groups.sweep(9 + KEPT_FOR);
        assert_eq!(groups.groups().len(), 1);
        groups.sweep(10 + KEPT_FOR);
        assert!(groups.groups().is_empty());
    }

    #[test]
    fn a_name_without_an_address_is_dropped_sooner() {
        let groups = ComputedGroups::default();
        let unresolved = || Group {
            is_unresolved: true,
            ..Group::default()
        };
        groups.at(&name(0), 0, unresolved).unwrap();
        groups.at(&name(1), 0, Group::default).unwrap();
        groups.sweep(UNRESOLVED_KEPT_FOR - 1);
        assert_eq!(groups.groups().len(), 2);
        groups.sweep(UNRESOLVED_KEPT_FOR);
        assert_eq!(groups.groups().len(), 1);
        groups.sweep(KEPT_FOR);
        assert!(groups.groups().is_empty());
    }

    #[test]
    fn the_number_of_groups_is_bounded() {
        let groups = ComputedGroups::default();
        let first = groups.at(&name(0), 0, busy).unwrap();
        for number in 1..MOST {
            groups.at(&name(number), 0, busy).unwrap();
        }
        assert!(groups.at(&name(MOST), 1, busy).is_none(), "all are busy");
        first.is_busy.set(false);
        assert!(groups.at(&name(MOST), 1, Group::default).is_some());
        for number in MOST..3 * MOST {
            assert!(groups.at(&name(number), 2, Group::default).is_some());
            assert!(groups.groups().len() <= MOST);
        }
    }
}
