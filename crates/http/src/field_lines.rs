//! Fields to be sent, as HTTP/1 lines with an index of names and values.
//!
//! One buffer holds all lines and one list the length of each, so that a field costs no allocation, HTTP/1 sends the lines with one copy,
//! and readers of a field (HTTP/2, the access log, a configured change) find it without parsing the lines again.
//!
//! Must never: contain a byte that would end a line early. Names and values come from parsed heads, from checked messages, or from
//! [`FieldLines::try_push`].

use crate::token::{InvalidField, is_field_name, is_field_value};

/// The bytes between a name and its value.
const COLON: &[u8] = b": ";

/// The bytes after a value.
const LINE_END: &[u8] = b"\r\n";

/// The lengths of a field's parts. Its start follows from the fields before it, so that lists can be joined by copying. No head has 4 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Lengths {
    name: u32,
    value: u32,
}

impl Lengths {
    fn line(self) -> usize {
        self.name as usize + COLON.len() + self.value as usize + LINE_END.len()
    }
}

/// A list of fields; see the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldLines {
    lines: Vec<u8>,
    index: Vec<Lengths>,
}

/// No field, where a list must be named.
pub static NO_FIELDS: FieldLines = FieldLines::new();

impl FieldLines {
    /// An empty list, which owns no memory.
    pub const fn new() -> Self {
        Self {
            lines: Vec::new(),
            index: Vec::new(),
        }
    }

    /// An empty list with room for this many bytes and fields.
    pub fn with_capacity(bytes: usize, fields: usize) -> Self {
        Self {
            lines: Vec::with_capacity(bytes),
            index: Vec::with_capacity(fields),
        }
    }

    /// The list that has this one field.
    pub fn of(name: &str, value: &[u8]) -> Self {
        let mut fields = Self::new();
        fields.push(name.as_bytes(), value);
        fields
    }

    /// The fields as lines, each with its end.
    pub fn lines(&self) -> &[u8] {
        &self.lines
    }

    /// Number of fields.
    pub fn len(&self) -> usize {
        self.index.len()
    }

    /// True if there is no field.
    pub fn is_empty(&self) -> bool {
        self.index.is_empty()
    }

    /// Bytes of memory that the list keeps.
    pub fn capacity(&self) -> usize {
        self.lines.capacity() + self.index.capacity() * size_of::<Lengths>()
    }

    /// Gives back the memory that is not used.
    pub fn shrink(&mut self) {
        self.lines.shrink_to_fit();
        self.index.shrink_to_fit();
    }

    /// Removes all fields and keeps the memory.
    pub fn clear(&mut self) {
        self.lines.clear();
        self.index.clear();
    }

    /// Appends a field that is known to be valid: it comes from a parsed head, or is the server's own.
    pub fn push(&mut self, name: &[u8], value: &[u8]) {
        debug_assert!(is_one_line(value), "a value that ends its line");
        let lengths = Lengths {
            name: name.len() as u32,
            value: value.len() as u32,
        };
        self.lines.reserve(lengths.line());
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(COLON);
        self.lines.extend_from_slice(value);
        self.lines.extend_from_slice(LINE_END);
        self.index.push(lengths);
    }

    /// Appends a field whose value `write` appends to the line.
    pub fn push_with(&mut self, name: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        self.lines.extend_from_slice(name);
        self.lines.extend_from_slice(COLON);
        let start = self.lines.len();
        write(&mut self.lines);
        let value = self.lines.get(start..).unwrap_or_default();
        debug_assert!(is_one_line(value), "a value that ends its line");
        let value = value.len() as u32;
        self.lines.extend_from_slice(LINE_END);
        self.index.push(Lengths {
            name: name.len() as u32,
            value,
        });
    }

    /// Appends a field whose value is a number.
    pub fn push_number(&mut self, name: &[u8], number: u64) {
        self.push(name, itoa::Buffer::new().format(number).as_bytes());
    }

    /// Appends a field from any source.
    ///
    /// # Errors
    /// [`InvalidField`], and nothing is appended.
    pub fn try_push(&mut self, name: &[u8], value: &[u8]) -> Result<(), InvalidField> {
        if !is_field_name(name) || !is_field_value(value) {
            return Err(InvalidField);
        }
        self.push(name, value);
        Ok(())
    }

    /// Appends all fields of another list.
    pub fn append(&mut self, other: &Self) {
        self.lines.extend_from_slice(&other.lines);
        self.index.extend_from_slice(&other.index);
    }

