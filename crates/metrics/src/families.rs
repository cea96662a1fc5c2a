//! The families: what a page may tell, each declared once. The page, its formats and the table in `docs/operate/metrics.md` are made from this.

/// The behaviour of a family's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// They only grow, and begin at 0 when what they count begins.
    Counter,
    /// They rise and fall.
    Gauge,
    /// Durations, in buckets.
    Histogram,
    /// Always 1: the labels tell it.
    Info,
}

impl MetricKind {
    /// Its name in the text formats.
    pub fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Info => "info",
        }
    }
}

/// The unit of a family's numbers. The family's name ends with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// They are counted.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Its name; `None` of what is only counted.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
        }
    }
}

/// Series that differ in their labels only.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, without the ending that its kind has.
    pub name: &'static str,
    /// The behaviour of its numbers.
    pub kind: MetricKind,
    /// Their unit.
    pub unit: Unit,
    /// The names of the labels.
    pub labels: &'static [&'static str],
    /// Its meaning, in one sentence without a full stop.
    pub help: &'static str,
}

impl Family {
    /// The ending that the names of its series have in the text formats.
    pub fn suffix(&self) -> &'static str {
        match self.kind {
            MetricKind::Counter => "_total",
            MetricKind::Info => "_info",
            MetricKind::Gauge | MetricKind::Histogram => "",
        }
    }
}

macro_rules! families {
    ($($constant:ident = $kind:ident $name:literal $unit:ident [$($label:literal),*] $help:literal;)*) => {
        /// A constant for each family.
        pub mod names {
            use super::{Family, MetricKind, Unit};
            $(
                #[doc = $help]
                pub const $constant: &Family = &Family {
                    name: $name,
                    kind: MetricKind::$kind,
                    unit: Unit::$unit,
                    labels: &[$($label),*],
                    help: $help,
                };
            )*
        }

        /// All families, in the order of a page.
        pub const ALL: &[&Family] = &[$(names::$constant),*];
    };
}

