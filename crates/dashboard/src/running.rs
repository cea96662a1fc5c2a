//! Applications and their processes.

use maud::{Markup, html};
use serde_json::Value;
use tutti_metrics::{is_saturated, quoted};

use crate::alerts::fix;
use crate::markup::{
    Mood, bytes, errors, maybe, members, number, plain, rate, seconds, state, table as any_table,
    words,
};
use crate::watch::{APPLICATIONS, Look, Seen};

/// The page's content.
pub(crate) fn content(seen: &Seen) -> Markup {
    let Some(look) = &seen.now else {
        return html! {};
    };
    html! {
        (table("applications", look, seen.before.as_deref()))
        @for (index, (name, status)) in members(&look.status, "/applications").enumerate() {
            (one(index, name, status))
        }
    }
}

/// A row for each application.
pub(crate) fn table(id: &str, look: &Look, before: Option<&Look>) -> Markup {
    let columns = [
        words("Application"),
        words("State"),
        number("Requests"),
        number("5xx"),
        number("p50"),
        number("p99"),
        number("Busy workers"),
        number("Starting"),
        number("Backlog"),
        number("Memory"),
        number("Restarts"),
        number("Failed starts"),
    ];
    let rows: Vec<Vec<Markup>> = members(&look.status, "/applications")
        .map(|(name, status)| row(name, status, look, before))
        .collect();
    html! {
        @if rows.is_empty() {
            p.note { "There are no applications." }
        } @else {
            (any_table(id, "Applications: requests per second, response times, workers", &columns, &rows))
        }
    }
}

fn row(name: &str, status: &Value, look: &Look, before: Option<&Look>) -> Vec<Markup> {
    let number = |pointer: &str| html! { (plain(status.pointer(pointer))) };
    let rates = look.rates(before, &APPLICATIONS, name);
    let memory = status.get("memory").and_then(Value::as_f64);
    vec![
        html! { (name) },
        state_of(status),
        html! { (maybe(rates.requests, rate)) },
        errors(rates.server_errors, rates.requests),
        html! { (maybe(rates.median, seconds)) },
        html! { (maybe(rates.slow, seconds)) },
        html! { (busy(status)) },
        number("/processes/starting"),
        number("/requests/queued"),
        html! { (maybe(memory, bytes)) },
        number("/restarts"),
        number("/failures/total"),
    ]
}

/// `1 of 4`: busy workers, and all running ones.
fn busy(status: &Value) -> String {
    let number = |pointer: &str| status.pointer(pointer).and_then(Value::as_u64);
    match number("/processes/running") {
        None => "–".to_owned(),
        Some(running) => {
            let idle = number("/processes/idle").unwrap_or_default();
            format!("{} of {running}", running.saturating_sub(idle))
        }
    }
}

/// Describes the state that `/status` reports in numbers.
fn state_of(status: &Value) -> Markup {
    let number = |pointer: &str| {
        status
            .pointer(pointer)
            .and_then(Value::as_u64)
            .unwrap_or_default()
    };
    let has_failed = status
        .pointer("/failures/last")
        .is_some_and(Value::is_object);
    let has_never_started = status.get("started") == Some(&Value::Bool(false));
    match (number("/processes/running"), has_failed) {
        (0, true) if has_never_started => state("has never started", Mood::Bad),
        (0, false) if has_never_started => state("not started yet", Mood::Doubtful),
        (0, true) => state("cannot start", Mood::Bad),
        (_, true) => state("some cannot start", Mood::Doubtful),
        (0, false) => state("idle", Mood::Good),
        (_, false) if is_saturated(status) => state("saturated", Mood::Doubtful),
        (_, false) => state("running", Mood::Good),
    }
}

