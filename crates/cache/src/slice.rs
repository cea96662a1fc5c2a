//! A slice of a response: a part of a fixed size, which is stored by itself.

use tutti_http::FieldLines;

use crate::stored::Stored;

/// A slice of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The first slice has the number 0.
    pub number: u64,
    /// The size in bytes of each slice but the last.
    pub size: u64,
}

impl Slice {
    /// The slice with this byte of the response.
    pub fn at(byte: u64, size: u64) -> Self {
        Self {
            number: byte / size.max(1),
            size,
        }
    }

    /// Its first byte.
    pub fn start(self) -> u64 {
        self.number.saturating_mul(self.size)
    }

    /// The byte behind its last one if the response has `total` bytes.
    pub fn end(self, total: u64) -> u64 {
        self.start().saturating_add(self.size).min(total)
    }

    /// The value of `Range` that requests it.
    pub(crate) fn range_field(self) -> Vec<u8> {
        let last = self.start().saturating_add(self.size).saturating_sub(1);
        format!("bytes={}-{last}", self.start()).into_bytes()
    }

    /// True if a response with this status and these fields is this slice, and not another part or the whole. Without a strong
    /// validator, a slice of another version looks the same (RFC 9110 §15.3.7.3).
    pub(crate) fn is_in(self, status: u16, fields: &FieldLines) -> bool {
        status == 206
            && has_strong_validator(fields)
            && content_range(fields).is_some_and(|(start, end, total)| {
                start == self.start() && end == self.end(total) && start < end
            })
    }
}

/// The length of the response that a stored slice is a part of.
pub fn total(slice: &Stored) -> Option<u64> {
    content_range(&slice.fields).map(|(.., total)| total)
}

/// True if a response with these fields is the version that this slice is a part of.
pub fn is_same_version(slice: &Stored, fields: &FieldLines) -> bool {
    let is_same = |name: &str| fields.get_all(name.as_bytes()).next() == slice.field(name);
    ["ETag", "Last-Modified", "Content-Encoding"]
        .into_iter()
        .all(is_same)
}

fn has_strong_validator(fields: &FieldLines) -> bool {
    let mut tags = fields.get_all(b"ETag");
    match tags.next() {
        Some(tag) => !tag.starts_with(b"W/"),
        None => fields.get_all(b"Last-Modified").next().is_some(),
    }
}

/// First byte, byte behind the last one, and total in the `Content-Range` of a response with one part (RFC 9110 §14.4).
pub(crate) fn content_range(fields: &FieldLines) -> Option<(u64, u64, u64)> {
    let mut values = fields.get_all(b"Content-Range");
    let (value, None) = (values.next()?, values.next()) else {
        return None;
    };
    let value = std::str::from_utf8(value).ok()?.trim();
    let (unit, range) = value.split_once(' ')?;
    let (bytes, total) = range.split_once('/')?;
    let (first, last) = bytes.split_once('-')?;
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten()
    };
    let end = number(last)?.checked_add(1)?;
    let total = number(total)?;
    (unit.eq_ignore_ascii_case("bytes") && end <= total).then_some((number(first)?, end, total))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(value: &str) -> Option<(u64, u64, u64)> {
        content_range(&FieldLines::of("Content-Range", value.as_bytes()))
    }

    #[test]
    fn ranges_are_read_strictly() {
        assert_eq!(range("bytes 0-9/10"), Some((0, 10, 10)));
        assert_eq!(range("Bytes 10-19/100"), Some((10, 20, 100)));
        for wrong in [
            "bytes 0-10/10",
            "bytes 0-9/*",
            "bytes */10",
            "bytes +0-9/10",
            "lines 0-9/10",
            "bytes 0-18446744073709551615/18446744073709551615",
            "",
        ] {
            assert_eq!(range(wrong), None, "{wrong}");
        }
        let mut twice = FieldLines::of("Content-Range", b"bytes 0-9/10");
        twice.push(b"Content-Range", b"bytes 0-9/20");
        assert_eq!(content_range(&twice), None);
    }

    #[test]
    fn only_the_requested_slice_is_one() {
        let second = Slice::at(15, 10);
        assert_eq!((second.number, second.start()), (1, 10));
        assert_eq!(second.range_field(), b"bytes=10-19");
        let is_tagged = |status, value: &str, tag: &[u8]| {
            let mut fields = FieldLines::of("Content-Range", value.as_bytes());
            fields.push(b"ETag", tag);
            second.is_in(status, &fields)
        };
        let is = |status, value: &str| is_tagged(status, value, b"\"a\"");
        assert!(!is_tagged(206, "bytes 10-19/25", b"W/\"a\""));
        let untagged = FieldLines::of("Content-Range", b"bytes 10-19/25");
        assert!(!second.is_in(206, &untagged));
        assert!(is(206, "bytes 10-19/25"));
        assert!(is(206, "bytes 10-14/15"), "the last one is shorter");
        assert!(!is(200, "bytes 10-19/25"));
        assert!(!is(206, "bytes 10-14/25"), "shorter than the last one");
        assert!(!is(206, "bytes 0-9/25"));
    }
}
