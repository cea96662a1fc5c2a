//! The metric families, each declared once. The page, its formats and the table in `docs/operate/metrics.md` are
//! generated from this.

/// The behaviour of a family's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// They only grow, and begin at 0 when the counted object is created.
    Counter,
    /// They rise and fall.
    Gauge,
    /// Durations, in buckets.
    Histogram,
    /// Always 1: the information is in the labels.
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

/// The unit of a family's numbers, with which the family's name ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A plain count.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// Its name; `None` for a plain count.
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Seconds => Some("seconds"),
            Self::Bytes => Some("bytes"),
        }
    }
}

/// Series that differ only in their labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Family {
    /// The name, without the suffix of its kind.
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
    /// The suffix of its series in the text formats.
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
    CONFIGURATION_GENERATION = Gauge "tutti_configuration_generation" None [] "Configurations applied by this router since it started";
    CONFIGURATION_TIME = Gauge "tutti_configuration_last_change_timestamp_seconds" Seconds [] "When the current configuration was applied";
    CONFIGURATION_PROBLEMS = Gauge "tutti_configuration_problems" None [] "Parts of the stored configuration that are not in force; `tutti status` lists them";
    CERTIFICATE_EXPIRY = Gauge "tutti_certificate_expiry_timestamp_seconds" Seconds ["certificate"] "When the first certificate of a stored bundle expires";

    CONNECTIONS = Gauge "tutti_connections" None ["state"] "Open client connections: `active` have a request in progress, `idle` wait for one";
    CONNECTIONS_CLOSED = Counter "tutti_connections_closed" None [] "Closed client connections";
    CONNECTIONS_ACCEPTED = Counter "tutti_listener_connections" None ["listener"] "Client connections that a listener has accepted";
    CONNECTIONS_REFUSED = Counter "tutti_listener_refused_connections" None ["listener"] "Connections that a listener closed immediately because of `max_connections_per_client`";
    STREAMS = Counter "tutti_listener_stream_connections" None ["listener", "outcome"] "Connections of a listener with `stream`: `passed` to a server, `terminated` here, `closed` by a step or because none matched, `invalid` because they did not begin with a TLS message, `failed` because no server accepted them";
    STREAMS_OPEN = Gauge "tutti_listener_stream_open_connections" None ["listener"] "Connections of a listener that are being passed to a server";
    STREAM_BYTES = Counter "tutti_listener_stream_bytes" Bytes ["listener", "direction"] "Bytes of such connections: `received` from clients, and `sent` to them";
    DATAGRAMS_DROPPED = Counter "tutti_listener_dropped_datagrams" None ["listener", "reason"] "Datagrams of a UDP listener that were not passed on: `sessions` because the listener or the client had as many sessions as it may have, `size` because they were too long, `unsent` because a socket was full or too many waited for a server";
    HANDSHAKES = Counter "tutti_listener_tls_handshakes" None ["listener"] "Successful TLS handshakes";
    HANDSHAKES_FAILED = Counter "tutti_listener_tls_handshake_failures" None ["listener", "reason"] "Failed TLS handshakes: `timeout`, `closed` by the client, `plain` HTTP on a TLS port, `protocol` (versions, ciphers, certificates)";
    LISTENER_REQUESTS = Counter "tutti_listener_requests" None ["listener", "class"] "Requests on a listener, by status class";
    RECEIVED = Counter "tutti_received_bytes" Bytes [] "Bytes received from clients, including TLS";
    SENT = Counter "tutti_sent_bytes" Bytes [] "Bytes sent to clients, including TLS";
    HELD = Gauge "tutti_held_response_bytes" Bytes ["place"] "Parts of responses that slow clients have not received yet, in `memory`, in `encoders` and on `disk`";

    REQUESTS = Counter "tutti_requests" None ["action", "application", "upstream", "class"] "Requests by the action that answered them and by status class. `action`: `application`, `upstream`, `share`, `return`, `metrics`, `spooler`, `maintenance`, `cache`, or `none` for requests that were rejected earlier or match no route";
    LIMITED = Counter "tutti_limited_requests" None ["limit", "bound", "effect"] "Requests beyond a `limit`, by its place in the configuration, the `bound` (`rate`, `concurrent`) and the `effect` (`refused`, or `logged` with `dry_run`)";
    LIMIT_NODES = Gauge "tutti_limit_nodes" None [] "Nodes of the fleet that share limits, if any limit is shared";
    LIMIT_STORE_UP = Gauge "tutti_limit_store_up" None ["store"] "1 while a limit store responds";
    LIMIT_STORE_REQUESTS = Counter "tutti_limit_store_requests" None ["store", "outcome"] "Requests that a limit store has `counted`, and those for which it did not respond (`failed`)";
    UNAUTHENTICATED = Counter "tutti_unauthenticated_requests" None ["by"] "Requests rejected by `authenticate`, by method (`basic`, `jwt`, `forward`, `signed_link`)";
    ROUTE_REQUESTS = Counter "tutti_route_requests" None ["route", "class"] "Requests by the last route they went through, `routes` or `routes/NAME`, and by status class; requests without a route are not counted here";
    ROUTE_DURATION = Histogram "tutti_route_request_duration_seconds" Seconds ["route"] "Duration of requests as in `tutti_request_duration_seconds`, by the last route they went through";
    REQUEST_DURATION = Histogram "tutti_request_duration_seconds" Seconds ["action", "application", "upstream"] "Time from the first byte of a request until its response was complete, sent or buffered for the client";

    PROCESSES = Gauge "tutti_application_processes" None ["application", "state"] "Processes of an application: `busy` with a request, `idle`, or `starting`";
    APPLICATION_ACTIVE = Gauge "tutti_application_active_requests" None ["application"] "Requests passed to an application and not answered yet";
    APPLICATION_QUEUED = Gauge "tutti_application_queued_requests" None ["application"] "Those of them that wait in the backlog for a process";
    QUEUE_WAIT = Histogram "tutti_application_queue_wait_seconds" Seconds ["application"] "Time that requests waited in the backlog";
    APPLICATION_RESTARTS = Counter "tutti_application_restarts" None ["application"] "Processes replaced because they had died";
    APPLICATION_START_FAILURES = Counter "tutti_application_start_failures" None ["application"] "Failed starts of processes";
    PROCESS_ENDS = Counter "tutti_application_process_ends" None ["application", "reason"] "Processes that ended. `left`: by themselves, or after their maximum number of requests; `retired`: by the server, because they were surplus or replaced; `memory`: over `limits.memory` or `limits.memory_max`; `timeout`: over a time limit; `start`: before they were ready; `exit`: with a code other than 0; `killed`: by SIGKILL from outside, usually by the kernel because memory ran out; `signal`: a crash; `unknown`";
    APPLICATION_MEMORY = Gauge "tutti_application_resident_memory_bytes" Bytes ["application"] "Resident memory of an application's processes; shared memory counts for each process";

    MULE_PROCESSES = Gauge "tutti_mule_processes" None ["application", "mule", "state"] "Processes of a mule: `running`, `starting`, `stopping`, or `waiting` for a restart because they have ended";
    MULE_RESTARTS = Counter "tutti_mule_restarts" None ["application", "mule"] "Restarts of a mule's processes because they had ended or could not be started";
    MULE_MEMORY = Gauge "tutti_mule_resident_memory_bytes" Bytes ["application", "mule"] "Resident memory of a mule's processes and their children; shared memory counts for each process";

    UPSTREAM_UP = Gauge "tutti_upstream_server_up" None ["upstream", "server"] "1 if a server gets requests; with several addresses, the number of those that do";
    UPSTREAM_ACTIVE = Gauge "tutti_upstream_server_active_requests" None ["upstream", "server"] "Requests in progress on a server";
    UPSTREAM_REQUESTS = Counter "tutti_upstream_server_requests" None ["upstream", "server"] "Requests sent to a server; each retry counts";
    UPSTREAM_FAILURES = Counter "tutti_upstream_server_failures" None ["upstream", "server"] "Failed requests to a server";
    UPSTREAM_CHECKS = Counter "tutti_upstream_server_health_checks" None ["upstream", "server", "result"] "Health checks of a server that `passed` or `failed`";
    UPSTREAM_RETRIES = Counter "tutti_upstream_retries" None ["upstream"] "Requests retried on another server because the first failed";
    MIRRORED = Counter "tutti_upstream_mirrored_requests" None ["upstream", "result"] "Copies of requests (`mirror`): `answered`, `failed`, or `dropped` because of their limit";

    CACHE_REQUESTS = Counter "tutti_cache_requests" None ["cache", "result"] "Requests by the result of the cache lookup: `hit` (fresh), `stale` (used beyond its lifetime), `coalesced` (hits that waited for another request), `validated` (confirmed by the origin), `miss`, or `bypass`";
    CACHE_RESPONSES = Counter "tutti_cache_responses" None ["cache", "event"] "Responses that a store has `stored`, `evicted` for lack of memory, or `purged`";
    CACHE_SIZE = Gauge "tutti_cache_size_bytes" Bytes ["cache"] "Memory used by the responses in a store";
    CACHE_DISK_RESPONSES = Counter "tutti_cache_disk_responses" None ["cache", "event"] "Responses that the disk part of a store has `read`, `written` or `evicted` for lack of space, that could not be written (`failed`), or that were `damaged`";
    CACHE_DISK_SIZE = Gauge "tutti_cache_disk_size_bytes" Bytes ["cache"] "Size of the responses on disk";
    CACHE_DISK_ENTRIES = Gauge "tutti_cache_disk_entries" None ["cache"] "Responses on disk";
    CACHE_ENTRIES = Gauge "tutti_cache_entries" None ["cache"] "Responses in a store";

    SPOOLER_JOBS = Gauge "tutti_spooler_jobs" None ["spooler", "state"] "Jobs of a spooler: `waiting`, `delivering`, or `failed` for good";
    SPOOLER_SIZE = Gauge "tutti_spooler_size_bytes" Bytes ["spooler"] "Size of its jobs";
    SPOOLER_OLDEST = Gauge "tutti_spooler_oldest_job_seconds" Seconds ["spooler"] "Age of the oldest job that has neither been delivered nor failed for good; 0: none";
    SPOOLER_STORED = Counter "tutti_spooler_stored_jobs" None ["spooler"] "Stored jobs";
    SPOOLER_DELIVERIES = Counter "tutti_spooler_deliveries" None ["spooler", "result"] "Deliveries that succeeded (`delivered`) or `failed`; each retry counts";
    SPOOLER_GIVEN_UP = Counter "tutti_spooler_given_up_jobs" None ["spooler"] "Jobs that failed for good";
    SPOOLER_REFUSED = Counter "tutti_spooler_refused_jobs" None ["spooler"] "Jobs rejected with 503 because the spooler was full";

    SCHEDULE_RUNS = Counter "tutti_schedule_runs" None ["schedule", "result"] "Runs of a schedule: `succeeded`, `failed`, `skipped` because the previous run was still in progress, or `missed` because the server was stopped or the clock was set";
    SCHEDULE_RUNNING = Gauge "tutti_schedule_running" None ["schedule"] "1 while a run is in progress";
    SCHEDULE_NEXT = Gauge "tutti_schedule_next_run_timestamp_seconds" Seconds ["schedule"] "When the next run is due";

    SPANS = Counter "tutti_telemetry_spans" None ["result"] "Spans that were `exported` to the collector or `dropped`";

    LOG_LINES_LOST = Counter "tutti_log_lines_lost" None ["log"] "Log lines lost because the log could not be written: `daemon` (of the router), `access`, `slow`";

    CLOCK_JUMPS = Counter "tutti_clock_jumps" None ["direction"] "Steps of two seconds or more of the machine's time of day, `forward` or `back`";

    ROUTER_START = Gauge "tutti_router_start_timestamp_seconds" Seconds [] "When the process that handles requests started; its counters begin there";
    ROUTER_MEMORY = Gauge "tutti_router_resident_memory_bytes" Bytes [] "Resident memory of that process";
    ROUTER_PROCESSOR = Counter "tutti_router_cpu_seconds" Seconds [] "Processor time of that process";
    ROUTER_FILES = Gauge "tutti_router_open_files" None [] "Open file descriptors of that process";
    ROUTER_FILES_LIMIT = Gauge "tutti_router_open_files_limit" None [] "Maximum number of open file descriptors of that process";
}

/// The families as a table in Markdown.
pub fn table() -> String {
    let mut table = "| Family | Labels | Meaning |\n|---|---|---|\n".to_owned();
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
            assert!(seen.insert(name), "{name} is defined twice");
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
