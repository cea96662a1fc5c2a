//! The response cache.

use std::time::Duration;

use tutti_document::Pointer;

use super::condition::Condition;
use crate::pattern::Patterns;
use crate::table::{CacheDiskOptions, CacheOptions, CacheStoreOptions};
use crate::template::Template;

/// A store of `settings.cache`.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheStore {
    /// Where it was written.
    pub pointer: Pointer,
    /// Its sizes.
    pub options: CacheStoreOptions,
    /// The part of it that is on disk.
    pub disk: Option<CacheDisk>,
}

/// `disk` of a store.
#[derive(Clone, Debug, PartialEq)]
pub struct CacheDisk {
    /// Where it was written.
    pub pointer: Pointer,
    /// Folder and size.
    pub options: CacheDiskOptions,
    /// Bytes of the largest body.
    pub object: usize,
}

/// `cache` of an action.
#[derive(Clone, Debug, PartialEq)]
pub struct Cache {
    /// Where it was written.
    pub pointer: Pointer,
    /// Words, times and switches.
    pub options: CacheOptions,
    /// The text of the key; `None`: scheme, host and target.
    pub key: Option<Template>,
    /// First and last status, and the lifetime of responses with a status in between; the most specific first.
    pub valid: Vec<(u16, u16, Duration)>,
    /// Requests that bypass the cache.
    pub bypass: Option<Condition>,
    /// Names of cookies that make a request bypass the cache; `None`: the meaning of cookies is unknown.
    pub cookies: Option<Patterns>,
}
