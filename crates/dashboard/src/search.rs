//! The search: names and lines of the configuration, and recent requests, by a part of their text.
//!
//! Must never: find a secret. The search uses the configuration as its page shows it.

use maud::{Markup, html};
use serde_json::Value;
use tutti_config::{Document, TreeNode};

use crate::listing::Listing;
use crate::markup::{members, plain, table, words};
use crate::page::PAGES;
use crate::watch::Seen;

/// Maximum results; a user with more will search for a longer text instead.
const MOST_RESULTS: usize = 200;

/// A result.
struct Found {
    kind: &'static str,
    text: String,
    /// The page that shows it.
    path: String,
}

/// The page's content.
pub(crate) fn content(
    wanted: &str,
    seen: &Seen,
    document: &Document,
    certificates: &Value,
    listing: &Listing,
) -> Markup {
    let wanted = wanted.trim();
    if wanted.is_empty() {
        return html! { p.note { "Type a name, a part of the configuration, or the ID of a request into the search field." } };
    }
    let mut all = named(seen, document, certificates);
    let lines = listing.lines.iter().enumerate();
    all.extend(lines.map(|(number, line)| Found {
        kind: "configuration",
        text: line.text.trim().to_owned(),
        path: format!("/configuration#line-{}", number + 1),
    }));
    let lower = wanted.to_lowercase();
    all.retain(|found| found.text.to_lowercase().contains(&lower));
    let rows = all.iter().take(MOST_RESULTS);
    let rows: Vec<Vec<Markup>> = rows
        .map(|found| {
            vec![
                html! { a href=(found.path) { (found.text) } },
                html! { (found.kind) },
            ]
        })
        .collect();
    html! {
        @if rows.is_empty() { p.note { "Nothing has “" (wanted) "” in its name." } }
        @else {
            p.note { (all.len()) @if all.len() == 1 { " result" } @else { " results" } " for “" (wanted) "”"
                @if all.len() > MOST_RESULTS { ", of which the first " (MOST_RESULTS) " are shown" } "." }
            (table("results", "Results", &[words("Name"), words("Kind")], &rows))
        }
    }
}

/// Returns all named objects, except lines of the configuration.
fn named(seen: &Seen, document: &Document, certificates: &Value) -> Vec<Found> {
    let mut all = Vec::new();
    let mut add = |kind, text: String, path: String| all.push(Found { kind, text, path });
    for (path, name) in PAGES {
        add("page", name.to_owned(), path.to_owned());
    }
    let listeners = document.root().child("listeners");
    for member in listeners.into_iter().flat_map(TreeNode::members) {
        add(
            "listener",
            member.name.to_string(),
            "/traffic#listeners-heading".to_owned(),
        );
    }
    for (name, _) in members(certificates, "") {
        add("certificate", name.clone(), "/certificates".to_owned());
    }
    let Some(look) = &seen.now else {
        return all;
    };
    for (index, (name, _)) in members(&look.status, "/applications").enumerate() {
        add(
            "application",
            name.clone(),
            format!("/applications#application-{index}"),
        );
    }
    for route in look
        .readings
        .values_of("tutti_route_requests_total", "route")
    {
        add(
            "route",
            route.to_owned(),
            "/traffic#routes-heading".to_owned(),
        );
    }
    for (name, status) in members(&look.status, "/upstreams") {
        for (server, _) in members(status, "/servers") {
            let path = "/traffic#upstreams-heading".to_owned();
            add("upstream", format!("{name}: {server}"), path);
        }
    }
    for (kind, pointer) in [("spooler", "/spoolers"), ("schedule", "/schedules")] {
        for (name, _) in members(&look.status, pointer) {
            add(kind, name.clone(), format!("/jobs#{kind}s-heading"));
        }
    }
    for (kind, path) in [
        ("failed", "/problems#failed-requests-heading"),
        ("slow", "/problems#slow-requests-heading"),
    ] {
        let recent = look.status.pointer(&format!("/recent_requests/{kind}"));
        for request in recent.and_then(Value::as_array).into_iter().flatten() {
            let text = |member: &str| plain(request.get(member));
            let parts = ["method", "target", "status", "client", "request_id"].map(text);
            add("request", parts.join(" "), path.to_owned());
        }
    }
    all
}
