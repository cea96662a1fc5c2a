//! The data that the nodes of a fleet and their administrators share: documents with a generation, which of them nodes
//! should run, the answers of the nodes; and the store that contains all of it.
//!
//! Used by the source process and by `tutti fleet`. Both take their decisions from here, so that they cannot disagree.
//! Must never happen: that documents are distinguished by generation alone, since a store that is restored from a copy
//! issues generations a second time.
//!
//! | Module | holds |
//! |---|---|
//! | [`keys`] | names in the store |
//! | [`records`] | documents, heads, answers of nodes; the document that a node should run; no I/O |
//! | [`purges`] | cache purges, and those that a node has yet to make; no I/O |
//! | [`waves`] | when a wave of a roll-out is over; no I/O |
//! | [`sharing`] | how a node takes part in the certificates of its fleet; no I/O |
//! | [`store`] | the trait of a store |
//! | [`locks`] | names that have one owner at a time |
//! | [`seal`] | texts encrypted with the key of the fleet; no I/O |
//! | [`etcd`], `etcd_locks` | etcd as a store, and its locks |
//! | [`etcd_client`] | a client of etcd's v3 API |
//! | `random`, `times` | random ids, the clock |

#![forbid(unsafe_code)]

pub mod etcd;
pub mod etcd_client;
mod etcd_locks;
pub mod keys;
pub mod locks;
pub mod purges;
mod random;
pub mod records;
pub mod seal;
pub mod sharing;
pub mod store;
mod times;
pub mod waves;

pub use random::random_word;
pub use times::{now, patience, seconds};
