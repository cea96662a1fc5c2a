//! The state of a store, for `/status`.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::tier::TierStatus;
use crate::store::ResponseStore;

/// The state of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheStatus {
    /// Its name.
    pub name: String,
    /// Bytes of memory that its responses take.
    pub memory: u64,
    /// Number of its responses.
    pub entries: u64,
    /// Requests by cache result.
    pub requests: [(&'static str, u64); 6],
    /// Responses by outcome.
    pub responses: [(&'static str, u64); 3],
    /// The state of its part on disk.
    pub disk: Option<TierStatus>,
    /// The part on disk is disabled at present.
    pub is_disk_held: bool,
}

impl CacheStatus {
    /// Reads the state of a store.
    pub fn of(store: &ResponseStore) -> Self {
        let counts = &store.counts;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
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
            disk: store.tier().map(|tier| tier.status()),
            is_disk_held: store.is_disk_held(),
        }
    }
}
