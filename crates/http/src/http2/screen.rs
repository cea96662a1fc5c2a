//! Detects fields of HTTP/2 that make a request malformed (RFC 9113 §8.2.1, §8.3), before they are decoded.
//!
//! `h2` treats a field with an invalid name or value as a fault of the whole connection. It should only end its stream (§8.1.1): behind
//! another proxy a connection carries the requests of many clients. So header blocks are parsed here first, and invalid fields are replaced
//! by others of the same length, which keeps the dynamic tables in step, together with a forbidden field: then `h2` resets the stream.
//!
//! Must never: change a block without such a field, or so that the client's and `h2`'s tables would differ.

use std::collections::VecDeque;

use crate::huffman;
use crate::token::is_token_byte;

/// Size of the dynamic table under our settings (RFC 9113 §6.5.2).
const TABLE_SIZE: usize = 4096;

/// A literal that is added to the dynamic table (RFC 7541 §6.2.1).
const INDEXED: u8 = 0x40;

/// The overhead of each entry (RFC 7541 §4.1).
const ENTRY_BYTES: usize = 32;

/// `connection: x`, a literal that is not indexed: forbidden in requests (RFC 9113 §8.2.2).
const FORBIDDEN: &[u8] = b"\x00\x0aconnection\x01x";

/// Lengths of the names in the static table from 15 on, `accept-charset` to `www-authenticate` (RFC 7541, appendix A).
const STATIC_NAMES: [usize; 47] = [
    14, 15, 15, 13, 6, 27, 3, 5, 13, 13, 19, 16, 16, 14, 16, 13, 12, 6, 4, 4, 6, 7, 4, 4, 8, 17,
    13, 8, 19, 13, 4, 8, 12, 18, 19, 5, 7, 7, 11, 6, 10, 25, 17, 10, 4, 3, 16,
];

/// Pseudo-fields, and the lengths of their names, in the static table up to 14.
const STATIC_PSEUDO: [(Kind, usize); 14] = [
    (Kind::Text, 10),
    (Kind::Method, 7),
    (Kind::Method, 7),
    (Kind::Text, 5),
    (Kind::Text, 5),
    (Kind::Text, 7),
    (Kind::Text, 7),
    (Kind::Status, 7),
    (Kind::Status, 7),
    (Kind::Status, 7),
    (Kind::Status, 7),
    (Kind::Status, 7),
    (Kind::Status, 7),
    (Kind::Status, 7),
];

/// Determines the rule for the value of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// A field.
    Field,
    /// `:method`.
    Method,
    /// `:status`, which is invalid in requests.
    Status,
    /// Another pseudo-field.
    Text,
    /// An invalid name.
    Wrong,
}

/// An entry of the dynamic table.
#[derive(Clone, Copy, Debug)]
struct Entry {
    kind: Kind,
    name: usize,
    value: usize,
    /// `h2`'s entry differs from the client's.
    is_replaced: bool,
}

/// A block that cannot be parsed: the connection cannot continue (RFC 9113 §4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFieldBlock;

/// Parses the header blocks of one connection, in order.
#[derive(Debug)]
pub struct FieldScreen {
    entries: VecDeque<Entry>,
    size: usize,
    max_size: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for FieldScreen {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            max_size: TABLE_SIZE,
            name: Vec::new(),
            value: Vec::new(),
        }
    }
}

/// A parsed literal field.
struct Literal<'b> {
    /// The bits that determine whether it is indexed.
    form: u8,
    kind: Kind,
    /// The encoded name, or its number, and its decoded length.
    name: &'b [u8],
    name_length: usize,
}

