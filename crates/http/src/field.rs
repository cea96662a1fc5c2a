//! Header fields as they are read from a head: one by one, and by name.
//!
//! Fields keep their order and their case; a field is two spans into the caller's buffer.

use crate::head::{BufferSpan, RawField};
use crate::known_fields::{KNOWN_COUNT, Known};

/// One field of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldRef<'a> {
    /// The name as received.
    pub name: &'a [u8],
    /// The value without surrounding white space.
    pub value: &'a [u8],
    /// The known field with this name, if any.
    pub known: Known,
}

/// The fields of a head in the order received.
#[derive(Clone, Debug)]
pub struct Fields<'a> {
    pub(crate) buffer: &'a [u8],
    pub(crate) fields: std::slice::Iter<'a, RawField>,
}

impl<'a> Iterator for Fields<'a> {
    type Item = FieldRef<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        self.fields.next().map(|field| field.resolve(self.buffer))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.fields.size_hint()
    }
}

impl ExactSizeIterator for Fields<'_> {}

/// The index of the first occurrence of each known field; `u16::MAX` if absent.
#[derive(Clone, Debug)]
pub(crate) struct FirstOf([u16; KNOWN_COUNT]);

impl Default for FirstOf {
    fn default() -> Self {
        Self([u16::MAX; KNOWN_COUNT])
    }
}

impl FirstOf {
    /// Notes field number `index`; returns false if the name occurred before.
    pub(crate) fn note(&mut self, known: Known, index: usize) -> bool {
        match self.0.get_mut(known as usize) {
            Some(slot) if *slot == u16::MAX => {
                *slot = u16::try_from(index).unwrap_or(u16::MAX);
                true
            }
            Some(_) => false,
            None => true,
        }
    }

    pub(crate) fn get(&self, known: Known) -> Option<usize> {
        self.0
            .get(known as usize)
            .filter(|&&index| index != u16::MAX)
            .map(|&index| usize::from(index))
    }
}

impl RawField {
    pub(crate) fn resolve<'a>(&self, buffer: &'a [u8]) -> FieldRef<'a> {
        FieldRef {
            name: self.name.of(buffer),
            value: self.value.of(buffer),
            known: self.known,
        }
    }
}

impl BufferSpan {
    /// The bytes of this span; empty if `buffer` is too short.
    pub fn of(self, buffer: &[u8]) -> &[u8] {
        let start = self.offset as usize;
        buffer
            .get(start..start.saturating_add(self.length as usize))
            .unwrap_or_default()
    }
}

/// The members of a comma-separated list (RFC 9110 §5.6.1), white space trimmed, empty members left out.
pub fn list_members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value
        .split(|&byte| byte == b',')
        .map(trim)
        .filter(|member| !member.is_empty())
}

/// The media type in a `Content-Type`, or in a member of `Accept`, without its parameters (RFC 9110 §8.3.1).
pub fn media_type(value: &[u8]) -> &[u8] {
    let end = memchr::memchr(b';', value).unwrap_or(value.len());
    trim(value.get(..end).unwrap_or_default())
}

/// The pairs of name and value in a `Cookie` field, white space trimmed (RFC 6265 §4.2.1).
pub fn cookie_pairs(field: &[u8]) -> impl Iterator<Item = &[u8]> {
    field.split(|&byte| byte == b';').map(trim)
}

/// `bytes` without spaces and tabs around it (OWS, RFC 9110 §5.6.3).
pub(crate) fn trim(mut bytes: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] = bytes {
        bytes = rest;
    }
    while let [rest @ .., b' ' | b'\t'] = bytes {
        bytes = rest;
    }
    bytes
}

/// True if the name has only letters, digits and hyphens (`discard_unsafe_fields`): CGI's translation to upper case and underscores keeps
/// such names distinct (RFC 9110 §16.3.1, RFC 3875 §4.1.18).
pub(crate) fn is_safe_name(name: &[u8]) -> bool {
    /// One bit for each safe byte.
    const SAFE: [u64; 4] = {
        let mut safe = [0; 4];
        let mut byte = 0_u8;
        while byte < 128 {
            if byte.is_ascii_alphanumeric() || byte == b'-' {
                safe[byte as usize >> 6] |= 1 << (byte & 63);
            }
            byte += 1;
        }
        safe
    };
    // Without a branch per byte: names are short, and nearly all are safe.
    let bit = |byte: &u8| SAFE[usize::from(byte >> 6)] >> (byte & 63);
    name.iter().fold(1, |safe, byte| safe & bit(byte)) & 1 == 1
}

/// The number a `Content-Length` value gives: digits only, no sign, no list, fitting 63 bits (so that sums cannot wrap).
pub(crate) fn parse_content_length(value: &[u8]) -> Option<u64> {
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    value
        .iter()
        .try_fold(0_u64, |number, &digit| {
            number.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
        })
        .filter(|&number| number <= i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_trimmed_and_empty_ones_left_out() {
        let members: Vec<_> = list_members(b" a\t, ,b c ,,\td").collect();
        assert_eq!(members, [&b"a"[..], b"b c", b"d"]);
        assert_eq!(list_members(b" ,\t").count(), 0);
        assert_eq!(trim(b"\t a b \t"), b"a b");
        assert_eq!(trim(b" \t "), b"");
    }

    #[test]
    fn a_length_has_digits_only_and_63_bits() {
        for (text, length) in [
            ("0", Some(0)),
            ("10", Some(10)),
            ("9223372036854775807", Some(i64::MAX as u64)),
            ("9223372036854775808", None),
            ("18446744073709551616", None),
            ("99999999999999999999999", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("1,1", None),
            ("0x1", None),
        ] {
            assert_eq!(parse_content_length(text.as_bytes()), length, "{text}");
        }
    }

    #[test]
    fn safe_names_have_letters_digits_and_hyphens() {
        for byte in 0..=u8::MAX {
            let expected = byte.is_ascii_alphanumeric() || byte == b'-';
            assert_eq!(is_safe_name(&[b'a', byte, b'z']), expected, "{byte:#x}");
        }
    }

    #[test]
    fn the_first_of_each_known_field_is_noted() {
        let mut first = FirstOf::default();
        assert_eq!(first.get(Known::Host), None);
        assert!(first.note(Known::Host, 3));
        assert!(!first.note(Known::Host, 5));
        assert!(first.note(Known::Expect, 0));
        assert_eq!(
            (first.get(Known::Host), first.get(Known::Expect)),
            (Some(3), Some(0))
        );
    }
}