    /// Keeps the fields for which `keep` returns true, in order.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let (mut read, mut written) = (0, 0);
        let lines = &mut self.lines;
        self.index.retain(|&lengths| {
            let length = lengths.line();
            let line = lines.get(read..read + length).unwrap_or_default();
            let (name, value) = split(line, lengths);
            let is_kept = keep(name, value);
            if is_kept {
                // Overwrites only removed fields.
                if written < read {
                    lines.copy_within(read..read + length, written);
                }
                written += length;
            }
            read += length;
            is_kept
        });
        self.lines.truncate(written);
    }

    /// Removes every field of this name.
    pub fn remove(&mut self, name: &str) {
        self.retain(|found, _| !found.eq_ignore_ascii_case(name.as_bytes()));
    }

    /// Names and values, in order.
    pub fn iter(&self) -> Iter<'_> {
        Iter {
            lines: &self.lines,
            index: self.index.iter(),
        }
    }

    /// The values of the fields of this name, in order.
    pub fn get_all<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        self.iter()
            .filter(|(found, _)| found.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// True if a value stays within its line.
fn is_one_line(value: &[u8]) -> bool {
    memchr::memchr3(b'\r', b'\n', 0, value).is_none()
}

/// Name and value of a line whose parts have these lengths.
fn split(line: &[u8], lengths: Lengths) -> (&[u8], &[u8]) {
    let (name, rest) = line
        .split_at_checked(lengths.name as usize)
        .unwrap_or_default();
    let value = rest.get(COLON.len()..COLON.len() + lengths.value as usize);
    (name, value.unwrap_or_default())
}

/// The fields of a [`FieldLines`].
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    lines: &'a [u8],
    index: std::slice::Iter<'a, Lengths>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let lengths = *self.index.next()?;
        let (line, rest) = self.lines.split_at_checked(lengths.line())?;
        self.lines = rest;
        Some(split(line, lengths))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.index.size_hint()
    }
}

impl<'a> IntoIterator for &'a FieldLines {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

impl<'a> FromIterator<(&'a [u8], &'a [u8])> for FieldLines {
    fn from_iter<I: IntoIterator<Item = (&'a [u8], &'a [u8])>>(fields: I) -> Self {
        let mut list = Self::new();
        for (name, value) in fields {
            list.push(name, value);
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The fields as text, read from the lines themselves.
    fn read(lines: &[u8]) -> Vec<(String, String)> {
        std::str::from_utf8(lines)
            .unwrap()
            .split_terminator("\r\n")
            .map(|line| line.split_once(": ").unwrap())
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }

    fn indexed(fields: &FieldLines) -> Vec<(String, String)> {
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let found = fields.iter().map(|(name, value)| (text(name), text(value)));
        found.collect()
    }

    #[test]
    fn a_field_from_elsewhere_cannot_end_its_line() {
        let mut fields = FieldLines::new();
        for (name, value) in [
            (&b"X"[..], &b"a\r\nSet-Cookie: b"[..]),
            (b"X", b"a\n"),
            (b"X", b"a\r"),
            (b"X", b"a\0"),
            (b"X", b"\x7f"),
            (b"X\r\nY", b"a"),
            (b"X Y", b"a"),
            (b"X:", b"a"),
            (b"", b"a"),
            (b"\xc3\xa9", b"a"),
        ] {
            assert_eq!(
                fields.try_push(name, value),
                Err(InvalidField),
                "{name:?}: {value:?}"
            );
        }
        assert!(fields.is_empty() && fields.lines().is_empty());
        let value = "tab\there, é, ".as_bytes();
        fields.try_push(b"x-oK_!", value).unwrap();
        assert_eq!(fields.lines(), "x-oK_!: tab\there, é, \r\n".as_bytes());
        assert_eq!(fields.get_all(b"X-OK_!").next(), Some(value));
    }

    #[test]
    fn lists_are_joined() {
        let mut fields = FieldLines::of("A", b"1");
        let mut other = FieldLines::of("B", b"");
        other.push_number(b"C", u64::MAX);
        fields.append(&other);
        fields.append(&NO_FIELDS);
        fields.push_with(b"D", |line| line.extend_from_slice(b"4"));
        assert_eq!(
            fields.lines(),
            b"A: 1\r\nB: \r\nC: 18446744073709551615\r\nD: 4\r\n"
        );
        assert_eq!(indexed(&fields), read(fields.lines()));
        assert_eq!(fields.len(), 4);
    }

    proptest! {
        /// The index always matches the lines, whatever is removed and added.
        #[test]
        fn the_index_follows_the_lines(
            pushed in prop::collection::vec(("[A-Ca-c]{1,2}", "[ -~]{0,12}"), 0..12),
            removed in "[A-Ca-c]{1,2}",
            added in "[ -~]{0,5}",
        ) {
            let mut fields = FieldLines::new();
            for (name, value) in &pushed {
                fields.push(name.as_bytes(), value.as_bytes());
            }
            fields.remove(&removed);
            fields.push(b"Added", added.as_bytes());
            let mut expected: Vec<_> = pushed
                .into_iter()
                .filter(|(name, _)| !name.eq_ignore_ascii_case(&removed))
                .collect();
            expected.push(("Added".to_owned(), added));
            prop_assert_eq!(&indexed(&fields), &expected);
            prop_assert_eq!(read(fields.lines()), expected);
        }
    }
}