impl FieldScreen {
    /// Parses a whole block, of a head or of trailers. Returns the block to decode instead, if its request is malformed in a way that `h2`
    /// treats as a connection error, or ignores: pseudo-fields in trailers (RFC 9113 §8.1).
    ///
    /// # Errors
    /// It is not a header block, or cannot be replaced; nothing after it can be parsed.
    pub fn screen(
        &mut self,
        block: &[u8],
        is_trailer: bool,
    ) -> Result<Option<Vec<u8>>, BadFieldBlock> {
        let mut rest = block;
        let mut replaced: Option<Vec<u8>> = None;
        while let Some(first) = rest.first() {
            let before = rest;
            let mut is_wrong = false;
            let mut literal = None;
            match first {
                0x80.. => {
                    let index = integer(&mut rest, 7)?;
                    is_wrong = self.is_wrong(index)?
                        || is_trailer && self.name_at(index)?.0 != Kind::Field;
                }
                0x20..=0x3f => self.resize(integer(&mut rest, 5)?)?,
                _ => literal = Some(self.literal(&mut rest)?),
            }
            let as_it_came = before.get(..before.len() - rest.len()).unwrap_or_default();
            if let Some(literal) = literal {
                is_wrong = is_trailer && literal.kind != Kind::Field;
                if !self.is_right(&literal) {
                    let out = replaced.get_or_insert_with(|| beginning(block, before));
                    self.replace(&literal, out)?;
                    continue;
                }
                self.insert(&literal, false);
            }
            if is_wrong {
                replaced.get_or_insert_with(|| beginning(block, before));
            }
            if let Some(out) = &mut replaced {
                out.extend_from_slice(as_it_came);
            }
        }
        if let Some(out) = &mut replaced {
            out.extend_from_slice(FORBIDDEN);
        }
        Ok(replaced)
    }

    /// Parses a literal field, and decodes its name and value.
    fn literal<'b>(&mut self, rest: &mut &'b [u8]) -> Result<Literal<'b>, BadFieldBlock> {
        let first = rest.first().copied().unwrap_or_default();
        let (form, prefix) = if first & INDEXED != 0 {
            (INDEXED, 6)
        } else {
            (first & 0x10, 4)
        };
        let before = *rest;
        let index = integer(rest, prefix)?;
        self.name.clear();
        let (kind, name_length) = match index {
            0 => {
                string(rest, &mut self.name)?;
                (kind_of(&self.name), self.name.len())
            }
            index => self.name_at(index)?,
        };
        let name = before.get(..before.len() - rest.len()).unwrap_or_default();
        self.value.clear();
        string(rest, &mut self.value)?;
        Ok(Literal {
            form,
            kind,
            name,
            name_length,
        })
    }

    /// True if the parsed literal is valid.
    fn is_right(&self, literal: &Literal<'_>) -> bool {
        match literal.kind {
            Kind::Field => self.value.iter().all(|byte| is_value_byte(*byte)),
            Kind::Method => {
                !self.value.is_empty() && self.value.iter().all(|byte| is_token_byte(*byte))
            }
            Kind::Text => std::str::from_utf8(&self.value).is_ok(),
            Kind::Status | Kind::Wrong => false,
        }
    }

    /// Appends the replacement of an invalid literal.
    fn replace(&mut self, literal: &Literal<'_>, out: &mut Vec<u8>) -> Result<(), BadFieldBlock> {
        let value = self.value.len();
        let keeps_name = match literal.kind {
            // Other requests may refer to it.
            Kind::Field | Kind::Text => true,
            Kind::Method => value > 0,
            Kind::Status | Kind::Wrong => false,
        };
        let (name, value) = match (literal.name_length, value) {
            // A field must have a name; if the entry's size does not matter, any will do.
            (0, _) if literal.form != INDEXED => (1, 0),
            (0, 0) => return Err(BadFieldBlock),
            (0, value) => (1, value - 1),
            lengths => lengths,
        };
        if keeps_name {
            out.extend_from_slice(literal.name);
        } else {
            out.push(literal.form);
            filler(name, out);
        }
        filler(value, out);
        self.insert(literal, true);
        Ok(())
    }

    fn insert(&mut self, literal: &Literal<'_>, is_replaced: bool) {
        if literal.form != INDEXED {
            return;
        }
        let entry = Entry {
            kind: literal.kind,
            name: literal.name_length,
            value: self.value.len(),
            is_replaced,
        };
        self.size += entry.size();
        self.entries.push_front(entry);
        self.evict();
    }

    fn evict(&mut self) {
        while self.size > self.max_size {
            let Some(entry) = self.entries.pop_back() else {
                return;
            };
            self.size -= entry.size();
        }
    }

    fn resize(&mut self, size: usize) -> Result<(), BadFieldBlock> {
        if size > TABLE_SIZE {
            return Err(BadFieldBlock);
        }
        self.max_size = size;
        self.evict();
        Ok(())
    }

    fn entry(&self, index: usize) -> Result<&Entry, BadFieldBlock> {
        let place = index.checked_sub(STATIC_PSEUDO.len() + STATIC_NAMES.len() + 1);
        place
            .and_then(|place| self.entries.get(place))
            .ok_or(BadFieldBlock)
    }

    /// True if a field is named by the number of a replaced entry.
    fn is_wrong(&self, index: usize) -> Result<bool, BadFieldBlock> {
        match index {
            0 => Err(BadFieldBlock),
            1..=61 => Ok(false),
            index => Ok(self.entry(index)?.is_replaced),
        }
    }

    fn name_at(&self, index: usize) -> Result<(Kind, usize), BadFieldBlock> {
        if let Some(pseudo) = STATIC_PSEUDO.get(index - 1) {
            return Ok(*pseudo);
        }
        if let Some(length) = STATIC_NAMES.get(index - 1 - STATIC_PSEUDO.len()) {
            return Ok((Kind::Field, *length));
        }
        let entry = self.entry(index)?;
        Ok((entry.kind, entry.name))
    }
}

