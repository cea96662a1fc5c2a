//! Application processes: spawn, scale, lease, restart, recycle.
//!
//! This is the router's side of an application. A `Manager` on the control thread starts
//! prototypes through a [`Launcher`], has them fork workers, watches queues, deaths and deadlines; listen
//! threads hand requests to an `Application` and hold an `Exchange` for each until it is answered.
//!
//! What must never happen: a request that is neither answered nor refused; a request run twice; a worker
//! that waits for ever for a client; a slot given to a new request while a worker still uses it.

mod failure;
mod launcher;
mod spec;
mod spool;

pub use failure::StartFailure;
pub use launcher::{ExitStatus, LaunchFuture, LaunchRequest, Launched, Launcher, Level, LogSink};
pub use spec::{AppSpec, DEFAULT_MAX_BODY_SIZE, DEFAULT_QUEUE_LENGTH, Limits, Processes};
pub use spool::{Region, Spool, SpoolError};
