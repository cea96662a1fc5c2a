//! Diagnostics: a fault of a configuration, its place, and its remedy.
//!
//! Created by the parser, by edits, by validation, and when a configuration is applied (port in use, application that
//! does not start). One diagnostic is one fault; a [`Diagnostics`] holds all of them, in the order of the document. A
//! location always points into the bytes that the client sent last, never into older ones.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use serde_json::{Map, Value, json};
use tutti_options::Format;

use crate::pointer::Pointer;

/// Maximum reported faults; beyond that, only their number. Users fix no more at a time, and each costs a search of the
/// text.
pub const MOST_FAULTS: usize = 100;

/// Bytes of a text whose characters are counted together, once: columns are reported for lines of any length.
const BLOCK: usize = 256;

/// Longest offending value repeated in a report, in characters.
const VALUE_SHOWN: usize = 80;

/// The kind of a fault. It determines the summary, and the HTTP status of the control API.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// Not valid JSON, YAML or TOML (400).
    Syntax,
    /// Well-formed, but not a valid configuration (400).
    #[default]
    Invalid,
    /// The place does not exist (404).
    NotFound,
    /// Valid, but it cannot be applied now (500).
    Apply,
    /// Valid, but nothing can apply it at the moment (503).
    Unavailable,
}

/// A place in the bytes that were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Bytes before it.
    pub offset: usize,
    /// Bytes it covers; at least 1, except at the end.
    pub length: usize,
    /// Counted from 1.
    pub line: usize,
    /// Characters, counted from 1.
    pub column: usize,
}

/// One fault.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnostic {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The place in the resulting document.
    pub pointer: Pointer,
    /// The place in the bytes that were sent; `None` if they are not the cause.
    pub location: Option<Location>,
    /// The file of the location; `None` if there is only a request body.
    pub file: Option<Arc<str>>,
    /// The language of the text; it determines the summary of a [`FaultKind::Syntax`].
    pub format: Format,
    /// The offending value as JSON, shortened.
    pub value: Option<String>,
    /// The fault, without a period.
    pub message: String,
    /// A description of valid values.
    pub expected: Option<String>,
    /// The remedy.
    pub suggestion: Option<String>,
    /// Set for an unknown option; with the intended one, if that is clear.
    pub unknown: Option<Unknown>,
    /// The number of unlisted faults that this represents; 0 for an ordinary fault.
    pub more: usize,
}

/// Information about an unknown option.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unknown {
    /// The name that was probably intended.
    pub meant: Option<String>,
}

impl Diagnostic {
    /// A fault of validation at `pointer`.
    pub fn new(pointer: Pointer, message: impl Into<String>) -> Self {
        Diagnostic {
            pointer,
            message: message.into(),
            ..Diagnostic::default()
        }
    }

    /// Creates a fault of a valid configuration that could not be applied: `pointer` names the object that was being
    /// applied.
    pub fn apply(pointer: Pointer, message: impl Into<String>) -> Self {
        Diagnostic {
            kind: FaultKind::Apply,
            pointer,
            message: message.into(),
            ..Diagnostic::default()
        }
    }

    /// Adds a remedy.
    #[must_use]
    pub fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }

    /// Adds a description of valid values.
    #[must_use]
    pub fn expect(mut self, expected: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self
    }

    /// Represents faults that are not listed.
    pub fn more(count: usize) -> Self {
        let message = match count {
            1 => "one more error is not listed".to_owned(),
            count => format!("{count} more errors are not listed"),
        };
        Diagnostic {
            more: count,
            ..Diagnostic::new(Pointer::root(), message)
        }
    }

    /// Returns its place as the beginning of a line: `site.yaml:3:7: `, `line 3, column 7: ` or nothing.
    pub fn place(&self) -> String {
        match (&self.file, self.location) {
            (Some(file), Some(at)) => format!("{file}:{}:{}: ", at.line, at.column),
            (Some(file), None) => format!("{file}: "),
            (None, Some(at)) => format!("line {}, column {}: ", at.line, at.column),
            (None, None) => String::new(),
        }
    }

    /// Returns the fault as one or two sentences, without a period.
    pub fn detail(&self) -> String {
        let mut text = self.message.clone();
        if !self.pointer.as_str().is_empty() && self.kind != FaultKind::Syntax {
            text = format!("{} at `{}`", text, shorten(self.pointer.as_str()));
        }
        if let Some(expected) = &self.expected {
            text = format!("{text}; expected {expected}");
        }
        if let Some(suggestion) = &self.suggestion {
            text = format!("{text}; {suggestion}");
        }
        text
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("pointer".to_owned(), self.pointer.as_str().into());
        object.insert("message".to_owned(), self.message.as_str().into());
        if let Some(value) = &self.value {
            object.insert("value".to_owned(), value.as_str().into());
        }
        if let Some(expected) = &self.expected {
            object.insert("expected".to_owned(), expected.as_str().into());
        }
        if let Some(suggestion) = &self.suggestion {
            object.insert("suggestion".to_owned(), suggestion.as_str().into());
        }
        if let Some(file) = &self.file {
            object.insert("file".to_owned(), (&**file).into());
        }
        if let Some(location) = &self.location {
            object.insert("offset".to_owned(), location.offset.into());
            object.insert("length".to_owned(), location.length.into());
            object.insert("line".to_owned(), location.line.into());
            object.insert("column".to_owned(), location.column.into());
        }
        Value::Object(object)
    }
}

