//! The logs of requests, which get a line after each: access logs, the slow log, the files and servers that lines go to; and counts by what
//! answered.
//!
//! `server` reports each finished request to a log; lines are collected per thread and written before it sleeps. Independent of
//! connections.
//!
//! Must never: delay a request because a log cannot be written, or lose a line without counting it.

#![forbid(unsafe_code)]

mod access_log;
mod counts;
mod finished;
mod log_file;
mod logs;
mod recent;
mod slow;

pub use access_log::{AccessLogger, AccessLogs, LogBuffer};
pub use counts::{Answerer, Answers, ResponseCounts};
pub use finished::{Finished, FinishedStream, SentAt};
pub use log_file::{LogFile, Lost};
pub use logs::{Logs, LostLines};
pub use recent::{Recent, SLOW};
pub use slow::{Phases, RequestTarget, SlowLogger, SlowRequest};
