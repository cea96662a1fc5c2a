//! The Huffman code of HPACK (RFC 7541 §5.2, appendix B), which QPACK uses, too (RFC 9204 §4.1.2).
//!
//! The code is canonical: codes of one length are numbered in the order of their symbols, so the lengths define it.

/// Bits of the code of each byte; the end-of-string symbol, which never occurs in a string, has 30.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

/// The longest code.
const LONGEST: usize = 30;

/// Codes by their length.
#[derive(Clone, Copy)]
struct Row {
    /// The first code of this length.
    first: u32,
    /// The number of codes of this length.
    count: u32,
    /// The index of the first one's symbol.
    place: u32,
}

const ROWS: [Row; LONGEST + 1] = rows();

/// Bytes in the order of their codes.
const SYMBOLS: [u8; 256] = symbols();

/// The code of each byte.
const CODES: [u32; 256] = codes();

/// The byte whose code the next eight bits begin with, and its length; 0 if the code is longer. Nearly all bytes that are sent have short
/// codes.
const SHORT: [(u8, u8); 256] = short();

#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
const fn rows() -> [Row; LONGEST + 1] {
    let mut rows = [Row {
        first: 0,
        count: 0,
        place: 0,
    }; LONGEST + 1];
    let mut byte = 0;
    while byte < 256 {
        rows[LENGTHS[byte] as usize].count += 1;
        byte += 1;
    }
    let mut length = 1;
    while length <= LONGEST {
        rows[length].first = (rows[length - 1].first + rows[length - 1].count) << 1;
        rows[length].place = rows[length - 1].place + rows[length - 1].count;
        length += 1;
    }
    rows
}

#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
const fn symbols() -> [u8; 256] {
    let mut symbols = [0; 256];
    let mut place = 0;
    let mut length = 1;
    while length <= LONGEST {
        let mut byte = 0;
        while byte < 256 {
            if LENGTHS[byte] as usize == length {
                symbols[place] = byte as u8;
                place += 1;
            }
            byte += 1;
        }
        length += 1;
    }
    symbols
}

#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
const fn codes() -> [u32; 256] {
    let mut codes = [0; 256];
    let mut place = 0;
    while place < 256 {
        let byte = SYMBOLS[place] as usize;
        let row = ROWS[LENGTHS[byte] as usize];
        codes[byte] = row.first + (place as u32 - row.place);
        place += 1;
    }
    codes
}

#[expect(clippy::indexing_slicing, reason = "evaluated when this is compiled")]
const fn short() -> [(u8, u8); 256] {
    let mut short = [(0, 0); 256];
    let mut byte = 0;
    while byte < 256 {
        let length = LENGTHS[byte];
        if length <= 8 {
            let mut place = CODES[byte] << (8 - length);
            let end = (CODES[byte] + 1) << (8 - length);
            while place < end {
                short[place as usize] = (byte as u8, length);
                place += 1;
            }
        }
        byte += 1;
    }
    short
}

/// Bytes of the encoded `text`.
pub(crate) fn encoded_length(text: &[u8]) -> usize {
    let bits = text
        .iter()
        .filter_map(|byte| LENGTHS.get(usize::from(*byte)));
    let bits: usize = bits.map(|bits| usize::from(*bits)).sum();
    bits.div_ceil(8)
}

/// Appends the code of `text` to `out`.
pub(crate) fn encode(text: &[u8], out: &mut Vec<u8>) {
    let mut bits: u64 = 0;
    let mut count = 0;
    for byte in text {
        let place = usize::from(*byte);
        let code = CODES.get(place).copied().unwrap_or_default();
        let length = u32::from(LENGTHS.get(place).copied().unwrap_or_default());
        bits = bits << length | u64::from(code);
        count += length;
        if count >= 32 {
            count -= 32;
            out.extend_from_slice(&((bits >> count) as u32).to_be_bytes());
        }
    }
    while count >= 8 {
        count -= 8;
        out.push((bits >> count) as u8);
    }
    if count > 0 {
        // The last byte is padded with ones.
        let padding = 8 - count;
        out.push((bits << padding) as u8 | (0xff >> count) as u8);
    }
}

/// Appends the decoded text to `out`; `None` if it is invalid.
pub(crate) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    let mut coming = coded;
    // The next bits are the first `count` of these, inverted: zeros after the end stand for ones, which the padding has.
    let (mut bits, mut count) = (0_u64, 0_u32);
    loop {
        if count < LONGEST as u32 {
            if let Some((word, rest)) = coming.split_first_chunk() {
                bits |= u64::from(!u32::from_be_bytes(*word)) << (32 - count);
                count += 32;
                coming = rest;
            } else {
                for byte in std::mem::take(&mut coming) {
                    bits |= u64::from(!byte) << (56 - count);
                    count += 8;
                }
            }
        }
        let next = !((bits >> 32) as u32);
        // No code of less than a byte has only ones.
        if count < 8 && next == u32::MAX {
            return Some(());
        }
        let (symbol, length) = match SHORT.get((next >> 24) as usize) {
            Some(&(symbol, length)) if length > 0 => (symbol, u32::from(length)),
            _ => long(next)?,
        };
        // Negative if a code continues after the end.
        count = count.checked_sub(length)?;
        bits <<= length;
        out.push(symbol);
    }
}

/// The byte whose code, of more than eight bits, `bits` begin with, and the code's length.
fn long(bits: u32) -> Option<(u8, u32)> {
    (9..).zip(ROWS.get(9..)?).find_map(|(length, row)| {
        let offset = (bits >> (32 - length)).wrapping_sub(row.first);
        let is_one = offset < row.count;
        is_one.then(|| {
            SYMBOLS
                .get((row.place + offset) as usize)
                .map(|symbol| (*symbol, length))
        })?
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, appendix C.4 and C.6.
    #[test]
    fn the_examples_of_the_standard() {
        for (coded, text) in [
            (&b"\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..], "www.example.com"),
            (b"\xa8\xeb\x10\x64\x9c\xbf", "no-cache"),
            (b"\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f", "custom-key"),
            (
                b"\xd0\x7a\xbe\x94\x10\x54\xd4\x44\xa8\x20\x05\x95\x04\x0b\x81\x66\xe0\x82\xa6\x2d\x1b\xff",
                "Mon, 21 Oct 2013 20:13:21 GMT",
            ),
        ] {
            let mut out = Vec::new();
            assert_eq!(decode(coded, &mut out), Some(()), "{text}");
            assert_eq!(out, text.as_bytes());
            let mut again = Vec::new();
            encode(text.as_bytes(), &mut again);
            assert_eq!(again, coded);
            assert_eq!(encoded_length(text.as_bytes()), coded.len());
        }
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
        for start in 0..8 {
            let (mut coded, mut out) = (Vec::new(), Vec::new());
            encode(&all[start..], &mut coded);
            assert_eq!(decode(&coded, &mut out), Some(()));
            assert_eq!(out, &all[start..]);
        }
    }

    #[test]
    fn malformed_strings_are_refused() {
        let mut out = Vec::new();
        // Padding with zeros, padding of a whole byte, and an end-of-string symbol.
        for coded in [&b"\xf1\xe3\xc0"[..], b"\x1f\xff", b"\xff\xff\xff\xff"] {
            assert_eq!(decode(coded, &mut out), None, "{coded:?}");
        }
    }
}