/// All faults of a configuration; never empty when it is an error.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// One fault.
    pub fn one(diagnostic: Diagnostic) -> Self {
        Diagnostics(vec![diagnostic])
    }

    /// Moves the pointers below `base`: for faults found in a part that belongs there.
    #[must_use]
    pub fn under(mut self, base: &Pointer) -> Self {
        for diagnostic in &mut self.0 {
            diagnostic.pointer = diagnostic.pointer.under(base);
        }
        self
    }

    /// The kind of the first fault; it determines the summary.
    pub fn kind(&self) -> FaultKind {
        self.0.first().map(|first| first.kind).unwrap_or_default()
    }

    /// The status of the control API's response.
    pub fn http_status(&self) -> u16 {
        match self.kind() {
            FaultKind::NotFound => 404,
            FaultKind::Apply => 500,
            FaultKind::Unavailable => 503,
            _ => 400,
        }
    }

    /// Returns the response of the control API: `error`, `detail` and `location` of the first fault as in NGINX Unit,
    /// `path` and, for a mistyped option, `suggestion` as in FreeUnit (1.36.1), and all faults in `errors`.
    pub fn to_json(&self) -> Value {
        let mut object = Map::new();
        object.insert("error".to_owned(), self.summary().into());
        if let Some(first) = self.0.first() {
            object.insert("detail".to_owned(), sentence(first.detail()).into());
            let has_path = !matches!(first.kind, FaultKind::Syntax | FaultKind::NotFound);
            if let Some(location) = first.location {
                let mut location = json!({"offset": location.offset, "line": location.line, "column": location.column});
                if let (true, Some(location)) = (has_path, location.as_object_mut()) {
                    location.insert("path".to_owned(), first.pointer.as_str().into());
                }
                object.insert("location".to_owned(), location);
            }
            if has_path {
                object.insert("path".to_owned(), first.pointer.as_str().into());
            }
            if let Some(meant) = first
                .unknown
                .as_ref()
                .and_then(|unknown| unknown.meant.as_deref())
            {
                object.insert("suggestion".to_owned(), meant.into());
            }
        }
        object.insert("errors".to_owned(), self.list());
        Value::Object(object)
    }

    /// The faults as JSON, each an object with `pointer` and `message`.
    pub fn list(&self) -> Value {
        self.0.iter().map(Diagnostic::to_json).collect()
    }

    /// Returns the number of faults, including unlisted ones.
    pub fn count(&self) -> usize {
        let counts = self.0.iter().map(|fault| fault.more.max(1));
        counts.sum()
    }

    fn summary(&self) -> &'static str {
        match self.kind() {
            FaultKind::Syntax => match self.0.first().map(|first| first.format) {
                Some(Format::Yaml) => "Invalid YAML.",
                Some(Format::Toml) => "Invalid TOML.",
                _ => "Invalid JSON.",
            },
            FaultKind::Invalid => "Invalid configuration.",
            FaultKind::NotFound => "Value doesn't exist.",
            FaultKind::Apply | FaultKind::Unavailable => "Failed to apply new configuration.",
        }
    }
}

impl std::fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, diagnostic) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            f.write_str(&diagnostic.place())?;
            f.write_str(&diagnostic.detail())?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

/// Adds a period, unless it ends with a mark of its own.
fn sentence(mut text: String) -> String {
    if !text.ends_with(['.', '?', '!']) {
        text.push('.');
    }
    text
}

