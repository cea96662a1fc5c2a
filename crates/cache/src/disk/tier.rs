//! The face that a store on disk shows the one in memory.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tokio::sync::oneshot;

use crate::key::Key;
use crate::purge::Purge;
use crate::stored::Stored;

/// The bound of what waits to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// Beyond the bound a response is refused.
    Bounded,
    /// Every response is taken.
    Unbounded,
}

/// Responses on disk. All but [`read`](Self::read) are short and may be called on listen threads.
pub(crate) trait Tier: Debug + Send + Sync {
    /// Bytes of the largest body that it keeps.
    fn largest(&self) -> usize;

    /// True if it has something with this text of a key.
    fn has(&self, text: &[u8]) -> bool;

    /// True if it has a response that the same requests would get.
    fn has_alike(&self, stored: &Stored) -> bool;

    /// Keeps a response, in place of those that the same requests would get.
    fn keep(&self, stored: &Arc<Stored>, waiting: Waiting);

    /// Removes responses; how many there were.
    fn purge(&self, purge: &Purge) -> usize;

    /// Completes when all that was purged so far is no more on disk.
    fn settled(&self) -> oneshot::Receiver<()>;

    /// Reads the response for a request whose fields `values` gives by name. Blocks. `take_room` is asked for the memory of the body.
    fn read(
        &self,
        key: &Key,
        values: &dyn Fn(&[u8]) -> Vec<u8>,
        take_room: &mut dyn FnMut(usize) -> bool,
    ) -> Option<Loaded>;

    /// Large responses that were read are given to others who want them while somebody has them.
    fn share(&self, place: u64, stored: &Arc<Stored>);

    /// Writes what waits and lets go of the file, for whoever has it next; completes when that is done.
    fn close(&self) -> oneshot::Receiver<()>;

    /// Its numbers.
    fn status(&self) -> TierStatus;
}

/// A response that was read.
#[derive(Debug)]
pub(crate) enum Loaded {
    /// It is in memory anyway.
    Shared(Arc<Stored>),
    /// It comes from this place of the file.
    Read(Box<Stored>, u64),
}

/// Counts of a store on disk.
#[derive(Debug, Default)]
pub(crate) struct TierCounts {
    /// Responses that were read.
    pub read: AtomicU64,
    /// Responses that were written.
    pub written: AtomicU64,
    /// Responses that went for want of room.
    pub evicted: AtomicU64,
    /// Responses that could not be written, or that too many waited before.
    pub failed: AtomicU64,
    /// Responses that were damaged, and went.
    pub damaged: AtomicU64,
}

/// The state of a store on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TierStatus {
    /// It can be used.
    pub is_open: bool,
    /// Bytes that its responses take.
    pub size: u64,
    /// Number of its responses.
    pub entries: u64,
    /// Responses by what became of them.
    pub responses: [(&'static str, u64); 5],
}
