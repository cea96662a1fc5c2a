//! Error responses of the control API, shown with an excerpt of the source for each fault.
//!
//! The server reports positions in the bytes it received, which only the command line still has; so the faults are read
//! back and shown by the same renderer as those of the offline check.

use std::io::{self, Write};

use serde_json::Value;
use tutti_config::{Diagnostic, Diagnostics, Location, Pointer};
use tutti_options::visible;

use super::report::CommandError;
use super::style;

/// Turns an error response into a failure; `sent` are the names and texts that its places refer to.
pub(crate) fn failure(answer: &Value, status: u16, sent: &[(&str, &[u8])]) -> CommandError {
    let word = |name: &str| answer.get(name).and_then(Value::as_str).map(visible);
    let summary = match word("error") {
        Some(summary) => summary.trim_end_matches('.').to_owned(),
        None => format!("the server answered with status {status}"),
    };
    let faults = read(answer, "errors", sent);
    if faults.0.is_empty() {
        return CommandError::new(match word("detail") {
            Some(detail) => format!("{summary}: {}", detail.trim_end_matches('.')),
            None => summary,
        });
    }
    shown(summary, &faults, sent)
}

/// Prints the warnings of a successful response.
pub(crate) fn show_warnings(answer: &Value, sent: &[(&str, &[u8])]) {
    print_warnings(&read(answer, "warnings", sent), sent);
}

/// Prints warnings with their source lines, only for people: the output for programs is not affected.
pub(crate) fn print_warnings(warnings: &Diagnostics, sources: &[(&str, &[u8])]) {
    let text = tutti_config::excerpt_of_warnings(warnings, sources, style::is_colourful());
    // If stderr is closed, there is nowhere to report to.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Returns the faults in a member of a response.
fn read(answer: &Value, member: &str, sent: &[(&str, &[u8])]) -> Diagnostics {
    let faults = answer.get(member).and_then(Value::as_array);
    let mut faults = Diagnostics(faults.into_iter().flatten().map(read_fault).collect());
    if sent.is_empty() {
        for fault in &mut faults.0 {
            // The place in a file is useful even without its text.
            if fault.file.is_some() {
                fault.message = format!("{}{}", fault.place(), fault.message);
            }
            fault.location = None;
        }
    }
    faults
}

/// Formats faults with their source lines.
pub(crate) fn shown(
    summary: String,
    faults: &Diagnostics,
    sources: &[(&str, &[u8])],
) -> CommandError {
    let text = tutti_config::excerpt(faults, sources, style::is_colourful());
    CommandError::new(summary).excerpt(text)
}

fn read_fault(fault: &Value) -> Diagnostic {
    let word = |name: &str| fault.get(name).and_then(Value::as_str).map(str::to_owned);
    let number = |name: &str| {
        fault
            .get(name)
            .and_then(Value::as_u64)
            .and_then(|number| usize::try_from(number).ok())
    };
    let pointer = Pointer::from_escaped(&word("pointer").unwrap_or_default());
    let mut diagnostic = Diagnostic::new(pointer, word("message").unwrap_or_default());
    diagnostic.location = number("offset").map(|offset| Location {
        offset,
        length: number("length").unwrap_or(1),
        line: number("line").unwrap_or(1),
        column: number("column").unwrap_or(1),
    });
    diagnostic.file = word("file").map(Into::into);
    diagnostic.value = word("value");
    diagnostic.expected = word("expected");
    diagnostic.suggestion = word("suggestion");
    diagnostic
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_fault_of_an_answer_is_shown_with_its_line() {
        let source = b"{\n  \"listners\": {}\n}";
        let answer = json!({"error": "Invalid configuration.", "errors": [
            {"pointer": "/listners", "message": "unknown option", "suggestion": "did you mean `listeners`?",
             "offset": 4, "length": 10, "line": 2, "column": 3},
            {"pointer": "/b", "message": "second fault"}]});
        let text = failure(&answer, 400, &[("site.json", source)]).text();
        for part in [
            "site.json:2:3",
            "\"listners\": {}",
            "^^^^^^^^^^",
            "did you mean",
            "second fault",
            "/b",
        ] {
            assert!(text.contains(part), "{part} in\n{text}");
        }
    }

    #[test]
    fn an_answer_without_faults_is_shown_as_it_is() {
        let answer = json!({"error": "Value doesn't exist.", "detail": "no such listener."});
        assert!(
            failure(&answer, 404, &[])
                .text()
                .contains("Value doesn't exist: no such listener")
        );
        let answer = json!({"error": "No\u{1b}[2J.", "detail": "because\nof"});
        let text = failure(&answer, 404, &[]).text();
        assert!(text.contains("No·[2J: because of"), "{text}");
        assert!(failure(&json!(null), 502, &[]).text().contains("502"));
    }
}
