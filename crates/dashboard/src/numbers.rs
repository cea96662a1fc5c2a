//! Traffic, and a page with all numbers, including those that no other page has.

use maud::{Markup, html};
use serde_json::Value;
use tutti_config::Document;
use tutti_config::TreeNode;

use crate::markup::{
    Mood, errors, maybe, members, number, plain, rate, seconds, state, table, words,
};
use crate::watch::{Look, ROUTES, Seen};

/// Maximum rows of a table on the page with all numbers.
const MOST_ROWS: usize = 2000;

/// Listeners, routes, responses and upstreams.
pub(crate) fn traffic(seen: &Seen, document: &Document) -> Markup {
    let Some(look) = &seen.now else {
        return html! {};
    };
    let before = seen.before.as_deref();
    html! {
        (listeners(look, before, document))
        section aria-labelledby="routes-heading" {
            h2 id="routes-heading" { "Routes" }
            (routes("routes", look, before))
        }
        (actions(look, before))
        (upstreams(look, before))
    }
}

fn rate_of(look: &Look, before: Option<&Look>, family: &str, labels: &[(&str, &str)]) -> Markup {
    let value = before.and_then(|before| {
        let time = look.at.saturating_duration_since(before.at);
        look.readings.rate(&before.readings, time, family, labels)
    });
    html! { (maybe(value, rate)) }
}

fn listeners(look: &Look, before: Option<&Look>, document: &Document) -> Markup {
    let columns = [
        words("Listener"),
        words("Passes to"),
        words("TLS"),
        number("Connections"),
        number("Failed handshakes"),
        number("Requests"),
        number("4xx"),
        number("5xx"),
    ];
    let listeners = document.root().child("listeners");
    let rows: Vec<Vec<Markup>> = listeners
        .into_iter()
        .flat_map(TreeNode::members)
        .map(|member| {
            let labels = [("listener", &*member.name)];
            let pass = member.node.child("pass").or_else(|| member.node.child("application"));
            let count = |family: &str| html! { (plain(Some(&(look.readings.sum(family, &labels) as u64).into()))) };
            let requests = |class: Option<&str>| {
                let mut labels = labels.to_vec();
                labels.extend(class.map(|class| ("class", class)));
                rate_of(look, before, "tutti_listener_requests_total", &labels)
            };
            vec![
                html! { (member.name) },
                html! { (pass.and_then(TreeNode::as_str).unwrap_or("–")) },
                html! { @if member.node.child("tls").is_some() { "yes" } @else { "no" } },
                count("tutti_listener_connections_total"),
                count("tutti_listener_tls_handshake_failures_total"),
                requests(None),
                requests(Some("4xx")),
                requests(Some("5xx")),
            ]
        })
        .collect();
    html! {
        section aria-labelledby="listeners-heading" {
            h2 id="listeners-heading" { "Listeners" }
            @if rows.is_empty() { p.note { "There are no listeners." } }
            @else { (table("listeners", "Listeners: connections since the start, requests per second", &columns, &rows)) }
        }
    }
}

/// Returns a row for each route; a request counts for the last route it reached.
pub(crate) fn routes(id: &str, look: &Look, before: Option<&Look>) -> Markup {
    let columns = [
        words("Route"),
        number("Requests"),
        number("4xx"),
        number("5xx"),
        number("p50"),
        number("p99"),
    ];
    let row = |name: &str| {
        let rates = look.rates(before, &ROUTES, name);
        vec![
            html! { (name) },
            html! { (maybe(rates.requests, rate)) },
            html! { (maybe(rates.client_errors, rate)) },
            errors(rates.server_errors, rates.requests),
            html! { (maybe(rates.median, seconds)) },
            html! { (maybe(rates.slow, seconds)) },
        ]
    };
    let names = look
        .readings
        .values_of("tutti_route_requests_total", "route");
    let rows: Vec<Vec<Markup>> = names.into_iter().map(row).collect();
    html! {
        @if rows.is_empty() { p.note { "There are no routes." } }
        @else { (table(id, "Routes: requests per second, response times", &columns, &rows)) }
    }
}

/// The values of the label `action`, and their names here.
const ACTIONS: [(&str, &str); 9] = [
    ("application", "Applications"),
    ("upstream", "Upstreams and proxies"),
    ("share", "Files"),
    ("cache", "Cache"),
    ("return", "Fixed responses"),
    ("spooler", "Spoolers"),
    ("metrics", "Metrics"),
    ("maintenance", "Maintenance"),
    ("none", "Rejected, or without a route"),
];

