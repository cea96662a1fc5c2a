//! One sentence per line in documents, so that a change of one sentence is a change of one line.
//!
//! Code, tables, headings, quotes and pictures are left alone, and so are pages that are made by a program.

use std::path::Path;

use anyhow::{Context, Result};

use crate::breach::Breach;
use crate::documents::all;

/// Pages that are made by a program.
pub(crate) const GENERATED: &[&str] = &[
    "docs/reference/command-line.md",
    "docs/reference/import-apache.md",
    "docs/reference/import-nginx.md",
    "docs/reference/import-others.md",
    "docs/reference/options.md",
    "docs/reference/variables.md",
];

/// Words whose period ends no sentence.
const ABBREVIATIONS: &[&str] = &["e.g", "i.e", "etc", "vs", "cf", "No", "St"];

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut breaches = Vec::new();
    for document in all(root)? {
        if GENERATED.contains(&document.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(root.join(&document))
            .with_context(|| format!("{document} cannot be read"))?;
        for (line, fault) in faults(&text) {
            breaches.push(Breach::new(format!("{document}:{line}"), fault));
        }
    }
    Ok(breaches)
}

/// Line numbers, each with what is wrong there.
fn faults(text: &str) -> Vec<(usize, &'static str)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut is_code = false;
    let mut is_paragraph = false;
    for (index, line) in lines.iter().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            is_paragraph = false;
            continue;
        }
        let is_indented_code = line.starts_with("    ") && !is_paragraph;
        if is_code || is_indented_code || !is_prose(line) {
            is_paragraph = false;
            continue;
        }
        is_paragraph = true;
        if boundary(line).is_some() {
            found.push((index + 1, "two sentences on one line"));
        }
        let continues = lines.get(index + 1).is_some_and(|next| {
            is_prose(next) && !is_item(next) && !next.trim_start().starts_with("```")
        });
        let ends = line
            .trim_end_matches(|letter: char| is_closing(letter) || letter == '`')
            .ends_with(['.', '!', '?', '…']);
        let ends = ends || line.ends_with(')') && line.contains("](");
        if continues && !ends {
            found.push((index + 1, "the sentence goes on in the next line"));
        }
    }
    found
}

/// True for a line of a paragraph or of a list.
fn is_prose(line: &str) -> bool {
    let line = line.trim_start();
    !line.is_empty()
        && !line.starts_with(['|', '#', '>'])
        && !line.starts_with("<!--")
        && !line.starts_with("![")
}

fn is_item(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.trim_start_matches(|letter: char| letter.is_ascii_digit());
    line.starts_with(['-', '*', '+']) && line.get(1..2) == Some(" ")
        || number.len() < line.len()
            && number.starts_with([')', '.'])
            && number.get(1..2) == Some(" ")
}

fn is_closing(letter: char) -> bool {
    matches!(letter, ')' | '"' | '\'' | '*' | '_' | '”' | '’' | ']')
}

/// The byte at which a second sentence of the line begins.
fn boundary(line: &str) -> Option<usize> {
    let start = if is_item(line) {
        line.find(' ')
            .map_or(0, |_| line.len() - line.trim_start().len() + 2)
    } else {
        0
    };
    let mut is_code = false;
    for (place, letter) in line.char_indices() {
        if letter == '`' {
            is_code = !is_code;
        }
        if is_code || place < start || !matches!(letter, '.' | '!' | '?') {
            continue;
        }
        let rest = line.get(place + 1..)?.trim_start_matches(is_closing);
        // The address of a link that the sentence ends with.
        let rest = rest
            .strip_prefix('(')
            .and_then(|address| address.split_once(')'))
            .map_or(rest, |(_, after)| after)
            .trim_start_matches(is_closing);
        let next = rest.trim_start();
        if next.len() == rest.len() || !begins_sentence(next) {
            continue;
        }
        if letter == '.' && is_inside(line.get(..place)?, next) {
            continue;
        }
        return Some(line.len() - next.len());
    }
    None
}

/// True if a sentence may begin like this.
fn begins_sentence(text: &str) -> bool {
    let first = text
        .trim_start_matches(['[', '(', '"', '*', '_', '“', '‘'])
        .chars()
        .next();
    first.is_some_and(|letter| {
        letter.is_uppercase() || letter.is_ascii_digit() || matches!(letter, '`' | '$' | '<' | '…')
    })
}

/// True for a period that belongs to an abbreviation, an initial, an ellipsis or a number before another.
fn is_inside(before: &str, next: &str) -> bool {
    let word = before.rsplit([' ', '(']).next().unwrap_or_default();
    let is_initial =
        word.chars().count() == 1 && !word.chars().all(|letter| letter.is_ascii_digit());
    let is_number = word.ends_with(|letter: char| letter.is_ascii_digit())
        && next.starts_with(|letter: char| letter.is_ascii_digit());
    ABBREVIATIONS.contains(&word) || is_initial || is_number || before.ends_with('.')
}

#[cfg(test)]
mod tests {
    use super::faults;

    #[test]
    fn sentences_have_lines_of_their_own() {
        for (text, expected) in [
            ("One. Two.", vec![1]),
            ("One.\nTwo.", vec![]),
            ("One goes\non.", vec![1]),
            ("- One: a, b.\n  Two (c).\n- Three", vec![]),
            ("1. One. `two` follows.", vec![1]),
            ("Of `a. B` and e.g. C, version 1. 2", vec![]),
            ("See [this](a.md#b). Then (that).", vec![1]),
            ("| One. Two. |\n# One. Two.\n```\nOne. Two.\n```", vec![]),
        ] {
            let lines: Vec<usize> = faults(text).into_iter().map(|(line, _)| line).collect();
            assert_eq!(lines, expected, "{text}");
        }
    }
}
