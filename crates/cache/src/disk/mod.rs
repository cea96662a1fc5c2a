//! The part of a store that is on disk: one file, opened by main, with an index in memory.
//!
//! The file is a ring of segments. One thread writes: responses that do not fit in memory, and the deletion of those that are replaced or
//! purged. A request reads its response itself, on a thread that may block, and checks all of it. A router locks the file while it has it
//! open: the next router works without the file until it gets the lock.
//!
//! | Module | holds |
//! |---|---|
//! | `format` | the layout of the file |
//! | `metadata` | everything but the body of a response, as bytes |
//! | `tier` | the interface between the store in memory and its part on disk |
//! | `index` | where responses are, and which wait to be written |
//! | `thread` | the thread: opens the file, reads what is in it, writes |
//! | `reading` | one response, read and checked |
//! | `shared` | the state that the thread shares with others |
//! | `file_tier` | the part on disk, with an open file |
//! | `stores` | the stores of a configuration, and their files |
//!
//! Must never: return a response that differs in any bit from the one stored for that key; restore a purged response; or delay a request
//! because the disk is full or missing.

mod file_tier;
pub(crate) mod format;
mod index;
pub(crate) mod metadata;
mod reading;
mod shared;
mod stores;
#[cfg(test)]
mod tests;
mod thread;
pub(crate) mod tier;

pub use stores::{open, rest, rest_replaced, without_files};
pub use tier::TierStatus;
