//! The stores of responses as the binary sees them: counts, and what is purged.

use tutti_cache::{CacheStatus, Purge};
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

    /// Purges a store. Returns how many responses there were, once none of them is on disk any more; `None`: there is no such store.
    pub async fn purge(&self, store: &str, purge: &Purge) -> Option<usize> {
        let live = self.live();
        let found = live.caches.iter().find(|known| known.name() == store)?;
        let (count, settled) = (found.purge(purge), found.tier().map(|tier| tier.settled()));
        drop(live);
        if let Some(settled) = settled {
            // Without its thread nothing of the file is used again by this process.
            let _ = settled.await;
        }
        Some(count)
    }

    /// The stores that a configuration has on disk, and the live one has not.
    pub fn cache_files_needed(&self, config: &Config) -> Vec<String> {
        let live = self.live();
        let stores = tutti_cache::stores(config, &live.caches);
        let new = tutti_cache_disk::without_files(&stores, &live.caches);
        new.map(|store| store.name().to_owned()).collect()
    }

    /// Has what is in memory of the stores that are on disk written there, and lets go of their files; completes when that is done.
    pub fn rest_caches(&self) -> impl Future<Output = ()> + Send + use<> {
        tutti_cache_disk::rest(&self.live().caches)
    }
}
