//! The frame of every page: head, navigation, the state of the server, and the age of its numbers.

use std::time::SystemTime;

use maud::{DOCTYPE, Markup, html};

use crate::alerts::fix;
use crate::markup::{Mood, moment, state};
use crate::watch::Seen;

/// The pages: path and name.
pub(crate) const PAGES: [(&str, &str); 8] = [
    ("/", "Overview"),
    ("/applications", "Applications"),
    ("/traffic", "Traffic"),
    ("/jobs", "Jobs"),
    ("/configuration", "Configuration"),
    ("/certificates", "Certificates"),
    ("/problems", "Problems"),
    ("/metrics", "Metrics"),
];

/// The data of the frame.
pub(crate) struct Frame<'a> {
    pub(crate) path: &'a str,
    pub(crate) title: &'a str,
    pub(crate) seen: &'a Seen,
    /// The number of alerts.
    pub(crate) alerts: usize,
    /// The search text, on the results page.
    pub(crate) wanted: &'a str,
    /// There is a session to end.
    pub(crate) has_session: bool,
}

/// Renders a whole page.
pub(crate) fn page(frame: &Frame<'_>, content: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(frame.title))
            body {
                a.skip href="#content" { "Skip to content" }
                header {
                    p.brand { a href="/" { "Tutti" } }
                    nav aria-label="Pages" { ul {
                        @for (path, name) in PAGES {
                            li { a href=(path) aria-current=[(path == frame.path).then_some("page")] {
                                (name)
                                @if path == "/problems" && frame.alerts > 0 { " (" (frame.alerts) ")" }
                            } }
                        }
                    } }
                    form.search role="search" action="/search" {
                        label.visually-hidden for="search" { "Search" }
                        input id="search" type="search" name="q" value=(frame.wanted) placeholder="Search" aria-keyshortcuts="Control+K";
                        button type="submit" { "Search" }
                    }
                    @if frame.has_session {
                        form.logout method="post" action="/logout" { button type="submit" { "Log out" } }
                    }
                }
                main id="content" tabindex="-1" {
                    h1 { (frame.title) }
                    div id="state" role="status" data-live { (banner(frame.seen)) }
                    (content)
                }
                footer {
                    p id="seen" data-live { (as_of(frame.seen)) }
                    p.controls { a href="" { "Refresh" } }
                }
            }
        }
    }
}

/// Renders the head of a page; script and style are separate files, so that the policy can forbid all others.
pub(crate) fn head(title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " – Tutti" }
            link rel="icon" href="/icon.svg" type="image/svg+xml";
            link rel="stylesheet" href="/style.css";
            script src="/script.js" defer {}
        }
    }
}

fn banner(seen: &Seen) -> Markup {
    html! {
        @if let Some((since, why)) = &seen.silence {
            div.alert {
                p {
                    (state("Critical", Mood::Bad)) ": " strong { "The server does not answer" } " since " (moment(*since)) ": " (why) ". "
                    @if seen.now.is_some() { "The numbers are older." }
                }
                (fix("tutti log -n 50"))
            }
        } @else if seen.now.is_none() {
            p.note { "There are no numbers yet. Refresh in a moment." }
        }
    }
}

fn as_of(seen: &Seen) -> Markup {
    html! {
        @match &seen.now {
            Some(look) => { "Numbers as of " (moment(look.time)) "; rates are of the last 10 to 20 seconds." }
            None => { "No numbers at " (moment(SystemTime::now())) "." }
        }
    }
}
