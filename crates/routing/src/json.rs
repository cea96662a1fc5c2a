//! Text inside a JSON string (RFC 8259 §7).

use std::io::Write as _;

/// Appends `raw`, escaped. Bytes that are not UTF-8 become U+FFFD: JSON has no other way.
pub(crate) fn escape(raw: &[u8], out: &mut Vec<u8>) {
    for chunk in raw.utf8_chunks() {
        for byte in chunk.valid().bytes() {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0..=0x1f => {
                    // Writing to a vector cannot fail.
                    let _ = write!(out, "\\u{byte:04x}");
                }
                byte => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}
