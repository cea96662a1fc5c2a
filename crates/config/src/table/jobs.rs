//! Options of `spoolers` and `schedules`.

use std::collections::BTreeMap;
use std::time::Duration;

use tutti_options::mules::{COMMAND, StopSignal};
use tutti_options::table::{Names, Referent, Text, ValueKind};
use tutti_options::{Unread, options, words};

/// A time; more than a year is surely a mistake.
const PAUSE: ValueKind = ValueKind::Number(0.001, 31_536_000.0);

options! {
    /// Jobs that are kept on disk until they are delivered: a request that is passed to `spoolers/NAME` is stored and
    /// gets 202 at once, and is then sent to `pass` until the response is 2xx
    pub struct SpoolerOptions: SPOOLER = "spooler" {
        /// Where to deliver jobs
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond(), required()],
        /// Jobs to deliver at once
        concurrency: usize [kind(ValueKind::Integer(1, 1000)), beyond(), default("4"), unit("jobs")],
        /// Time for a delivery, until the response is complete; after that the delivery has failed
        timeout: Duration [kind(PAUSE), beyond(), default("300"), unit("seconds")],
        /// Failed deliveries after which a job is kept as failed and no longer retried automatically
        max_attempts: u32 [kind(ValueKind::Integer(1, 10_000)), beyond(), default("16"), unit("deliveries")],
        /// Pause after the first failed delivery; doubled after each further one, and shortened at random by up to a
        /// fifth, so that jobs that failed together are not retried together
        backoff: Duration [kind(PAUSE), beyond(), default("1"), unit("seconds")],
        /// Longest pause
        max_backoff: Duration [kind(PAUSE), beyond(), default("3600"), unit("seconds")],
        /// Maximum number of jobs, including failed ones; beyond that, requests get 503
        max_jobs: usize [kind(ValueKind::Integer(1, 10_000_000)), beyond(), default("100000"), unit("jobs")],
        /// Maximum total size of the jobs, including their heads; beyond that, requests get 503
        max_size: u64 [kind(ValueKind::Size(1, 1 << 40)), beyond(), default("1073741824"), unit("bytes")],
        /// Largest body of a job; larger ones get 413
        max_body_size: usize [kind(ValueKind::Size(0, 64 << 20)), beyond(), default("1048576"), unit("bytes")],
        /// Time for which failed jobs are kept; then they are removed, and the log says so
        keep_failed: Duration [kind(ValueKind::Number(0.0, 31_536_000.0)), beyond(), default("604800"), unit("seconds")],
    }
}

options! {
    /// A request that the server makes to itself (`pass`), or a command of an application (`command`), at certain times
    pub struct ScheduleOptions: SCHEDULE = "schedule", exactly_one ["cron", "every"] {
        /// The times: minute, hour, day of the month, month and day of the week, as in crontab(5), or a name such as
        /// `@daily`
        cron: Unread [kind(ValueKind::String(Text::NotEmpty)), beyond()],
        /// Time from the beginning of one run to the next; the first run is after this time
        every: Option<Duration> [kind(ValueKind::Number(1.0, 31_536_000.0)), beyond(), unit("seconds")],
        /// The time zone of `cron`, such as `Europe/Berlin`
        time_zone: String [kind(ValueKind::String(Text::NotEmpty)), beyond(), default("\"UTC\""), needs(&["cron"])],
        /// Where the request goes
        pass: Unread [kind(ValueKind::String(Text::Pass)), beyond()],
        /// Its method
        method: String [kind(ValueKind::String(Text::Word(&["GET", "POST", "PUT", "PATCH", "DELETE"]))), beyond(), default("\"POST\""), needs(&["pass"])],
        /// Its path and query
        uri: String [kind(ValueKind::String(Text::Target)), beyond(), default("\"/\""), needs(&["pass"])],
        /// The `Host` of the request
        host: String [kind(ValueKind::String(Text::HostName)), beyond(), default("\"localhost\""), needs(&["pass"])],
        /// Its fields
        headers: Unread [kind(ValueKind::Map(Names::RequestHeader, &ValueKind::String(Text::Argument))), beyond(), needs(&["pass"])],
        /// Its body
        body: String [kind(ValueKind::String(Text::Any)), beyond(), default("\"\""), needs(&["pass"])],
        /// A program and its arguments to run instead of a request, without a shell. A name without `/` is looked up in
        /// `PATH`; a relative path is relative to the application's `working_directory`
        command: Option<Vec<String>> [kind(COMMAND), beyond(), needs(&["application"])],
        /// The application that the command belongs to: it runs with its user, environment, working directory and
        /// isolation
        application: Option<String> [kind(ValueKind::String(Text::Name(Referent::Application))), beyond(), needs(&["command"])],
        /// Environment variables of the command, in addition to those of the application
        environment: BTreeMap<String, String> [kind(ValueKind::Map(Names::Environment, &ValueKind::String(Text::Argument))), beyond(), needs(&["command"])],
        /// Signal that stops a command when `timeout` is over
        stop_signal: StopSignal [beyond(), default("\"TERM\""), needs(&["command"])],
        /// Time to exit after that signal; then it is killed, with all processes it has started
        stop_timeout: Duration [kind(ValueKind::Number(0.0, 86_400.0)), beyond(), default("30"), unit("seconds"), needs(&["command"])],
        /// Time until the response is complete or the command ends; after that the run has failed
        timeout: Duration [kind(PAUSE), beyond(), default("300"), unit("seconds")],
        /// Runs that were due while the server was stopped, or that a change of the clock skipped: skip them, or make
        /// up for all of them with one run. They are logged either way
        missed: Missed [beyond(), default("\"skip\"")],
    }
}

words! {
    /// The treatment of missed runs.
    pub enum Missed {
        /// They are skipped.
        Skip = "skip",
        /// One run makes up for them.
        RunOnce = "run_once",
    }
}
