//! Everything that the nodes of a fleet and those who administer it share: documents with a generation, which of them nodes are to run, what each
//! node answers; and the store that all of it is in.
//!
//! Called by the process that follows a source, and by `tutti fleet`. Both take what they decide from here, so that they cannot disagree.
//! It must never happen that a document is told apart from another by its generation alone, since a store that is restored from a copy
//! gives generations a second time.
//!
//! | Module | holds |
//! |---|---|
//! | [`keys`] | names of things in the store |
//! | [`records`] | documents, heads, answers of nodes; which document a node is to run; no I/O |
//! | [`purges`] | purges of caches, and those that a node has yet to make; no I/O |
//! | [`waves`] | when a wave of a roll-out is over; no I/O |
//! | [`sharing`] | how a node takes part in the certificates of its fleet; no I/O |
//! | [`store`] | what a store has to do |
//! | [`locks`] | names that one owner has at a time |
//! | [`seal`] | texts that only those can read who have the key of the fleet; no I/O |
//! | [`etcd`], `etcd_locks` | etcd as a store, and its locks |
//! | [`etcd_client`] | a client of etcd's third API |
//! | `random`, `times` | random words, the clock |

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
