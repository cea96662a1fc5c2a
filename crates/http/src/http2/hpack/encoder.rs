//! Writes header blocks of responses.
//!
//! A field that is repeated costs a byte: it enters the dynamic table when it is first sent, if responses usually repeat it (`Server`,
//! `Content-Type`, `Date` for a second), and when it is sent again otherwise (`ETag` of a file that is asked for again), so that values
//! that occur once do not evict the others. A field of [`SECRET`] is never indexed, here or by a proxy on the way (RFC 7541 §6.2.3, §7.1.3).
//! Literals that enter the table are Huffman-coded, as they may be large and are sent once; others are sent as they are, which costs a few
//! bytes and saves most of the work.
//!
//! Must never: index a secret, or send a field that is malformed, which would end the client's stream.

use std::collections::VecDeque;

use super::table::number_of;
use super::{ENTRY_BYTES, STATIC_ENTRIES, TABLE_SIZE};
use crate::field_code::{write_integer, write_string};
use crate::token::{is_field_name, is_field_value};

/// Credentials: their values must not be guessed from the size of a block in which others can place fields (§7.1).
const SECRET: [&[u8]; 7] = [
    b"set-cookie",
    b"set-cookie2",
    b"authorization",
    b"proxy-authorization",
    b"www-authenticate",
    b"proxy-authenticate",
    b"authentication-info",
];

/// Fields that most responses of a server repeat.
const REPEATED: [&[u8]; 14] = [
    b"server",
    b"date",
    b"content-type",
    b"content-encoding",
    b"vary",
    b"cache-control",
    b"accept-ranges",
    b"alt-svc",
    b"strict-transport-security",
    b"content-security-policy",
    b"x-content-type-options",
    b"x-frame-options",
    b"referrer-policy",
    b"access-control-allow-origin",
];

/// The first number of `:status`, whose value 200 it has; the others follow in the order of [`STATUSES`] (appendix A).
const FIRST_STATUS: u8 = 8;
const STATUSES: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];

/// Places for the fields that were sent lately. A few times the entries that a table can have of usual responses.
const PLACES: usize = 128;

/// The longest name that is looked up; a longer one is sent as it is.
const NAME_BYTES: usize = 64;

/// An entry of the dynamic table.
#[derive(Debug)]
struct Entry {
    /// The name as it was sent, then the value.
    text: Box<[u8]>,
    name: usize,
}

/// A field that was sent lately.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    hash: u32,
    /// Its number among all that ever entered the table, from 1; 0 if it did not.
    entry: u32,
}

/// The encoder of one connection, for its header blocks in their order.
#[derive(Debug)]
pub struct HpackEncoder {
    /// The oldest first.
    entries: VecDeque<Entry>,
    size: usize,
    max_size: usize,
    /// Entries that were ever inserted.
    inserted: u32,
    /// By hash; empty until the first block.
    sent: Vec<Sent>,
    /// The smallest table since the last block, if the size has changed (§4.2).
    smallest: Option<usize>,
}

impl Default for HpackEncoder {
    fn default() -> Self {
        Self {
            entries: VecDeque::new(),
            size: 0,
            max_size: TABLE_SIZE,
            inserted: 0,
            sent: Vec::new(),
            smallest: None,
        }
    }
}

impl HpackEncoder {
    /// The client permits a table of this size from now on (SETTINGS_HEADER_TABLE_SIZE).
    pub fn permit(&mut self, size: u32) {
        let size = usize::try_from(size).unwrap_or(TABLE_SIZE).min(TABLE_SIZE);
        if size != self.max_size {
            let smallest = self.smallest.unwrap_or(self.max_size);
            self.smallest = Some(smallest.min(size));
            self.max_size = size;
            self.evict(size);
        }
    }

