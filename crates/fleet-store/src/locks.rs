//! Locks: a name that has one owner at a time, as long as the owner prolongs it.
//!
//! Each time the lock is acquired it gets another text, with a random id in it, and data under a lock is written only
//! while the store has that text: an owner that was stopped for longer than the lock lives can no longer write,
//! whatever it believes (fencing). The text is compared, not a revision, since a store that is restored from a copy
//! issues revisions a second time.

use serde::{Deserialize, Serialize};
use tutti_dialer::BoxFuture;

use crate::random::random_word;
use crate::store::{FleetStore, FleetStoreError, StoreEntry};

/// The owner of a lock, as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The name of the node.
    pub node: String,
    /// An id that no other owner has had.
    pub word: String,
}

impl Owner {
    /// Creates a new owner.
    pub fn new(node: &str) -> Owner {
        Owner {
            node: node.to_owned(),
            word: random_word(),
        }
    }

    /// Returns the stored text.
    pub fn to_text(&self) -> String {
        // Strings: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Returns the name of the node in the text of a lock.
    pub fn node_of(text: &str) -> String {
        let owner = serde_json::from_str::<Owner>(text).ok();
        owner.map_or_else(|| "unknown".to_owned(), |owner| owner.node)
    }
}

/// A lock that this node owns.
#[derive(Clone, Debug)]
pub struct Lock {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The store's id of the data that ends with it.
    pub(crate) number: i64,
}

/// The result of a claim.
#[derive(Clone, Debug)]
pub enum LockAttempt {
    /// This node owns it.
    Ours(Lock),
    /// This other node owns it.
    Theirs(String),
}

/// A store with locks.
pub trait Locks: FleetStore {
    /// Acquires a lock for a node, unless it has an owner.
    fn claim<'a>(
        &'a self,
        name: &'a str,
        node: &'a str,
    ) -> BoxFuture<'a, Result<LockAttempt, FleetStoreError>>;

    /// Prolongs a lock; false if it is lost. Must be called at least three times in its lifetime.
    fn keep<'a>(&'a self, lock: &'a Lock) -> BoxFuture<'a, Result<bool, FleetStoreError>>;

    /// Releases a lock, with everything that should end with it.
    fn release<'a>(&'a self, lock: &'a Lock) -> BoxFuture<'a, Result<(), FleetStoreError>>;

    /// Sets all texts at once, if this node still owns the lock; false if not. `passing` ends with the lock. The first
    /// text must be unique to this writer, as for [`FleetStore::swap`].
    fn write<'a>(
        &'a self,
        lock: &'a Lock,
        lasting: &'a [StoreEntry],
        passing: &'a [StoreEntry],
    ) -> BoxFuture<'a, Result<bool, FleetStoreError>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_owners_are_the_same() {
        let (one, other) = (Owner::new("a").to_text(), Owner::new("a").to_text());
        assert_ne!(one, other);
        assert_eq!(Owner::node_of(&one), "a");
        assert_eq!(Owner::node_of("x"), "unknown");
    }
}
