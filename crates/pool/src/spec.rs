//! The specification of one application: its options, and what else the pool must know.
//!
//! Built by the binary from the typed configuration; two equal specifications mean the same application, which is then kept over a change
//! of the configuration.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Map;
#[cfg(not(simulated))]
use tutti_config::model;
#[cfg(not(simulated))]
use tutti_options::Named;
use tutti_options::Options as _;
use tutti_options::application::Common;
pub use tutti_options::processes::{Abandoned, Limits, Processes, ScaledProcesses};
use tutti_options::types::Special;
use tutti_spool::SpoolPlace;
use tutti_wire::control::Start;

/// The configuration of one application, as the pool needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct AppSpec {
    /// Name in `/config/applications`.
    pub name: Arc<str>,
    /// `type` without a version, e.g. `php`.
    pub kind: String,
    /// Version of the chosen module; empty if there are no versions.
    pub version: String,
    /// JSON pointer of the application object, for errors: `/applications/NAME`.
    pub pointer: String,
    /// The options that every type has. Mules are not the pool's: they are removed here.
    pub common: Common,
    /// The options of its type.
    pub special: Special,
    /// Largest request body that can be spooled (`max_body_size` of `http`).
    pub max_body_size: u64,
    /// The folder of the spool file.
    pub spool: SpoolPlace,
}

/// Concurrent requests of one event loop unless `limits.concurrency` is set: enough for connections that mostly wait (WebSocket), while
/// each slot that was ever used costs the router half a kilobyte.
pub(crate) const DEFAULT_CONCURRENCY: NonZeroU32 = NonZeroU32::new(1024).unwrap();

/// Connections that the application may have taken over, for each of its threads, unless `limits.concurrency` is set: each costs two
/// sleeping threads.
pub(crate) const DEFAULT_TAKEN_OVER: NonZeroU32 = NonZeroU32::new(256).unwrap();

impl AppSpec {
    /// Makes the specification of a configured application. `max_body_size` is the largest of all parts of the configuration.
    #[cfg(not(simulated))]
    pub fn from_config(app: &model::Application, spool: SpoolPlace, max_body_size: u64) -> AppSpec {
        AppSpec {
            name: app.name.as_str().into(),
            kind: app.module.kind.clone(),
            version: app.module.version.clone(),
            pointer: app.pointer.as_str().to_owned(),
            common: Common {
                // They run beside the workers, and a change of them must not replace a worker.
                mules: Named::default(),
                ..app.common.clone()
            },
            special: app.special.clone(),
            max_body_size,
            spool,
        }
    }

    /// The start document for a host, without `threads` and `workers`, which only a router knows.
    pub fn start(&self) -> Start {
        let mut config = Map::new();
        self.common.write(&mut config);
        self.special.write(&mut config);
        Start {
            name: self.name.to_string(),
            kind: self.kind.clone(),
            config: config.into(),
            threads: None,
            workers: None,
            concurrency: self.concurrency(),
            worker_events: self.special.may_run_event_loops(),
            worker_threads: self.special.threads(),
            watch: self.watched(),
        }
    }

    /// Most concurrent requests of one worker, including connections that its application has taken over.
    pub(crate) fn concurrency(&self) -> NonZeroU32 {
        let default = if self.special.may_run_event_loops() {
            let own = self.special.event_loop_concurrency();
            own.unwrap_or(DEFAULT_CONCURRENCY)
        } else if self.special.may_take_over() {
            DEFAULT_TAKEN_OVER
        } else {
            return NonZeroU32::MIN;
        };
        self.common.limits.concurrency.unwrap_or(default)
    }

    /// The longest start of a prototype or worker.
    pub(crate) fn start_limit(&self) -> Duration {
        let limit = self.common.limits.start_timeout;
        match self.special.is_relayed() {
            // A host that gives up a start itself needs a moment to report that.
            true => limit + REPORT_TIME,
            false => limit,
        }
    }

    /// The files and folders whose change restarts the application, if that is configured.
    fn watched(&self) -> Vec<String> {
        if !self.common.watch {
            return Vec::new();
        }
        let mut paths = self.special.watched();
        paths.extend(self.common.working_directory.clone());
        paths.sort();
        paths.dedup();
        let texts = paths.iter().map(|path| path.to_string_lossy());
        texts.map(Into::into).collect()
    }

    /// True if the processes can be kept for the other specification: only their number, the limits that the server enforces, and the way
    /// requests are passed to them differ.
    pub fn has_same_processes(&self, other: &AppSpec) -> bool {
        let (ours, theirs) = (&self.common.limits, &other.common.limits);
        let mut limits = theirs.clone();
        // Options that the hosts implement themselves.
        limits.concurrency = ours.concurrency;
        if self.special.is_relayed() {
            limits.start_timeout = ours.start_timeout;
        }
        if self.special.reads_memory_limit() {
            limits.memory = ours.memory;
            limits.memory_max = ours.memory_max;
        }
        let adapted = AppSpec {
            common: Common {
                processes: other.common.processes,
                request_buffering: other.common.request_buffering,
                limits,
                ..self.common.clone()
            },
            ..self.clone()
        };
        adapted == *other
    }
}

