//! Tasks, timers, readiness and processes as the pool sees them: those of tokio and the system, or of a simulated machine
//! (`--cfg simulated`).

#[cfg(not(simulated))]
pub(crate) use tokio::{
    io::unix::AsyncFd,
    spawn,
    task::AbortHandle,
    time::{sleep, sleep_until, timeout, timeout_at},
};
#[cfg(simulated)]
pub(crate) use tutti_simulated::{
    AbortHandle, AsyncFd, exists, sleep, sleep_until, spawn, timeout, timeout_at,
};
#[cfg(not(simulated))]
pub(crate) use tutti_sys::{proc::is_of, signal::exists};
pub(crate) use tutti_wire::now;

/// Simulated prototypes name only their own workers.
#[cfg(simulated)]
pub(crate) fn is_of(_pid: i32, _leader: i32) -> std::io::Result<bool> {
    Ok(true)
}
