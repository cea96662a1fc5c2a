//! The counts of a store.

use std::sync::atomic::AtomicU64;

/// Counts of a store.
#[derive(Debug, Default)]
pub struct CacheCounts {
    /// Requests answered with a fresh stored response.
    pub hits: AtomicU64,
    /// Requests answered with a stale one.
    pub stale: AtomicU64,
    /// Requests without a usable stored response.
    pub misses: AtomicU64,
    /// Requests answered after waiting for the fetch of another request.
    pub coalesced: AtomicU64,
    /// Requests whose stored response the origin confirmed as still valid.
    pub revalidated: AtomicU64,
    /// Requests that bypassed the store.
    pub bypassed: AtomicU64,
    /// Responses that were stored.
    pub stored: AtomicU64,
    /// Responses evicted to free memory.
    pub evicted: AtomicU64,
    /// Responses that were purged, or invalidated by an unsafe method.
    pub purged: AtomicU64,
}
