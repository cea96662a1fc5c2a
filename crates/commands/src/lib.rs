//! Commands of applications: mules, which run all the time, and runs of schedules, which end.
//!
//! Each process of a command has a runner, which main starts as the application's user and in its isolation, and which
//! supervises the command and its child processes (`tutti_worker`). Owned by the router, which asks main to start
//! runners and sends orders to them.
//!
//! | Module | holds |
//! |---|---|
//! | `spec` | the commands of a configuration |
//! | `runner` | a runner as the router sees it |
//! | `pace` | the pause before a command is restarted |
//! | `process` | one process of a mule: start, supervision, restart, stop |
//! | `mules` | all mules, and the effect of a configuration change on each |
//! | `run` | a command that is run once |
//!
//! Must never: start a process of a command beside one that should be gone, or let the end of a command affect a
//! request.

#![forbid(unsafe_code)]

mod mules;
mod pace;
mod process;
mod run;
mod runner;
mod spec;
#[cfg(test)]
mod tests;

pub use mules::{Commands, MuleStatus};
pub use process::{LastEnd, ProcessState, ProcessStatus};
pub use run::{RunFailure, RunResult};
pub use runner::{Around, RunnerError, StartFuture, StartRequest};
pub use spec::{CommandSpec, all};
