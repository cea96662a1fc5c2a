//! The processes that programs have left behind: a worker that starts programs is the one that they fall to.

use std::convert::Infallible;
use std::io;
use std::os::fd::AsFd;

use tutti_sys::signal::Signals;
use tutti_sys::{proc, process};

use crate::current::readable;

/// Reaps each child of this process that has ended, except the worker's own programs, which stay to be asked how they ended. `orphans`
/// reports the ends of children (SIGCHLD).
///
/// # Errors
/// The signals cannot be watched. Otherwise it never returns.
pub async fn reap_orphans(
    orphans: &Signals,
    is_own: impl Fn(i32) -> bool,
) -> io::Result<Infallible> {
    let told = readable(orphans.as_fd().try_clone_to_owned()?)?;
    loop {
        // The readiness is an edge.
        while orphans.next().is_some() {}
        for pid in proc::children(process::id()) {
            if !is_own(pid) {
                process::reap_one(pid);
            }
        }
        told.readable().await?.clear_ready();
    }
}
