//! JSON (RFC 8259) with comments and a byte-order mark, to a [`Document`] with spans.
//!
//! Used for request bodies and for the stored configuration. Two mistakes are accepted with a warning, as in NGINX
//! Unit: one comma before a closing bracket, and bytes in a comment that are not UTF-8. After any other mistake whose
//! meaning is clear (a repeated or missing comma, an unquoted name, a malformed number, a repeated name) it continues,
//! so that one attempt shows them all, and rejects the document. It never panics and never recurses deeper than
//! [`DEPTH_LIMIT`].

mod scalar;

use std::collections::HashMap;

use tutti_options::Format;

use crate::config_path::ConfigPath;
use crate::diagnostic::{Diagnostic, Diagnostics, SourceText, shorten};
use crate::pointer::Pointer;
use crate::tree::{Document, Member, SourceSpan, TreeNode, Value};

/// Arrays and objects inside each other. Real configurations have about ten.
pub(crate) const DEPTH_LIMIT: usize = 128;

/// Mistakes reported before giving up: with so many it is probably another kind of file.
const SLIP_LIMIT: usize = 20;

/// Accepted mistakes that are reported; each costs a search of the text.
const REMARK_LIMIT: usize = 20;

/// Objects with fewer members are searched linearly for repeated names.
const SMALL_OBJECT: usize = 16;

/// Parses a document.
///
/// # Errors
/// All mistakes, each with its position; the pointer is that of the innermost array or object around it.
pub fn parse(bytes: &[u8]) -> Result<Document, Diagnostics> {
    parse_source(SourceText::new(bytes, Format::Json))
}

/// Parses bytes that may have a file name.
pub(crate) fn parse_source(source: SourceText) -> Result<Document, Diagnostics> {
    let (text, foreign) = source.text_with_foreign_bytes()?;
    let mut parser = Parser {
        source: &source,
        text: &text,
        position: 0,
        slips: Vec::new(),
        remarks: Vec::new(),
        foreign: foreign.into_iter().peekable(),
    };
    let root = parser.document();
    let position = parser.position;
    // Bytes that are not UTF-8 explain the mistakes around them.
    if let Some(at) = parser.foreign.next().filter(|at| *at < position) {
        return Err(source.not_utf8(at));
    }
    if parser.slips.is_empty()
        && let Ok(root) = root
    {
        let remarks = parser.remarks;
        return Ok(Document::from_source(root, source).with_remarks(remarks));
    }
    Err(Diagnostics(parser.slips))
}

/// A mistake that ends parsing; it has been recorded.
struct Lost;

type Parsed<T> = Result<T, Lost>;

struct Parser<'s> {
    source: &'s SourceText,
    text: &'s str,
    position: usize,
    slips: Vec<Diagnostic>,
    remarks: Vec<Diagnostic>,
    /// Positions of bytes that are not UTF-8, in order; those in parsed comments are removed.
    foreign: std::iter::Peekable<std::vec::IntoIter<usize>>,
}

impl<'s> Parser<'s> {
    fn document(&mut self) -> Parsed<TreeNode> {
        let place = ConfigPath::root();
        if self.text.starts_with('\u{feff}') {
            self.position = '\u{feff}'.len_utf8();
        }
        self.space(&place)?;
        if self.peek().is_none() {
            return self.lost(
                &place,
                self.position,
                "the document is empty",
                Some("send a JSON value, for example `{}`"),
            );
        }
        let root = self.value(&place)?;
        self.space(&place)?;
        if let Some(byte) = self.peek() {
            let what = self.shown(byte);
            return self.lost(
                &place,
                self.position,
                &format!("{what} follows the end of the document"),
                None,
            );
        }
        Ok(root)
    }

    fn value(&mut self, place: &ConfigPath<'_>) -> Parsed<TreeNode> {
        let start = self.position;
        let value = match self.peek() {
            Some(b'{') => self.object(place)?,
            Some(b'[') => self.array(place)?,
            Some(b'"') => Value::String(self.string(place)?.into()),
            Some(b'-' | b'+' | b'.' | b'0'..=b'9') => self.number(place)?,
            Some(b'\'') => {
                let text = self.single_quoted(place)?;
                Value::String(text.into())
            }
            Some(byte) if byte.is_ascii_alphabetic() => self.word(place)?,
            Some(byte) => {
                let message = format!("{} where a value should be", self.shown(byte));
                return self.lost(place, start, &message, Some("strings need double quotes"));
            }
            None => {
                return self.lost(
                    place,
                    start,
                    "the document ends where a value should be",
                    None,
                );
            }
        };
        Ok(TreeNode {
            value,
            span: self.span(start),
        })
    }

