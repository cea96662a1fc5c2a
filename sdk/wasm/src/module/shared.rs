//! The memory that a module shares with the server, laid out as the header of Unit's SDK says (`unit/unit-wasm.h`, from 0.3 on).
//!
//! A request is a record, the strings that it points to, and a part of the body; an answer's fields and parts are where the module says.
//! All numbers are little-endian. Pure. What must never happen: a read beyond what is shared, whatever the module says.

/// Bytes that a module counts on for a request, or for an answer (`nxt_wasm_get_init_mem_size`; API-C.md, `luw_malloc_handler`).
pub(super) const ROOM: u32 = 32 << 20;

/// Bytes that are asked of it: a page more, for the records themselves (likewise).
pub(super) const SIZE: u32 = ROOM + 65_536;

/// Places of numbers in `struct luw_req`.
mod at {
    pub(super) const CONTENT_LENGTH: usize = 64;
    pub(super) const TOTAL_SENT: usize = 72;
    pub(super) const SENT: usize = 80;
    pub(super) const CONTENT: usize = 84;
    pub(super) const SIZE: usize = 88;
    pub(super) const FIELD_COUNT: usize = 92;
    pub(super) const TLS: usize = 96;
    pub(super) const FIELDS: usize = 104;
}

/// Bytes of `struct luw_hdr_field`: place and length of a name, place and length of its value.
const FIELD: usize = 16;

/// A field: its name and its value.
pub(super) type Field<'m> = (&'m [u8], &'m [u8]);

/// A request, but for its body.
#[derive(Debug)]
pub(super) struct Request<'r> {
    /// In the order of the record: method, version, target, query, address of the client, own address, own port, name of the server.
    pub(super) strings: [&'r [u8]; 8],
    pub(super) fields: &'r [Field<'r>],
    pub(super) is_tls: bool,
    pub(super) content_length: u64,
}

/// A request as it is laid out, before its body.
#[derive(Debug)]
pub(crate) struct Head(Vec<u8>);

impl Head {
    /// `None`: it does not fit.
    pub(super) fn new(request: &Request<'_>) -> Option<Self> {
        let mut head = Self(vec![0; at::FIELDS + request.fields.len() * FIELD]);
        for (index, text) in request.strings.iter().enumerate() {
            head.text(index * 8, text)?;
        }
        for (index, (name, value)) in request.fields.iter().enumerate() {
            let place = at::FIELDS + index * FIELD;
            head.text(place, name)?;
            head.text(place + 8, value)?;
        }
        head.long(at::CONTENT_LENGTH, request.content_length);
        head.number(at::FIELD_COUNT, u32::try_from(request.fields.len()).ok()?);
        head.number(at::TLS, request.is_tls.into());
        let length = u32::try_from(head.0.len()).ok()?;
        head.number(at::CONTENT, length);
        (length < ROOM).then_some(head)
    }

    /// Bytes of a body that fit behind it.
    pub(super) fn room(&self) -> usize {
        (ROOM as usize).saturating_sub(self.0.len())
    }

    /// The bytes to lay down for a part of the body: of so many bytes, the last of so many in all.
    pub(super) fn part(&mut self, sent: u32, total: u64) -> &[u8] {
        // It is what the SDK's `luw_set_req_buf` copies of the first part, from its start, and what `luw_req_buf_append` appends of
        // the others, from where their content is.
        let before = match total == u64::from(sent) {
            true => u32::try_from(self.0.len()).unwrap_or(ROOM),
            false => 0,
        };
        self.number(at::SENT, sent);
        self.long(at::TOTAL_SENT, total);
        self.number(at::SIZE, before.saturating_add(sent));
        &self.0
    }

    /// Where the body begins.
    pub(super) fn length(&self) -> usize {
        self.0.len()
    }

    /// Adds a string, its place and length to be noted at `place`. It ends with a NUL, for the SDK's functions give it out as it is.
    fn text(&mut self, place: usize, text: &[u8]) -> Option<()> {
        let (offset, length) = (self.0.len(), text.len());
        self.0.extend_from_slice(text);
        self.0.push(0);
        self.number(place, u32::try_from(offset).ok()?);
        self.number(place + 4, u32::try_from(length).ok()?);
        Some(())
    }

    fn number(&mut self, place: usize, number: u32) {
        if let Some(bytes) = self.0.get_mut(place..place + 4) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
    }

    fn long(&mut self, place: usize, number: u64) {
        if let Some(bytes) = self.0.get_mut(place..place + 8) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
    }
}

/// A place that is not in the shared memory.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "it sent {what} that would be {length} bytes from byte {offset} of the memory that it shares, which has {SIZE}"
)]
pub(super) struct Outside {
    what: &'static str,
    offset: u64,
    length: u64,
}

/// So many bytes of the shared memory from `offset` on.
fn range<'m>(
    shared: &'m [u8],
    offset: u64,
    length: u64,
    what: &'static str,
) -> Result<&'m [u8], Outside> {
    let found = usize::try_from(offset).ok().and_then(|start| {
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        shared.get(start..end)
    });
    found.ok_or(Outside {
        what,
        offset,
        length,
    })
}