impl Entry {
    fn size(&self) -> usize {
        self.name + self.value + ENTRY_BYTES
    }
}

/// The part of `block` that comes before `rest`, its end.
fn beginning(block: &[u8], rest: &[u8]) -> Vec<u8> {
    block
        .get(..block.len() - rest.len())
        .unwrap_or_default()
        .to_vec()
}

fn kind_of(name: &[u8]) -> Kind {
    match name {
        b":method" => Kind::Method,
        b":status" => Kind::Status,
        b":authority" | b":scheme" | b":path" | b":protocol" => Kind::Text,
        [] => Kind::Wrong,
        name if name
            .iter()
            .all(|byte| is_token_byte(*byte) && !byte.is_ascii_uppercase()) =>
        {
            Kind::Field
        }
        _ => Kind::Wrong,
    }
}

/// RFC 9110 §5.5.
fn is_value_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= 0x20 && byte != 0x7f)
}

/// Appends a string of this length that is valid for any name and value.
fn filler(length: usize, out: &mut Vec<u8>) {
    write_integer(length, 7, out);
    out.resize(out.len() + length, b'x');
}

fn write_integer(value: usize, prefix: u32, out: &mut Vec<u8>) {
    let most = (1_usize << prefix) - 1;
    if value < most {
        return out.push(value as u8);
    }
    out.push(most as u8);
    let mut rest = value - most;
    while rest >= 128 {
        out.push((rest % 128) as u8 | 128);
        rest /= 128;
    }
    out.push(rest as u8);
}

/// Parses an integer with a prefix of `prefix` bits (RFC 7541 §5.1).
fn integer(rest: &mut &[u8], prefix: u32) -> Result<usize, BadFieldBlock> {
    let (first, mut bytes) = rest.split_first().ok_or(BadFieldBlock)?;
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(*first) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let (byte, behind) = bytes.split_first().ok_or(BadFieldBlock)?;
            bytes = behind;
            // Four bytes express more than any block may have.
            if shift > 21 {
                return Err(BadFieldBlock);
            }
            value += usize::from(byte & 127) << shift;
            shift += 7;
            if byte & 128 == 0 {
                break;
            }
        }
    }
    *rest = bytes;
    Ok(value)
}

