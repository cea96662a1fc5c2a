//! A store, as used by nodes and administrators: texts under names, changed by compare-and-swap; notifications of
//! changes; texts that are removed with their owner.
//!
//! Names are relative to the fleet's prefix, which the store adds.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tutti_dialer::BoxFuture;

/// Texts by their names.
pub type Entries = BTreeMap<String, String>;

/// A name, and its text; `None`: it has none.
pub type StoreEntry = (String, Option<String>);

/// Why an operation failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct FleetStoreError {
    /// The message in one sentence, without a period.
    pub message: String,
    /// Retrying does not help.
    pub is_final: bool,
}

/// Texts that are in the store as long as their owner prolongs them.
#[derive(Debug, Default)]
pub struct LeasedEntries {
    /// A random id that its texts contain.
    pub(crate) owner: String,
    /// The store's id for them; `None`: they are not in the store.
    pub(crate) number: Option<i64>,
    /// The texts as stored.
    pub(crate) texts: Entries,
    /// The last texts that this owner has stored: by them it recognizes those of another owner.
    pub(crate) written: Entries,
    /// Another owner has stored a text under one of the names since.
    pub(crate) is_contested: bool,
}

impl LeasedEntries {
    /// Creates none, for the owner with a random id that its texts contain.
    pub fn of(owner: &str) -> LeasedEntries {
        LeasedEntries {
            owner: owner.to_owned(),
            ..LeasedEntries::default()
        }
    }

    /// Forgets what is in the store, which may be an older copy of itself.
    pub fn say_again(&mut self) {
        self.texts.clear();
    }

    /// True if another owner has stored a text under one of the names since this one did. Its text is kept.
    pub fn is_contested(&self) -> bool {
        self.is_contested
    }
}

/// The store of a fleet. Connecting and retrying are its own business.
pub trait FleetStore: Send + Sync {
    /// Returns all texts with this prefix.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Entries, FleetStoreError>>;

    /// Returns only the names.
    fn names<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, FleetStoreError>>;

    /// Returns the number of names with this prefix.
    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, FleetStoreError>>;

    /// Sets all texts at once if the expected ones are present; false if they are not. The first wanted text must be
    /// unique to this writer: by it the store recognizes a successful swap whose answer was lost.
    fn swap<'a>(
        &'a self,
        expected: &'a [StoreEntry],
        wanted: &'a [StoreEntry],
    ) -> BoxFuture<'a, Result<bool, FleetStoreError>>;

    /// Follows all texts with this prefix.
    fn follow<'a>(
        &'a self,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Following>, FleetStoreError>>;

    /// Stores texts or prolongs them, and removes held ones that are no longer listed: must be called at least three
    /// times in their lifetime. All of them are removed with their owner. The first text of an owner replaces that of a
    /// former one, and later ones only its own: of two owners with one name, the former notices it, and the store keeps
    /// the text of the latter.
    fn hold<'a>(
        &'a self,
        texts: &'a Entries,
        held: &'a mut LeasedEntries,
    ) -> BoxFuture<'a, Result<(), FleetStoreError>>;

    /// Removes held texts.
    fn withdraw<'a>(
        &'a self,
        held: &'a mut LeasedEntries,
    ) -> BoxFuture<'a, Result<(), FleetStoreError>>;

    /// Returns the local address of the connection.
    fn local_address(&self) -> Option<IpAddr>;
}

/// Texts that are followed.
pub trait Following: Send {
    /// Returns all of them: the first time immediately, then after each change. An error ends it: follow again.
    fn next(&mut self) -> BoxFuture<'_, Result<Entries, FleetStoreError>>;

    /// The server that they come from, for messages.
    fn server(&self) -> String;
}
