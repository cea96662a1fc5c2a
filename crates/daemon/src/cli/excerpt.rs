//! Faults as a person wants to see them: the line, a caret below the place, and what to do.

use serde_json::Value;

use super::report::Failure;
use super::style;

/// Longest part of a line shown: a minified configuration is one line of a megabyte.
const SHOWN_BEFORE: usize = 60;
const SHOWN_AFTER: usize = 60;

/// An error answer of the control API (or of the offline check, which has the same shape) as a failure.
pub(crate) fn failure(answer: &Value, status: u16, sent: Option<(&str, &[u8])>) -> Failure {
    let summary = answer
        .get("error")
        .and_then(Value::as_str)
        .map(|text| text.trim_end_matches('.').to_owned());
    let summary = summary.unwrap_or_else(|| format!("the server answered with status {status}"));
    let mut text = String::new();
    let faults = answer
        .get("errors")
        .and_then(Value::as_array)
        .map(Vec::as_slice)
        .unwrap_or_default();
    for fault in faults {
        text.push_str(&one(fault, sent));
        text.push('\n');
    }
    let summary = match faults.len() {
        0 => match answer.get("detail").and_then(Value::as_str) {
            Some(detail) => format!("{summary}: {}", detail.trim_end_matches('.')),
            None => summary,
        },
        1 => format!("{summary}; nothing was changed"),
        count => format!("{summary}: {count} faults; nothing was changed"),
    };
    let failure = Failure::new(summary);
    if text.is_empty() {
        failure
    } else {
        failure.excerpt(text)
    }
}

fn one(fault: &Value, sent: Option<(&str, &[u8])>) -> String {
    let word = |name: &str| fault.get(name).and_then(Value::as_str);
    let mut text = format!(
        "{} {}\n",
        style::bad("fault:"),
        style::strong(word("message").unwrap_or("unknown"))
    );
    let pointer = word("pointer").filter(|pointer| !pointer.is_empty());
    let offset = fault
        .get("offset")
        .and_then(Value::as_u64)
        .and_then(|offset| usize::try_from(offset).ok());
    match (sent, offset) {
        (Some((name, source)), Some(offset)) => {
            let line = fault.get("line").and_then(Value::as_u64).unwrap_or(1);
            let column = fault.get("column").and_then(Value::as_u64).unwrap_or(1);
            text.push_str(&format!("  {} {name}:{line}:{column}", style::place("-->")));
            if let Some(pointer) = pointer {
                text.push_str(&format!("  {}", style::quiet(pointer)));
            }
            text.push('\n');
            let length = fault.get("length").and_then(Value::as_u64).unwrap_or(1);
            text.push_str(&caret(
                source,
                offset,
                usize::try_from(length).unwrap_or(1),
                line,
            ));
        }
        _ => {
            if let Some(pointer) = pointer {
                text.push_str(&format!("  {} {pointer}\n", style::place("at")));
            }
            if let Some(value) = word("value") {
                text.push_str(&format!("  {} {value}\n", style::place("value:")));
            }
        }
    }
    if let Some(expected) = word("expected") {
        text.push_str(&format!("  {} {expected}\n", style::place("expected:")));
    }
    if let Some(suggestion) = word("suggestion") {
        text.push_str(&format!("  {} {suggestion}\n", style::place("hint:")));
    }
    text
}

/// The line around `offset`, cut to a readable width, with carets below the place.
fn caret(source: &[u8], offset: usize, length: usize, line: u64) -> String {
    let offset = offset.min(source.len());
    let (before, after) = source.split_at(offset);
    let start = before
        .iter()
        .rposition(|&byte| byte == b'\n')
        .map_or(0, |at| at + 1);
    let end = offset
        + after
            .iter()
            .position(|&byte| byte == b'\n')
            .unwrap_or(after.len());
    let before = shown(source.get(start..offset).unwrap_or_default());
    let after = shown(source.get(offset..end).unwrap_or_default());
    let marked = shown(
        source
            .get(offset..(offset + length).min(end))
            .unwrap_or_default(),
    )
    .chars()
    .count()
    .max(1);
    let skip = before.chars().count().saturating_sub(SHOWN_BEFORE);
    let left: String = before.chars().skip(skip).collect();
    let right: String = after.chars().take(SHOWN_AFTER).collect();
    let lead = if skip > 0 { "…" } else { "" };
    let tail = if after.chars().count() > SHOWN_AFTER {
        "…"
    } else {
        ""
    };
    let margin = line.to_string();
    let indent = " ".repeat(margin.len());
    let gap = " ".repeat(lead.chars().count() + left.chars().count());
    let marks = "^".repeat(marked.min(SHOWN_AFTER));
    let bar = style::place("|");
    format!(
        " {indent} {bar}\n {} {bar} {lead}{left}{right}{tail}\n {indent} {bar} {gap}{}\n",
        style::place(&margin),
        style::bad(&marks)
    )
}

/// Text for one terminal line: no tabs (their width is the terminal's secret), no control characters.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .chars()
        .map(|letter| if letter.is_control() { ' ' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_caret_stands_below_the_place() {
        let source = b"{\n  \"listners\": {}\n}";
        let text = caret(source, 4, 10, 2);
        assert_eq!(text, "   |\n 2 |   \"listners\": {}\n   |   ^^^^^^^^^^\n");
    }

    #[test]
    fn a_megabyte_on_one_line_is_cut_on_both_sides() {
        let mut source = vec![b'a'; 1 << 20];
        source[1 << 19] = b'X';
        let text = caret(&source, 1 << 19, 1, 1);
        assert!(text.len() < 500);
        let lines: Vec<_> = text.lines().collect();
        let at = lines[1].chars().position(|letter| letter == 'X');
        assert_eq!(at, lines[2].chars().position(|letter| letter == '^'));
    }

    #[test]
    fn places_outside_the_source_do_no_harm() {
        for offset in [0, 1, 7, usize::MAX] {
            assert!(!caret(b"{}", offset, usize::MAX / 2, 1).is_empty());
        }
    }

    #[test]
    fn every_fault_of_an_answer_is_told() {
        let answer = json!({"error": "Invalid configuration.", "errors": [
            {"pointer": "/a", "message": "first", "suggestion": "mend it"}, {"pointer": "/b", "message": "second"}]});
        let Failure { .. } = failure(&answer, 400, None);
        let text = answer["errors"]
            .as_array()
            .unwrap()
            .iter()
            .map(|fault| one(fault, None))
            .collect::<String>();
        assert!(text.contains("first") && text.contains("mend it") && text.contains("/b"));
    }
}
