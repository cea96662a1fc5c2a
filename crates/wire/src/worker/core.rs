//! The state that a worker and its exchanges share.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::descriptors::Descriptors;
use crate::idle::Idle;
use crate::interrupt;
use crate::layout::WorkerEntry;
use crate::pull::Field;
use crate::queue::Queue;
use crate::shared::Shared;
use crate::sync::{AtomicU32, AtomicU64, Futex, Ordering};

/// The state that a worker and its exchanges share, including detached ones, which other threads have.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) shared: Arc<Shared>,
    pub(super) id: u32,
    pub(super) descriptors: Arc<Descriptors>,
    /// True if the worker has an event loop.
    pub(super) is_loop: AtomicBool,
    /// True if the process survives an exchange that is dropped unfinished.
    pub(super) lives_on: AtomicBool,
    /// Open exchanges of an event loop; otherwise the detached ones.
    pub(super) open: AtomicU32,
}

impl Core {
    pub(super) fn entry(&self) -> Option<&WorkerEntry> {
        self.shared.worker(self.id)
    }

    /// Notifies the router thread that owns the slot.
    pub(super) fn complete(&self, slot: u32, thread: u32) {
        let Some(completions) = self.shared.completions(thread) else {
            return;
        };
        if completions.complete(slot)
            && let Some(event) = self.descriptors.threads.get(thread as usize)
        {
            let _ = rustix::io::write(event.as_fd(), &1u64.to_ne_bytes());
        }
    }
}

impl Field for Core {
    fn queue(&self) -> Option<Queue<'_>> {
        self.shared.queue()
    }

    fn idle(&self) -> Idle<'_> {
        self.shared.idle()
    }

    fn wake_word(&self, worker: u32) -> Option<&Futex> {
        self.shared.wake_word(worker)
    }

    fn state(&self, slot: u32) -> Option<&AtomicU64> {
        // About to be claimed: the swap of the state takes long enough for the data to arrive meanwhile.
        self.shared.prefetch_request(slot);
        self.shared.state(slot)
    }

    fn max_searching(&self) -> u32 {
        self.shared.max_searching()
    }

    fn ring(&self, worker: u32) {
        self.descriptors.ring(worker);
    }

    fn must_stop(&self) -> bool {
        interrupt::is_stopping()
            || self.entry().is_none_or(|entry| {
                let control = &entry.control;
                let limit = control.request_limit.load(Ordering::Relaxed);
                control.quit.load(Ordering::Relaxed) != 0
                    || (limit != 0 && entry.report.requests.load(Ordering::Relaxed) >= limit)
            })
    }
}