    /// Appends the head of a response.
    pub fn write_head<'f>(
        &mut self,
        status: u16,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        match (FIRST_STATUS..)
            .zip(STATUSES)
            .find(|(_, one)| *one == status)
        {
            Some((number, _)) => out.push(0x80 | number),
            None => {
                let digit = |value: u16| b'0' + (value % 10) as u8;
                let digits = [digit(status / 100), digit(status / 10), digit(status)];
                out.extend_from_slice(&[FIRST_STATUS, 3]);
                out.extend_from_slice(&digits);
            }
        }
        fields.for_each(|(name, value)| self.field(name, value, out));
    }

    /// Appends a trailer section.
    pub fn write_trailers<'f>(
        &mut self,
        fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
        out: &mut Vec<u8>,
    ) {
        self.begin(out);
        fields.for_each(|(name, value)| self.field(name, value, out));
    }

    /// Announces a changed size, at the beginning of a block.
    fn begin(&mut self, out: &mut Vec<u8>) {
        self.sent.resize(PLACES, Sent::default());
        if let Some(smallest) = self.smallest.take() {
            if smallest < self.max_size {
                write_integer(smallest as u64, 0x20, 5, out);
            }
            write_integer(self.max_size as u64, 0x20, 5, out);
        }
    }

    fn field(&mut self, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let hash = hash(name, value);
        let place = hash as usize % PLACES;
        let sent = self.sent.get(place).copied().unwrap_or_default();
        let is_known = sent.hash == hash;
        if is_known && let Some(number) = self.number_of(sent.entry, name, value) {
            return write_integer(number, 0x80, 7, out);
        }
        if !is_field_name(name) || !is_field_value(value) {
            return;
        }
        let mut lower = [0; NAME_BYTES];
        let Some(lower) = lower.get_mut(..name.len()) else {
            let name = name.to_ascii_lowercase();
            return write_literal(0, &name, value, out);
        };
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        let lower = &*lower;
        if SECRET.contains(&lower) {
            return write_literal(0x10, lower, value, out);
        }
        let size = name.len() + value.len() + ENTRY_BYTES;
        // Half of the table: one field must not evict all others.
        let enters = size <= self.max_size / 2 && (is_known || REPEATED.contains(&lower));
        if enters {
            write_indexed(lower, value, out);
            self.insert(name, value);
        } else {
            write_literal(0, lower, value, out);
        }
        if let Some(sent) = self.sent.get_mut(place) {
            let entry = if enters { self.inserted } else { 0 };
            *sent = Sent { hash, entry };
        }
    }

    /// The number that names this entry now, if it is still there and this field.
    fn number_of(&self, entry: u32, name: &[u8], value: &[u8]) -> Option<u64> {
        // The newest has the first number after the static table.
        let age = self.inserted.wrapping_sub(entry) as usize;
        let place = self.entries.len().checked_sub(age + 1)?;
        let found = self.entries.get(place).filter(|_| entry > 0)?;
        let (own_name, own_value) = found.text.split_at_checked(found.name)?;
        // Usually in the same case, which is compared at once.
        let is_name = own_name == name || own_name.eq_ignore_ascii_case(name);
        let is_same = own_value == value && is_name;
        is_same.then_some((STATIC_ENTRIES + 1 + age) as u64)
    }

    fn insert(&mut self, name: &[u8], value: &[u8]) {
        let size = name.len() + value.len() + ENTRY_BYTES;
        debug_assert!(size <= self.max_size, "it would empty the table");
        self.evict(self.max_size.saturating_sub(size));
        let mut text = Vec::with_capacity(name.len() + value.len());
        text.extend_from_slice(name);
        text.extend_from_slice(value);
        self.entries.push_back(Entry {
            text: text.into(),
            name: name.len(),
        });
        self.size += size;
        self.inserted = self.inserted.wrapping_add(1);
        if self.inserted == 0 {
            // Numbers begin again; those that are remembered mean other entries.
            self.sent.clear();
        }
    }

    /// Removes the oldest entries until the rest has at most `most` bytes.
    fn evict(&mut self, most: usize) {
        while self.size > most
            && let Some(entry) = self.entries.pop_front()
        {
            self.size -= entry.text.len() + ENTRY_BYTES;
        }
    }
}

/// Appends a field that enters the table (§6.2.1).
fn write_indexed(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match number_of(name) {
        Some(number) => write_integer(number, 0x40, 6, out),
        None => {
            out.push(0x40);
            write_string(name, 0, 7, out);
        }
    }
    write_string(value, 0, 7, out);
}

/// Appends a field that does not enter the table: `form` is 0 (§6.2.2), or 0x10 for one that no table may have (§6.2.3).
fn write_literal(form: u8, name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    match number_of(name) {
        Some(number) => write_integer(number, form, 4, out),
        None => {
            out.push(form);
            write_plain(name, out);
        }
    }
    write_plain(value, out);
}

/// Appends a string without the Huffman code.
fn write_plain(text: &[u8], out: &mut Vec<u8>) {
    write_integer(text.len() as u64, 0, 7, out);
    out.extend_from_slice(text);
}

