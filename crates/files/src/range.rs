//! `Range: bytes=…` (RFC 9110 §14) against a representation of known length. Pure.

use smallvec::SmallVec;

/// A satisfiable range: first byte and one past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteRange {
    /// The first byte.
    pub start: u64,
    /// The byte behind the last.
    pub end: u64,
}

impl ByteRange {
    /// The number of bytes; a range has at least one.
    #[expect(clippy::len_without_is_empty, reason = "none is empty")]
    pub fn len(self) -> u64 {
        self.end - self.start
    }

    /// `Content-Range` of this part of a representation of `length` bytes (RFC 9110 §14.4).
    pub fn content_range(self, length: u64) -> String {
        let last = self.end.saturating_sub(1);
        format!("bytes {}-{last}/{length}", self.start)
    }
}

/// `Content-Range` of a 416 for a representation of `length` bytes (RFC 9110 §15.5.17).
pub fn unsatisfied(length: u64) -> String {
    format!("bytes */{length}")
}

/// The bytes that a `Range` field selects.
#[derive(Debug, PartialEq, Eq)]
pub enum Requested {
    /// The field is ignored: unknown unit, malformed, or unreasonable (200).
    Whole,
    /// At least one satisfiable range: 206.
    Parts(SmallVec<[ByteRange; 2]>),
    /// Well-formed, but beyond the end (416).
    Unsatisfiable,
}

/// Evaluates a `Range` field for a representation of `length` bytes.
pub fn parse(value: &[u8], length: u64) -> Requested {
    let Some(set) = strip_unit(value) else {
        return Requested::Whole;
    };
    let mut parts = SmallVec::new();
    let mut is_empty = true;
    for spec in specs(set) {
        is_empty = false;
        match parse_spec(spec, length) {
            Some(Some(range)) => parts.push(range),
            Some(None) => {}
            None => return Requested::Whole,
        }
    }
    if is_empty {
        return Requested::Whole;
    }
    if parts.is_empty() {
        return Requested::Unsatisfiable;
    }
    // Overlapping ranges that together exceed the file are an amplification (RFC 9110 §17.15): send the file once instead.
    let total = parts.iter().fold(0_u64, |sum, part: &ByteRange| {
        sum.saturating_add(part.len())
    });
    if parts.len() > 1 && total > length {
        Requested::Whole
    } else {
        Requested::Parts(parts)
    }
}

/// Counts the ranges in a `Range` field, whether or not they are satisfiable. Each costs a part of the response, so a request with many is
/// answered with the whole (RFC 9110 §14.2 permits that).
pub fn count(value: &[u8]) -> usize {
    strip_unit(value).map_or(0, |set| specs(set).count())
}

/// The members of the list. Empty ones are ignored (RFC 9110 §5.6.1).
fn specs(set: &[u8]) -> impl Iterator<Item = &[u8]> {
    let all = set.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
    all.filter(|spec| !spec.is_empty())
}

/// The ranges after `bytes=`; the unit is case-insensitive (RFC 9110 §14.1).
fn strip_unit(value: &[u8]) -> Option<&[u8]> {
    let (unit, set) = value.split_at_checked(6)?;
    unit.eq_ignore_ascii_case(b"bytes=").then_some(set)
}

/// One range: `None` if malformed, `Some(None)` if not satisfiable.
fn parse_spec(spec: &[u8], length: u64) -> Option<Option<ByteRange>> {
    let dash = memchr::memchr(b'-', spec)?;
    let (first, last) = (spec.get(..dash)?, spec.get(dash + 1..)?);
    if first.is_empty() {
        let suffix = number(last)?;
        let start = length.saturating_sub(suffix);
        return Some((suffix > 0 && length > 0).then_some(ByteRange { start, end: length }));
    }
    let start = number(first)?;
    let end = if last.is_empty() {
        length
    } else {
        let last = number(last)?;
        if last < start {
            return None;
        }
        last.saturating_add(1).min(length)
    };
    Some((start < length).then_some(ByteRange { start, end }))
}

/// A decimal number; one too large for 64 bits is beyond any end.
fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0_u64, |value, digit| {
        value
            .saturating_mul(10)
            .saturating_add(u64::from(digit - b'0'))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(list: &[(u64, u64)]) -> Requested {
        Requested::Parts(
            list.iter()
                .map(|(start, end)| ByteRange {
                    start: *start,
                    end: *end,
                })
                .collect(),
        )
    }

    #[test]
    fn ranges_are_read_as_rfc_9110_says() {
        for (value, length, expected) in [
            ("bytes=0-0", 10, parts(&[(0, 1)])),
            ("bytes=0-", 10, parts(&[(0, 10)])),
            ("BYTES=2-5", 10, parts(&[(2, 6)])),
            ("bytes=-3", 10, parts(&[(7, 10)])),
            ("bytes=-30", 10, parts(&[(0, 10)])),
            ("bytes=5-99", 10, parts(&[(5, 10)])),
            ("bytes=0-1,4-5", 10, parts(&[(0, 2), (4, 6)])),
            ("bytes= 0-1 , ,4-5", 10, parts(&[(0, 2), (4, 6)])),
            ("bytes=0-1,50-60", 10, parts(&[(0, 2)])),
            ("bytes=10-", 10, Requested::Unsatisfiable),
            ("bytes=-0", 10, Requested::Unsatisfiable),
            ("bytes=0-", 0, Requested::Unsatisfiable),
            ("bytes=-5", 0, Requested::Unsatisfiable),
            (
                "bytes=99999999999999999999999-",
                10,
                Requested::Unsatisfiable,
            ),
            ("bytes=0-99999999999999999999999", 10, parts(&[(0, 10)])),
            ("bytes=5-2", 10, Requested::Whole),
            ("bytes=", 10, Requested::Whole),
            ("bytes=,", 10, Requested::Whole),
            ("bytes=a-b", 10, Requested::Whole),
            ("bytes=1", 10, Requested::Whole),
            ("bytes=--1", 10, Requested::Whole),
            ("lines=0-1", 10, Requested::Whole),
            ("", 10, Requested::Whole),
            ("bytes=0-,0-,0-", 10, Requested::Whole),
        ] {
            assert_eq!(
                parse(value.as_bytes(), length),
                expected,
                "{value} of {length}"
            );
        }
    }

    #[test]
    fn ranges_are_counted_whether_or_not_they_are_satisfiable() {
        for (value, expected) in [
            ("bytes=0-0", 1),
            ("bytes=0-0, ,-1,99-,", 3),
            ("Bytes=a,b", 2),
            ("bytes=,", 0),
            ("lines=0-0,1-1", 0),
        ] {
            assert_eq!(count(value.as_bytes()), expected, "{value}");
        }
    }
}
