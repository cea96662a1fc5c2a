//! Parts of `/status` as documented for Unit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use serde_json::{Map, Value, json};
use tutti_commands::Commands;
use tutti_config::{Diagnostic, Diagnostics};
use tutti_pool::{AppMeasures, OldRequest, StartFailure};
use tutti_protocol::{LanguageModule, RouterCounts};
use tutti_server::{CacheStatus, ServerHealth, ServerStatus, SharedListener};
use tutti_telemetry::SpanCounts;

use super::commands;

/// The facts in `/status`.
pub(super) struct Parts<'a> {
    pub(super) modules: &'a [LanguageModule],
    pub(super) totals: RouterCounts,
    pub(super) applications: Vec<(Arc<str>, AppMeasures)>,
    pub(super) commands: &'a Commands,
    pub(super) upstreams: Vec<(String, Vec<ServerStatus>)>,
    /// Listeners whose connections are not all read as HTTP.
    pub(super) streams: Vec<Arc<SharedListener>>,
    /// Removed ones of which connections are still open.
    pub(super) leaving: Vec<Arc<SharedListener>>,
    pub(super) problems: &'a Diagnostics,
    /// Jobs, if there are spoolers.
    pub(super) spoolers: Option<Value>,
    /// Runs, if there are schedules.
    pub(super) schedules: Option<Value>,
    /// Caches.
    pub(super) caches: Vec<CacheStatus>,
    /// Limits that several servers share.
    pub(super) limits: Option<Value>,
    /// Stores in which they are counted.
    pub(super) limit_stores: Option<Value>,
    /// The latest failed and the latest slow requests.
    pub(super) recent: [Vec<Value>; 2],
    /// Spans, if requests are or were traced.
    pub(super) telemetry: Option<SpanCounts>,
}

/// The whole of `/status`; `streams`, `upstreams`, `spoolers`, `schedules`, `cache`, `limits`, `limit_stores`, `recent_requests`, `telemetry` and
/// `problems` only if there are any.
pub(super) fn whole(parts: &Parts<'_>) -> Value {
    let applications = parts.applications.iter();
    let mut applications: Map<String, Value> = applications
        .map(|(name, measures)| (name.to_string(), application_status(measures)))
        .collect();
    commands::add_status(parts.commands, &mut applications);
    let totals = &parts.totals;
    let mut status = json!({
        "modules": modules_status(parts.modules),
        "connections": {
            "accepted": totals.accepted,
            "active": totals.active,
            "idle": totals.idle,
            "closed": totals.closed,
        },
        "requests": { "total": totals.requests },
        "applications": applications,
    });
    if !parts.streams.is_empty() || !parts.leaving.is_empty() {
        status["streams"] = streams_status(&parts.streams, &parts.leaving).into();
    }
    if !parts.upstreams.is_empty() {
        let upstreams = parts.upstreams.iter();
        status["upstreams"] = upstreams
            .map(|(name, servers)| (name.clone(), upstream_status(servers)))
            .collect::<Map<_, _>>()
            .into();
    }
    if let Some(spoolers) = &parts.spoolers {
        status["spoolers"] = spoolers.clone();
    }
    if let Some(schedules) = &parts.schedules {
        status["schedules"] = schedules.clone();
    }
    if !parts.caches.is_empty() {
        let caches = parts.caches.iter();
        status["cache"] = caches
            .map(|store| (store.name.clone(), cache_status(store)))
            .collect::<Map<_, _>>()
            .into();
    }
    if let Some(limits) = &parts.limits {
        status["limits"] = limits.clone();
    }
    if let Some(stores) = &parts.limit_stores {
        status["limit_stores"] = stores.clone();
    }
    let [failed, slow] = &parts.recent;
    if !failed.is_empty() || !slow.is_empty() {
        status["recent_requests"] = json!({ "failed": failed, "slow": slow });
    }
    if let Some(spans) = parts.telemetry {
        status["telemetry"] = json!({ "exported": spans.exported, "dropped": spans.dropped });
    }
    if !parts.problems.0.is_empty() {
        status["problems"] = parts.problems.0.iter().map(problem_status).collect();
    }
    status
}

/// Listeners with a stream. A removed one with open connections is `draining`; its name may belong to another one by now.
fn streams_status(
    streams: &[Arc<SharedListener>],
    leaving: &[Arc<SharedListener>],
) -> Map<String, Value> {
    let one =
        |listener: &Arc<SharedListener>| (listener.name().to_owned(), stream_status(listener));
    let mut status: Map<String, Value> = streams.iter().map(one).collect();
    for listener in leaving {
        let open = listener.counters.streams.open.load(Ordering::Relaxed);
        let shown = status.entry(listener.name());
        let shown = shown.or_insert_with(|| stream_status(listener));
        let before = shown["draining"].as_u64().unwrap_or(0);
        shown["draining"] = (before + open).into();
    }
    status
}