    fn object(&mut self, place: &ConfigPath<'_>) -> Parsed<Value> {
        let open = self.enter(place)?;
        let mut members: Vec<Member> = Vec::new();
        let mut names: HashMap<Box<str>, SourceSpan> = HashMap::new();
        while self.next_item(place, open, b'}', members.is_empty())? {
            let start = self.position;
            let name = self.name(place)?;
            let name_span = self.span(start);
            self.repeated(place, &members, &names, &name, name_span);
            self.space(place)?;
            match self.peek() {
                Some(b':') => self.position += 1,
                Some(b'=') => {
                    self.slip(place, self.position, 1, "`=` where `:` should be", None)?;
                    self.position += 1;
                }
                _ => {
                    let message = format!("no `:` follows the name `{}`", shorten(&name));
                    self.slip(
                        place,
                        self.position,
                        1,
                        &message,
                        Some("write `\"name\": value`"),
                    )?;
                }
            }
            self.space(place)?;
            let inner = place.name(&name);
            let node = self.value(&inner)?;
            if members.len() >= SMALL_OBJECT {
                if names.is_empty() {
                    names.extend(
                        members
                            .iter()
                            .map(|member| (member.name.clone(), member.name_span)),
                    );
                }
                names.insert(name.clone().into(), name_span);
            }
            members.push(Member {
                name: name.into(),
                name_span,
                node,
            });
        }
        Ok(Value::Object(members))
    }

    fn repeated(
        &mut self,
        place: &ConfigPath<'_>,
        members: &[Member],
        names: &HashMap<Box<str>, SourceSpan>,
        name: &str,
        span: SourceSpan,
    ) {
        let first = if members.len() > SMALL_OBJECT {
            names.get(name).copied()
        } else {
            members
                .iter()
                .find(|member| *member.name == *name)
                .map(|member| member.name_span)
        };
        let Some(first) = first.filter(|_| self.slips.len() < SLIP_LIMIT) else {
            return;
        };
        let location = self.source.locate(first.start as usize, first.end as usize);
        let message = format!(
            "the name `{}` is repeated; it was first given at line {}, column {}",
            shorten(name),
            location.line,
            location.column
        );
        let start = span.start as usize;
        // Parsing continues regardless of the number of mistakes: the next one will notice.
        let _ = self.slip(
            place,
            start,
            span.end as usize - start,
            &message,
            Some("remove or rename one of them"),
        );
    }

    fn array(&mut self, place: &ConfigPath<'_>) -> Parsed<Value> {
        let open = self.enter(place)?;
        let mut elements = Vec::new();
        while self.next_item(place, open, b']', elements.is_empty())? {
            let inner = place.index(elements.len());
            elements.push(self.value(&inner)?);
        }
        Ok(Value::Array(elements))
    }

    /// Consumes `{` or `[`.
    fn enter(&mut self, place: &ConfigPath<'_>) -> Parsed<usize> {
        let open = self.position;
        if place.depth >= DEPTH_LIMIT {
            let message = format!("more than {DEPTH_LIMIT} arrays and objects inside each other");
            return self.lost(place, open, &message, None);
        }
        self.position += 1;
        Ok(open)
    }

    /// Advances to the next member or element, over the comma before it; false: over the closing bracket.
    fn next_item(
        &mut self,
        place: &ConfigPath<'_>,
        open: usize,
        close: u8,
        first: bool,
    ) -> Parsed<bool> {
        self.space(place)?;
        let before = self.position;
        let mut commas = 0;
        while self.peek() == Some(b',') {
            if commas > 0 || first {
                let message = if first {
                    "there is a comma before the first item"
                } else {
                    "a comma is repeated"
                };
                self.slip(place, self.position, 1, message, Some("remove it"))?;
            }
            commas += 1;
            self.position += 1;
            self.space(place)?;
        }
        match self.peek() {
            Some(byte) if byte == close => {
                if commas == 1 && !first {
                    self.trailing_comma(place, before, close);
                }
                self.position += 1;
                Ok(false)
            }
            Some(b'}' | b']') => {
                let line = self.source.locate(open, open).line;
                let opened = self.text.get(open..=open).unwrap_or_default();
                let message = format!(
                    "`{}` where `{}` should close the `{opened}` of line {line}",
                    self.text
                        .get(self.position..=self.position)
                        .unwrap_or_default(),
                    char::from(close)
                );
                self.lost(place, self.position, &message, None)
            }
            None => {
                let place_of_open = self.source.locate(open, open);
                let opened = self.text.get(open..=open).unwrap_or_default();
                let message = format!(
                    "the document ends, but the `{opened}` of line {}, column {} is not closed",
                    place_of_open.line, place_of_open.column
                );
                let hint = format!("add the missing `{}`", char::from(close));
                self.lost(place, self.position, &message, Some(&hint))
            }
            Some(byte) => {
                if commas == 0 && !first {
                    if byte == b':' {
                        return self.lost(place, self.position, "a `:` follows a value", None);
                    }
                    // The place to put it is right after the item before.
                    let end = self.end_of_previous(before);
                    self.slip(
                        place,
                        end,
                        1,
                        "a comma is missing",
                        Some("put one between the items"),
                    )?;
                }
                Ok(true)
            }
        }
    }

