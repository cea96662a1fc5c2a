//! Work without a request: jobs of spoolers, kept on disk until they are delivered, and schedules, whose runs are such jobs.
//!
//! A job is a request that somebody has handed in. It is stored before that one is told so ([`Jobs::post`]), sent to where its spooler
//! passes it until that answers 2xx, and removed only then: it is delivered at least once. What fails too often stays as failed until a
//! person decides. Owned by the router, whose server stores and delivers through it.
//!
//! | Module | holds |
//! |---|---|
//! | `queue` | the jobs of one spooler in memory: which is due, which has failed |
//! | `store` | the file, written by a thread of its own, many changes with one fsync |
//! | `state` | all queues and schedules, and what becomes of a job whose delivery has ended |
//! | `jobs` | all spoolers: the desk where jobs come in, and the loop that has them delivered |
//! | `timing` | when a schedule is due, which of its runs were missed |
//! | `schedules` | the loop that makes a job of each run |
//! | `tending` | jobs as people see them, and what they decide about failed ones |
//! | `delivery` | one delivery: a request over a connection of the server to itself |
//!
//! Must never: say that a job is stored before it is on disk, or remove one whose answer has not been seen.

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
pub use store::{JobRequest, JobStoreError};
pub use timing::RunCounts;
