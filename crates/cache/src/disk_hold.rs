//! Holds back what stores have on disk, as long as nobody knows whether it has been purged elsewhere.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The switch, one for all stores of a server. While it is set nothing is read from disk; purges and what is written go on.
#[derive(Debug, Default)]
pub struct DiskHold(AtomicBool);

impl DiskHold {
    /// Sets it or takes it away; true if it was set before.
    pub fn set(&self, is_set: bool) -> bool {
        self.0.swap(is_set, Ordering::Relaxed)
    }
}

/// The switch that one store heeds.
#[derive(Debug, Default)]
pub(crate) struct Heeded(OnceLock<Arc<DiskHold>>);

impl Heeded {
    pub(crate) fn heed(&self, hold: &Arc<DiskHold>) {
        // There is one for all its life.
        let _ = self.0.set(Arc::clone(hold));
    }

    pub(crate) fn is_set(&self) -> bool {
        let hold = self.0.get();
        hold.is_some_and(|hold| hold.0.load(Ordering::Relaxed))
    }
}