fn one(index: usize, name: &str, status: &Value) -> Markup {
    let heading = format!("application-{index}");
    let pids = status.get("pids").and_then(Value::as_array);
    let pids: Vec<String> = pids.into_iter().flatten().map(Value::to_string).collect();
    let last = status
        .pointer("/failures/last")
        .filter(|last| last.is_object());
    let text = |member: &str| {
        let text = last.and_then(|last| last.get(member)?.as_str());
        text.filter(|text| !text.is_empty())
    };
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) { (name) }
            div id=(format!("{heading}-more")) data-live {
                dl.facts {
                    div { dt { "Process IDs" } dd { @if pids.is_empty() { "none" } @else { (pids.join(", ")) } } }
                    div { dt { "Requests in total" } dd { (plain(status.pointer("/requests/total"))) } }
                    div { dt { "Configuration" } dd { code { "/applications/" (name) } } }
                }
                (mules(&heading, name, status))
                @if last.is_some() {
                    div.alert {
                        p {
                            strong { "The last start failed" }
                            @if let Some(step) = text("step") { ", " (step) }
                            @if let Some(message) = text("message") { ": " (message) }
                        }
                        @if let Some(hint) = text("hint") { p { "Fix: " (hint) } }
                        @if let Some(pointer) = text("pointer") { p { "Configuration: " code { (pointer) } } }
                        @if let Some(output) = text("output") {
                            p id=(format!("{heading}-output")) { "Output:" }
                            pre tabindex="0" role="region" aria-labelledby=(format!("{heading}-output")) { (output) }
                        }
                        (fix(&format!("tutti restart {}", quoted(name))))
                    }
                }
            }
        }
    }
}

/// Returns a row for each of the application's mules.
fn mules(heading: &str, name: &str, status: &Value) -> Markup {
    let columns = [
        words("Mule"),
        words("State"),
        number("Running"),
        number("Starting"),
        number("Stopping"),
        number("Waiting"),
        number("Restarts"),
        number("Memory"),
        words("Process IDs"),
        words("Last exit"),
    ];
    let row = |(mule, status): (&String, &Value)| {
        let text = |pointer: &str| html! { (plain(status.pointer(pointer))) };
        let waiting = status
            .pointer("/processes/waiting")
            .and_then(Value::as_u64)
            .unwrap_or_default();
        let memory = status.get("memory").and_then(Value::as_f64);
        let pids = status.get("pids").and_then(Value::as_array);
        let pids: Vec<String> = pids.into_iter().flatten().map(Value::to_string).collect();
        vec![
            html! { (mule) },
            match waiting {
                0 => state("running", Mood::Good),
                _ => state("restarting", Mood::Doubtful),
            },
            text("/processes/running"),
            text("/processes/starting"),
            text("/processes/stopping"),
            text("/processes/waiting"),
            text("/restarts"),
            html! { (maybe(memory, bytes)) },
            html! { (pids.join(", ")) },
            text("/last_end/result"),
        ]
    };
    let rows: Vec<Vec<Markup>> = members(status, "/mules").map(row).collect();
    html! {
        @if !rows.is_empty() {
            (any_table(&format!("{heading}-mules"), &format!("Mules of {name}"), &columns, &rows))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Issue 28: an application that could not be started had a green mark until its first request.
    #[test]
    fn an_application_that_has_never_started_is_not_well() {
        let shown = |started: bool, last: Value| {
            let status = json!({"started": started, "processes": {"running": 0}, "failures": {"last": last}});
            state_of(&status).into_string()
        };
        let failed = json!({"message": "no such module"});
        assert!(shown(false, failed.clone()).contains("has never started"));
        assert!(shown(true, failed).contains("cannot start"));
        assert!(shown(false, Value::Null).contains("not started yet"));
        assert!(shown(true, Value::Null).contains("idle"));
    }

    #[test]
    fn an_application_is_saturated_once_no_worker_is_idle_and_the_backlog_is_as_large() {
        let shown = |idle: u64, queued: u64| {
            let status =
                json!({"processes": {"running": 2, "idle": idle}, "requests": {"queued": queued}});
            state_of(&status).into_string()
        };
        assert!(shown(0, 2).contains("saturated"));
        assert!(shown(0, 1).contains("running") && shown(1, 2).contains("running"));
    }
}
