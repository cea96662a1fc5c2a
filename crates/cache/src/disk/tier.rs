//! The interface of a store's part on disk, as the part in memory uses it.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::oneshot;

use crate::key::Key;
use crate::purge::Purge;
use crate::stored::Stored;

/// The limit for responses that wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Responses beyond the limit are refused.
    Bounded,
    /// All responses are accepted.
    Unbounded,
}

/// Responses on disk. All methods but [`read`](Self::read) are short and may be called on listen threads.
pub(crate) trait Tier: Debug + Send + Sync {
    /// Bytes of the largest body that it keeps.
    fn largest(&self) -> usize;

    /// True if it has a response whose key has this text.
    fn has(&self, text: &[u8]) -> bool;

    /// True if it has a response that the same requests would get.
    fn has_alike(&self, stored: &Stored) -> bool;

    /// Keeps a response, in place of those that the same requests would get.
    fn keep(&self, stored: &Arc<Stored>, waiting: Waiting);

    /// Removes responses; returns their number.
    fn purge(&self, purge: &Purge) -> usize;

    /// Completes when all deletions so far are on disk.
    fn settled(&self) -> oneshot::Receiver<()>;

    /// Reads the response for a request whose fields `values` gives by name. Blocks. Memory for the body is requested from `take_room`.
    fn read(
        &self,
        key: &Key,
        values: &dyn Fn(&[u8]) -> Option<Vec<u8>>,
        take_room: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Loaded>;

    /// Lets other requests use a large response that was read, for as long as one of them holds it.
    fn share(&self, place: u64, stored: &Arc<Stored>);

    /// Writes the waiting responses and releases the file for its next owner; completes when that is done.
    fn close(&self) -> oneshot::Receiver<()>;

    /// Deletes all responses and releases the file; completes when that is done.
    fn discard(&self) -> oneshot::Receiver<()>;

    /// Its status.
    fn status(&self) -> TierStatus;
}

/// A response that was read.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// It is in memory already.
    Shared(Arc<Stored>),
    /// It was read from this place of the file.
    Read(Box<Stored>, u64),
}

/// Counts of a store on disk.
#[derive(Debug, Default)]
pub(crate) struct TierCounts {
    /// Responses that were read.
    pub read: AtomicU64,
    /// Responses that were written.
    pub written: AtomicU64,
    /// Responses evicted to free room.
    pub evicted: AtomicU64,
    /// Responses that could not be written, or that exceeded the waiting limit.
    pub failed: AtomicU64,
    /// Responses that were removed because they were damaged.
    pub damaged: AtomicU64,
}

/// The state of a store on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierStatus {
    /// It is in use.
    pub is_open: bool,
    /// Bytes that its responses take.
    pub size: u64,
    /// Number of its responses.
    pub entries: u64,
    /// Responses by outcome.
    pub responses: [(&'static str, u64); 5],
}
