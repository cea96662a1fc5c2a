//! The stores of responses as the binary sees them: counts, and what is purged.

use std::sync::Arc;

use tutti_cache::{CacheStatus, Purge, ResponseStore};
use tutti_config::Config;

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

    /// Purges a store, or all. Returns how many responses there were, once none of them is on disk any more; `None`: there is no such
    /// store.
    pub async fn purge(&self, store: Option<&str>, purge: &Purge) -> Option<usize> {
        let live = self.live();
        let is_meant =
            |known: &&Arc<ResponseStore>| store.is_none_or(|store| known.name() == store);
        let found: Vec<_> = live.caches.iter().filter(is_meant).cloned().collect();
        drop(live);
        if found.is_empty() && store.is_some() {
            return None;
        }
        let count = found.iter().map(|store| store.purge(purge)).sum();
        let settled: Vec<_> = found.iter().filter_map(|store| store.settled()).collect();
        for settled in settled {
            // Without its thread nothing of the file is used again by this process.
            let _ = settled.await;
        }
        Some(count)
    }

    /// Holds back what stores have on disk, or does so no longer; true if it was held back until now.
    pub fn hold_caches(&self, is_held: bool) -> bool {
        self.disk_hold.set(is_held)
    }

    /// The stores that a configuration has on disk, and the live one has not.
    pub fn cache_files_needed(&self, config: &Config) -> Vec<String> {
        let live = self.live();
        let stores = tutti_cache::stores(config, &live.caches);
        let new = tutti_cache::disk::without_files(&stores, &live.caches);
        new.map(|store| store.name().to_owned()).collect()
    }

    /// Has what is in memory of the stores that are on disk written there, and lets go of their files; completes when that is done.
    pub fn rest_caches(&self) -> impl Future<Output = ()> + Send + use<> {
        tutti_cache::disk::rest(&self.live().caches)
    }
}
