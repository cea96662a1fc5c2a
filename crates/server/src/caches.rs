//! The stores of responses as the binary sees them: counts, and what is purged.

use tutti_cache::{CacheStatus, Purge};

use crate::server::Server;

impl Server {
    /// The stores of the live configuration.
    pub fn caches(&self) -> Vec<CacheStatus> {
        let live = self.live();
        live.caches
            .iter()
            .map(|store| CacheStatus::of(store))
            .collect()
    }

    /// Purges a store. Returns how many responses there were; `None`: there is no such store.
    pub fn purge(&self, store: &str, purge: &Purge) -> Option<usize> {
        let live = self.live();
        let found = live.caches.iter().find(|known| known.name() == store)?;
        Some(found.purge(purge))
    }
}
