//! Work without a client: jobs of spoolers, kept on disk until they are delivered, and schedules, whose runs are such jobs.
//!
//! A job is a submitted request. It is stored before the submission is confirmed ([`Jobs::post`]), sent to its spooler's `pass` until that
//! answers 2xx, and removed only then: it is delivered at least once. A job that fails too often is kept as failed until an operator
//! decides. Owned by the router, whose server stores and delivers through it.
//!
//! | Module | holds |
//! |---|---|
//! | `queue` | the jobs of one spooler in memory: which is due, which has failed |
//! | `store` | the file, written by a thread of its own, many changes with one fsync |
//! | `state` | all queues and schedules, and what happens after a delivery |
//! | `jobs` | all spoolers: accepts jobs, and the loop that delivers them |
//! | `timing` | when a schedule is due, which of its runs were missed |
//! | `schedules` | the loop that makes a job of each run |
//! | `tending` | jobs as operators see them, and what they decide about failed ones |
//! | `delivery` | one delivery: a request over a connection of the server to itself |
//!
//! Must never: confirm a job before it is on disk, or remove one without having seen its answer.

#![forbid(unsafe_code)]

mod administration;
mod clock;
mod delivery;
mod jobs;
mod queue;
mod schedules;
mod state;
mod store;
mod timing;

pub use administration::{SpoolerStatus, Task};
pub use jobs::{JobEnvironment, JobRejection, Jobs, RunEnded, Running};
pub use queue::JobCounts;
pub use schedules::ScheduleStatus;
pub use store::{Charge, JobRequest, JobStoreError};
pub use timing::RunCounts;
