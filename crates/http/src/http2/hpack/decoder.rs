//! Reads header blocks of a client.

use std::collections::VecDeque;

use super::table::TABLE;
use super::{ENTRY_BYTES, STATIC_ENTRIES, TABLE_SIZE};
use crate::field_code::{DecodeError, FieldReader};
use crate::known_fields::Known;

/// A field with its judgement: the known field of its name; `None` if it makes its message malformed.
type Judged<'f> = (&'f [u8], &'f [u8], Option<Known>);

/// An entry of the dynamic table.
#[derive(Debug)]
struct Entry {
    /// The name, then the value.
    text: Box<[u8]>,
    name: usize,
    known: Option<Known>,
}

impl Entry {
    fn size(&self) -> usize {
        self.text.len() + ENTRY_BYTES
    }

    fn field(&self) -> Judged<'_> {
        let (name, value) = self.text.split_at_checked(self.name).unwrap_or_default();
        (name, value, self.known)
    }
}

/// The decoder of one connection, for its header blocks in their order.
#[derive(Debug)]
pub struct HpackDecoder {
    /// The newest first.
    entries: VecDeque<Entry>,
    size: usize,
    max_size: usize,
    name: Vec<u8>,
    value: Vec<u8>,
}

impl Default for HpackDecoder {
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

impl HpackDecoder {
    /// Decodes a whole block, and passes each field to `field`: its name, its value, and the outcome of `judge`, which is asked once for
    /// each literal and not again for those that the table repeats. It returns the known field of a name, or `None` for a field that is
    /// malformed.
    ///
    /// # Errors
    /// It is not a header block. The connection cannot continue (RFC 9113 §4.3).
    pub fn decode(
        &mut self,
        block: &[u8],
        judge: impl Fn(&[u8], &[u8]) -> Option<Known>,
        mut field: impl FnMut(&[u8], &[u8], Option<Known>),
    ) -> Result<(), DecodeError> {
        let mut reader = FieldReader { rest: block };
        let mut has_fields = false;
        while let Some(first) = reader.rest.first().copied() {
            match first {
                0x80.. => {
                    let (name, value, known) = self.entry(reader.integer(7)?.0)?;
                    field(name, value, known);
                }
                // §4.2: a change of the size comes first.
                0x20..=0x3f if has_fields => return Err(DecodeError::Malformed),
                0x20..=0x3f => {
                    self.resize(reader.integer(5)?.0)?;
                    continue;
                }
                _ => {
                    let is_indexed = first & 0x40 != 0;
                    self.literal(&mut reader, if is_indexed { 6 } else { 4 })?;
                    let known = judge(&self.name, &self.value);
                    field(&self.name, &self.value, known);
                    if is_indexed {
                        self.insert(known);
                    }
                }
            }
            has_fields = true;
        }
        Ok(())
    }

    /// Decodes a literal into `name` and `value`; its form has a number of `bits` bits.
    fn literal(&mut self, reader: &mut FieldReader<'_>, bits: u32) -> Result<(), DecodeError> {
        let mut name = std::mem::take(&mut self.name);
        name.clear();
        match reader.integer(bits)?.0 {
            0 => reader.string(7, usize::MAX, &mut name)?,
            number => name.extend_from_slice(self.entry(number)?.0),
        }
        self.name = name;
        self.value.clear();
        reader.string(7, usize::MAX, &mut self.value)
    }

    /// The field with this number.
    fn entry(&self, number: u64) -> Result<Judged<'_>, DecodeError> {
        let place = usize::try_from(number).ok();
        let place = place
            .and_then(|number| number.checked_sub(1))
            .ok_or(DecodeError::Malformed)?;
        if let Some((name, value)) = TABLE.get(place) {
            let name = name.as_bytes();
            let known = match name {
                [b':', ..] => Known::Other,
                name => Known::from_token(name),
            };
            return Ok((name, value.as_bytes(), Some(known)));
        }
        let entry = self.entries.get(place - STATIC_ENTRIES);
        entry.map(Entry::field).ok_or(DecodeError::Malformed)
    }

    /// Inserts the decoded literal. One that is larger than the table empties it (§4.4).
    fn insert(&mut self, known: Option<Known>) {
        let size = self.name.len() + self.value.len() + ENTRY_BYTES;
        self.evict(self.max_size.saturating_sub(size));
        if size > self.max_size {
            return;
        }
        let mut text = Vec::with_capacity(self.name.len() + self.value.len());
        text.extend_from_slice(&self.name);
        text.extend_from_slice(&self.value);
        self.size += size;
        self.entries.push_front(Entry {
            text: text.into(),
            name: self.name.len(),
            known,
        });
    }

