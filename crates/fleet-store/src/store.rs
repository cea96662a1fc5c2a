//! A store, as nodes and administrators use it: texts under names, changed by compare-and-swap; changes that are told; a text that goes
//! with its owner.
//!
//! Names are relative to the fleet's prefix, which the store puts before them.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

/// An answer that takes time.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Texts by their names.
pub type Entries = BTreeMap<String, String>;

/// A name, and the text that it has; `None`: none.
pub type Entry = (String, Option<String>);

/// Why a store did not do it.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct StoreError {
    /// In one sentence, without a period.
    pub message: String,
    /// Asking again does not help.
    pub is_final: bool,
}

/// A text that is in the store as long as its owner says that it is there.
#[derive(Debug, Default)]
pub struct Held {
    /// The store's number of it; `None`: it is not there.
    pub(crate) number: Option<i64>,
    /// As it is in the store.
    pub(crate) text: String,
}

impl Held {
    /// The store may not have it as it was: it may be an older copy of itself.
    pub fn say_again(&mut self) {
        self.text.clear();
    }
}

/// Where a fleet keeps what it shares. Who it is connected to, and with whom it tries again, is the store's own.
pub trait Store: Send + Sync {
    /// All texts whose names begin so.
    fn list<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Entries, StoreError>>;

    /// The names alone.
    fn names<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Vec<String>, StoreError>>;

    /// How many names begin so.
    fn count<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<u64, StoreError>>;

    /// Gives each name its text if the expected ones are there, all at once; false if they are not. The first wanted text has to be one
    /// that nobody else writes: by it the store sees whether a swap was made whose answer was lost.
    fn swap<'a>(
        &'a self,
        expected: &'a [Entry],
        wanted: &'a [Entry],
    ) -> BoxFuture<'a, Result<bool, StoreError>>;

    /// Follows all texts whose names begin so.
    fn follow<'a>(
        &'a self,
        prefix: &'a str,
    ) -> BoxFuture<'a, Result<Box<dyn Following>, StoreError>>;

    /// Puts a text there, or keeps it there: called again and again, at most a third of its life apart.
    fn hold<'a>(
        &'a self,
        name: &'a str,
        text: &'a str,
        held: &'a mut Held,
    ) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Whom it is connected to now, for people.
    fn connected_to(&self) -> Option<String>;
}

/// Texts that are followed.
pub trait Following: Send {
    /// All of them as they are now: the first time at once, then after each change. An error ends it: to be followed anew.
    fn next(&mut self) -> BoxFuture<'_, Result<Entries, StoreError>>;
}
