//! Diagnostics for a terminal: the faulty line, with a mark under the place.
//!
//! Called by the command line. Lines of any length and with any bytes are shown safely: only a window around the place
//! is printed, and control characters are not passed on to the terminal.

use std::fmt::Write as _;

use tutti_options::visible;

use crate::diagnostic::{Diagnostic, Diagnostics, Location};

/// Maximum characters of a line to show.
const WINDOW: usize = 100;
/// Characters of those before the place.
const BEFORE: usize = 60;

const RED: &str = "\x1b[1;31m";
const YELLOW: &str = "\x1b[1;33m";
const BLUE: &str = "\x1b[1;34m";
const CYAN: &str = "\x1b[36m";
const BOLD: &str = "\x1b[1m";
const PLAIN: &str = "\x1b[0m";

/// Formats all faults, each with an excerpt of its file among `sources`, which are names and contents; a fault without
/// a file belongs to the first.
pub fn excerpt(diagnostics: &Diagnostics, sources: &[(&str, &[u8])], coloured: bool) -> String {
    counted(diagnostics, sources, coloured, "; nothing was changed")
}

/// Formats faults of a configuration that was only checked.
pub fn excerpt_of_check(
    diagnostics: &Diagnostics,
    sources: &[(&str, &[u8])],
    coloured: bool,
) -> String {
    counted(diagnostics, sources, coloured, "")
}

fn counted(
    diagnostics: &Diagnostics,
    sources: &[(&str, &[u8])],
    coloured: bool,
    consequence: &str,
) -> String {
    let mut text = String::new();
    show(&mut text, diagnostics, sources, coloured, "error");
    let count = diagnostics.count();
    let _ = writeln!(
        text,
        "{count} {} found{consequence}",
        if count == 1 { "error" } else { "errors" }
    );
    text
}

/// Formats warnings, without a count.
pub fn excerpt_of_warnings(
    warnings: &Diagnostics,
    sources: &[(&str, &[u8])],
    coloured: bool,
) -> String {
    let mut text = String::new();
    show(&mut text, warnings, sources, coloured, "warning");
    text
}

fn show(
    text: &mut String,
    diagnostics: &Diagnostics,
    sources: &[(&str, &[u8])],
    coloured: bool,
    severity: &str,
) {
    for diagnostic in &diagnostics.0 {
        let source = match &diagnostic.file {
            Some(file) => sources.iter().find(|(name, _)| *name == &**file),
            None => sources.first(),
        };
        let nothing: (&str, &[u8]) = (diagnostic.file.as_deref().unwrap_or_default(), &[]);
        let (name, bytes) = *source.unwrap_or(&nothing);
        one(text, diagnostic, (name, bytes), coloured, severity);
        text.push('\n');
    }
}

fn one(
    text: &mut String,
    diagnostic: &Diagnostic,
    (name, source): (&str, &[u8]),
    coloured: bool,
    severity: &str,
) {
    let paint = |colour: &'static str| if coloured { colour } else { "" };
    let (red, blue, cyan, bold, plain) = (
        paint(if severity == "error" { RED } else { YELLOW }),
        paint(BLUE),
        paint(CYAN),
        paint(BOLD),
        paint(PLAIN),
    );
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "{red}{severity}{plain}{bold}: {}{plain}",
        visible_lines(&diagnostic.message)
    );
    let number = diagnostic
        .location
        .map_or(0, |location| location.line)
        .to_string();
    let margin = " ".repeat(number.len());
    if let Some(location) = diagnostic.location {
        let (line, mark) = window(&location, source);
        let _ = writeln!(
            text,
            "{margin}{blue}-->{plain} {name}:{}:{}",
            location.line, location.column
        );
        let _ = writeln!(text, "{margin} {blue}|{plain}");
        let _ = writeln!(text, "{blue}{number} |{plain} {line}");
        let _ = writeln!(text, "{margin} {blue}|{plain} {red}{mark}{plain}");
    }
    let pointer = diagnostic.pointer.as_str();
    if !pointer.is_empty() {
        let _ = writeln!(
            text,
            "{margin} {blue}={plain} at {}",
            visible(&crate::diagnostic::shorten(pointer))
        );
    }
    if let (None, Some(value)) = (diagnostic.location, &diagnostic.value) {
        let _ = writeln!(text, "{margin} {blue}={plain} value: {}", visible(value));
    }
    if let Some(expected) = &diagnostic.expected {
        let _ = writeln!(
            text,
            "{margin} {blue}={plain} expected {}",
            visible(expected)
        );
    }
    if let Some(suggestion) = &diagnostic.suggestion {
        let _ = writeln!(
            text,
            "{margin} {blue}={plain} {cyan}hint{plain}: {}",
            visible(suggestion)
        );
    }
}

/// Returns the part of the line around the place, and the mark to print below it.
fn window(location: &Location, source: &[u8]) -> (String, String) {
    let offset = location.offset.min(source.len());
    let (before, after) = source.split_at(offset);
    let begin = memchr::memrchr(b'\n', before).map_or(0, |position| position + 1);
    let end = memchr::memchr(b'\n', after).unwrap_or(after.len());
    // Only as many bytes as can be shown: a name may be a megabyte.
    let before = before.get(begin..).unwrap_or_default();
    let before = before
        .get(before.len().saturating_sub(BEFORE * 4)..)
        .unwrap_or_default();
    let after = after.get(..end.min(WINDOW * 4)).unwrap_or_default();
    let before = visible(&String::from_utf8_lossy(before));
    let marked = visible(&String::from_utf8_lossy(
        after
            .get(..location.length.min(after.len()))
            .unwrap_or_default(),
    ));
    let after = visible(&String::from_utf8_lossy(after));

    let skipped = before.chars().count().saturating_sub(BEFORE);
    let mut line: String = if skipped > 0 {
        "…".to_owned()
    } else {
        String::new()
    };
    line.extend(before.chars().skip(skipped));
    let indent = line.chars().count();
    let room = WINDOW.saturating_sub(indent);
    line.extend(after.chars().take(room));
    if after.chars().count() > room {
        line.push('…');
    }
    let carets = marked.chars().count().clamp(1, room.max(1));
    (
        line,
        format!("{}{}", " ".repeat(indent), "^".repeat(carets)),
    )
}

/// Keeps line breaks, as in a traceback, and indents all lines but the first.
fn visible_lines(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(visible).collect();
    lines.join("\n    ")
}