/// Truncates text that is too long to be read.
pub fn shorten(text: &str) -> String {
    match text.char_indices().nth(VALUE_SHOWN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// The bytes that were sent, with an identity that their spans refer to.
#[derive(Clone, Debug)]
pub struct SourceText {
    pub(crate) id: u32,
    pub(crate) bytes: Arc<[u8]>,
    /// The name of the file they are from.
    pub(crate) name: Option<Arc<str>>,
    pub(crate) format: Format,
    index: Arc<OnceLock<Index>>,
}

/// The positions of lines and characters in a text.
#[derive(Debug)]
struct Index {
    line_starts: Vec<usize>,
    /// Characters before each block of [`BLOCK`] bytes.
    characters: Vec<usize>,
}

impl Index {
    fn of(bytes: &[u8]) -> Index {
        let mut count = 0;
        let mut characters = vec![0];
        for block in bytes.chunks(BLOCK) {
            count += characters_in(block);
            characters.push(count);
        }
        Index {
            line_starts: std::iter::once(0)
                .chain(memchr::memchr_iter(b'\n', bytes).map(|position| position + 1))
                .collect(),
            characters,
        }
    }

    fn characters_before(&self, bytes: &[u8], offset: usize) -> usize {
        let block = offset / BLOCK;
        let rest = bytes.get(block * BLOCK..offset).unwrap_or_default();
        self.characters.get(block).copied().unwrap_or_default() + characters_in(rest)
    }
}

/// Continuation bytes of UTF-8 are 10xxxxxx: the others are one byte per character.
fn characters_in(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

impl SourceText {
    /// Bytes without a name, in a language.
    pub fn new(bytes: &[u8], format: Format) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        SourceText {
            id,
            bytes: bytes.into(),
            name: None,
            format,
            index: Arc::default(),
        }
    }

    /// Adds the name of a file.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Returns the bytes as text.
    pub(crate) fn text(&self) -> Result<&str, Diagnostics> {
        self.check_size()?;
        std::str::from_utf8(&self.bytes).map_err(|error| self.not_utf8(error.valid_up_to()))
    }

    /// Returns the bytes as text of the same length, in which `?` replaces each byte that is not UTF-8, and the
    /// positions of these.
    pub(crate) fn text_with_foreign_bytes(
        &self,
    ) -> Result<(Cow<'_, str>, Vec<usize>), Diagnostics> {
        self.check_size()?;
        if let Ok(text) = std::str::from_utf8(&self.bytes) {
            return Ok((text.into(), Vec::new()));
        }
        let mut text = String::with_capacity(self.bytes.len());
        let mut places = Vec::new();
        for chunk in self.bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            for _ in chunk.invalid() {
                places.push(text.len());
                text.push('?');
            }
        }
        Ok((text.into(), places))
    }

    fn check_size(&self) -> Result<(), Diagnostics> {
        if u32::try_from(self.bytes.len()).is_ok() {
            return Ok(());
        }
        Err(Diagnostics::one(self.slip(
            Pointer::root(),
            0..1,
            "the document is larger than 4 GB",
        )))
    }

    /// Returns the fault of a byte outside of comments.
    pub(crate) fn not_utf8(&self, at: usize) -> Diagnostics {
        let byte = self.bytes.get(at).copied().unwrap_or_default();
        let message = format!("byte 0x{byte:02x} is not UTF-8 here");
        let slip = self.slip(Pointer::root(), at..at + 1, message);
        Diagnostics::one(slip.suggest("a configuration is encoded in UTF-8"))
    }

    /// Returns a syntax fault at these bytes.
    pub(crate) fn slip(
        &self,
        pointer: Pointer,
        at: std::ops::Range<usize>,
        message: impl Into<String>,
    ) -> Diagnostic {
        Diagnostic {
            kind: FaultKind::Syntax,
            pointer,
            location: Some(self.locate(at.start, at.end)),
            file: self.name.clone(),
            format: self.format,
            message: message.into(),
            ..Diagnostic::default()
        }
    }

    /// Returns line and column of a range of bytes.
    pub(crate) fn locate(&self, start: usize, end: usize) -> Location {
        let index = self.index.get_or_init(|| Index::of(&self.bytes));
        let starts = &index.line_starts;
        let offset = start.min(self.bytes.len());
        let line = starts.partition_point(|begin| *begin <= offset);
        let begin = starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let until = |offset| index.characters_before(&self.bytes, offset);
        let column = until(offset).saturating_sub(until(begin)) + 1;
        Location {
            offset,
            length: end.min(self.bytes.len()).saturating_sub(offset),
            line,
            column,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters_in_lines_of_any_length() {
        let text = format!("{}\n{}x", "ä".repeat(300), "ü".repeat(1000));
        let source = SourceText::new(text.as_bytes(), Format::Json);
        let first = source.locate(2 * 299, 2 * 300);
        assert_eq!((first.line, first.column, first.length), (1, 300, 2));
        let last = source.locate(text.len() - 1, text.len());
        assert_eq!((last.line, last.column), (2, 1001));
        let end = source.locate(text.len(), text.len());
        assert_eq!((end.line, end.column, end.length), (2, 1002, 0));
    }
}
