//! Integers and strings of compressed field sections, which HPACK (RFC 7541 §5) and QPACK (RFC 9204 §4.1) have in common.

use crate::huffman;

/// Why a field section cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// It is malformed, or refers to a dynamic table: nothing after it can be trusted.
    Malformed,
    /// It exceeds its limit.
    TooLarge,
}

/// Reads the integers and strings of a section.
pub(crate) struct FieldReader<'a> {
    /// The bytes that have not been read.
    pub(crate) rest: &'a [u8],
}

impl FieldReader<'_> {
    /// An integer that begins in the last `bits` bits of a byte (RFC 7541 §5.1), and the other bits of that byte.
    pub(crate) fn integer(&mut self, bits: u32) -> Result<(u64, u8), DecodeError> {
        let (first, mut rest) = self.rest.split_first().ok_or(DecodeError::Malformed)?;
        let mask = u8::try_from((1u16 << bits) - 1).unwrap_or(u8::MAX);
        let mut value = u64::from(first & mask);
        if first & mask == mask {
            let mut shift = 0;
            loop {
                let (byte, behind) = rest.split_first().ok_or(DecodeError::Malformed)?;
                rest = behind;
                // RFC 9204 §4.1.1: 62 bits must be supported.
                if shift > 56 {
                    return Err(DecodeError::Malformed);
                }
                value += u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte & 0x80 == 0 {
                    break;
                }
            }
        }
        self.rest = rest;
        Ok((value, first & !mask))
    }

    /// A string whose length begins in the last `bits` bits of a byte; the bit before it is the Huffman flag.
    pub(crate) fn string(
        &mut self,
        bits: u32,
        most: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let (length, flags) = self.integer(bits)?;
        let length = usize::try_from(length).map_err(|_| DecodeError::Malformed)?;
        let (text, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(DecodeError::Malformed)?;
        self.rest = rest;
        // The shortest code of a byte has five bits, the longest thirty.
        if length / 4 > most {
            return Err(DecodeError::TooLarge);
        }
        if flags & (1 << bits) != 0 {
            huffman::decode(text, out).ok_or(DecodeError::Malformed)
        } else if length > most {
            Err(DecodeError::TooLarge)
        } else {
            out.extend_from_slice(text);
            Ok(())
        }
    }
}

/// Appends an integer after `flags`, the first bits of its first byte.
pub(crate) fn write_integer(value: u64, flags: u8, bits: u32, out: &mut Vec<u8>) {
    let mask = (1u64 << bits) - 1;
    if value < mask {
        out.push(flags | value as u8);
        return;
    }
    out.push(flags | mask as u8);
    let mut rest = value - mask;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends a string in the shorter of both forms; the bit before its length is the Huffman flag.
pub(crate) fn write_string(text: &[u8], flags: u8, bits: u32, out: &mut Vec<u8>) {
    let coded = huffman::encoded_length(text);
    if coded < text.len() {
        write_integer(coded as u64, flags | 1 << bits, bits, out);
        huffman::encode(text, out);
    } else {
        write_integer(text.len() as u64, flags, bits, out);
        out.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn integer(bytes: &[u8], bits: u32) -> Result<(u64, u8, usize), DecodeError> {
        let mut reader = FieldReader { rest: bytes };
        let (value, flags) = reader.integer(bits)?;
        Ok((value, flags, reader.rest.len()))
    }

    fn string(bytes: &[u8], most: usize) -> Result<Vec<u8>, DecodeError> {
        let mut out = Vec::new();
        FieldReader { rest: bytes }.string(7, most, &mut out)?;
        Ok(out)
    }

    /// RFC 7541, appendix C.1, and the values around the end of each prefix.
    #[test]
    fn integers_of_the_standard() {
        for (bytes, bits, value, flags) in [
            (&b"\xea"[..], 5, 10, 0xe0),
            (b"\x1f\x9a\x0a", 5, 1337, 0),
            (b"\x2a", 8, 42, 0),
            (b"\xfe", 8, 254, 0),
            (b"\xff\x00", 8, 255, 0),
            (b"\x7e", 7, 126, 0),
            (b"\xff\x00", 7, 127, 0x80),
            (b"\xff\x7f", 7, 254, 0x80),
            (b"\xff\x80\x01", 7, 255, 0x80),
        ] {
            assert_eq!(integer(bytes, bits), Ok((value, flags, 0)), "{bytes:02x?}");
            let mut written = Vec::new();
            write_integer(value, flags, bits, &mut written);
            assert_eq!(written, bytes);
        }
        assert_eq!(integer(b"\x0a\x0b\x0c", 5), Ok((10, 0, 2)));
    }

    #[test]
    fn integers_have_at_most_nine_more_bytes() {
        let long = |count: usize| [&b"\x7f"[..], &b"\x80".repeat(count - 1), b"\x01"].concat();
        assert_eq!(integer(&long(9), 7), Ok((127 + (1 << 56), 0, 0)));
        assert_eq!(integer(&long(10), 7), Err(DecodeError::Malformed));
        for bytes in [&b""[..], b"\x7f", b"\x7f\x80"] {
            assert_eq!(
                integer(bytes, 7),
                Err(DecodeError::Malformed),
                "{bytes:02x?}"
            );
        }
    }

    #[test]
    fn strings_are_whole_and_within_their_limit() {
        assert_eq!(string(b"\x03abcd", 3), Ok(b"abc".to_vec()));
        assert_eq!(string(b"\x03abc", 2), Err(DecodeError::TooLarge));
        assert_eq!(string(b"\x04abc", 9), Err(DecodeError::Malformed));
        // In Huffman code; a string that is larger than any of its limit is not decoded at all.
        assert_eq!(
            string(b"\x86\xa8\xeb\x10\x64\x9c\xbf", 8),
            Ok(b"no-cache".to_vec())
        );
        assert_eq!(
            string(b"\x86\xa8\xeb\x10\x64\x9c\xbf", 1),
            Ok(b"no-cache".to_vec())
        );
        assert_eq!(
            string(b"\x86\xa8\xeb\x10\x64\x9c\xbf", 0),
            Err(DecodeError::TooLarge)
        );
        assert_eq!(string(b"\x81\x00", 9), Err(DecodeError::Malformed));
    }

    #[test]
    fn the_shorter_form_of_a_string_is_written() {
        let written = |text: &[u8]| {
            let mut out = Vec::new();
            write_string(text, 0, 7, &mut out);
            out
        };
        assert_eq!(written(b"no-cache"), b"\x86\xa8\xeb\x10\x64\x9c\xbf");
        // As long in code, and longer.
        assert_eq!(written(b"0"), b"\x010");
        assert_eq!(written(b"\xff\xfe"), b"\x02\xff\xfe");
    }
}