fn stream_status(listener: &SharedListener) -> Value {
    let counters = &listener.counters.streams;
    let outcomes = counters.outcomes();
    let outcomes: Map<String, Value> = outcomes
        .map(|(outcome, count)| (outcome.word().to_owned(), count.into()))
        .collect();
    let mut status = json!({
        "active": counters.open.load(Ordering::Relaxed),
        "connections": outcomes,
        "received": counters.received.load(Ordering::Relaxed),
        "sent": counters.sent.load(Ordering::Relaxed),
    });
    if listener.receives_datagrams() {
        let dropped = counters.dropped();
        status["dropped"] = dropped
            .map(|(reason, count)| (reason.word().to_owned(), count.into()))
            .collect::<Map<_, _>>()
            .into();
    }
    status
}

fn problem_status(fault: &Diagnostic) -> Value {
    json!({"pointer": fault.pointer.as_str(), "message": fault.detail()})
}

fn application_status(measures: &AppMeasures) -> Value {
    let status = &measures.status;
    let mut shown = json!({
        "processes": { "running": status.running, "starting": status.starting, "idle": status.idle },
        "started": status.started,
        "pids": measures.pids,
        "memory": measures.memory(),
        "requests": {
            "active": status.active,
            "queued": status.queued,
            "total": status.requests,
            "oldest": measures.oldest.iter().map(old_request).collect::<Vec<_>>(),
        },
        "restarts": status.restarts,
        "failures": {
            "total": status.failures,
            "last": status.last_failure.as_deref().map(failure_status),
        },
    });
    if status.stopped > 0 {
        shown["processes"]["stopped"] = status.stopped.into();
    }
    shown
}

/// One of `oldest`; its age in seconds, to the millisecond.
fn old_request(request: &OldRequest) -> Value {
    let age = request.age.as_millis() as f64 / 1000.0;
    json!({ "request": request.line, "pid": request.process, "age": age })
}

fn cache_status(store: &CacheStatus) -> Value {
    let object = |counts: &[(&'static str, u64)]| {
        let pairs = counts.iter();
        let pairs = pairs.map(|(name, count)| ((*name).to_owned(), Value::from(*count)));
        Value::Object(pairs.collect())
    };
    let mut status = json!({
        "memory": store.memory,
        "entries": store.entries,
        "requests": object(&store.requests),
        "responses": object(&store.responses),
    });
    if let Some(disk) = &store.disk {
        status["disk"] = json!({
            "open": disk.is_open,
            "held": store.is_disk_held,
            "size": disk.size,
            "entries": disk.entries,
            "responses": object(&disk.responses),
        });
    }
    status
}

fn upstream_status(servers: &[ServerStatus]) -> Value {
    let one = |server: &ServerStatus| {
        let mut status = json!({
            "state": match server {
                server if server.is_unresolved => "unresolved",
                server if server.is_up => "up",
                _ => "down",
            },
            "active": server.active,
            "requests": server.requests,
            "failures": server.failures,
        });
        if let Some(checks) = &server.checks {
            status["health_check"] = json!({
                "state": match checks.health {
                    ServerHealth::Unknown => "unknown",
                    ServerHealth::Passing => "passing",
                    ServerHealth::Failing => "failing",
                },
                "passed": checks.passed,
                "failed": checks.failed,
                "last_failure": checks.last_failure,
            });
        }
        if let Some(target) = &server.target {
            status["target"] = json!({
                "host": target.host.as_deref(),
                "priority": target.priority,
                "weight": target.weight,
            });
        }
        (server.name.clone(), status)
    };
    json!({ "servers": servers.iter().map(one).collect::<Map<_, _>>() })
}

/// A failed start without a successful one since.
fn failure_status(failure: &StartFailure) -> Value {
    json!({
        "pointer": failure.pointer,
        "step": failure.step,
        "message": failure.message,
        "hint": failure.hint,
        "output": failure.stderr,
    })
}

/// One object for a language with one version, an array for one with more: as documented for Unit.
fn modules_status(modules: &[LanguageModule]) -> Value {
    let mut by_kind: BTreeMap<&str, Vec<Value>> = BTreeMap::new();
    for module in modules {
        let entry = json!({ "version": module.version, "lib": module.path.to_string_lossy() });
        by_kind.entry(&module.kind).or_default().push(entry);
    }
    let single = |mut list: Vec<Value>| {
        if list.len() == 1 {
            list.remove(0)
        } else {
            Value::Array(list)
        }
    };
    by_kind
        .into_iter()
        .map(|(kind, list)| (kind.to_owned(), single(list)))
        .collect::<Map<_, _>>()
        .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn module(kind: &str, version: &str) -> LanguageModule {
        LanguageModule {
            kind: kind.into(),
            version: version.into(),
            path: format!("/m/{kind}{version}").into(),
            dependencies: Vec::new(),
            libraries: Vec::new(),
        }
    }

    #[test]
    fn several_versions_of_a_language_are_an_array() {
        let modules = [
            module("php", "8.2.1"),
            module("php", "8.3.0"),
            module("go", "1"),
        ];
        let expected = json!({
            "go": {"version": "1", "lib": "/m/go1"},
            "php": [{"version": "8.2.1", "lib": "/m/php8.2.1"}, {"version": "8.3.0", "lib": "/m/php8.3.0"}],
        });
        assert_eq!(modules_status(&modules), expected);
    }
}
