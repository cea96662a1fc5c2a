//! A store, as nodes and administrators use it: texts under names, changed by compare-and-swap; changes that are told; a text that goes
//! with its owner.
//!
//! Names are relative to the fleet's prefix, which the store puts before them.

use std::collections::BTreeMap;
use std::net::IpAddr;

use tutti_dialer::BoxFuture;

/// Texts by their names.
pub type Entries = BTreeMap<String, String>;

/// A name, and the text that it has; `None`: none.
pub type StoreEntry = (String, Option<String>);

/// Why a store did not do it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct FleetStoreError {
    /// In one sentence, without a period.
    pub message: String,
    /// Asking again does not help.
    pub is_final: bool,
}

/// Texts that are in the store as long as their owner says that they are there.
#[derive(Debug, Default)]
pub struct LeasedEntries {
    /// The store's number of them; `None`: they are not there.
    pub(crate) number: Option<i64>,
    /// As they are in the store.
    pub(crate) texts: Entries,
}

impl LeasedEntries {
    /// The store may not have them as they were: it may be an older copy of itself.
    pub fn say_again(&mut self) {
        self.texts.clear();
    }
}

/// Where a fleet keeps what it shares. Who it is connected to, and with whom it tries again, is the store's own.
pub trait FleetStore: Send + Sync {
    /// All texts whose names begin so.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Entries, FleetStoreError>>;

    /// The names alone.
    fn names<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, FleetStoreError>>;

    /// How many names begin so.
    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, FleetStoreError>>;

    /// Gives each name its text if the expected ones are there, all at once; false if they are not. The first wanted text has to be one
    /// that nobody else writes: by it the store sees whether a swap was made whose answer was lost.
    fn swap<'a>(
        &'a self,
        expected: &'a [StoreEntry],
        wanted: &'a [StoreEntry],
    ) -> BoxFuture<'a, Result<bool, FleetStoreError>>;

    /// Follows all texts whose names begin so.
    fn follow<'a>(
        &'a self,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Following>, FleetStoreError>>;

    /// Puts texts there, or keeps them there, and takes those out that were held before and are not among them: called again and again, at
    /// most a third of their life apart. All of them go together with their owner.
    fn hold<'a>(
        &'a self,
        texts: &'a Entries,
        held: &'a mut LeasedEntries,
    ) -> BoxFuture<'a, Result<(), FleetStoreError>>;

    /// The address of this machine from which it is connected.
    fn local_address(&self) -> Option<IpAddr>;
}

/// Texts that are followed.
pub trait Following: Send {
    /// All of them as they are now: the first time at once, then after each change. An error ends it: to be followed anew.
    fn next(&mut self) -> BoxFuture<'_, Result<Entries, FleetStoreError>>;

    /// The server that they come from, for people.
    fn server(&self) -> String;
}
