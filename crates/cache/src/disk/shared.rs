//! The things that the thread has, and whoever gives it orders.

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

/// Tells of trouble, in a line for the log.
pub(crate) type Report = Box<dyn Fn(&str) + Send + Sync>;

/// An order to the thread.
pub(crate) enum Order {
    /// Write a response, if it is still wanted.
    Write(Arc<Stored>),
    /// These records are no more.
    Bury(Vec<Dead>),
    /// No record is any more.
    Clear,
    /// Say when all that was to be buried is on disk.
    Settle(oneshot::Sender<()>),
    /// Let go of the file.
    Close(oneshot::Sender<()>),
}

/// The part that the thread has, too.
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
    /// Trouble has been told of.
    pub(crate) is_troubled: AtomicBool,
    /// Nothing is written after this.
    pub(crate) last_write: Mutex<Option<Instant>>,
}

impl Inner {
    pub(crate) fn index(&self) -> MutexGuard<'_, Index> {
        // Nothing in there panics between two changes that belong together.
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(counter: &AtomicU64, by: usize) {
        counter.fetch_add(by as u64, Ordering::Relaxed);
    }

    /// The disk does not do what it should: told once, until it does again.
    pub(crate) fn trouble(&self, what: &str, error: &io::Error) {
        if !self.is_troubled.swap(true, Ordering::Relaxed) {
            let text = format!(
                "the cache `{}` cannot {what}: {error}; its responses are in memory only as long as that is so",
                self.name
            );
            (self.report)(&text);
        }
    }

    /// True if somebody has removed the file: what is in it is not wanted any more, and nothing is added.
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
