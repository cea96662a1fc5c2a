//! Field sections as requests, trailers and heads of responses (RFC 9114 §4.3).

use super::qpack::{DecodeError, begin, decode, write_field};
use crate::known_fields::Known;
use crate::section::Section;
use crate::trailers::Trailers;

/// Why a section is not a valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionError {
    /// It cannot be decoded.
    Decode(DecodeError),
    /// It violates the rules about pseudo-fields: the message is malformed.
    Malformed,
}

impl Section {
    /// Decodes the head of a request; all fields together may count `most` bytes.
    pub fn of_request(block: &[u8], most: usize) -> Result<Self, SectionError> {
        let section = Self::read(block, most)?;
        match section.is_request() {
            true => Ok(section),
            false => Err(SectionError::Malformed),
        }
    }

    /// Decodes trailers.
    pub fn of_trailers(block: &[u8], most: usize) -> Result<Trailers, SectionError> {
        let section = Self::read(block, most)?;
        match section.has_pseudo() {
            true => Err(SectionError::Malformed),
            false => Ok(section.to_trailers()),
        }
    }

    fn read(block: &[u8], most: usize) -> Result<Self, SectionError> {
        let mut section = Self::default();
        let mut is_malformed = false;
        decode(block, most, |name, value| {
            is_malformed |= !section.push(name, value, Known::from_name(name));
        })
        .map_err(SectionError::Decode)?;
        match is_malformed {
            true => Err(SectionError::Malformed),
            false => Ok(section),
        }
    }
}

/// The head of a response as a section. Names are written in lower case.
pub fn encode_response<'f>(
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> Vec<u8> {
    let mut out = Vec::with_capacity(256);
    begin(&mut out);
    let mut digits = itoa::Buffer::new();
    write_field(b":status", digits.format(status).as_bytes(), &mut out);
    encode_into(fields, &mut out);
    out
}

/// Trailers as a section.
pub fn encode_fields<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>) -> Vec<u8> {
    let mut out = Vec::new();
    begin(&mut out);
    encode_into(fields, &mut out);
    out
}

fn encode_into<'f>(fields: impl Iterator<Item = (&'f [u8], &'f [u8])>, out: &mut Vec<u8>) {
    let mut lower = Vec::new();
    for (name, value) in fields {
        lower.clear();
        lower.extend(name.iter().map(u8::to_ascii_lowercase));
        write_field(&lower, value, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(fields: &[(&str, &str)]) -> Vec<u8> {
        encode_fields(
            fields
                .iter()
                .map(|(name, value)| (name.as_bytes(), value.as_bytes())),
        )
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "https"),
        (":authority", "example.org"),
        (":path", "/a?b"),
    ];

    #[test]
    fn a_request_has_its_pseudo_fields() {
        let fields = [&GET[..], &[("accept", "*/*"), ("cookie", "a=1")]].concat();
        let section = Section::of_request(&block(&fields), 1000).unwrap();
        assert_eq!(section.method(), b"GET");
        assert_eq!(section.authority(), Some(&b"example.org"[..]));
        assert_eq!(section.path(), Some(&b"/a?b"[..]));
        assert_eq!(section.protocol(), None);
        let others: Vec<_> = section.fields().collect();
        assert_eq!(others, [(&b"accept"[..], &b"*/*"[..]), (b"cookie", b"a=1")]);
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert!(Section::of_request(&block(&connect), 1000).is_ok());
        let websocket = [
            &[(":method", "CONNECT"), (":protocol", "websocket")],
            &GET[1..],
        ]
        .concat();
        let section = Section::of_request(&block(&websocket), 1000).unwrap();
        assert_eq!(section.protocol(), Some(&b"websocket"[..]));
    }

    #[test]
    fn invalid_pseudo_fields_are_malformed() {
        let without = |left_out: usize| {
            let mut fields = GET.to_vec();
            fields.remove(left_out);
            fields
        };
        let with = |field| [&GET[..], &[field]].concat();
        for fields in [
            without(0),
            without(1),
            without(3),
            with((":method", "GET")),
            with((":path", "/a?b")),
            with((":status", "200")),
            with((":other", "")),
            with((":protocol", "websocket")),
            [&[("accept", "*/*")], &GET[..]].concat(),
            vec![(":method", "CONNECT")],
            vec![
                (":method", "CONNECT"),
                (":authority", "a:1"),
                (":path", "/"),
            ],
            vec![
                (":method", "CONNECT"),
                (":authority", "a:1"),
                (":scheme", "https"),
            ],
            vec![],
        ] {
            let outcome = Section::of_request(&block(&fields), 1000).map(drop);
            assert_eq!(outcome, Err(SectionError::Malformed), "{fields:?}");
        }
        let trailers = Section::of_trailers(&block(&[(":path", "/")]), 1000);
        assert_eq!(trailers, Err(SectionError::Malformed));
        let trailers = Section::of_trailers(&block(&[("x-sum", "1")]), 1000).unwrap();
        assert_eq!(trailers.lines(), b"x-sum: 1\r\n");
    }

    #[test]
    fn a_written_response_is_read_back() {
        let fields = [(&b"Server"[..], &b"Tutti"[..]), (b"X-A", b"")];
        let block = encode_response(404, fields.into_iter());
        let mut found = Vec::new();
        decode(&block, 1000, |name, value| {
            found.push((name.to_vec(), value.to_vec()));
        })
        .unwrap();
        let expected: [(&[u8], &[u8]); 3] =
            [(b":status", b"404"), (b"server", b"Tutti"), (b"x-a", b"")];
        assert_eq!(
            found,
            expected.map(|(name, value)| (name.to_vec(), value.to_vec()))
        );
    }
}
