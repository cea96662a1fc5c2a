//! Disables responses on disk while it is unknown whether another node has purged them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The switch, one for all stores of a server. While it is set, responses are not read from disk; purges and writes continue.
#[derive(Debug, Default)]
pub struct DiskHold(AtomicBool);

impl DiskHold {
    /// Sets or clears the switch; returns its former state.
    pub fn set(&self, is_set: bool) -> bool {
        self.0.swap(is_set, Ordering::Relaxed)
    }
}

/// The switch that one store checks.
#[derive(Debug, Default)]
pub(crate) struct Heeded(OnceLock<Arc<DiskHold>>);

impl Heeded {
    pub(crate) fn heed(&self, hold: &Arc<DiskHold>) {
        // A store gets its switch once.
        let _ = self.0.set(Arc::clone(hold));
    }

    pub(crate) fn is_set(&self) -> bool {
        let hold = self.0.get();
        hold.is_some_and(|hold| hold.0.load(Ordering::Relaxed))
    }
}
