//! "Where are you?" (`crates/worker`, `WHERE_SIGNAL`): a thread of the Java part waits for the question here and writes the answer.
//!
//! The handler only counts the question: no stack of Java's can be read from a signal handler.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::event::{EventfdFlags, eventfd};
use tutti_worker::WHERE_SIGNAL;

static QUESTIONS: OnceLock<OwnedFd> = OnceLock::new();
static DESCRIPTOR: AtomicI32 = AtomicI32::new(-1);

/// Installs the handler. To be called before the virtual machine starts, which leaves this signal alone.
pub(crate) fn catch() -> io::Result<()> {
    let questions = eventfd(0, EventfdFlags::CLOEXEC)?;
    DESCRIPTOR.store(questions.as_raw_fd(), Ordering::Relaxed);
    let _ = QUESTIONS.set(questions);
    // SAFETY: all zeros is a valid value of this C structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ask as *const () as usize;
    action.sa_flags = libc::SA_RESTART | libc::SA_ONSTACK;
    // SAFETY: the action is live, and its handler makes one system call.
    match unsafe { libc::sigaction(WHERE_SIGNAL, &raw const action, std::ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

extern "C" fn ask(_signal: libc::c_int) {
    let descriptor: RawFd = DESCRIPTOR.load(Ordering::Relaxed);
    let one = 1u64.to_ne_bytes();
    // SAFETY: errno of the thread that was interrupted.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: a live place of this thread.
    let before = unsafe { *errno };
    // SAFETY: eight bytes that are there; write(2) may be called in a signal handler.
    unsafe { libc::write(descriptor, one.as_ptr().cast(), one.len()) };
    // SAFETY: as above.
    unsafe { *errno = before };
}

/// Sleeps until the question is asked.
pub(crate) fn wait() {
    if let Some(questions) = QUESTIONS.get() {
        // A signal ends it early: the answer is written once too often then.
        let _ = rustix::io::read(questions, &mut [0; 8]);
    }
}
