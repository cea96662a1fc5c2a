//! The counts of a store.

use std::sync::atomic::AtomicU64;

/// Counts of a store.
#[derive(Debug, Default)]
pub struct CacheCounts {
    /// Requests answered from it with a fresh response.
    pub hits: AtomicU64,
    /// Requests answered from it with one that was not.
    pub stale: AtomicU64,
    /// Requests for which it had nothing, or nothing that was still valid.
    pub misses: AtomicU64,
    /// Requests that were answered from it after they had waited for another's fetch.
    pub coalesced: AtomicU64,
    /// Requests whose stored response was still valid when it was asked for.
    pub revalidated: AtomicU64,
    /// Requests that went past it.
    pub bypassed: AtomicU64,
    /// Responses that were stored.
    pub stored: AtomicU64,
    /// Responses that went for want of memory.
    pub evicted: AtomicU64,
    /// Responses that were purged, or that an unsafe method has made invalid.
    pub purged: AtomicU64,
}