/// A hash of a field, the same for its name in any case. It only chooses a place: entries are compared.
fn hash(name: &[u8], value: &[u8]) -> u32 {
    /// The multiplier of FxHash.
    const FACTOR: u64 = 0x51_7c_c1_b7_27_22_0a_95;
    const LOWER: u64 = 0x2020_2020_2020_2020;
    fn add(hash: u64, text: &[u8], mask: u64) -> u64 {
        let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ (word | mask)).wrapping_mul(FACTOR);
        let words = text.as_chunks::<8>().0.iter();
        let hash = words.fold(hash, |hash, word| mix(hash, u64::from_le_bytes(*word)));
        // The last bytes again, with those before them: one word takes as long as one byte.
        let last = match text.last_chunk() {
            Some(last) => u64::from_le_bytes(*last),
            None => text
                .iter()
                .fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        mix(hash, last)
    }
    let hash = add(name.len() as u64, name, LOWER);
    let hash = add(hash, value, 0);
    // Never that of an empty place.
    (hash >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::super::HpackDecoder;
    use super::*;

    type Field<'a> = (&'a str, &'a str);

    /// An encoder and the decoder at the other end.
    #[derive(Default)]
    struct Pair {
        encoder: HpackEncoder,
        decoder: HpackDecoder,
    }

    impl Pair {
        /// Sends a head, compares what arrives, and returns the bytes of the block.
        fn send(&mut self, status: u16, fields: &[Field<'_>]) -> Vec<u8> {
            let mut block = Vec::new();
            let bytes = fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
            self.encoder.write_head(status, bytes, &mut block);
            let mut expected = vec![(":status".to_owned(), format!("{status:03}"))];
            let lower = |(name, value): &Field<'_>| (name.to_lowercase(), (*value).to_owned());
            expected.extend(fields.iter().map(lower));
            assert_eq!(self.received(&block), expected);
            assert!(self.encoder.size <= self.encoder.max_size);
            block
        }

        fn received(&mut self, block: &[u8]) -> Vec<(String, String)> {
            let mut fields = Vec::new();
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            self.decoder
                .decode(
                    block,
                    |_, _| Some(crate::Known::Other),
                    |name, value, _| fields.push((text(name), text(value))),
                )
                .unwrap();
            fields
        }
    }

    const PAGE: [Field<'_>; 4] = [
        ("Server", "Tutti"),
        ("Date", "Sun, 29 Nov 2026 10:00:00 GMT"),
        ("Content-Type", "text/html; charset=utf-8"),
        ("Content-Length", "1024"),
    ];

    #[test]
    fn a_repeated_head_costs_a_byte_for_each_field() {
        let mut pair = Pair::default();
        let sizes = [(); 3].map(|()| pair.send(200, &PAGE).len());
        // `Content-Length` enters the table when it comes again.
        assert!(sizes[0] > 50 && (6..=15).contains(&sizes[1]), "{sizes:?}");
        assert_eq!(sizes[2], 5);
    }

    #[test]
    fn statuses_in_and_out_of_the_table() {
        let mut pair = Pair::default();
        for status in [200, 204, 206, 304, 400, 404, 500] {
            assert_eq!(pair.send(status, &[]).len(), 1, "{status}");
        }
        for status in [100, 103, 201, 302, 431, 503, 999] {
            assert_eq!(pair.send(status, &[]).len(), 5, "{status}");
        }
    }

    #[test]
    fn secrets_are_never_indexed() {
        let mut pair = Pair::default();
        for name in SECRET {
            let field = (std::str::from_utf8(name).unwrap(), "secret=0123456789");
            for _ in 0..3 {
                let block = pair.send(200, &[field]);
                assert_eq!(block[1] & 0xf0, 0x10, "{field:?}");
            }
        }
        assert_eq!(pair.encoder.entries.len(), 0);
        assert!(pair.encoder.sent.iter().all(|sent| sent.hash == 0));
    }

    #[test]
    fn the_table_keeps_to_what_the_client_permits() {
        let mut pair = Pair::default();
        pair.send(200, &PAGE);
        pair.send(200, &PAGE);
        // Smaller, then larger, before the next block: both are announced (RFC 7541 §4.2).
        pair.encoder.permit(100);
        assert!(pair.encoder.size <= 100);
        pair.encoder.permit(300);
        let block = pair.send(200, &PAGE);
        assert_eq!(block[..6], [0x3f, 69, 0x3f, 0x8d, 0x02, 0x88]);
        pair.send(200, &PAGE);
        // None at all.
        pair.encoder.permit(0);
        for _ in 0..3 {
            pair.send(200, &PAGE);
            assert_eq!(pair.encoder.entries.len(), 0);
        }
        // More than we use.
        pair.encoder.permit(u32::MAX);
        assert_eq!(pair.encoder.max_size, TABLE_SIZE);
        pair.send(200, &PAGE);
        assert_eq!(pair.send(200, &PAGE).len(), 5);
    }

    #[test]
    fn large_and_unusual_fields_arrive() {
        let mut pair = Pair::default();
        let long = "v".repeat(5_000);
        let name = "X-".repeat(60);
        for _ in 0..3 {
            pair.send(
                200,
                &[
                    ("Link", &long),
                    (&name, "1"),
                    ("Empty", ""),
                    ("X", "\u{e9}\u{20ac}"),
                    ("X", "again"),
                ],
            );
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_sent_arrives(
            heads in proptest::collection::vec(
                (200_u16..600, proptest::collection::vec(("[a-zA-Z-]{1,9}", "[ -~]{0,40}"), 0..9), proptest::option::of(0_u32..600)),
                1..60,
            ),
            values in proptest::collection::vec("[ -~]{0,300}", 1..6),
        ) {
            let mut pair = Pair::default();
            for (number, (status, fields, size)) in heads.iter().enumerate() {
                if let Some(size) = size {
                    pair.encoder.permit(*size);
                }
                let value = &values[number % values.len()];
                let mut fields: Vec<Field<'_>> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
                fields.extend([("Server", &**value), ("ETag", &**value), ("Set-Cookie", &**value)]);
                pair.send(*status, &fields);
            }
        }
    }
}
