//! The part of a store of responses that is on disk: one file, which main has opened, with an index in memory.
//!
//! The file is a ring of segments. One thread writes: responses that the store in memory has no room for, and the end of those that are
//! replaced or purged. A request reads its response by itself, on a thread that may block, and checks all of it. A router locks the file
//! while it has it open: the next router waits for the lock and does without the file until then.
//!
//! | Module | holds |
//! |---|---|
//! | `format` | the layout of the file |
//! | `metadata` | everything but the body of a response, as bytes |
//! | `tier` | how the store in memory speaks with its part on disk |
//! | `index` | what is where, and what waits to be written |
//! | `thread` | the thread: opens the file, reads what is in it, writes |
//! | `reading` | one response, read and checked |
//! | `shared` | the state that the thread and others have |
//! | `file_tier` | the part on disk, with an open file |
//! | `stores` | the stores of a configuration, and their files |
//!
//! Must never: return a response that is not, bit by bit, what was stored for that key; bring back what was purged; or keep a request
//! waiting because the disk is full or gone.

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
