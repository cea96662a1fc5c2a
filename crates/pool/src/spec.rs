//! The specification of one application: how many processes, which limits, which options.
//!
//! Built by the binary from the typed configuration; two equal specifications mean the same
//! application, which is then kept as it is over a change of configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tutti_config::model;
use tutti_options::processes as options;
pub use tutti_options::processes::Abandoned;
use tutti_spool::SpoolPlace;
use tutti_wire::control::Start;

/// The configuration of one application, as far as the pool is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct AppSpec {
    /// Name in `/config/applications`.
    pub name: Arc<str>,
    /// `type` as the language host knows it, e.g. `php` (without a version).
    pub kind: String,
    /// Version of the module that was chosen for it; empty where there are no versions.
    pub version: String,
    /// JSON pointer of the application object, for errors: `/applications/NAME`.
    pub pointer: String,
    /// The application object with defaults applied; handed to the host in the start document.
    pub options: serde_json::Value,
    /// How many worker processes.
    pub processes: Processes,
    /// Bounds on requests.
    pub limits: Limits,
    /// True if a request is handed over with its body whole; false: while the body comes.
    pub request_buffering: bool,
    /// Where the spool file is.
    pub spool: SpoolPlace,
    /// Options that the host itself acts on.
    pub host: HostOptions,
}

/// The part of the start document that every host understands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostOptions {
    /// Load the application before the first fork.
    pub preload: bool,
    /// Most requests at once in one worker of an event loop; 0: [`DEFAULT_CONCURRENCY`].
    pub concurrency: u32,
    /// Files and folders whose change restarts the application; empty: none is watched.
    pub watch: Vec<PathBuf>,
    /// Added to the environment.
    pub environment: BTreeMap<String, String>,
    /// Where to run.
    pub working_directory: Option<PathBuf>,
    /// File to append the output to.
    pub stdout: Option<PathBuf>,
    /// File to append errors to.
    pub stderr: Option<PathBuf>,
    /// Threads of a process that serve requests; 0 is 1.
    pub threads: u32,
    /// True if the host may run event loops, which are woken by events of their own.
    pub event_loop: bool,
    /// True if the application may take connections over, and serve other requests beside them.
    pub takes_over: bool,
    /// The host relays to a program that speaks HTTP and knows nothing of the server.
    pub relays: bool,
    /// The likely cure where a process never says that it is ready.
    pub unready_hint: Option<&'static str>,
}

impl HostOptions {
    /// Worker numbers of a process.
    pub(crate) fn numbers(&self) -> u32 {
        self.threads.max(1)
    }

    /// Most requests that one worker has at once, connections that its application has taken over included.
    pub(crate) fn concurrency(&self) -> u32 {
        match (self.event_loop, self.takes_over, self.concurrency) {
            (false, false, _) => 1,
            (true, _, 0) => DEFAULT_CONCURRENCY,
            (false, true, 0) => DEFAULT_TAKEN_OVER,
            (_, _, concurrency) => concurrency,
        }
    }
}

/// Requests that one event loop has at once unless `limits.concurrency` says otherwise: enough for connections that mostly
/// wait (WebSocket), while a slot for each costs the router half a kilobyte once that many have been there at once.
pub const DEFAULT_CONCURRENCY: u32 = 1024;

/// Connections that the application may have taken over for each of its threads, unless `limits.concurrency` says otherwise: each costs
/// two threads that sleep.
pub(crate) const DEFAULT_TAKEN_OVER: u32 = 256;

impl AppSpec {
    /// The specification of a configured application. `max_body_size` is that of `settings.http`.
    pub fn from_config(app: &model::Application, spool: SpoolPlace, max_body_size: u64) -> AppSpec {
        let (common, special) = (&app.common, &app.special);
        let limits = &common.limits;
        AppSpec {
            name: app.name.as_str().into(),
            kind: app.module.kind.clone(),
            version: app.module.version.clone(),
            pointer: app.pointer.as_str().to_owned(),
            options: app.start_config(),
            processes: match common.processes {
                options::Processes::Fixed(count) => Processes::Static(count),
                options::Processes::Scaled(scaled) => Processes::Dynamic {
                    max: scaled.max,
                    spare: scaled.spare,
                    idle_timeout: scaled.idle_timeout.max(SHORTEST_IDLE),
                },
            },
            limits: Limits {
                timeout: limits.timeout.0,
                queue_length: limits.queue.length,
                queue_wait: limits.queue.wait.0,
                abandoned: limits.queue.abandoned,
                max_body_size,
                requests: limits.requests.0.unwrap_or(0),
                memory: limits.memory.0,
                memory_max: limits.kill_above(),
                drain: limits.drain_timeout.0,
                // A host that gives up a start by itself gets a moment more to say so.
                start: match special.is_relayed() {
                    true => limits.start_timeout + TO_TELL,
                    false => limits.start_timeout,
                },
            },
            request_buffering: common.request_buffering,
            spool,
            host: HostOptions {
                preload: common.preload,
                concurrency: limits.concurrency.unwrap_or(0),
                watch: watched(app),
                environment: common.environment.clone(),
                working_directory: common.working_directory.clone(),
                stdout: common.stdout.clone(),
                stderr: common.stderr.clone(),
                threads: special.threads(),
                event_loop: special.may_run_event_loops(),
                takes_over: special.may_take_over(),
                relays: special.is_relayed(),
                unready_hint: special.unready_hint(),
            },
        }
    }
}