fn actions(look: &Look, before: Option<&Look>) -> Markup {
    let columns = [
        words("Served by"),
        number("Requests in total"),
        number("Requests"),
        number("2xx"),
        number("3xx"),
        number("4xx"),
        number("5xx"),
    ];
    let rows: Vec<Vec<Markup>> = ACTIONS
        .into_iter()
        .map(|(action, name)| {
            let total = look
                .readings
                .sum("tutti_requests_total", &[("action", action)]) as u64;
            let mut row = vec![html! { (name) }, html! { (plain(Some(&total.into()))) }];
            row.push(rate_of(
                look,
                before,
                "tutti_requests_total",
                &[("action", action)],
            ));
            for class in ["2xx", "3xx", "4xx", "5xx"] {
                let labels = [("action", action), ("class", class)];
                row.push(rate_of(look, before, "tutti_requests_total", &labels));
            }
            row
        })
        .collect();
    html! {
        section aria-labelledby="actions-heading" {
            h2 id="actions-heading" { "Responses" }
            (table("actions", "Responses by what served them, per second", &columns, &rows))
        }
    }
}

fn upstreams(look: &Look, before: Option<&Look>) -> Markup {
    let columns = [
        words("Server"),
        words("Upstream"),
        words("State"),
        number("Active"),
        number("Requests"),
        number("Requests in total"),
        number("Failures"),
        words("Health check"),
    ];
    let mut rows = Vec::new();
    for (upstream, status) in members(&look.status, "/upstreams") {
        for (server, status) in members(status, "/servers") {
            let labels = [("upstream", upstream.as_str()), ("server", server.as_str())];
            let word = status
                .get("state")
                .and_then(Value::as_str)
                .unwrap_or("unknown");
            let (word, mood) = match word {
                "up" => ("healthy", Mood::Good),
                other => (other, Mood::Bad),
            };
            rows.push(vec![
                html! { (server) },
                html! { (upstream) },
                state(word, mood),
                html! { (plain(status.get("active"))) },
                rate_of(
                    look,
                    before,
                    "tutti_upstream_server_requests_total",
                    &labels,
                ),
                html! { (plain(status.get("requests"))) },
                html! { (plain(status.get("failures"))) },
                health(status.get("health_check")),
            ]);
        }
    }
    html! {
        section aria-labelledby="upstreams-heading" {
            h2 id="upstreams-heading" { "Upstreams" }
            @if rows.is_empty() { p.note { "There are no upstreams." } }
            @else { (table("upstreams", "Servers of upstreams", &columns, &rows)) }
        }
    }
}

fn health(check: Option<&Value>) -> Markup {
    let Some(check) = check else {
        return html! { "none" };
    };
    let word = check
        .get("state")
        .and_then(Value::as_str)
        .unwrap_or("unknown");
    let mood = match word {
        "passing" => Mood::Good,
        "failing" => Mood::Bad,
        _ => Mood::Doubtful,
    };
    html! {
        (state(word, mood)) ", " (plain(check.get("passed"))) " passed, " (plain(check.get("failed"))) " failed"
        @if let Some(why) = check.get("last_failure").and_then(Value::as_str) { ": " (why) }
    }
}

/// All of `/status` and of the metrics.
pub(crate) fn everything(seen: &Seen) -> Markup {
    let Some(look) = &seen.now else {
        return html! {};
    };
    let mut status = Vec::new();
    flatten(&look.status, String::new(), &mut status);
    // They are on another page, without secrets.
    status.retain(|(place, _)| !place.starts_with("/problems"));
    let rows = |all: &[(String, String)]| -> Vec<Vec<Markup>> {
        let all = all.iter().take(MOST_ROWS);
        all.map(|(name, value)| vec![html! { (name) }, html! { (value) }])
            .collect()
    };
    let metrics: Vec<(String, String)> = look
        .readings
        .all()
        .filter(|(name, _)| !name.contains("_bucket"))
        .map(|(name, value)| (name, format!("{value}")))
        .collect();
    let columns = [words("Name"), number("Value")];
    html! {
        section aria-labelledby="status-heading" {
            h2 id="status-heading" { "Status" }
            (table("status-numbers", "The members of /status", &columns, &rows(&status)))
        }
        section aria-labelledby="metrics-heading" {
            h2 id="metrics-heading" { "Metrics" }
            (table("metrics-numbers", "The metrics, without the buckets of histograms", &columns, &rows(&metrics)))
        }
    }
}

fn flatten(value: &Value, place: String, all: &mut Vec<(String, String)>) {
    if all.len() >= MOST_ROWS {
        return;
    }
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, value) in members {
                let name = name.replace('~', "~0").replace('/', "~1");
                flatten(value, format!("{place}/{name}"), all);
            }
        }
        Value::Array(elements) if !elements.is_empty() => {
            let is_plain = |value: &Value| !value.is_object() && !value.is_array();
            if elements.iter().all(is_plain) {
                let texts: Vec<String> = elements.iter().map(|value| plain(Some(value))).collect();
                all.push((place, texts.join(", ")));
                return;
            }
            for (index, value) in elements.iter().enumerate() {
                flatten(value, format!("{place}/{index}"), all);
            }
        }
        Value::Array(_) | Value::Object(_) => all.push((place, "none".to_owned())),
        value => all.push((place, plain(Some(value)))),
    }
}
