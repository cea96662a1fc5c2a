//! Integers of variable length (RFC 9000 §16).

/// The largest value.
pub const LARGEST: u64 = (1 << 62) - 1;

/// The integer at the front of `bytes` and its length; `None` if it is incomplete.
pub fn read(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let length = 1 << (first >> 6);
    let rest = bytes.get(1..length)?;
    let start = u64::from(first & 0x3f);
    let value = rest
        .iter()
        .fold(start, |value, byte| value << 8 | u64::from(*byte));
    Some((value, length))
}

/// Appends `value`, which must be less than 2^62.
pub fn write(value: u64, out: &mut Vec<u8>) {
    let (class, length) = match value {
        0..=0x3f => (0, 1),
        0x40..=0x3fff => (1, 2),
        0x4000..=0x3fff_ffff => (2, 4),
        _ => (3, 8),
    };
    let bytes = value.to_be_bytes();
    let start = out.len();
    out.extend_from_slice(bytes.get(8 - length..).unwrap_or_default());
    if let Some(first) = out.get_mut(start) {
        *first = *first & 0x3f | class << 6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9000, appendix A.1.
    #[test]
    fn the_examples_of_the_standard() {
        for (bytes, value) in [
            (
                &b"\xc2\x19\x7c\x5e\xff\x14\xe8\x8c"[..],
                151_288_809_941_952_652,
            ),
            (b"\x9d\x7f\x3e\x7d", 494_878_333),
            (b"\x7b\xbd", 15_293),
            (b"\x25", 37),
        ] {
            assert_eq!(read(bytes), Some((value, bytes.len())));
            let mut out = Vec::new();
            write(value, &mut out);
            assert_eq!(out, bytes);
            for end in 0..bytes.len() {
                assert_eq!(read(&bytes[..end]), None);
            }
        }
        assert_eq!(read(b"\x40\x25"), Some((37, 2)));
    }

    #[test]
    fn all_that_is_written_is_read() {
        for shift in 0..62 {
            for value in [(1 << shift) - 1, 1 << shift, LARGEST] {
                let mut out = Vec::new();
                write(value, &mut out);
                assert_eq!(read(&out), Some((value, out.len())));
            }
        }
    }
}