impl AppSpec {
    /// The document that a host is started with, but for the numbers that only a router knows: `threads` and `workers` are 0.
    pub fn start(&self) -> Start {
        let host = &self.host;
        let text = |path: &Option<PathBuf>| {
            path.as_ref()
                .map(|path| path.to_string_lossy().into_owned())
        };
        Start {
            name: self.name.to_string(),
            kind: self.kind.clone(),
            config: self.options.clone(),
            threads: 0,
            workers: 0,
            preload: host.preload,
            request_limit: 0,
            concurrency: host.concurrency(),
            worker_events: host.event_loop,
            worker_threads: host.numbers(),
            watch: host
                .watch
                .iter()
                .map(|path| path.to_string_lossy().into_owned())
                .collect(),
            environment: host.environment.clone(),
            working_directory: text(&host.working_directory),
            stdout: text(&host.stdout),
            stderr: text(&host.stderr),
        }
    }

    /// True if the processes of the one can go on as those of the other: nothing differs but how many there are, what bounds them
    /// from outside, and how requests are handed to them.
    pub fn has_same_processes(&self, other: &AppSpec) -> bool {
        let mut adapted = self.clone();
        adapted.processes = other.processes;
        adapted.request_buffering = other.request_buffering;
        adapted.limits = Limits {
            max_body_size: self.limits.max_body_size,
            // A host that relays acts on it itself.
            start: match self.host.relays {
                true => self.limits.start,
                false => other.limits.start,
            },
            ..other.limits.clone()
        };
        // The document a host is started with repeats them; what hosts act on has been compared.
        for member in ["processes", "limits", "request_buffering"] {
            if let (Some(ours), Some(theirs)) =
                (adapted.options.get_mut(member), other.options.get(member))
            {
                ours.clone_from(theirs);
            }
        }
        adapted == *other
    }
}

/// The files and folders whose change restarts an application; none unless it wants that.
fn watched(app: &model::Application) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    if app.common.watch {
        paths.extend(app.common.working_directory.clone());
        paths.extend(app.special.watched());
        paths.sort();
        paths.dedup();
    }
    paths
}

/// A process is idle for at least so long before it may be ended: with `idle_timeout` 0 each request beyond the spare
/// processes would start one and end one.
const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// For the end of a program that was given up (SIGKILL after five seconds) and a message.
const TO_TELL: Duration = Duration::from_secs(10);

/// How many workers an application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// Always this many.
    Static(u32),
    /// Between `spare` idle ones and `max` in all; one idle longer than `idle_timeout` beyond
    /// `spare` leaves.
    Dynamic {
        /// Most workers at any time.
        max: u32,
        /// Idle workers kept ready.
        spare: u32,
        /// How long a surplus worker may stay idle.
        idle_timeout: Duration,
    },
}

impl Processes {
    /// Most workers that may run at once in one set.
    pub fn max(&self) -> u32 {
        match *self {
            Processes::Static(count) => count.max(1),
            Processes::Dynamic { max, .. } => max.max(1),
        }
    }

    /// Workers that must be up before the application counts as started.
    pub fn initial(&self) -> u32 {
        match *self {
            Processes::Static(count) => count.max(1),
            Processes::Dynamic { max, spare, .. } => spare.min(max.max(1)),
        }
    }
}

/// Bounds on what requests may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time from arrival in the router to the end of the worker's work, queue included.
    pub timeout: Option<Duration>,
    /// Requests that may wait beyond those that hold a slot; more are refused with 503.
    pub queue_length: u32,
    /// Longest wait in the queue; more is refused with 503.
    pub queue_wait: Option<Duration>,
    /// The treatment of a request whose client leaves while it waits; by method if not given.
    pub abandoned: Option<Abandoned>,
    /// Largest request body that can be spooled.
    pub max_body_size: u64,
    /// Requests after which a worker leaves; 0 for never.
    pub requests: u64,
    /// Resident bytes beyond which a worker leaves after its request.
    pub memory: Option<u64>,
    /// Resident bytes beyond which a worker is killed.
    pub memory_max: Option<u64>,
    /// How long a worker that has been told to leave may take for the requests it has.
    pub drain: Option<Duration>,
    /// Longest start of a prototype or worker.
    pub start: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            timeout: None,
            queue_length: DEFAULT_QUEUE_LENGTH,
            queue_wait: None,
            abandoned: None,
            max_body_size: DEFAULT_MAX_BODY_SIZE,
            requests: 0,
            memory: None,
            memory_max: None,
            drain: Some(DEFAULT_DRAIN),
            start: DEFAULT_START,
        }
    }
}

/// Long enough for a slow report, short enough for a deployment to end.
pub(crate) const DEFAULT_DRAIN: Duration = Duration::from_secs(60);

/// Frameworks preloading on a cold disk take tens of seconds; one that takes longer hangs, and the client of a configuration
/// change wants to hear of it.
pub(crate) const DEFAULT_START: Duration = Duration::from_secs(60);

/// Twice the 10,000 connections that a small machine is meant to serve at once (P9): each may have one
/// request waiting, and a flood beyond that is told to come back rather than kept in memory.
pub const DEFAULT_QUEUE_LENGTH: u32 = 20_000;

/// `settings.http.max_body_size` as documented for Unit: 8 MB.
pub const DEFAULT_MAX_BODY_SIZE: u64 = 8 * 1024 * 1024;
