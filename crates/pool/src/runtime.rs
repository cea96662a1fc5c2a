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
pub(crate) use tutti_sys::signal::exists;
pub(crate) use tutti_wire::now;