/// The number at `place` of these bytes.
fn number(bytes: &[u8], place: usize) -> u32 {
    let found = bytes.get(place..).and_then(<[u8]>::first_chunk);
    found.map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The fields of an answer (`struct luw_resp_hdr`) that begin at `offset`.
pub(super) fn fields(shared: &[u8], offset: u32) -> Result<Vec<Field<'_>>, Outside> {
    let offset = u64::from(offset);
    let count = number(range(shared, offset, 4, "a header")?, 0);
    let table = range(
        shared,
        offset + 4,
        u64::from(count) * FIELD as u64,
        "a table of fields",
    )?;
    let text = |field: &[u8], place, what| {
        let (offset, length) = (number(field, place), number(field, place + 4));
        range(shared, offset.into(), length.into(), what)
    };
    table
        .chunks_exact(FIELD)
        .map(|field| {
            Ok((
                text(field, 0, "the name of a field")?,
                text(field, 8, "the value of a field")?,
            ))
        })
        .collect()
}

/// The part of an answer's body (`struct luw_resp`) that begins at `offset`.
pub(super) fn content(shared: &[u8], offset: u32) -> Result<&[u8], Outside> {
    let offset = u64::from(offset);
    let length = number(range(shared, offset, 4, "a part of an answer")?, 0);
    range(shared, offset + 4, length.into(), "a part of an answer")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head() -> Head {
        let request = Request {
            strings: [
                b"POST",
                b"HTTP/1.1",
                b"/a?b",
                b"b",
                b"::1",
                b"127.0.0.1",
                b"80",
                b"test",
            ],
            fields: &[(b"Host", b"test"), (b"X", b"")],
            is_tls: true,
            content_length: 5_000_000_000,
        };
        Head::new(&request).unwrap()
    }

    #[test]
    fn a_request_is_laid_out_as_the_header_of_the_sdk_says() {
        let mut head = head();
        let bytes = head.part(7, 7).to_vec();
        let text = |place: usize| {
            let (offset, length) = (number(&bytes, place) as usize, number(&bytes, place + 4));
            let end = offset + length as usize;
            assert_eq!(bytes[end], 0, "a NUL");
            String::from_utf8_lossy(&bytes[offset..end]).into_owned()
        };
        let strings: Vec<String> = (0..8).map(|index| text(index * 8)).collect();
        assert_eq!(
            strings,
            [
                "POST",
                "HTTP/1.1",
                "/a?b",
                "b",
                "::1",
                "127.0.0.1",
                "80",
                "test"
            ]
        );
        assert_eq!((text(104), text(112)), ("Host".into(), "test".into()));
        assert_eq!((text(120), text(128)), ("X".into(), String::new()));
        assert_eq!(bytes[64..72], 5_000_000_000_u64.to_le_bytes());
        assert_eq!(bytes[72..80], 7_u64.to_le_bytes());
        let length = u32::try_from(bytes.len()).unwrap();
        let numbers: Vec<u32> = (80..100)
            .step_by(4)
            .map(|place| number(&bytes, place))
            .collect();
        assert_eq!(numbers, [7, length, length + 7, 2, 1]);
        assert_eq!(head.room() + bytes.len(), ROOM as usize);
        // Nothing but its content counts of a further part.
        let bytes = head.part(2, 9);
        assert_eq!((number(bytes, 80), number(bytes, 88)), (2, 2));
        assert_eq!(bytes[72..80], 9_u64.to_le_bytes());
    }

    #[test]
    fn a_head_that_leaves_no_room_is_refused() {
        let value = vec![b'x'; ROOM as usize];
        let request = Request {
            strings: [b""; 8],
            fields: &[(b"X", &value)],
            is_tls: false,
            content_length: 0,
        };
        assert!(Head::new(&request).is_none());
    }

    /// Memory with these numbers at its start.
    fn memory(numbers: &[u32]) -> Vec<u8> {
        let mut bytes: Vec<u8> = numbers
            .iter()
            .flat_map(|number| number.to_le_bytes())
            .collect();
        bytes.resize(100, b'x');
        bytes
    }

    #[test]
    fn an_answer_is_read_within_the_shared_memory_only() {
        let shared = memory(&[1, 90, 4, 94, 6]);
        assert_eq!(fields(&shared, 0), Ok(vec![(&b"xxxx"[..], &b"xxxxxx"[..])]));
        assert_eq!(content(&memory(&[0, 92]), 4), Ok(&[b'x'; 92][..]));
        assert_eq!(content(&memory(&[0]), 0), Ok(&b""[..]));
        for numbers in [
            [1, 91, 10, 0, 0],
            [1, 0, 0, u32::MAX, u32::MAX],
            [1, u32::MAX, 1, 0, 0],
            [u32::MAX, 0, 0, 0, 0],
            [7, 0, 0, 0, 0],
        ] {
            assert!(fields(&memory(&numbers), 0).is_err(), "{numbers:?}");
        }
        for offset in [97, 100, u32::MAX] {
            assert!(fields(&memory(&[]), offset).is_err(), "{offset}");
            assert!(content(&memory(&[]), offset).is_err(), "{offset}");
        }
        assert!(content(&memory(&[97]), 0).is_err());
        assert!(content(&memory(&[u32::MAX]), 0).is_err());
    }
}
