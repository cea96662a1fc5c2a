//! Selects responses to remove from caches.

use serde::{Deserialize, Serialize};

/// The responses that a purge removes from a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "snake_case")]
pub enum PurgeScope {
    /// Everything.
    All,
    /// The responses with this key.
    Key { key: String },
    /// The responses whose keys begin so.
    Prefix {
        /// The beginning.
        prefix: String,
    },
    /// The responses with this tag.
    Tag { tag: String },
}