families! {
    BUILD = Info "tutti_build" None ["version"] "The version of the server";
    CONFIGURATION_GENERATION = Gauge "tutti_configuration_generation" None [] "Configurations that this router has put in force since it started";
    CONFIGURATION_TIME = Gauge "tutti_configuration_last_change_timestamp_seconds" Seconds [] "When the configuration in force was put in force";
    CONFIGURATION_PROBLEMS = Gauge "tutti_configuration_problems" None [] "Parts of the stored configuration that are not served; `tutti status` names them";
    CERTIFICATE_EXPIRY = Gauge "tutti_certificate_expiry_timestamp_seconds" Seconds ["certificate"] "When the first certificate of a stored bundle expires";

    CONNECTIONS = Gauge "tutti_connections" None ["state"] "Open client connections: `active` have a request under way, `idle` wait for one";
    CONNECTIONS_CLOSED = Counter "tutti_connections_closed" None [] "Client connections that have ended";
    CONNECTIONS_ACCEPTED = Counter "tutti_listener_connections" None ["listener"] "Client connections that a listener has taken";
    CONNECTIONS_REFUSED = Counter "tutti_listener_refused_connections" None ["listener"] "Connections that a listener has closed at once, because their client has `max_connections_per_client`";
    HANDSHAKES = Counter "tutti_listener_tls_handshakes" None ["listener"] "TLS handshakes that succeeded";
    HANDSHAKES_FAILED = Counter "tutti_listener_tls_handshake_failures" None ["listener", "reason"] "TLS handshakes that failed: `timeout`, `closed` by the client, `plain` HTTP on a TLS port, `protocol` (versions, ciphers, certificates)";
    LISTENER_REQUESTS = Counter "tutti_listener_requests" None ["listener", "class"] "Requests that came through a listener, by the class of their answer's status";
    RECEIVED = Counter "tutti_received_bytes" Bytes [] "Bytes that clients have sent, TLS included";
    SENT = Counter "tutti_sent_bytes" Bytes [] "Bytes that clients were sent, TLS included";
    HELD = Gauge "tutti_held_response_bytes" Bytes ["place"] "Parts of answers that slow clients have not taken, in `memory`, in `encoders` and on `disk`";

    REQUESTS = Counter "tutti_requests" None ["action", "application", "upstream", "class"] "Requests by what answered them and the class of the answer's status. `action`: `application`, `upstream`, `share`, `return`, `metrics`, `spooler`, `maintenance`, `cache`, or `none` for requests that were refused before or that no route takes";
    LIMITED = Counter "tutti_limited_requests" None ["limit", "bound", "effect"] "Requests beyond a `limit`, by its place in the configuration, the `bound` (`rate`, `concurrent`) and the `effect` (`refused`, or `logged` with `dry_run`)";
    LIMIT_NODES = Gauge "tutti_limit_nodes" None [] "Nodes of the fleet that share limits, where a limit is shared";
    LIMIT_STORE_UP = Gauge "tutti_limit_store_up" None ["store"] "1 while a store of limits answers";
    LIMIT_STORE_REQUESTS = Counter "tutti_limit_store_requests" None ["store", "outcome"] "Requests that a store of limits has `counted`, and those for which there was no answer (`failed`)";
    UNAUTHENTICATED = Counter "tutti_unauthenticated_requests" None ["by"] "Requests that `authenticate` has not let in, by the kind (`basic`, `jwt`, `forward`)";
    ROUTE_REQUESTS = Counter "tutti_route_requests" None ["route", "class"] "Requests by the route that was looked in last, `routes` or `routes/NAME`, and the class of the answer's status; those that no route was asked for are not here";
    ROUTE_DURATION = Histogram "tutti_route_request_duration_seconds" Seconds ["route"] "The same time of requests as in `tutti_request_duration_seconds`, by the route that was looked in last";
    REQUEST_DURATION = Histogram "tutti_request_duration_seconds" Seconds ["action", "application", "upstream"] "Time from the first byte of a request until its answer was complete, on its way to the client or waiting for it";

    PROCESSES = Gauge "tutti_application_processes" None ["application", "state"] "Processes of an application: `busy` with a request, `idle`, or `starting`";
    APPLICATION_ACTIVE = Gauge "tutti_application_active_requests" None ["application"] "Requests that an application has taken and not answered yet";
    APPLICATION_QUEUED = Gauge "tutti_application_queued_requests" None ["application"] "Requests among those that no process has begun";
    QUEUE_WAIT = Histogram "tutti_application_queue_wait_seconds" Seconds ["application"] "Time that requests waited before a process began them";
    APPLICATION_RESTARTS = Counter "tutti_application_restarts" None ["application"] "Processes that were replaced because they had died";
    APPLICATION_START_FAILURES = Counter "tutti_application_start_failures" None ["application"] "Starts of a process that failed";
    PROCESS_ENDS = Counter "tutti_application_process_ends" None ["application", "reason"] "Processes that ended. `left`: by themselves, or after their maximum number of requests; `retired`: by the server, because they were surplus or replaced; `memory`: over `limits.memory` or `limits.memory_max`; `timeout`: over a time limit; `start`: before they were ready; `exit`: with a code other than 0; `killed`: by SIGKILL from outside, mostly by the kernel because memory ran out; `signal`: a crash; `unknown`";
    APPLICATION_MEMORY = Gauge "tutti_application_resident_memory_bytes" Bytes ["application"] "Memory of an application's processes; what they share counts for each";

    MULE_PROCESSES = Gauge "tutti_mule_processes" None ["application", "mule", "state"] "Processes of a mule: `running`, `starting`, `stopping`, or `waiting` to be started again because they have ended";
    MULE_RESTARTS = Counter "tutti_mule_restarts" None ["application", "mule"] "Processes of a mule that were started again because they had ended or could not be started";
    MULE_MEMORY = Gauge "tutti_mule_resident_memory_bytes" Bytes ["application", "mule"] "Memory of a mule's processes and of what they have started; what they share counts for each";

    UPSTREAM_UP = Gauge "tutti_upstream_server_up" None ["upstream", "server"] "1 if a server gets requests; with several addresses, how many of them do";
    UPSTREAM_ACTIVE = Gauge "tutti_upstream_server_active_requests" None ["upstream", "server"] "Requests that a server has now";
    UPSTREAM_REQUESTS = Counter "tutti_upstream_server_requests" None ["upstream", "server"] "Requests that a server was given; a request that is tried again counts each time";
    UPSTREAM_FAILURES = Counter "tutti_upstream_server_failures" None ["upstream", "server"] "Requests that a server did not answer as it should";
    UPSTREAM_CHECKS = Counter "tutti_upstream_server_health_checks" None ["upstream", "server", "result"] "Health checks of a server that `passed` or `failed`";
    UPSTREAM_RETRIES = Counter "tutti_upstream_retries" None ["upstream"] "Requests that were sent to another server because the first failed";
    MIRRORED = Counter "tutti_upstream_mirrored_requests" None ["upstream", "result"] "Copies of requests (`mirror`): `answered`, `failed`, or `dropped` because there was no room for them";

    CACHE_REQUESTS = Counter "tutti_cache_requests" None ["cache", "result"] "Requests by what a store of responses had for them: `hit` (fresh), `stale` (used beyond its lifetime), `coalesced` (hits that have waited for another request), `validated` (the origin said that it is still valid), `miss`, or `bypass`";
    CACHE_RESPONSES = Counter "tutti_cache_responses" None ["cache", "event"] "Responses that a store has `stored`, `evicted` for want of memory, or that were `purged`";
    CACHE_SIZE = Gauge "tutti_cache_size_bytes" Bytes ["cache"] "Memory of the responses in a store";
    CACHE_DISK_RESPONSES = Counter "tutti_cache_disk_responses" None ["cache", "event"] "Responses that the part of a store on disk has `read`, `written` or `evicted` for want of room, that could not be written (`failed`), or that were `damaged`";
    CACHE_DISK_SIZE = Gauge "tutti_cache_disk_size_bytes" Bytes ["cache"] "Responses on disk, in bytes";
    CACHE_DISK_ENTRIES = Gauge "tutti_cache_disk_entries" None ["cache"] "Responses on disk";
    CACHE_ENTRIES = Gauge "tutti_cache_entries" None ["cache"] "Responses in a store";

    SPOOLER_JOBS = Gauge "tutti_spooler_jobs" None ["spooler", "state"] "Jobs of a spooler: `waiting`, `delivering`, or `failed` for good";
    SPOOLER_SIZE = Gauge "tutti_spooler_size_bytes" Bytes ["spooler"] "Bytes of its jobs";
    SPOOLER_OLDEST = Gauge "tutti_spooler_oldest_job_seconds" Seconds ["spooler"] "Age of the oldest job that was neither delivered nor given up; 0: there is none";
    SPOOLER_STORED = Counter "tutti_spooler_stored_jobs" None ["spooler"] "Jobs that were stored";
    SPOOLER_DELIVERIES = Counter "tutti_spooler_deliveries" None ["spooler", "result"] "Deliveries that succeeded (`delivered`) or `failed`; a job that is tried again counts each time";
    SPOOLER_GIVEN_UP = Counter "tutti_spooler_given_up_jobs" None ["spooler"] "Jobs that failed for good";
    SPOOLER_REFUSED = Counter "tutti_spooler_refused_jobs" None ["spooler"] "Jobs that were answered 503 because the spooler had no room";

    SCHEDULE_RUNS = Counter "tutti_schedule_runs" None ["schedule", "result"] "Runs of a schedule: `succeeded`, `failed`, `skipped` because the one before went on, or `missed` because the server did not run or the clock was set";
    SCHEDULE_RUNNING = Gauge "tutti_schedule_running" None ["schedule"] "1 while a run goes on";
    SCHEDULE_NEXT = Gauge "tutti_schedule_next_run_timestamp_seconds" Seconds ["schedule"] "When the next run is due";

    SPANS = Counter "tutti_telemetry_spans" None ["result"] "Spans that were `exported` to the collector or `dropped`";

    LOG_LINES_LOST = Counter "tutti_log_lines_lost" None ["log"] "Lines that a log lost because it could not be written: `daemon` (of the router), `access`, `slow`";

    CLOCK_JUMPS = Counter "tutti_clock_jumps" None ["direction"] "Steps of two seconds or more of the machine's time of day, `forward` or `back`";

    ROUTER_START = Gauge "tutti_router_start_timestamp_seconds" Seconds [] "When the process that serves requests was started; its counters begin there";
    ROUTER_MEMORY = Gauge "tutti_router_resident_memory_bytes" Bytes [] "Memory of that process";
    ROUTER_PROCESSOR = Counter "tutti_router_cpu_seconds" Seconds [] "Processor time of that process";
    ROUTER_FILES = Gauge "tutti_router_open_files" None [] "File descriptors that it has open";
    ROUTER_FILES_LIMIT = Gauge "tutti_router_open_files_limit" None [] "How many it may have open";
}

/// The families as a table in Markdown.
pub fn table() -> String {
    let mut table = "| family | labels | tells |\n|---|---|---|\n".to_owned();
    for family in ALL {
        let labels: Vec<String> = family.labels.iter().map(|one| format!("`{one}`")).collect();
        let kind = family.kind.word();
        table.push_str(&format!(
            "| `{}`, {kind} | {} | {} |\n",
            family.name,
            labels.join(", "),
            family.help
        ));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_prometheus_and_openmetrics_wish() {
        let mut seen = std::collections::BTreeSet::new();
        for family in ALL {
            let name = family.name;
            assert!(seen.insert(name), "{name} is there twice");
            let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte == b'_';
            assert!(name.starts_with("tutti_") && name.bytes().all(is_plain));
            for ending in ["_total", "_info", "_count", "_sum", "_bucket"] {
                assert!(!name.ends_with(ending), "{name}");
            }
            if let Some(unit) = family.unit.word() {
                assert!(name.ends_with(&format!("_{unit}")), "{name}");
            }
            assert!(!family.help.ends_with('.'), "{name}");
        }
    }
}
