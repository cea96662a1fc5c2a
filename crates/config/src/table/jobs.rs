//! Options of `spoolers` and `schedules`.

use std::collections::BTreeMap;
use std::time::Duration;

use tutti_options::mules::{COMMAND, StopSignal};
use tutti_options::table::{Names, Referent, Text, ValueKind};
use tutti_options::{Unread, options, words};

/// A time; beyond a year it would only be a mistake.
const PAUSE: ValueKind = ValueKind::Number(0.001, 31_536_000.0);

options! {
    /// Jobs that are kept on disk until they are delivered: a request that is passed to `spoolers/NAME` is stored and
    /// answered 202 at once, then sent to `pass` until it is answered 2xx
    pub struct SpoolerOptions: SPOOLER = "spooler" {
        /// Where jobs are delivered to
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond(), required()],
        /// Deliveries of a job at once
        concurrency: usize [kind(ValueKind::Integer(1, 1000)), beyond(), default("4"), unit("jobs")],
        /// Time for one delivery, from its beginning to the end of the answer; then it has failed
        timeout: Duration [kind(PAUSE), beyond(), default("300"), unit("seconds")],
        /// Deliveries of a job that may fail; then it is kept as failed and not tried again by itself
        max_attempts: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("16"), unit("deliveries")],
        /// Pause after the first failed delivery; doubled after each further one, and up to a fifth shorter, so that jobs
        /// that failed together are not tried together
        backoff: Duration [kind(PAUSE), beyond(), default("1"), unit("seconds")],
        /// Longest pause
        max_backoff: Duration [kind(PAUSE), beyond(), default("3600"), unit("seconds")],
        /// Jobs that are kept, failed ones included; more are answered 503
        max_jobs: usize [kind(ValueKind::Integer(1, 10_000_000)), beyond(), default("100000"), unit("jobs")],
        /// Bytes that they may have together, heads included; more are answered 503
        max_size: u64 [kind(ValueKind::Size(1, 1 << 40)), beyond(), default("1073741824"), unit("bytes")],
        /// Longest body of a job; else 413
        max_body_size: usize [kind(ValueKind::Size(0, 64 << 20)), beyond(), default("1048576"), unit("bytes")],
        /// How long failed jobs are kept; then they are removed, which the log tells
        keep_failed: Duration [kind(ValueKind::Number(0.0, 31_536_000.0)), beyond(), default("604800"), unit("seconds")],
    }
}

options! {
    /// At certain times a request that the server makes to itself (`pass`), or a command of an application (`command`)
    pub struct ScheduleOptions: SCHEDULE = "schedule", exactly_one ["cron", "every"] {
        /// When: minute, hour, day of the month, month and day of the week, as in crontab(5), or a name such as `@daily`
        cron: Unread [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// When: again and again with this time between two beginnings, first after this time
        every: Option<Duration> [kind(ValueKind::Number(1.0, 31_536_000.0)), beyond(), unit("seconds")],
        /// The time zone of `cron`, such as `Europe/Berlin`
        time_zone: String [kind(ValueKind::String(Text::NotEmpty)), beyond(), default("\"UTC\""), needs(&["cron"])],
        /// Where the request goes
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond()],
        /// Its method
        method: String [kind(ValueKind::String(Text::Word(&["GET", "POST", "PUT", "PATCH", "DELETE"]))), beyond(), default("\"POST\""), needs(&["pass"])],
        /// Its path and query
        uri: String [kind(ValueKind::String(Text::Target)), beyond(), default("\"/\""), needs(&["pass"])],
        /// The `Host` of it
        host: String [kind(ValueKind::String(Text::HostName)), beyond(), default("\"localhost\""), needs(&["pass"])],
        /// Its fields
        headers: Unread [kind(ValueKind::Map(Names::RequestHeader, &ValueKind::String(Text::Argument))), beyond(), needs(&["pass"])],
        /// Its body
        body: String [kind(ValueKind::String(Text::Any)), beyond(), default("\"\""), needs(&["pass"])],
        /// Instead of a request, a program and its arguments; no shell is between. A name without `/` is looked for in `PATH`, a
        /// relative path starts at the application's `working_directory`
        command: Option<Vec<String>> [kind(COMMAND), beyond(), needs(&["application"])],
        /// The application that it is a command of: as its user, in its environment, working directory and isolation
        application: Option<String> [kind(ValueKind::String(Text::Name(Referent::Application))), beyond(), needs(&["command"])],
        /// Environment variables of the command, added to those of the application
        environment: BTreeMap<String, String> [kind(ValueKind::Map(Names::Environment, &ValueKind::String(Text::Argument))), beyond(), needs(&["command"])],
        /// The signal that tells a command to end which goes on after `timeout`
        stop_signal: StopSignal [beyond(), default("\"TERM\""), needs(&["command"])],
        /// Time it may take to end then, until it is killed with all it has started
        stop_timeout: Duration [kind(ValueKind::Number(0.0, 86_400.0)), beyond(), default("30"), unit("seconds"), needs(&["command"])],
        /// Time for the whole answer, or for the command; then the run has failed
        timeout: Duration [kind(PAUSE), beyond(), default("300"), unit("seconds")],
        /// Runs that were due while the server was stopped or the clock was set: leave them out, or make up for all of them
        /// with one run. The log tells either way
        missed: Missed [beyond(), default("\"skip\"")],
    }
}

words! {
    /// The fate of runs that were missed.
    pub enum Missed {
        /// They are left out.
        Skip = "skip",
        /// One run makes up for them.
        RunOnce = "run_once",
    }
}
