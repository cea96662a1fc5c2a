//! Options of `spoolers`.

use std::time::Duration;

use tutti_options::options;
use tutti_options::table::{Kind, Text};

use tutti_options::Unread;

/// A time; beyond a year it would only be a mistake.
const PAUSE: Kind = Kind::Number(0.001, 31_536_000.0);

options! {
    /// Jobs that are kept on disk until they are delivered: a request that is passed to `spoolers/NAME` is stored and
    /// answered 202 at once, then sent to `pass` until it is answered 2xx
    pub struct SpoolerOptions: SPOOLER = "spooler" {
        /// Where jobs are delivered to
        pass: Unread [kind(Kind::String(Text::Pass)), beyond(), required()],
        /// Deliveries of a job at once
        concurrency: usize [kind(Kind::Integer(1, 1000)), beyond(), default("4"), unit("jobs")],
        /// Time for one delivery, from its beginning to the end of the answer; then it has failed
        timeout: Duration [kind(PAUSE), beyond(), default("300"), unit("seconds")],
        /// Deliveries of a job that may fail; then it is kept as failed and not tried again by itself
        max_attempts: u32 [kind(Kind::Integer(1, 10_000)), beyond(), default("16"), unit("deliveries")],
        /// Pause after the first failed delivery; doubled after each further one, and up to a fifth shorter, so that jobs
        /// that failed together are not tried together
        backoff: Duration [kind(PAUSE), beyond(), default("1"), unit("seconds")],
        /// Longest pause
        max_backoff: Duration [kind(PAUSE), beyond(), default("3600"), unit("seconds")],
        /// Jobs that are kept, failed ones included; more are answered 503
        max_jobs: usize [kind(Kind::Integer(1, 10_000_000)), beyond(), default("100000"), unit("jobs")],
        /// Bytes that they may have together, heads included; more are answered 503
        max_size: u64 [kind(Kind::Size(1, 1 << 40)), beyond(), default("1073741824"), unit("bytes")],
        /// Longest body of a job; else 413
        max_body_size: usize [kind(Kind::Size(0, 64 << 20)), beyond(), default("1048576"), unit("bytes")],
        /// How long failed jobs are kept; then they are removed, which the log tells
        keep_failed: Duration [kind(Kind::Number(0.0, 31_536_000.0)), beyond(), default("604800"), unit("seconds")],
    }
}
