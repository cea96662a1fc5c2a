//! Counts requests for several servers in a Valkey or Redis: one round trip and one atomic operation for each request.
//!
//! [`CountStore::count`] is called on listen threads. A separate thread keeps the connection open. Without a connection, a request fails at
//! once; without an answer, after the timeout, and after a few timeouts the connection is replaced in the background. The caller decides
//! what happens without an answer.
//!
//! | Module | holds |
//! |---|---|
//! | `script` | the operation, its keys and its answers |
//! | `surroundings` | access to files, to the DNS and to the log |
//! | `files` | the content of the files that a connection needs |
//! | `connecting` | a connection: TCP, TLS, password, and a trial |
//! | `keeping` | the current connection, and the thread that keeps it open |
//!
//! Must never: block a listen thread, keep a request longer than its timeout, or let text of clients become the name of a key.

mod connecting;
mod connection_keeper;
mod environment;
mod files;
mod script;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::timeout;
use tutti_config::model::LimitStore;
pub use tutti_dialer::BoxFuture;

use self::connection_keeper::Kept;
pub use self::environment::{StoreEnvironment, StoreEvent};
pub use self::script::{CountedBound, Taken};

/// The store does not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away;

/// A store of counts.
pub struct CountStore {
    /// Its configuration.
    pub model: Arc<LimitStore>,
    kept: Arc<Kept>,
    has_begun: AtomicBool,
    answered: AtomicU64,
    failed: AtomicU64,
}

/// The state of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreStatus {
    /// It answers.
    pub is_connected: bool,
    /// Why it does not.
    pub error: Option<String>,
    /// Requests that it has counted.
    pub answered: u64,
    /// Requests for which there was no answer.
    pub failed: u64,
}

impl fmt::Debug for CountStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.model.name)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for CountStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kept.fmt(f)
    }
}

impl CountStore {
    /// Makes an unconnected one.
    pub fn new(model: &Arc<LimitStore>) -> Arc<Self> {
        Arc::new(Self {
            model: Arc::clone(model),
            kept: Arc::new(Kept::new(model)),
            has_begun: AtomicBool::new(false),
            answered: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    /// True if it has this configuration.
    pub fn is(&self, model: &LimitStore) -> bool {
        *self.model == *model
    }

    /// Begins to connect, unless it has. Its thread ends when the store is not used any more.
    pub fn begin(&self, around: impl FnOnce() -> Arc<dyn StoreEnvironment>) -> io::Result<()> {
        match self.has_begun.swap(true, Ordering::Relaxed) {
            true => Ok(()),
            false => connection_keeper::start(Arc::downgrade(&self.kept), around()),
        }
    }

    /// Counts a request of this key of a limit.
    pub async fn count(&self, limit: &str, key: &[u8], bound: CountedBound) -> Result<Taken, Away> {
        let Some(open) = self.kept.open() else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            return Err(Away);
        };
        let name = script::key(&self.model.options.prefix, limit, key);
        let asked = timeout(self.model.options.timeout, open.ask(&name, bound)).await;
        let why = match asked {
            Ok(Ok(answer)) => {
                open.has_answered();
                self.answered.fetch_add(1, Ordering::Relaxed);
                return Ok(answer);
            }
            Ok(Err(why)) => Some(why),
            Err(_) => None,
        };
        self.failed.fetch_add(1, Ordering::Relaxed);
        open.has_failed(why, self.model.options.timeout);
        Err(Away)
    }

    /// The current state.
    pub fn status(&self) -> StoreStatus {
        StoreStatus {
            is_connected: self.kept.open().is_some(),
            error: self.kept.error(),
            answered: self.answered.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
        }
    }
}
