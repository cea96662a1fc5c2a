//! Termination signals of a worker process: finish what is being done, then leave.
//!
//! A handler that only set a flag would lose a signal that arrives between the look at the flag and the sleep. So it also
//! notifies the worker's own wake word, which makes the kernel refuse the sleep.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::idle::NOTIFIED;
use crate::sync::Futex;

static STOP: AtomicBool = AtomicBool::new(false);
static WORD: AtomicPtr<Futex> = AtomicPtr::new(std::ptr::null_mut());

/// Whether a termination signal has arrived.
pub(crate) fn is_stopping() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Installs the handler for `signals`. The caller keeps `word` mapped until [`release`].
pub(crate) fn catch(word: &Futex, signals: &[i32]) -> io::Result<()> {
    WORD.store(std::ptr::from_ref(word).cast_mut(), Ordering::Release);
    for &signal in signals {
        // SAFETY: sigaction is a C struct for which all zeroes is a valid value (no flags, empty mask).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int) = on_signal;
        action.sa_sigaction = handler as usize;
        // SAFETY: `action` is initialised and outlives the call; the handler is async-signal-safe (atomics only) and, without
        // SA_SIGINFO, has the signature the kernel calls it with.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Forgets the word, before it is unmapped.
pub(crate) fn release() {
    WORD.store(std::ptr::null_mut(), Ordering::Release);
}

extern "C" fn on_signal(_signal: libc::c_int) {
    STOP.store(true, Ordering::Relaxed);
    let word = WORD.load(Ordering::Acquire);
    // SAFETY: null, or a word that `catch` was given and that stays mapped until `release`, which nulls it first.
    if let Some(word) = unsafe { word.as_ref() } {
        word.word().store(NOTIFIED, Ordering::Release);
    }
}
