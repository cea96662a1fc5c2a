//! Termination signals of a worker process: finish the current work, then end.
//!
//! A handler that only set a flag would lose a signal that arrives between the check of the flag and the sleep, and the signal interrupts
//! only one of several threads. So it also notifies the wake words of all the process's workers, which makes the kernel refuse the sleep,
//! or ends it.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use crate::descriptors::Descriptors;
use crate::forked;
use crate::idle::notify;
use crate::shared::Shared;

static STOP: AtomicBool = AtomicBool::new(false);
static WORKERS: AtomicPtr<Workers> = AtomicPtr::new(std::ptr::null_mut());

/// The workers of this process.
struct Workers {
    shared: Arc<Shared>,
    numbers: Range<u32>,
    descriptors: Arc<Descriptors>,
}

/// True if a termination signal has arrived.
pub(crate) fn is_stopping() -> bool {
    STOP.load(Ordering::Relaxed)
}

/// Ends all workers of this process gracefully, as a signal does.
pub(crate) fn stop() {
    STOP.store(true, Ordering::SeqCst);
    let workers = WORKERS.load(Ordering::Acquire);
    // SAFETY: null, or a value that `catch` has leaked: it is never freed or changed.
    let Some(workers) = (unsafe { workers.as_ref() }) else {
        return;
    };
    for number in workers.numbers.clone() {
        if let Some(word) = workers.shared.wake_word(number) {
            notify(word, || workers.descriptors.ring(number));
        }
    }
}

/// Installs the handler for `signals`, for the workers `numbers`. Until [`release`] these are the process's.
pub(crate) fn catch(
    shared: Arc<Shared>,
    numbers: Range<u32>,
    descriptors: Arc<Descriptors>,
    signals: &[i32],
) -> io::Result<()> {
    // Leaked, because the handler may be running in another thread at any time. Once per process.
    let workers = Box::leak(Box::new(Workers {
        shared,
        numbers,
        descriptors,
    }));
    WORKERS.store(workers, Ordering::Release);
    for &signal in signals {
        // SAFETY: sigaction is a C struct for which all zeroes is a valid value (no flags, empty mask).
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int) = on_signal;
        action.sa_sigaction = handler as usize;
        // SAFETY: `action` is initialised and outlives the call; the handler is async-signal-safe (atomics, futex(2) and
        // write(2) only) and, without SA_SIGINFO, has the signature the kernel calls it with.
        if unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        forked::note_handler(signal, handler as usize);
    }
    Ok(())
}

/// Forgets the workers: they have ended.
pub(crate) fn release() {
    WORKERS.store(std::ptr::null_mut(), Ordering::Release);
}

extern "C" fn on_signal(_signal: libc::c_int) {
    // The interrupted code may be about to read errno.
    // SAFETY: the address of this thread's errno is always valid.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: see above.
    let before = unsafe { *errno };
    stop();
    // SAFETY: see above.
    unsafe { *errno = before };
}
