//! Cache purges, from the store to the router of this node: each once, in order, including those that were made while
//! it was offline.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tutti_fleet_store::keys::PURGES;
use tutti_fleet_store::purges::{Due, LastPurge, PurgeRecord, due};
use tutti_fleet_store::records::read_all;
use tutti_fleet_store::store::{Entries, FleetStoreError};
use tutti_log::{Level, Log};
use tutti_protocol::{FleetAnswer, FleetRequest, FleetText, PurgeScope};

use crate::controller::Controller;
use crate::state::Node;
use crate::watching::{Follower, SOON};

/// Makes the purges of the fleet on this node.
pub(crate) struct Purger {
    pub(crate) node: Arc<Node>,
    pub(crate) controller: Arc<Controller>,
    pub(crate) log: Log,
}

impl Follower for Purger {
    async fn process(&mut self, entries: &Entries) -> Result<Option<Duration>, FleetStoreError> {
        let is_done = self.make_due(entries).await;
        self.node.set_purged(is_done);
        Ok((!is_done).then_some(SOON))
    }

    fn lost(&mut self, _error: FleetStoreError) {
        self.node.set_purged(false);
    }
}

impl Purger {
    /// Makes the purges that this node has not made; false: retry later.
    async fn make_due(&self, entries: &Entries) -> bool {
        let purges: BTreeMap<String, PurgeRecord> = read_all(entries, PURGES);
        let before = self.node.purged();
        let is_done = match due(&before, &purges) {
            Due::These(these) => self.make(&these).await,
            Due::Everything(mark) => self.make_everything(mark).await,
        };
        let mark = self.node.purged();
        if mark != before {
            // Once for all of them: repeating a purge does no harm.
            let text = serde_json::to_string(&mark).unwrap_or_default();
            self.controller.keep_beside(FleetText::Purged, text);
        }
        is_done
    }

    async fn make(&self, these: &[&PurgeRecord]) -> bool {
        for purge in these {
            if !self.purge(purge.cache.clone(), purge.what.clone()).await {
                return false;
            }
            self.node.has_purged(LastPurge::of(purge));
        }
        true
    }

    async fn make_everything(&self, mark: LastPurge) -> bool {
        if !self.purge(None, PurgeScope::All).await {
            return false;
        }
        let text = match self.node.purged().number {
            0 => "this node follows the purges of the fleet from now on; its caches were emptied"
                .to_owned(),
            number => format!(
                "the store no longer has all cache purges since number {number}, the last one that this node has made; its caches \
                 were emptied"
            ),
        };
        self.log.line(Level::Notice, &text);
        self.node.has_purged(mark);
        true
    }

    /// Makes the router purge caches; false if there is none.
    async fn purge(&self, cache: Option<String>, purge: PurgeScope) -> bool {
        let request = FleetRequest::Purge { cache, purge };
        match self.controller.ask(request).await {
            FleetAnswer::Purged => true,
            FleetAnswer::Unavailable { reason } => {
                let text = format!("a purge of the fleet waits: {reason}");
                self.log.line(Level::Info, &text);
                false
            }
            _ => false,
        }
    }
}