/// Parses a string, and appends its decoded text to `out` (RFC 7541 §5.2).
fn string(rest: &mut &[u8], out: &mut Vec<u8>) -> Result<(), BadFieldBlock> {
    let is_huffman = rest.first().ok_or(BadFieldBlock)? & 0x80 != 0;
    let length = integer(rest, 7)?;
    let (bytes, behind) = rest.split_at_checked(length).ok_or(BadFieldBlock)?;
    *rest = behind;
    if is_huffman {
        huffman::decode(bytes, out).ok_or(BadFieldBlock)?;
    } else {
        out.extend_from_slice(bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn literal(form: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
        let mut block = vec![form];
        for text in [name, value] {
            write_integer(text.len(), 7, &mut block);
            block.extend_from_slice(text);
        }
        block
    }

    fn with_mark(block: &[u8]) -> Option<Vec<u8>> {
        Some([block, FORBIDDEN].concat())
    }

    #[test]
    fn valid_blocks_are_unchanged() {
        let mut screen = FieldScreen::default();
        // RFC 7541, appendix C.4: three requests with Huffman codes and a dynamic table.
        for block in [
            &b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..],
            b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
            b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
        ] {
            assert_eq!(screen.screen(block, false), Ok(None));
        }
        assert_eq!(screen.size, 164, "as the appendix says");
        assert_eq!(screen.entries.len(), 3);
    }

    #[test]
    fn malformed_entries_are_replaced_by_the_same_length() {
        for form in [0x00, 0x10, 0x40] {
            let mut screen = FieldScreen::default();
            for (name, value) in [
                (&b"Upper"[..], &b"value"[..]),
                (b"a b", b""),
                (b":unknown", b"1"),
                (b":status", b"200"),
                (b":method", b""),
                (b"na\xc3\xa9me", b"v\0"),
            ] {
                let expected = literal(form, &vec![b'x'; name.len()], &vec![b'x'; value.len()]);
                let size = screen.size;
                assert_eq!(
                    screen.screen(&literal(form, name, value), false),
                    Ok(with_mark(&expected)),
                    "{name:?}"
                );
                let added = name.len() + value.len() + ENTRY_BYTES;
                assert_eq!(screen.size - size, if form == 0x40 { added } else { 0 });
            }
            // A valid name is kept: other requests may refer to it.
            for (name, value) in [
                (&b"good"[..], &b"a\r\nb"[..]),
                (b":path", b"/\xff"),
                (b":method", b"G T"),
            ] {
                let expected = literal(form, name, &vec![b'x'; value.len()]);
                let block = literal(form, name, value);
                assert_eq!(
                    screen.screen(&block, false),
                    Ok(with_mark(&expected)),
                    "{name:?}"
                );
            }
        }
    }

    #[test]
    fn replaced_entries_are_remembered_while_the_table_has_them() {
        let mut screen = FieldScreen::default();
        let bad = literal(0x40, b"good", b"\0");
        assert!(screen.screen(&bad, false).unwrap().is_some());
        // By its number; by its name, with another value.
        assert_eq!(
            screen.screen(b"\x82\xbe", false),
            Ok(with_mark(b"\x82\xbe"))
        );
        assert_eq!(screen.screen(b"\x0f\x2f\x01a", false), Ok(None));
        // One more, without a name to refer to.
        assert!(
            screen
                .screen(&literal(0x40, b"BAD", b"v"), false)
                .unwrap()
                .is_some()
        );
        assert!(screen.screen(b"\x0f\x2f\x01a", false).unwrap().is_some());
        // The table is cleared, and filled again.
        assert_eq!(screen.screen(b"\x20\x3f\xe1\x1f\x82", false), Ok(None));
        assert_eq!(screen.screen(b"\xbe", false), Err(BadFieldBlock));
        assert_eq!((screen.size, screen.max_size), (0, TABLE_SIZE));
    }

    #[test]
    fn a_field_without_a_name_has_one_of_the_same_size() {
        let mut screen = FieldScreen::default();
        assert_eq!(
            screen.screen(&literal(0, b"", b""), false),
            Ok(with_mark(&literal(0, b"x", b"")))
        );
        let block = literal(0x40, b"", b"abc");
        assert_eq!(
            screen.screen(&block, false),
            Ok(with_mark(&literal(0x40, b"x", b"xx")))
        );
        assert_eq!(
            screen.screen(&literal(0x40, b"", b""), false),
            Err(BadFieldBlock)
        );
    }

    #[test]
    fn trailers_have_no_pseudo_fields() {
        let mut screen = FieldScreen::default();
        let path = literal(0x40, b":path", b"/");
        for block in [&path[..], b"\xbe", b"\x84", b"\x04\x01/"] {
            assert_eq!(
                screen.screen(block, true),
                Ok(with_mark(block)),
                "{block:?}"
            );
            assert_eq!(screen.screen(block, false), Ok(None), "{block:?}");
        }
        assert_eq!(
            screen.screen(&literal(0, b"checksum", b"1"), true),
            Ok(None)
        );
    }

    #[test]
    fn a_malformed_block_is_left_to_the_decoder() {
        for block in [
            &b"\x80"[..],
            b"\xff\xff\xff\xff\xff\x7f",
            b"\x40\x05ab",
            b"\x00\x81\x00\x00",
            b"\x3f\xe2\x1f",
            b"\x7f",
        ] {
            assert_eq!(
                FieldScreen::default().screen(block, false),
                Err(BadFieldBlock),
                "{block:?}"
            );
        }
    }
}
