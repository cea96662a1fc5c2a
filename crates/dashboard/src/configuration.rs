//! The configuration in force, the last rejected change with its faults at their places, and the history.

use maud::{Markup, html};
use serde_json::Value;
use tutti_config::{Diagnostic, Document};
use tutti_control::RefusedChange;

use crate::alerts;
use crate::listing::{Line, Listing, MOST_LINES, words as words_of};
use crate::markup::{moment, plain, table, words, written};
use crate::redact::Redactor;
use crate::watch::Seen;

/// The page's content.
pub(crate) fn content(
    seen: &Seen,
    document: &Document,
    refused: Option<&RefusedChange>,
    history: &Result<Value, String>,
    redactor: &Redactor,
) -> Markup {
    let listing = Listing::of(document, redactor);
    let faults = alerts::of_configuration(seen);
    html! {
        @if let Some(refused) = refused { (refusal(refused, redactor)) }
        section aria-labelledby="in-force" {
            h2 id="in-force" { "In force" }
            @if !faults.is_empty() {
                div.alert {
                    p { strong { (faults.len()) @if faults.len() == 1 { " part of it is" } @else { " parts of it are" } " not in force:" } }
                    (links(&listing, &faults, "line", redactor))
                }
            }
            p.note { "Values that may be secrets are hidden; different marks stand for different values." }
            (marked(&listing, &faults, &Shown { prefix: "line", name: "Configuration in force", around: None }, redactor))
        }
        section aria-labelledby="history" {
            h2 id="history" { "History" }
            (changes(history))
        }
    }
}

fn refusal(refused: &RefusedChange, redactor: &Redactor) -> Markup {
    html! {
        section aria-labelledby="refused" {
            h2 id="refused" { "Refused change" }
            p {
                "The last change, " code { (refused.cause.change) } " by " (refused.cause.by) " at " (moment(refused.time))
                ", was refused. The configuration before it is still in force."
            }
            @match &refused.document {
                Some(document) => {
                    @let listing = Listing::of(document, redactor);
                    (links(&listing, &refused.faults.0, "refused", redactor))
                    p.note { "The refused configuration, around the problems:" }
                    (marked(&listing, &refused.faults.0, &Shown { prefix: "refused", name: "Refused configuration", around: Some(AROUND) }, redactor))
                }
                None => {
                    ul { @for fault in &refused.faults.0 { li { (fault.place()) (words_of(fault, redactor)) } } }
                    p.note { "The refused configuration is not shown because it is not readable, or larger than 1 MiB." }
                }
            }
        }
    }
}

/// Lists the faults, each with a link to its line.
fn links(listing: &Listing, faults: &[Diagnostic], prefix: &str, redactor: &Redactor) -> Markup {
    html! {
        ul { @for fault in faults {
            @let line = listing.line_of(&fault.pointer).unwrap_or_default();
            li {
                a href=(format!("#{prefix}-{}", line + 1)) { "Line " (line + 1) }
                ": " (listing.words_of(fault, redactor))
            }
        } }
    }
}

/// Lines shown around a fault of a rejected change.
const AROUND: usize = 4;

/// The presentation of a listing.
struct Shown {
    /// Prefix of the ids of its lines.
    prefix: &'static str,
    name: &'static str,
    /// Show only this many lines around each fault; `None`: all.
    around: Option<usize>,
}

/// Shows the lines, each fault below its own.
fn marked(listing: &Listing, faults: &[Diagnostic], shown: &Shown, redactor: &Redactor) -> Markup {
    let at = |number: usize| {
        let here = faults.iter().filter(move |fault| {
            let line = listing.line_of(&fault.pointer);
            line.unwrap_or_default() == number
        });
        here.map(|fault| listing.words_of(fault, redactor))
            .collect::<Vec<_>>()
    };
    // Looked up once per fault, not once per line.
    let mut with_faults: Vec<usize> = faults
        .iter()
        .map(|fault| listing.line_of(&fault.pointer).unwrap_or_default())
        .collect();
    with_faults.sort_unstable();
    let is_shown = |number: usize| {
        let near = |around: usize| {
            with_faults
                .iter()
                .any(|fault| fault.abs_diff(number) <= around)
        };
        shown.around.is_none_or(near)
    };
    let mut lines: Vec<(usize, &Line)> = listing.lines.iter().enumerate().collect();
    lines.retain(|(number, _)| is_shown(*number));
    let is_gap = |place: usize| {
        let before = place.checked_sub(1).and_then(|before| lines.get(before));
        let (before, here) = (before.map(|(number, _)| number + 1), lines.get(place));
        here.is_some_and(|(number, _)| before.unwrap_or(0) != *number)
    };
    let one = |place: usize, number: usize, line: &Line| {
        let found = match with_faults.binary_search(&number) {
            Ok(_) => at(number),
            Err(_) => Vec::new(),
        };
        html! {
            @if is_gap(place) { li.gap aria-hidden="true" { "…" } }
            li id=(format!("{}-{}", shown.prefix, number + 1)) value=(number + 1)
                class=[(!found.is_empty()).then_some("marked")] {
                code { (line.text) }
                @for words in &found { p.mark { strong { "Problem: " } (words) } }
            }
        }
    };
    html! {
        div.scroll.code role="region" aria-label=(shown.name) tabindex="0" {
            ol { @for (place, (number, line)) in lines.iter().enumerate() { (one(place, *number, line)) } }
        }
        @if listing.is_cut {
            p.note { "Only the first " (MOST_LINES) " lines are shown; " code { "tutti config" } " shows all." }
        }
    }
}

fn changes(history: &Result<Value, String>) -> Markup {
    let entries = match history {
        Ok(entries) => entries.as_array().cloned().unwrap_or_default(),
        Err(why) => return html! { p.alert { "The history cannot be read: " (why) } },
    };
    let numbers: Vec<u64> = entries
        .iter()
        .filter_map(|entry| entry.get("number")?.as_u64())
        .collect();
    let columns = [
        words("Change"),
        words("Time"),
        words("By"),
        words("What"),
        words("Difference"),
    ];
    let rows: Vec<Vec<Markup>> = entries
        .iter()
        .enumerate()
        .map(|(index, entry)| {
            let text = |member: &str| html! { (plain(entry.get(member))) };
            let number = entry.get("number").and_then(Value::as_u64).unwrap_or_default();
            vec![
                html! { (number) },
                written(entry.get("time")),
                text("by"),
                text("change"),
                match numbers.get(index + 1) {
                    Some(before) => html! {
                        a href=(format!("/configuration/compare?from={before}&to={number}")) { "Change " (number) " compared with " (before) }
                    },
                    None => html! { "the oldest kept" },
                },
            ]
        })
        .collect();
    html! {
        @if rows.is_empty() { p.note { "There were no changes." } }
        @else {
            (table("changes", "Changes of the configuration, the newest first", &columns, &rows))
            form.compare method="get" action="/configuration/compare" {
                (choice("from", "Compare", &numbers, 1))
                (choice("to", "with", &numbers, 0))
                button type="submit" { "Compare" }
            }
        }
    }
}

fn choice(name: &str, label: &str, numbers: &[u64], chosen: usize) -> Markup {
    html! {
        label for=(name) { (label) }
        select id=(name) name=(name) {
            @for (index, number) in numbers.iter().enumerate() {
                option value=(number) selected[index == chosen] { "change " (number) }
            }
        }
    }
}