    /// Removes the oldest entries until the rest has at most `most` bytes.
    fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(entry) = self.entries.pop_back()
        {
            self.size -= entry.size();
        }
    }

    fn resize(&mut self, size: u64) -> Result<(), DecodeError> {
        let size = usize::try_from(size)
            .ok()
            .filter(|size| *size <= TABLE_SIZE);
        self.max_size = size.ok_or(DecodeError::Malformed)?;
        self.evict(self.max_size);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Text = (String, String);

    fn decoded(decoder: &mut HpackDecoder, block: &[u8]) -> Result<Vec<Text>, DecodeError> {
        let mut fields = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(
            block,
            |_, _| Some(Known::Other),
            |name, value, _| fields.push((text(name), text(value))),
        )?;
        Ok(fields)
    }

    fn texts(fields: &[(&str, &str)]) -> Vec<Text> {
        fields
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    /// RFC 7541, appendix C.4: three requests with Huffman codes and a dynamic table.
    #[test]
    fn the_examples_of_the_standard() {
        let mut decoder = HpackDecoder::default();
        let common = [(":method", "GET"), (":scheme", "http"), (":path", "/")];
        let host = (":authority", "www.example.com");
        for (block, fields) in [
            (
                &b"\x82\x86\x84\x41\x8c\xf1\xe3\xc2\xe5\xf2\x3a\x6b\xa0\xab\x90\xf4\xff"[..],
                [&common[..], &[host]].concat(),
            ),
            (
                b"\x82\x86\x84\xbe\x58\x86\xa8\xeb\x10\x64\x9c\xbf",
                [&common[..], &[host, ("cache-control", "no-cache")]].concat(),
            ),
            (
                b"\x82\x87\x85\xbf\x40\x88\x25\xa8\x49\xe9\x5b\xa9\x7d\x7f\x89\x25\xa8\x49\xe9\x5b\xb8\xe8\xb4\xbf",
                vec![
                    common[0],
                    (":scheme", "https"),
                    (":path", "/index.html"),
                    host,
                    ("custom-key", "custom-value"),
                ],
            ),
        ] {
            assert_eq!(decoded(&mut decoder, block), Ok(texts(&fields)));
        }
        assert_eq!(
            (decoder.size, decoder.entries.len()),
            (164, 3),
            "as the appendix says"
        );
    }

    #[test]
    fn the_table_keeps_to_its_size() {
        let mut decoder = HpackDecoder::default();
        let mut large = b"\x40\x01x\x7f\xe0\x1e".to_vec();
        large.extend([b'v'; 127 + 0x60 + (0x1e << 7)]);
        assert_eq!(decoded(&mut decoder, b"\x40\x01a\x01b").unwrap().len(), 1);
        // With its overhead it has 4,096 bytes: it fits alone.
        assert!(decoded(&mut decoder, &large).is_ok());
        assert_eq!(decoder.entries.len(), 1);
        assert!(decoder.size <= TABLE_SIZE);
        // A smaller table, and one that nothing fits.
        assert!(decoded(&mut decoder, b"\x3f\x01\x82").is_ok());
        assert_eq!((decoder.max_size, decoder.size), (32, 0));
        assert!(decoded(&mut decoder, b"\x40\x01a\x01b").is_ok());
        assert_eq!(decoder.entries.len(), 0);
        assert_eq!(decoded(&mut decoder, b"\xbe"), Err(DecodeError::Malformed));
    }

    #[test]
    fn malformed_blocks_are_refused() {
        for block in [
            &b"\x80"[..],
            b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\xbe",
            b"\x40\x05ab",
            b"\x00\x81\x00\x00",
            b"\x3f\xe2\x1f",
            b"\x82\x20",
            b"\x7f",
        ] {
            assert_eq!(
                decoded(&mut HpackDecoder::default(), block),
                Err(DecodeError::Malformed),
                "{block:?}"
            );
        }
    }

    #[test]
    fn a_field_is_judged_once_and_its_entry_keeps_the_judgement() {
        let mut decoder = HpackDecoder::default();
        let mut seen = Vec::new();
        let block = b"\x40\x03bad\x011\x40\x04good\x011\xbf\xbe";
        decoder
            .decode(
                block,
                |name, _| (name != b"bad").then_some(Known::Other),
                |name, _, known| seen.push((name.len(), known.is_some())),
            )
            .unwrap();
        assert_eq!(seen, [(3, false), (4, true), (3, false), (4, true)]);
    }
}
