//! Saying where the application is, when a request does not come back (`tutti_worker::WHERE_SIGNAL`).
//!
//! Python's own `faulthandler` writes the stacks of all threads from within the signal handler, so also of one that is stuck
//! in C or in a loop that never looks for signals. Our handler writes whose they are, and calls it.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use pyo3::types::PyDict;
use tutti_worker::WHERE_SIGNAL;

/// The handler of `faulthandler`; 0 for none.
static FAULTHANDLER: AtomicUsize = AtomicUsize::new(0);

/// Installs the handlers, in a worker.
pub(crate) fn tell_on_signal(py: Python<'_>) -> PyResult<()> {
    let options = PyDict::new(py);
    // Standard error, whatever the application makes of `sys.stderr`.
    options.set_item("file", 2)?;
    options.set_item("all_threads", true)?;
    py.import("faulthandler")?
        .call_method("register", (WHERE_SIGNAL,), Some(&options))?;
    // SAFETY: a structure of numbers and a function address that may be 0.
    let mut theirs: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: only reads the present handler into a structure of ours.
    if unsafe { libc::sigaction(WHERE_SIGNAL, std::ptr::null(), &raw mut theirs) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    FAULTHANDLER.store(theirs.sa_sigaction, Ordering::Relaxed);
    let mut ours = theirs;
    ours.sa_sigaction = tell as extern "C" fn(i32) as usize;
    ours.sa_flags |= libc::SA_RESTART;
    // SAFETY: `tell` does only what a signal handler may.
    if unsafe { libc::sigaction(WHERE_SIGNAL, &raw const ours, std::ptr::null_mut()) } != 0 {
        return Err(std::io::Error::last_os_error().into());
    }
    Ok(())
}

extern "C" fn tell(signal: i32) {
    let mut line = [0u8; 64];
    let mut cursor = std::io::Cursor::new(&mut line[..]);
    // Formatting a number into memory that is there takes no lock and allocates nothing.
    let _ = writeln!(cursor, "process {} is at", std::process::id());
    let length = usize::try_from(cursor.position()).unwrap_or(0);
    // SAFETY: `write` may be called in a signal handler; the bytes are on this stack.
    unsafe { libc::write(2, line.as_ptr().cast(), length.min(line.len())) };
    let handler = FAULTHANDLER.load(Ordering::Relaxed);
    if handler != 0 {
        // SAFETY: the address is that of a handler without `SA_SIGINFO`, as `faulthandler` installs it.
        let handler: extern "C" fn(i32) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    }
}
