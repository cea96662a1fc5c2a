//! `tutti config log`, `diff` and `rollback`: the last changes of a running server.

use std::process::ExitCode;

use serde_json::Value;
use similar::TextDiff;
use tutti_options::visible;

use super::client::ControlClient;
use super::report::{CommandError, say, write};
use super::style;

/// A change in the server's history.
struct Entry {
    number: u64,
    time: String,
    by: String,
    change: String,
}

/// Returns the changes, newest first.
fn entries(client: &ControlClient) -> Result<Vec<Entry>, CommandError> {
    let answer = client.call("GET", "/history", None, None)?;
    answer.succeeded(None)?;
    let list = answer.json()?;
    let word = |entry: &Value, name: &str| {
        let word = entry.get(name).and_then(Value::as_str);
        // A client chooses its own name.
        visible(word.unwrap_or_default())
    };
    let entry = |entry: &Value| {
        Some(Entry {
            number: entry.get("number")?.as_u64()?,
            time: word(entry, "time"),
            by: word(entry, "by"),
            change: word(entry, "change"),
        })
    };
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    Ok(list.iter().filter_map(entry).collect())
}

/// Prints one line for each change.
pub(super) fn log(client: &ControlClient) -> Result<ExitCode, CommandError> {
    let entries = entries(client)?;
    if entries.is_empty() {
        say("no change is recorded yet");
    }
    let width = entries.first().map_or(1, |e| e.number.to_string().len());
    for entry in entries {
        let by = if entry.by.is_empty() {
            String::new()
        } else {
            format!("  {}", style::quiet(&entry.by))
        };
        // In the machine's time zone.
        let time = entry
            .time
            .get(..19)
            .unwrap_or(&entry.time)
            .replace('T', " ");
        say(&format!(
            "{}  {}  {}{by}",
            style::strong(&format!("{:width$}", entry.number)),
            style::place(&time),
            entry.change
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the difference that a change made, or between two configurations.
pub(super) fn diff(
    client: &ControlClient,
    from: Option<u64>,
    to: Option<u64>,
) -> Result<ExitCode, CommandError> {
    let entries = entries(client)?;
    let (from, to) = match (from, to) {
        (Some(from), Some(to)) => (Some(from), to),
        (only, _) => {
            let newest = entries.first().map(|entry| entry.number);
            let to = only.or(newest).ok_or_else(nothing_kept)?;
            let before = entries.iter().map(|entry| entry.number);
            (before.filter(|number| *number < to).max(), to)
        }
    };
    let text_of = |number: u64| -> Result<String, CommandError> {
        let answer = client.call("GET", &format!("/history/{number}"), None, None)?;
        if answer.status == 404 {
            return Err(not_kept(number));
        }
        answer.succeeded(None)?;
        Ok(String::from_utf8_lossy(&answer.body).into_owned())
    };
    let (old, old_name) = match from {
        Some(number) => (text_of(number)?, format!("change {number}")),
        None => (String::new(), "nothing".to_owned()),
    };
    let new = text_of(to)?;
    difference((&old_name, &old), (&format!("change {to}"), &new))
}

/// Prints the difference between two texts with names.
pub(super) fn difference(old: (&str, &str), new: (&str, &str)) -> Result<ExitCode, CommandError> {
    let diff = TextDiff::from_lines(old.1, new.1);
    let text = diff
        .unified_diff()
        .context_radius(3)
        .header(old.0, new.0)
        .to_string();
    if text.is_empty() {
        say("no difference");
    }
    let mut painted = String::new();
    for line in text.lines() {
        let line = match line.as_bytes().first() {
            Some(b'+') => style::good(line),
            Some(b'-') => style::bad(line),
            Some(b'@') => style::place(line),
            _ => line.to_owned(),
        };
        painted.push_str(&line);
        painted.push('\n');
    }
    write(painted.as_bytes())
}

/// Restores an earlier configuration; by default the one before the last change.
pub(super) fn rollback(
    client: &ControlClient,
    number: Option<u64>,
) -> Result<ExitCode, CommandError> {
    let number = match number {
        Some(number) => number,
        None => {
            let entries = entries(client)?;
            let before = entries.get(1).ok_or_else(nothing_kept)?;
            before.number
        }
    };
    let answer = client.call("POST", &format!("/history/{number}/restore"), None, None)?;
    if answer.status == 404 {
        return Err(not_kept(number));
    }
    answer.succeeded(None)?;
    say(&format!(
        "{} the configuration of change {number} is in force again",
        style::good("done:")
    ));
    Ok(ExitCode::SUCCESS)
}

fn nothing_kept() -> CommandError {
    CommandError::new("no earlier configuration is stored")
        .hint("`tutti config log` lists the available ones")
}

fn not_kept(number: u64) -> CommandError {
    CommandError::new(format!("change {number} is no longer stored"))
        .hint("`tutti config log` lists the available ones")
}
