//! Spoolers and schedules.

use maud::{Markup, html};
use serde_json::Value;

use crate::markup::{
    Mood, bytes, maybe, members, number, plain, state, table, time, words, written,
};
use crate::watch::{Look, Seen};

/// The page's content.
pub(crate) fn content(seen: &Seen) -> Markup {
    let Some(look) = &seen.now else {
        return html! {};
    };
    html! {
        (spoolers(look))
        (schedules(look))
    }
}

fn spoolers(look: &Look) -> Markup {
    let columns = [
        words("Spooler"),
        words("State"),
        number("Waiting"),
        number("Delivering"),
        number("Failed"),
        number("Oldest"),
        number("Size"),
        number("Stored"),
        number("Delivered"),
        number("Failed deliveries"),
        number("Refused"),
    ];
    let rows: Vec<Vec<Markup>> = members(&look.status, "/spoolers")
        .map(|(name, status)| {
            let number = |pointer: &str| html! { (plain(status.pointer(pointer))) };
            let oldest = status.get("oldest").and_then(Value::as_u64);
            let oldest = oldest.map(time);
            let size = status.get("size").and_then(Value::as_f64);
            vec![
                html! { (name) },
                state_of(status),
                number("/jobs/waiting"),
                number("/jobs/delivering"),
                number("/jobs/failed"),
                html! { (oldest.unwrap_or_else(|| "–".to_owned())) },
                html! { (maybe(size, bytes)) },
                number("/stored"),
                number("/delivered"),
                number("/failures"),
                number("/refused"),
            ]
        })
        .collect();
    html! {
        section aria-labelledby="spoolers-heading" {
            h2 id="spoolers-heading" { "Spoolers" }
            @if rows.is_empty() { p.note { "There are no spoolers." } }
            @else { (table("spoolers", "Jobs of spoolers", &columns, &rows)) }
        }
    }
}

fn state_of(status: &Value) -> Markup {
    if let Some(problem) = status.get("problem").and_then(Value::as_str) {
        return state(problem, Mood::Bad);
    }
    if status.get("removed") == Some(&Value::Bool(true)) {
        return state("removed from the configuration", Mood::Doubtful);
    }
    let failed = status.pointer("/jobs/failed").and_then(Value::as_u64);
    if failed.unwrap_or_default() > 0 {
        return state("has failed jobs", Mood::Doubtful);
    }
    state("running", Mood::Good)
}

fn schedules(look: &Look) -> Markup {
    let columns = [
        words("Schedule"),
        words("Last run"),
        words("Started"),
        words("Ended"),
        words("Next"),
        number("Succeeded"),
        number("Failed"),
        number("Skipped"),
        number("Missed"),
    ];
    let rows: Vec<Vec<Markup>> = members(&look.status, "/schedules")
        .map(|(name, status)| {
            let time = |pointer: &str| written(status.pointer(pointer));
            let text = |pointer: &str| html! { (plain(status.pointer(pointer))) };
            vec![
                html! { (name) },
                last_of(status),
                time("/last/started"),
                time("/last/ended"),
                time("/next"),
                text("/succeeded"),
                text("/failed"),
                text("/skipped"),
                text("/missed"),
            ]
        })
        .collect();
    html! {
        section aria-labelledby="schedules-heading" {
            h2 id="schedules-heading" { "Schedules" }
            @if rows.is_empty() { p.note { "There are no schedules." } }
            @else { (table("schedules", "Runs of schedules", &columns, &rows)) }
        }
    }
}

fn last_of(status: &Value) -> Markup {
    if status.get("running") == Some(&Value::Bool(true)) {
        return state("running", Mood::Good);
    }
    match status.pointer("/last/result").and_then(Value::as_str) {
        None => html! { "none yet" },
        Some("succeeded") => state("succeeded", Mood::Good),
        Some(failed) => state(failed, Mood::Bad),
    }
}
