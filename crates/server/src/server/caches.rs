//! The caches: counts, and purges.

use std::sync::Arc;

use tutti_cache::{CacheStatus, Purge, ResponseStore};
use tutti_config::Config;

use crate::server::Server;

impl Server {
    /// The caches of the configuration in force.
    pub fn caches(&self) -> Vec<CacheStatus> {
        let live = self.live();
        live.caches
            .iter()
            .map(|store| CacheStatus::of(store))
            .collect()
    }

    /// Purges one cache, or all. Returns the number of responses, once all of them are removed from disk; `None`: there is no such cache.
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
            // Without its thread, this process does not use the file any more.
            let _ = settled.await;
        }
        Some(count)
    }

    /// Disables or enables responses on disk; returns whether they were disabled.
    pub fn hold_caches(&self, is_held: bool) -> bool {
        self.disk_hold.set(is_held)
    }

    /// The caches of a configuration that need a file and are not in force.
    pub fn cache_files_needed(&self, config: &Config) -> Vec<String> {
        let live = self.live();
        let stores = tutti_cache::stores(config, &live.caches);
        let new = tutti_cache::disk::without_files(&stores, &live.caches);
        new.map(|store| store.name().to_owned()).collect()
    }

    /// Has responses in memory written to disk, and releases the files; completes when that is done.
    pub fn rest_caches(&self) -> impl Future<Output = ()> + Send + use<> {
        tutti_cache::disk::rest(&self.live().caches)
    }
}
