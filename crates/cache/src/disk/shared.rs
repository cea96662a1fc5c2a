//! The state that the writing thread shares with the threads that give it orders.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::oneshot;

use super::format::Geometry;
use super::index::{Dead, Index};
use super::tier::TierCounts;
use crate::stored::Stored;

/// Writes a warning to the log.
pub(crate) type Report = Box<dyn Fn(&str) + Send + Sync>;

/// An order to the thread.
pub(crate) enum Order {
    /// Write a response, if it is still wanted.
    Write(Arc<Stored>),
    /// Mark these records as deleted.
    Bury(Vec<Dead>),
    /// Delete all records.
    Clear,
    /// Report when all deletions so far are on disk.
    Settle(oneshot::Sender<()>),
    /// Release the file.
    Close(oneshot::Sender<()>),
}

/// The state shared with the thread.
pub(crate) struct Inner {
    pub(crate) name: Box<str>,
    pub(crate) file: File,
    pub(crate) geometry: Geometry,
    /// Bytes of the largest body.
    pub(crate) object: usize,
    /// Bytes that the index may take.
    pub(crate) most_index: usize,
    pub(crate) index: Mutex<Index>,
    pub(crate) counts: TierCounts,
    pub(crate) report: Report,
    /// A failure has been logged.
    pub(crate) is_troubled: AtomicBool,
    /// Responses are not written after this time.
    pub(crate) last_write: Mutex<Option<Instant>>,
}

impl Inner {
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        // No code panics between two changes that belong together.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }

    /// Logs that the disk fails: once, until it works again.
    pub(crate) fn trouble(&self, what: &str, error: &io::Error) {
        if !self.is_troubled.swap(true, Ordering::Relaxed) {
            let text = format!(
                "the cache `{}` cannot {what}: {error}; its responses are in memory only until that works again",
                self.name
            );
            (self.report)(&text);
        }
    }

    /// True if the file has been removed: its contents are obsolete, and nothing is added.
    pub(crate) fn is_removed(&self) -> bool {
        let links = self.file.metadata().map(|known| known.nlink());
        if links.is_ok_and(|links| links > 0) {
            return false;
        }
        let was_open = self.index().close();
        if was_open {
            let text = format!(
                "the file of the cache `{}` has been removed; its responses are in memory only until the server is restarted",
                self.name
            );
            (self.report)(&text);
        }
        true
    }
}
