//! The first page: the alerts, rates, errors, latency and saturation, per application and per route, and the last hour.

use std::time::Duration;

use maud::{Markup, html};
use serde_json::Value;
use tutti_metrics::Alert;

use crate::graph::{Graph, draw};
use crate::markup::{
    self, bytes, bytes_a_second, errors, maybe, measured, plain, rate, seconds, time,
};
use crate::watch::{Number, Seen};
use crate::{alerts, numbers, running};

const GRAPHS: [Graph; 6] = [
    Graph {
        id: "graph-requests",
        title: "Requests per second",
        lines: &[
            ("all", Number::Requests),
            ("client errors (4xx)", Number::ClientErrors),
            ("server errors (5xx)", Number::ServerErrors),
        ],
        show: rate,
        is_bytes: false,
    },
    Graph {
        id: "graph-times",
        title: "Response time",
        lines: &[("p50", Number::Median), ("p99", Number::Slow)],
        show: seconds,
        is_bytes: false,
    },
    Graph {
        id: "graph-connections",
        title: "Client connections",
        lines: &[("active", Number::Active), ("idle", Number::Idle)],
        show: measured,
        is_bytes: false,
    },
    Graph {
        id: "graph-traffic",
        title: "Traffic",
        lines: &[("sent", Number::Sent), ("received", Number::Received)],
        show: bytes_a_second,
        is_bytes: true,
    },
    Graph {
        id: "graph-processes",
        title: "Workers",
        lines: &[
            ("running", Number::Running),
            ("busy", Number::Busy),
            ("backlog", Number::Queued),
        ],
        show: measured,
        is_bytes: false,
    },
    Graph {
        id: "graph-memory",
        title: "Memory",
        lines: &[("router and applications", Number::Memory)],
        show: bytes,
        is_bytes: true,
    },
];

/// The page's content.
pub(crate) fn content(seen: &Seen, alerts: &[Alert]) -> Markup {
    let last = |number| seen.points.back().and_then(|point| point.value(number));
    let status = seen.now.as_ref().map(|look| &look.status);
    let number = |pointer: &str| plain(status.and_then(|status| status.pointer(pointer)));
    let uptime = status
        .and_then(|status| status.pointer("/server/uptime"))
        .and_then(Value::as_u64);
    let text = |value: String| html! { (value) };
    let busy = last(Number::Busy).zip(last(Number::Running));
    let busy = busy.map(|(busy, running)| format!("{} of {}", measured(busy), measured(running)));
    let numbers = [
        ("Requests", text(maybe(last(Number::Requests), rate))),
        (
            "Server errors (5xx)",
            errors(last(Number::ServerErrors), last(Number::Requests)),
        ),
        (
            "p50 response time",
            text(maybe(last(Number::Median), seconds)),
        ),
        (
            "p99 response time",
            text(maybe(last(Number::Slow), seconds)),
        ),
        ("Busy workers", text(busy.unwrap_or_else(|| "–".to_owned()))),
        ("Backlog", text(maybe(last(Number::Queued), measured))),
        ("Memory", text(maybe(last(Number::Memory), bytes))),
        ("Active connections", text(number("/connections/active"))),
    ];
    let uptime = uptime.map(time);
    let server = [
        ("Version", number("/server/version")),
        ("Main process", number("/server/pid").replace('\u{a0}', "")),
        ("Uptime", uptime.unwrap_or_else(|| "–".to_owned())),
        ("Requests in total", number("/requests/total")),
        ("Idle connections", number("/connections/idle")),
        ("Languages", languages(status)),
    ];
    html! {
        (alerts::section(seen, alerts))
        section aria-labelledby="now" {
            h2 id="now" { "Now" }
            dl.numbers id="numbers" data-live {
                @for (name, value) in numbers { div { dt { (name) } dd { (value) } } }
            }
        }
        @if let Some(look) = &seen.now {
            (running::table("overview-applications", look, seen.before.as_deref()))
            (numbers::routes("overview-routes", look, seen.before.as_deref()))
        }
        section aria-labelledby="hour" {
            h2 id="hour" { "The last hour" }
            div.graphs {
                @for graph in &GRAPHS { (draw(graph, &seen.points, seen.points.back().map(|point| point.at))) }
            }
            details id="hour-table" {
                summary { "The last hour as a table" }
                (table(seen))
            }
        }
        section aria-labelledby="server" {
            h2 id="server" { "Server" }
            dl.facts id="facts" data-live {
                @for (name, value) in server { div { dt { (name) } dd { (value) } } }
            }
        }
    }
}

/// `php 8.2.1, python 3.11.2`
fn languages(status: Option<&Value>) -> String {
    let modules = status
        .into_iter()
        .flat_map(|status| markup::members(status, "/modules"));
    let versions = modules.flat_map(|(kind, module)| {
        let all = match module {
            Value::Array(all) => all.iter().collect(),
            one => vec![one],
        };
        let version = |one: &Value| plain(one.get("version"));
        all.into_iter()
            .map(move |one| format!("{kind} {}", version(one)))
    });
    let versions: Vec<String> = versions.collect();
    if versions.is_empty() {
        return "none".to_owned();
    }
    versions.join(", ")
}

/// Returns a row for each five minutes, the newest first.
fn table(seen: &Seen) -> Markup {
    const EVERY: usize = 30;
    let columns = [
        markup::words("Until"),
        markup::number("Requests"),
        markup::number("5xx"),
        markup::number("p99"),
        markup::number("Connections"),
        markup::number("Workers"),
        markup::number("Memory"),
    ];
    let newest = seen.points.back().map(|point| point.at);
    let rows: Vec<Vec<Markup>> = seen
        .points
        .iter()
        .rev()
        .step_by(EVERY)
        .map(|point| {
            let age = newest.map_or(Duration::ZERO, |newest| {
                newest.saturating_duration_since(point.at)
            });
            let time = seen
                .now
                .as_ref()
                .and_then(|look| look.time.checked_sub(age));
            let time = time.map(markup::clock).unwrap_or_default();
            let cells = [
                time,
                maybe(point.value(Number::Requests), rate),
                maybe(point.value(Number::ServerErrors), rate),
                maybe(point.value(Number::Slow), seconds),
                maybe(point.value(Number::Active), measured),
                maybe(point.value(Number::Running), measured),
                maybe(point.value(Number::Memory), bytes),
            ];
            cells.into_iter().map(|cell| html! { (cell) }).collect()
        })
        .collect();
    markup::table(
        "hour-rows",
        "The last ten seconds of every five minutes (UTC)",
        &columns,
        &rows,
    )
}
