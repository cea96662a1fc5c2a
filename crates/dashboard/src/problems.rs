//! Everything that is not as it should be, gathered from everywhere.

use maud::{Markup, html};
use serde_json::Value;
use tutti_config::{Diagnostic, Pointer};

use crate::listing::Listing;
use crate::markup::{members, table, words};
use crate::redact::Redactor;
use crate::watch::Seen;

/// Parts of the configuration that are not in force, as `/status` names them.
pub(crate) fn of_configuration(seen: &Seen) -> Vec<Diagnostic> {
    let status = seen.now.as_ref().map(|look| &look.status);
    let problems = status.and_then(|status| status.get("problems")?.as_array());
    let one = |problem: &Value| {
        let text = |member: &str| {
            problem
                .get(member)
                .and_then(Value::as_str)
                .unwrap_or_default()
        };
        Diagnostic::new(Pointer::from_escaped(text("pointer")), text("message"))
    };
    problems.into_iter().flatten().map(one).collect()
}

/// The page's content. `refused`: when the last change was refused, if it was.
pub(crate) fn content(
    seen: &Seen,
    listing: &Listing,
    redactor: &Redactor,
    is_refused: bool,
) -> Markup {
    let rows: Vec<Vec<Markup>> = of_configuration(seen)
        .iter()
        .map(|fault| {
            let line = listing.line_of(&fault.pointer).unwrap_or_default();
            let place = match fault.pointer.as_str() {
                "" => "the whole",
                place => place,
            };
            vec![
                html! { a href=(format!("/configuration#line-{}", line + 1)) { (place) } },
                html! { (listing.words_of(fault, redactor)) },
            ]
        })
        .collect();
    let others = others(seen);
    html! {
        section aria-labelledby="not-served" {
            h2 id="not-served" { "Not served as configured" }
            @if rows.is_empty() { p.note { "Nothing: the whole configuration is in force." } }
            @else { (table("problems", "Parts of the configuration that are not in force", &[words("Place"), words("Problem")], &rows)) }
            @if is_refused {
                p { "The last change was refused: " a href="/configuration#refused" { "its faults" } "." }
            }
        }
        section aria-labelledby="elsewhere" {
            h2 id="elsewhere" { "Elsewhere" }
            @if others.is_empty() { p.note { "Nothing." } }
            @else {
                (table("elsewhere-problems", "Applications, servers and jobs that have a problem", &[words("What"), words("Problem"), words("Page")], &others))
            }
        }
    }
}

fn others(seen: &Seen) -> Vec<Vec<Markup>> {
    let Some(look) = &seen.now else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    let mut add = |what: String, problem: &str, (path, page): (&str, &str)| {
        rows.push(vec![
            html! { (what) },
            html! { (problem) },
            html! { a href=(path) { (page) } },
        ]);
    };
    for (name, status) in members(&look.status, "/applications") {
        if let Some(last) = status
            .pointer("/failures/last/message")
            .and_then(Value::as_str)
        {
            add(
                format!("application {name}"),
                last,
                ("/applications", "Applications"),
            );
        }
    }
    for (upstream, status) in members(&look.status, "/upstreams") {
        for (server, status) in members(status, "/servers") {
            let state = status
                .get("state")
                .and_then(Value::as_str)
                .unwrap_or_default();
            if state != "up" {
                let what = format!("server {server} of upstream {upstream}");
                add(what, state, ("/traffic", "Traffic"));
            }
        }
    }
    for (name, status) in members(&look.status, "/spoolers") {
        if let Some(problem) = status.get("problem").and_then(Value::as_str) {
            add(format!("spooler {name}"), problem, ("/jobs", "Jobs"));
        }
    }
    for (name, status) in members(&look.status, "/schedules") {
        let result = status.pointer("/last/result").and_then(Value::as_str);
        if let Some(failed) = result.filter(|result| *result != "succeeded") {
            add(format!("schedule {name}"), failed, ("/jobs", "Jobs"));
        }
    }
    rows
}
