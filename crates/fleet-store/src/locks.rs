//! Locks: a name that one owner has at a time, as long as it says that it is there.
//!
//! Each time that somebody becomes the owner the lock has another text, with a random word in it, and what is written under a lock is
//! written only while the store has that text: who was stopped for longer than the lock has lived writes nothing any more, whatever it
//! believes (fencing). The text is compared and no revision, since a store that is restored from a copy gives revisions a second time.

use serde::{Deserialize, Serialize};
use tutti_dialer::BoxFuture;

use crate::random::random_word;
use crate::store::{FleetStore, FleetStoreError, StoreEntry};

/// The owner of a lock, as it is in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The name of the node.
    pub node: String,
    /// A word that no other owner has had.
    pub word: String,
}

impl Owner {
    /// A new owner.
    pub fn new(node: &str) -> Owner {
        Owner {
            node: node.to_owned(),
            word: random_word(),
        }
    }

    /// As it is stored.
    pub fn to_text(&self) -> String {
        // Strings: this cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The name of the node in the text of a lock.
    pub fn node_of(text: &str) -> String {
        let owner = serde_json::from_str::<Owner>(text).ok();
        owner.map_or_else(|| "unknown".to_owned(), |owner| owner.node)
    }
}

/// A lock that is ours.
#[derive(Clone, Debug)]
pub struct Lock {
    pub(crate) name: String,
    pub(crate) text: String,
    /// The store's number of what ends with it.
    pub(crate) number: i64,
}

/// The outcome of a claim.
#[derive(Clone, Debug)]
pub enum LockAttempt {
    /// It is ours.
    Ours(Lock),
    /// This node has it.
    Theirs(String),
}

/// A store with locks.
pub trait Locks: FleetStore {
    /// Takes a lock for a node, unless somebody has it.
    fn claim<'a>(
        &'a self,
        name: &'a str,
        node: &'a str,
    ) -> BoxFuture<'a, Result<LockAttempt, FleetStoreError>>;

    /// Has a lock go on; false if it is not ours any more. Called at most a third of its life apart.
    fn keep<'a>(&'a self, lock: &'a Lock) -> BoxFuture<'a, Result<bool, FleetStoreError>>;

    /// Gives a lock back, and with it everything that was to pass with it.
    fn release<'a>(&'a self, lock: &'a Lock) -> BoxFuture<'a, Result<(), FleetStoreError>>;

    /// Gives each name its text, all at once, if the lock is still ours; false if it is not. `passing` goes with the lock. The first text
    /// has to be one that nobody else writes, as of [`FleetStore::swap`].
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
