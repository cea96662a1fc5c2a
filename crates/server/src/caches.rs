//! The stores of responses as the binary sees them: counts, and what is purged.

use std::sync::atomic::{AtomicU64, Ordering};

use tutti_cache::{Purge, Store};

use crate::server::Server;

/// The state of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// Its name.
    pub name: String,
    /// Bytes of memory that its responses take.
    pub memory: u64,
    /// Number of its responses.
    pub entries: u64,
    /// Requests by what there was for them.
    pub requests: [(&'static str, u64); 6],
    /// Responses by what became of them.
    pub responses: [(&'static str, u64); 3],
}

impl Server {
    /// The stores of the live configuration.
    pub fn caches(&self) -> Vec<CacheStatus> {
        let live = self.live();
        live.caches.iter().map(|store| status(store)).collect()
    }

    /// Purges a store. Returns how many responses there were; `None`: there is no such store.
    pub fn purge(&self, store: &str, purge: &Purge) -> Option<usize> {
        let live = self.live();
        let found = live.caches.iter().find(|known| known.name() == store)?;
        Some(found.purge(purge))
    }
}

fn status(store: &Store) -> CacheStatus {
    let counts = &store.counts;
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    CacheStatus {
        name: store.name().to_owned(),
        memory: store.used() as u64,
        entries: store.len() as u64,
        requests: [
            ("hit", read(&counts.hits)),
            ("stale", read(&counts.stale)),
            ("coalesced", read(&counts.coalesced)),
            ("validated", read(&counts.revalidated)),
            ("miss", read(&counts.misses)),
            ("bypass", read(&counts.bypassed)),
        ],
        responses: [
            ("stored", read(&counts.stored)),
            ("evicted", read(&counts.evicted)),
            ("purged", read(&counts.purged)),
        ],
    }
}
