//! The logs of requests, which get a line when one has ended: access logs, the slow log, the files and servers that lines go to; and counts by what answered.
//!
//! `server` tells a log of each request when it has ended; lines are collected for a thread and written before it sleeps. Knows no connection.
//!
//! Must never: hold up a request because a log cannot be written, or lose a line without counting it.

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
pub use finished::{Finished, SentAt};
pub use log_file::{LogFile, Lost, open_append};
pub use logs::{Logs, LostLines};
pub use recent::{Recent, SLOW};
pub use slow::{Phases, RequestTarget, SlowLogger, SlowRequest};
