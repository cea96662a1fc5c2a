//! Files of sections and `name = value`, as PHP-FPM and uWSGI write them.

use std::rc::Rc;

use crate::finding::SourceLocation;
use crate::finding::UnreadableSource;

/// A line of a section.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The section that it is in; empty before the first.
    pub(crate) section: String,
    pub(crate) name: String,
    /// Its value, without quotes.
    pub(crate) value: String,
    /// The line.
    pub(crate) place: SourceLocation,
}

/// True if the first line with content opens a section.
pub(crate) fn looks_like(text: &str) -> bool {
    let said = text
        .lines()
        .map(str::trim)
        .find(|line| !line.is_empty() && !line.starts_with([';', '#']));
    said.is_some_and(|line| line.starts_with('[') && line.ends_with(']'))
}

/// The entries of a file. Quotes around a value are not part of it.
pub(crate) fn parse(name: &str, text: &str) -> Result<Vec<Entry>, UnreadableSource> {
    let file: Rc<str> = name.into();
    let mut section = String::new();
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let place = SourceLocation {
            file: Rc::clone(&file),
            line: number + 1,
        };
        let line = line.trim().trim_start_matches('\u{feff}');
        if line.is_empty() || line.starts_with([';', '#']) {
            continue;
        }
        if let Some(inner) = line.strip_prefix('[') {
            let Some(inner) = inner.strip_suffix(']') else {
                return Err(UnreadableSource {
                    file: name.to_owned(),
                    line: number + 1,
                    problem: "a `[` is not closed".to_owned(),
                    hint: None,
                });
            };
            inner.clone_into(&mut section);
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), value.trim()),
            None => (line, "true"),
        };
        let quoted = ['"', '\'']
            .iter()
            .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
        // A comment behind a value has a space before it.
        let plain = value.split(" ;").next().unwrap_or(value).trim();
        entries.push(Entry {
            section: section.clone(),
            name: key.to_owned(),
            value: quoted.unwrap_or(plain).to_owned(),
            place,
        });
    }
    Ok(entries)
}
