//! The result of a trial: a table for people, or JSON.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tutti_ctl::import::Findings;
use tutti_ctl::report::{CommandError, write};
use tutti_ctl::style;

use super::compare::Difference;

/// Requests with differences that the table has; JSON has all.
const MOST_SHOWN: usize = 200;

/// A request whose answers differ.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) method: String,
    pub(super) url: String,
    pub(super) differences: Vec<Difference>,
}

/// The result of a trial.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    pub(super) asked: usize,
    /// Answers of the old server by status.
    pub(super) statuses: BTreeMap<u16, usize>,
    /// The requests whose answers differ.
    pub(super) compared: Vec<Compared>,
    /// Parts of answers that the old server itself does not say twice.
    pub(super) varying: usize,
    pub(super) unread_lines: usize,
    pub(super) unsafe_count: usize,
    pub(super) foreign_count: usize,
    pub(super) excess_count: usize,
    pub(super) left_out: Vec<String>,
}

impl Outcome {
    pub(super) fn differing(&self) -> usize {
        self.compared.len()
    }
}

/// Prints the result on standard output.
pub(super) fn show(outcome: &Outcome, format: Findings) -> Result<(), CommandError> {
    let text = match format {
        Findings::Json => format!("{:#}\n", as_json(outcome)),
        Findings::Text => as_text(outcome),
    };
    write(text.as_bytes()).map(drop)
}

fn as_json(outcome: &Outcome) -> Value {
    let compared: Vec<Value> = outcome
        .compared
        .iter()
        .map(|one| {
            let differences: Vec<Value> = one
                .differences
                .iter()
                .map(|one| json!({"what": one.aspect, "old": one.old, "new": one.new}))
                .collect();
            json!({"method": one.method, "url": one.url, "differences": differences})
        })
        .collect();
    let statuses: serde_json::Map<String, Value> = outcome
        .statuses
        .iter()
        .map(|(status, count)| (status.to_string(), (*count).into()))
        .collect();
    json!({
        "asked": outcome.asked,
        "differing": outcome.differing(),
        "requests": compared,
        "statuses": statuses,
        "varying": outcome.varying,
        "not_asked": {
            "unread_lines": outcome.unread_lines,
            "other_methods": outcome.unsafe_count,
            "other_addresses": outcome.foreign_count,
            "too_many": outcome.excess_count,
            "parts": outcome.left_out,
        },
    })
}

fn as_text(outcome: &Outcome) -> String {
    let mut text = String::new();
    let shown = outcome.compared.iter().take(MOST_SHOWN);
    let differences = || shown.clone().flat_map(|one| &one.differences);
    let width = |of: fn(&Difference) -> &str, least: usize| {
        let widths = differences().map(|one| of(one).chars().count());
        widths.max().unwrap_or(0).max(least)
    };
    let (first, second) = (
        width(|one| &one.aspect, "differs".len()),
        width(|one| &one.old, "old server".len()),
    );
    if !outcome.compared.is_empty() {
        let head = format!("  {:first$}  {:second$}  Tutti", "differs", "old server");
        text.push_str(&format!("{}\n", style::quiet(&head)));
    }
    for one in shown.clone() {
        let plain = one.url.replace(char::is_control, " ");
        text.push_str(&style::strong(&format!("{} {plain}", one.method)));
        text.push('\n');
        for difference in &one.differences {
            let Difference { aspect, old, new } = difference;
            text.push_str(&format!("  {aspect:first$}  {old:second$}  {new}\n"));
        }
    }
    let hidden = outcome.compared.len().saturating_sub(MOST_SHOWN);
    if hidden > 0 {
        text.push_str(&format!(
            "… and {hidden} more; `--format json` prints all\n"
        ));
    }
    let statuses: Vec<String> = outcome
        .statuses
        .iter()
        .map(|(status, count)| format!("{count} × {status}"))
        .collect();
    let asked = outcome.asked;
    let verdict = match outcome.differing() {
        0 => style::good("no differences:"),
        _ => style::bad(&format!("{} differ:", outcome.differing())),
    };
    text.push_str(&format!(
        "{verdict} {asked} requests to both servers ({})\n",
        statuses.join(", ")
    ));
    for (count, what) in [
        (
            outcome.varying,
            "parts of responses not compared: they differ between responses of the old server, too",
        ),
        (outcome.unread_lines, "lines without a request"),
        (
            outcome.unsafe_count,
            "requests not sent: their methods may change something (`--methods`)",
        ),
        (
            outcome.foreign_count,
            "requests not sent: the old server does not listen at their addresses",
        ),
        (
            outcome.excess_count,
            "requests not sent: too many (`--most`)",
        ),
    ] {
        if count > 0 {
            text.push_str(&style::quiet(&format!("{count} {what}")));
            text.push('\n');
        }
    }
    for part in &outcome.left_out {
        text.push_str(&style::quiet(&format!("not tried: {part}")));
        text.push('\n');
    }
    text
}
