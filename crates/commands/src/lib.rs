//! Commands of applications: mules, which run all the time, and runs of schedules, which end.
//!
//! Each process of a command has a runner, which main starts as the application's user and in its isolation, and which minds the command
//! and all that it starts (`tutti_worker`). Owned by the router, which tells main to start runners and runners to stop.
//!
//! | Module | holds |
//! |---|---|
//! | `spec` | what is to be run, as the configuration says |
//! | `runner` | a runner as the router sees it |
//! | `pace` | how long to wait before a command is started again |
//! | `process` | one process of a mule: started, watched, started again, stopped |
//! | `mules` | all mules, and what a change of the configuration means for each |
//! | `run` | a command that is run once |
//!
//! Must never: start a process of a command beside one that is to be gone, or let the end of a command touch a request.

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