    fn trailing_comma(&mut self, place: &ConfigPath<'_>, at: usize, close: u8) {
        if self.remarks.len() >= REMARK_LIMIT {
            return;
        }
        let message = format!("there is a comma before `{}`", char::from(close));
        let remark = self.source.slip(place.pointer(), at..at + 1, message);
        self.remarks.push(remark.suggest("remove it"));
    }

    /// Where the item before ended: `position` without the white space before it (comments are left alone).
    fn end_of_previous(&self, position: usize) -> usize {
        self.text
            .get(..position)
            .map_or(position, |before| before.trim_end().len())
    }

    fn name(&mut self, place: &ConfigPath<'_>) -> Parsed<String> {
        let start = self.position;
        match self.peek() {
            Some(b'"') => self.string(place),
            Some(b'\'') => self.single_quoted(place),
            Some(byte) if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'*' | b'$') => {
                let rest = self.text.get(start..).unwrap_or_default();
                let end = rest
                    .find(|c: char| c.is_whitespace() || ":,{}[]\"".contains(c))
                    .unwrap_or(rest.len());
                let name = rest.get(..end).unwrap_or_default().to_owned();
                let hint = format!("write `\"{}\"`", shorten(&name));
                self.slip(place, start, end, "names need quotes", Some(&hint))?;
                self.position += end;
                Ok(name)
            }
            Some(byte) => {
                let message = format!("{} where a name in quotes should be", self.shown(byte));
                self.lost(place, start, &message, None)
            }
            None => self.lost(
                place,
                start,
                "the document ends where a name should be",
                None,
            ),
        }
    }

    /// Skips white space and comments.
    fn space(&mut self, place: &ConfigPath<'_>) -> Parsed<()> {
        loop {
            let rest = self
                .text
                .as_bytes()
                .get(self.position..)
                .unwrap_or_default();
            match rest {
                [b' ' | b'\t' | b'\n' | b'\r', ..] => self.position += 1,
                [b'/', b'/', ..] => {
                    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                    self.comment(end);
                }
                [b'/', b'*', inside @ ..] => match memchr::memmem::find(inside, b"*/") {
                    Some(end) => self.comment(end + 4),
                    None => {
                        return self.lost(
                            place,
                            self.position,
                            "the comment that begins here is not closed",
                            None,
                        );
                    }
                },
                [b'#', ..] => {
                    let end = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
                    let hint = Some("a comment begins with `//`");
                    self.slip(
                        place,
                        self.position,
                        end,
                        "`#` does not begin a comment here",
                        hint,
                    )?;
                    self.position += end;
                }
                _ => return Ok(()),
            }
        }
    }

    /// Steps over a comment of this length, which may have bytes that are not UTF-8.
    fn comment(&mut self, length: usize) {
        let start = self.position;
        self.position += length;
        let end = self.position;
        while self
            .foreign
            .next_if(|at| (start..end).contains(at))
            .is_some()
        {}
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.position).copied()
    }

    /// The character at the current position, for a report.
    fn shown(&self, byte: u8) -> String {
        let character = self
            .text
            .get(self.position..)
            .and_then(|rest| rest.chars().next())
            .unwrap_or(byte.into());
        format!("`{}`", character.escape_debug())
    }

    fn span(&self, start: usize) -> SourceSpan {
        // The length was checked to fit when parsing began.
        let narrow = |position: usize| u32::try_from(position).unwrap_or(u32::MAX);
        SourceSpan {
            source: self.source.id,
            start: narrow(start),
            end: narrow(self.position),
        }
    }

    /// Records a mistake; fails only if there are too many.
    fn slip(
        &mut self,
        place: &ConfigPath<'_>,
        at: usize,
        length: usize,
        message: &str,
        hint: Option<&str>,
    ) -> Parsed<()> {
        self.record(place.pointer(), at, length, message, hint);
        if self.slips.len() >= SLIP_LIMIT {
            Err(Lost)
        } else {
            Ok(())
        }
    }

    /// Records a mistake that ends parsing.
    fn lost<T>(
        &mut self,
        place: &ConfigPath<'_>,
        at: usize,
        message: &str,
        hint: Option<&str>,
    ) -> Parsed<T> {
        self.record(place.pointer(), at, 1, message, hint);
        Err(Lost)
    }

    fn record(
        &mut self,
        pointer: Pointer,
        at: usize,
        length: usize,
        message: &str,
        hint: Option<&str>,
    ) {
        let mut slip = self.source.slip(pointer, at..at + length, message);
        slip.suggestion = hint.map(str::to_owned);
        self.slips.push(slip);
    }
}
