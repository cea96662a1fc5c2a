//! The atomics and the futex word that the lock-free parts are written with.
//!
//! `queue`, `idle`, `slotmap` and `ring` take their atomics from here so that `loom` explores exactly the code that runs in production
//! (`--cfg loom`). Under loom a futex is a mutex and a condition variable that only [`Futex::wake`] signals, so a lost wake-up shows as a
//! deadlock. With `--cfg simulated` they are those of a simulated machine, where another process may run before each access.

#[cfg(not(any(loom, simulated)))]
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(simulated)]
pub(crate) use std::sync::atomic::Ordering;

#[cfg(simulated)]
pub(crate) use tutti_simulated::{AtomicU32, AtomicU64, fence};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// A word in shared memory that a process can sleep on.
#[cfg(not(loom))]
#[repr(transparent)]
#[derive(Debug)]
pub(crate) struct Futex(AtomicU32);

#[cfg(not(loom))]
impl Futex {
    /// A model that Miri runs owns it; otherwise it is a part of shared memory.
    #[cfg(all(test, miri))]
    pub(crate) fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The word itself.
    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.0
    }

    /// Sleeps while the word is `expected`. Returns on a wake-up, a signal, or at once when the word differs.
    #[cfg(not(simulated))]
    pub(crate) fn wait(&self, expected: u32) {
        tutti_sys::futex::wait(&self.0, expected);
    }

    #[cfg(simulated)]
    pub(crate) fn wait(&self, expected: u32) {
        tutti_simulated::wait(&self.0, expected);
    }

    /// Wakes all sleepers: one thread, or the two of a detached exchange.
    #[cfg(not(simulated))]
    pub(crate) fn wake(&self) {
        tutti_sys::futex::wake_all(&self.0);
    }

    #[cfg(simulated)]
    pub(crate) fn wake(&self) {
        tutti_simulated::wake(&self.0);
    }
}

/// The model of a futex word: sleeping is atomic with the comparison, and only `wake` ends it.
#[cfg(loom)]
#[derive(Debug)]
pub(crate) struct Futex {
    word: AtomicU32,
    lock: loom::sync::Mutex<()>,
    sleepers: loom::sync::Condvar,
}

#[cfg(loom)]
impl Futex {
    pub(crate) fn new() -> Self {
        Self {
            word: AtomicU32::new(0),
            lock: loom::sync::Mutex::new(()),
            sleepers: loom::sync::Condvar::new(),
        }
    }

    pub(crate) fn word(&self) -> &AtomicU32 {
        &self.word
    }

    pub(crate) fn wait(&self, expected: u32) {
        let Ok(guard) = self.lock.lock() else { return };
        if self.word.load(Ordering::SeqCst) == expected {
            drop(self.sleepers.wait(guard));
        }
    }

    pub(crate) fn wake(&self) {
        let guard = self.lock.lock();
        self.sleepers.notify_all();
        drop(guard);
    }
}
