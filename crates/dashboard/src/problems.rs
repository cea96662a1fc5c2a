//! Everything that is not as it should be, gathered from everywhere, and the latest requests that failed or were slow.

use maud::{Markup, html};
use serde_json::Value;
use tutti_config::{Diagnostic, Pointer};

use crate::listing::Listing;
use crate::markup::{Column, members, number, plain, seconds, table, words, written};
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
        (requests(seen, "failed", "Recent failed requests", "The latest that were answered with a status of 500 or more"))
        (requests(seen, "slow", "Recent slow requests", "The latest that took a second or more, or longer than the slow log allows"))
    }
}

/// The latest requests of a kind, as `/status/recent_requests` has them.
fn requests(seen: &Seen, kind: &str, title: &str, caption: &str) -> Markup {
    const COLUMNS: [Column; 7] = [
        words("Time"),
        words("Request"),
        number("Status"),
        number("Took"),
        words("Answered by"),
        words("Client"),
        words("Id in the logs"),
    ];
    let look = seen.now.as_ref();
    let recent = look.and_then(|look| {
        look.status
            .pointer("/recent_requests")?
            .get(kind)?
            .as_array()
    });
    let row = |request: &Value| {
        let text = |member: &str| plain(request.get(member));
        let server = ["application", "upstream"].into_iter().find_map(|kind| {
            let name = request.get(kind)?.as_str()?;
            Some(format!("{kind} {name}"))
        });
        let took = request.get("seconds").and_then(Value::as_f64);
        vec![
            written(request.get("time")),
            html! { (text("method")) " " (text("target")) },
            html! { (text("status")) },
            html! { (took.map_or_else(|| "–".to_owned(), seconds)) },
            html! { (server.as_deref().unwrap_or("the server itself")) },
            html! { (text("client")) },
            html! { code { (text("request_id")) } },
        ]
    };
    let rows: Vec<Vec<Markup>> = recent.into_iter().flatten().map(row).collect();
    let heading = format!("{kind}-requests-heading");
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) { (title) }
            @if rows.is_empty() { p.note { "None since the router started." } }
            @else { (table(&format!("{kind}-requests"), caption, &COLUMNS, &rows)) }
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
