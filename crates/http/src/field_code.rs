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
