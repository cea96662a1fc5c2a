//! The alerts, and the latest failed or slow requests.

use maud::{Markup, html};
use serde_json::Value;
use tutti_metrics::Alert;

use crate::alerts;
use crate::markup::{Column, number, plain, seconds, table, words, written};
use crate::watch::Seen;

/// The page's content. `is_refused`: the last change of the configuration was rejected.
pub(crate) fn content(seen: &Seen, alerts: &[Alert], is_refused: bool) -> Markup {
    html! {
        (alerts::section(seen, alerts))
        @if is_refused {
            p {
                "The last change of the configuration was refused, and the one before is still in force: "
                a href="/configuration#refused" { "the reasons" } "."
            }
        }
        (requests(seen, "failed", "Recent failed requests", "The latest requests with a status of 500 or more"))
        (requests(seen, "slow", "Recent slow requests", "The latest requests that took a second or more, or longer than the slow log allows"))
    }
}

/// Renders the latest requests of a kind, from `/status/recent_requests`.
fn requests(seen: &Seen, kind: &str, title: &str, caption: &str) -> Markup {
    const COLUMNS: [Column; 7] = [
        words("When"),
        words("Request"),
        number("Status"),
        number("Time taken"),
        words("Served by"),
        words("Client"),
        words("Request ID"),
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
            html! { (server.as_deref().unwrap_or("Tutti")) },
            html! { (text("client")) },
            html! { code { (text("request_id")) } },
        ]
    };
    let rows: Vec<Vec<Markup>> = recent.into_iter().flatten().map(row).collect();
    let heading = format!("{kind}-requests-heading");
    html! {
        section aria-labelledby=(heading) {
            h2 id=(heading) { (title) }
            @if rows.is_empty() { p.note { "None." } }
            @else { (table(&format!("{kind}-requests"), caption, &COLUMNS, &rows)) }
        }
    }
}
