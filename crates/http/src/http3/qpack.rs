//! Field sections of QPACK (RFC 9204 §4.5), without a dynamic table.

use super::table::{TABLE, named};
pub use crate::field_code::DecodeError;
use crate::field_code::{FieldReader, write_integer, write_string};

/// The overhead of each field (RFC 9114 §4.2.2).
const FIELD_COST: usize = 32;

/// Decodes the fields of `section` and passes each to `field`; together, counted as in §4.2.2, they may have `most` bytes.
pub fn decode(
    section: &[u8],
    most: usize,
    mut field: impl FnMut(&[u8], &[u8]),
) -> Result<(), DecodeError> {
    let mut reader = FieldReader { rest: section };
    // Without a table: nothing was inserted, and there is no base.
    let (required, _) = reader.integer(8)?;
    let (_, _) = reader.integer(7)?;
    if required != 0 {
        return Err(DecodeError::Malformed);
    }
    let (mut name, mut value) = (Vec::new(), Vec::new());
    let mut size = 0usize;
    while let Some(first) = reader.rest.first().copied() {
        let left = most.saturating_sub(size);
        name.clear();
        value.clear();
        if first & 0x80 != 0 {
            // Indexed: 1, whether it is in the static table, a number.
            let (index, flags) = reader.integer(6)?;
            let (known, known_value) = entry(index, flags & 0x40)?;
            name.extend_from_slice(known.as_bytes());
            value.extend_from_slice(known_value.as_bytes());
        } else if first & 0x40 != 0 {
            // A name in a table, and a value: 01, never indexed, static, a number.
            let (index, flags) = reader.integer(4)?;
            let (known, _) = entry(index, flags & 0x10)?;
            name.extend_from_slice(known.as_bytes());
            reader.string(7, left, &mut value)?;
        } else if first & 0x20 != 0 {
            // Both literal: 001, never indexed, whether the name is Huffman-coded, its length.
            reader.string(3, left, &mut name)?;
            reader.string(7, left, &mut value)?;
        } else {
            // Post-base references: there is no table.
            return Err(DecodeError::Malformed);
        }
        size = size.saturating_add(name.len() + value.len() + FIELD_COST);
        if size > most {
            return Err(DecodeError::TooLarge);
        }
        field(&name, &value);
    }
    Ok(())
}

/// An entry of the static table.
fn entry(index: u64, is_static: u8) -> Result<(&'static str, &'static str), DecodeError> {
    let index = usize::try_from(index).ok().filter(|_| is_static != 0);
    let entry = index.and_then(|index| TABLE.get(index));
    entry.copied().ok_or(DecodeError::Malformed)
}

/// Appends the prefix of a section without a table.
pub(super) fn begin(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, 0]);
}

/// Appends a field; `name` is in lower case.
pub(super) fn write_field(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let mut known_name = None;
    for (number, known_value) in named(name) {
        if known_value.as_bytes() == value {
            return write_integer(number.into(), 0xc0, 6, out);
        }
        known_name.get_or_insert(number);
    }
    match known_name {
        Some(number) => write_integer(number.into(), 0x50, 4, out),
        None => write_string(name, 0x20, 3, out),
    }
    write_string(value, 0, 7, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(section: &[u8], most: usize) -> Result<Vec<(String, String)>, DecodeError> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        decode(section, most, |name, value| {
            fields.push((text(name), text(value)))
        })?;
        Ok(fields)
    }

    /// RFC 9204, appendix B.1.
    #[test]
    fn the_example_of_the_standard() {
        let section = b"\x00\x00\x51\x0b/index.html";
        let expected = vec![(":path".to_owned(), "/index.html".to_owned())];
        assert_eq!(fields(section, 1000), Ok(expected));
    }

    #[test]
    fn entries_of_the_static_table_are_written_as_their_index() {
        for (number, (name, value)) in TABLE.into_iter().enumerate() {
            let (mut written, mut expected) = (Vec::new(), Vec::new());
            write_field(name.as_bytes(), value.as_bytes(), &mut written);
            write_integer(number as u64, 0xc0, 6, &mut expected);
            assert_eq!(written, expected, "{name}: {value}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let long = "x".repeat(300);
        let all = [
            (":status", "200"),
            (":status", "418"),
            ("content-type", "text/html; charset=utf-8"),
            ("content-type", "text/x-other"),
            ("x-frame-options", "sameorigin"),
            ("x-own", ""),
            ("x-own", "\u{1}\u{7f}\u{e9}"),
            ("server", &long),
            (&long, &long),
        ];
        let mut section = Vec::new();
        begin(&mut section);
        for (name, value) in all {
            write_field(name.as_bytes(), value.as_bytes(), &mut section);
        }
        let all = all.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let size: usize = all
            .iter()
            .map(|(name, value)| name.len() + value.len() + 32)
            .sum();
        assert_eq!(fields(&section, size), Ok(all.to_vec()));
        assert_eq!(fields(&section, size - 1), Err(DecodeError::TooLarge));
        for end in 0..section.len() {
            let _ = fields(&section[..end], size);
        }
    }

    #[test]
    fn references_to_a_dynamic_table_are_refused() {
        for section in [
            // Something was inserted.
            &b"\x02\x00\x80"[..],
            // Indexed in the dynamic table; a name in it; post-base.
            b"\x00\x00\x80",
            b"\x00\x00\x40\x01a",
            b"\x00\x00\x10",
            b"\x00\x00\x00\x01a",
            // Beyond the static table.
            b"\x00\x00\xff\x24",
            b"\x00\x00\x5f\x7f\x01a",
            // Integers without end, strings without content.
            b"\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            b"\x00\x00\x51\x7f",
            b"\x00\x00\x51\x05abc",
            b"\x00",
            b"",
        ] {
            assert_eq!(
                fields(section, 1000),
                Err(DecodeError::Malformed),
                "{section:?}"
            );
        }
    }

    #[test]
    fn a_small_section_cannot_become_a_large_one() {
        // 60 bytes for each byte: `strict-transport-security` with its longest value.
        let mut bomb = vec![0, 0];
        bomb.extend(std::iter::repeat_n(0xc0 | 58, 60_000));
        assert_eq!(fields(&bomb, 32_768), Err(DecodeError::TooLarge));
    }
}