/// Shortest time for which a process is idle before it may be ended: with `idle_timeout` 0, each request beyond the spare processes would
/// start one process and end one.
pub(crate) const SHORTEST_IDLE: Duration = Duration::from_secs(1);

/// The time to end a program after a failed start (SIGKILL after five seconds) and to send a message.
const REPORT_TIME: Duration = Duration::from_secs(10);

/// `settings.http.max_body_size` as documented for Unit: 8 MB.
pub const DEFAULT_MAX_BODY_SIZE: u64 = 8 * 1024 * 1024;

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tutti_options::table::{Opt, ValueKind};

    use super::*;

    fn spec(kind: &str, options: &Value) -> AppSpec {
        let mut application = json!({"type": kind});
        let members = application.as_object_mut().unwrap();
        members.extend(options.as_object().unwrap().clone());
        let text = json!({"applications": {"app": application}}).to_string();
        let document = tutti_config::parse(text.as_bytes()).unwrap();
        let context = tutti_config::ValidationContext::with_modules([(kind, "1")]);
        let config = tutti_config::validate(&document, &context).unwrap();
        AppSpec::from_config(
            &config.applications["app"],
            std::path::PathBuf::from("/").into(),
            0,
        )
    }

    /// A value of a number or switch that is not its default.
    fn other_value(row: &Opt) -> Option<Value> {
        let default: Value = serde_json::from_str(row.default).unwrap_or(Value::Null);
        let candidates = match row.kind {
            ValueKind::Boolean => [json!(true), json!(false)],
            ValueKind::Integer(least, _) | ValueKind::Size(least, _) => {
                [json!(least + 1), json!(least + 2)]
            }
            _ => return None,
        };
        candidates.into_iter().find(|value| *value != default)
    }

    #[test]
    fn every_number_and_switch_of_an_application_reaches_its_host() {
        let mut tried = 0;
        for row in Common::ROWS {
            let Some(value) = other_value(row) else {
                continue;
            };
            let start = spec("perl", &json!({"script": "/a", row.name: value})).start();
            assert_eq!(start.config[row.name], value, "{}", row.name);
            tried += 1;
        }
        for row in Limits::ROWS.iter().filter(|row| row.name != "shm") {
            let Some(value) = other_value(row) else {
                continue;
            };
            let options = json!({"script": "/a", "limits": {row.name: value}});
            let start = spec("perl", &options).start();
            assert_eq!(start.config["limits"][row.name], value, "{}", row.name);
            tried += 1;
        }
        assert!(tried >= 10, "{tried}");
    }

    #[test]
    fn limits_that_a_host_reads_itself_need_new_processes() {
        let java = |limits: Value| spec("java", &json!({"webapp": "/a.war", "limits": limits}));
        let perl = |limits: Value| spec("perl", &json!({"script": "/a", "limits": limits}));
        let memory = || json!({"memory": 1_000_000});
        assert!(perl(json!({})).has_same_processes(&perl(memory())));
        assert!(!java(json!({})).has_same_processes(&java(memory())));
        assert!(java(json!({})).has_same_processes(&java(json!({"timeout": 5}))));
        let node = |limits: Value| spec("node", &json!({"script": "/a.js", "limits": limits}));
        assert!(!node(json!({})).has_same_processes(&node(json!({"start_timeout": 5}))));
        assert!(perl(json!({})).has_same_processes(&perl(json!({"start_timeout": 5}))));
        assert!(!node(json!({})).has_same_processes(&node(json!({"concurrency": 5}))));
        let cgi = |limits: Value| spec("cgi", &json!({"root": "/cgi-bin", "limits": limits}));
        let memory_max = || json!({"memory_max": 1_000_000});
        assert!(!cgi(json!({})).has_same_processes(&cgi(memory_max())));
        assert!(perl(json!({})).has_same_processes(&perl(memory_max())));
    }

    #[test]
    fn a_worker_runs_one_script_at_a_time_unless_the_limits_say_otherwise() {
        let at_once = |kind: &str, options: Value| spec(kind, &options).concurrency().get();
        assert_eq!(at_once("cgi", json!({"root": "/r"})), 1);
        let limits = json!({"concurrency": 5});
        assert_eq!(at_once("cgi", json!({"root": "/r", "limits": limits})), 5);
        let default = DEFAULT_CONCURRENCY.get();
        assert_eq!(at_once("node", json!({"script": "/a.js"})), default);
    }

    #[test]
    fn changed_mules_restart_no_process() {
        let mules = json!({"script": "/a", "mules": {"m": {"command": ["run"]}}});
        let with = spec("perl", &mules);
        assert_eq!(with, spec("perl", &json!({"script": "/a"})));
    }
}
