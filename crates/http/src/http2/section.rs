//! Field sections as requests and trailers (RFC 9113 §8).

use super::{HpackDecoder, is_connection_specific};
use crate::field_code::DecodeError;
use crate::known_fields::Known;
use crate::section::Section;
use crate::token::{is_field_name, is_field_value, is_token_byte};
use crate::trailers::Trailers;

/// The overhead of each field in the size of a list (RFC 9113 §10.5.1).
const FIELD_COST: usize = 32;

/// The judgement on a header block that could be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectionOutcome {
    /// It is a request.
    Valid,
    /// It is malformed: its stream must be reset (§8.1.1).
    Malformed,
    /// It exceeds the permitted size.
    TooLarge,
}

/// Decodes the head of a request into `section`; all fields together may count `most` bytes.
///
/// # Errors
/// The block cannot be decoded, and the connection cannot continue.
pub fn read_request(
    decoder: &mut HpackDecoder,
    block: &[u8],
    most: usize,
    section: &mut Section,
) -> Result<SectionOutcome, DecodeError> {
    let outcome = read(decoder, block, most, section)?;
    if outcome != SectionOutcome::Valid {
        return Ok(outcome);
    }
    // §8.3.1: a path begins with a slash, unless it is the asterisk of OPTIONS.
    let path = section.path().unwrap_or(b"/");
    let is_path = path.starts_with(b"/") || path == b"*";
    let is_whole = is_path && section.scheme().is_none_or(is_scheme) && section.is_request();
    Ok(match is_whole {
        true => SectionOutcome::Valid,
        false => SectionOutcome::Malformed,
    })
}

/// Decodes a trailer section; `None` if it is malformed or too large.
///
/// # Errors
/// As for [`read_request`].
pub fn read_trailers(
    decoder: &mut HpackDecoder,
    block: &[u8],
    most: usize,
) -> Result<Option<Trailers>, DecodeError> {
    let mut section = Section::default();
    let outcome = read(decoder, block, most, &mut section)?;
    // §8.1: without pseudo-fields.
    let is_valid = outcome == SectionOutcome::Valid && !section.has_pseudo();
    Ok(is_valid.then(|| section.to_trailers()))
}

fn read(
    decoder: &mut HpackDecoder,
    block: &[u8],
    most: usize,
    section: &mut Section,
) -> Result<SectionOutcome, DecodeError> {
    section.clear();
    let mut size = 0_usize;
    let mut is_valid_list = true;
    decoder.decode(block, judge, |name, value, known| {
        size = size.saturating_add(name.len() + value.len() + FIELD_COST);
        // References to large entries cost the client a byte: beyond the limit nothing is kept.
        if size <= most {
            is_valid_list &= known.is_some_and(|known| section.push(name, value, known));
        }
    })?;
    Ok(match (is_valid_list, size <= most) {
        (false, _) => SectionOutcome::Malformed,
        (true, false) => SectionOutcome::TooLarge,
        (true, true) => SectionOutcome::Valid,
    })
}

/// The known field of this name, unless it makes its message malformed (§8.2, §8.3).
fn judge(name: &[u8], value: &[u8]) -> Option<Known> {
    match name {
        b":method" => is_field_name(value).then_some(Known::Other),
        [b':', ..] => is_field_value(value).then_some(Known::Other),
        [] => None,
        name => {
            let is_name = |byte: &u8| is_token_byte(*byte) && !byte.is_ascii_uppercase();
            if !name.iter().all(is_name) || !is_field_value(value) {
                return None;
            }
            let known = Known::from_token(name);
            let is_permitted = match known {
                Known::Te => value.eq_ignore_ascii_case(b"trailers"),
                known => !is_connection_specific(known),
            };
            is_permitted.then_some(known)
        }
    }
}

/// RFC 3986 §3.1.
fn is_scheme(scheme: &[u8]) -> bool {
    let is_more = |byte: &u8| byte.is_ascii_alphanumeric() || b"+-.".contains(byte);
    scheme.first().is_some_and(u8::is_ascii_alphabetic) && scheme.iter().all(is_more)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http2::HpackEncoder;

    type Fields<'a> = &'a [(&'a str, &'a str)];

    fn block(fields: Fields<'_>) -> Vec<u8> {
        let mut block = Vec::new();
        let fields = fields
            .iter()
            .map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        // Names in upper case would be changed by an encoder.
        for (name, value) in fields {
            block.push(0);
            for text in [name, value] {
                crate::field_code::write_integer(text.len() as u64, 0, 7, &mut block);
                block.extend_from_slice(text);
            }
        }
        block
    }

    fn outcome(fields: Fields<'_>) -> SectionOutcome {
        let mut section = Section::default();
        read_request(
            &mut HpackDecoder::default(),
            &block(fields),
            1_000,
            &mut section,
        )
        .unwrap()
    }

    const GET: [(&str, &str); 4] = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
    ];

    fn with(field: (&'static str, &'static str)) -> Vec<(&'static str, &'static str)> {
        let mut fields = GET.to_vec();
        match fields.iter().position(|(name, _)| *name == field.0) {
            Some(place) => fields[place] = field,
            None => fields.push(field),
        }
        fields
    }

    #[test]
    fn requests_and_malformed_ones() {
        for field in [
            ("te", "trailers"),
            ("x", ""),
            ("x", "caf\u{e9}"),
            (":path", "*"),
            (":scheme", "coap+tcp"),
            ("cookie", "a=b"),
        ] {
            assert_eq!(outcome(&with(field)), SectionOutcome::Valid, "{field:?}");
        }
        for field in [
            ("X", "1"),
            ("x y", "1"),
            ("", "1"),
            ("x", "a\0b"),
            ("x", "a\r\nb"),
            ("te", "gzip"),
            ("connection", "close"),
            ("upgrade", "h2c"),
            ("proxy-connection", "close"),
            ("keep-alive", "1"),
            ("transfer-encoding", "chunked"),
            (":status", "200"),
            (":method", ""),
            (":method", "G T"),
            (":path", ""),
            (":path", "http://other/"),
            (":scheme", ""),
            (":scheme", "1"),
            (":authority", ""),
            (":authority", "a\r\nb"),
            (":protocol", "websocket"),
        ] {
            assert_eq!(
                outcome(&with(field)),
                SectionOutcome::Malformed,
                "{field:?}"
            );
        }
        assert_eq!(
            outcome(&[&GET[..], &GET[..1]].concat()),
            SectionOutcome::Malformed
        );
        assert_eq!(
            outcome(&[&[("x", "1")], &GET[..]].concat()),
            SectionOutcome::Malformed
        );
        assert_eq!(outcome(&GET[1..]), SectionOutcome::Malformed);
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert_eq!(outcome(&connect), SectionOutcome::Valid);
        let long: &'static str = "y".repeat(1_000).leak();
        assert_eq!(outcome(&with(("x", long))), SectionOutcome::TooLarge);
    }

    #[test]
    fn a_malformed_entry_stays_malformed() {
        let mut decoder = HpackDecoder::default();
        let mut section = Section::default();
        let mut head = block(&GET);
        head.extend_from_slice(b"\x40\x01X\x011");
        for _ in 0..2 {
            let read = read_request(&mut decoder, &head, 1_000, &mut section);
            assert_eq!(read, Ok(SectionOutcome::Malformed));
            head = block(&GET);
            head.push(0xbe);
        }
        let good = read_request(&mut decoder, &block(&GET), 1_000, &mut section);
        assert_eq!(good, Ok(SectionOutcome::Valid));
    }

    #[test]
    fn trailers_have_no_pseudo_fields() {
        let read = |fields| {
            read_trailers(&mut HpackDecoder::default(), &block(fields), 1_000)
                .unwrap()
                .map(|trailers| trailers.fields().count())
        };
        assert_eq!(read(&[("checksum", "1")]), Some(1));
        assert_eq!(read(&[("Checksum", "1")]), None);
        assert_eq!(read(&[(":path", "/")]), None);
        let mut encoded = Vec::new();
        HpackEncoder::default().write_trailers([(&b"a"[..], &b"1"[..])].into_iter(), &mut encoded);
        let trailers = read_trailers(&mut HpackDecoder::default(), &encoded, 1_000);
        assert_eq!(trailers.unwrap().unwrap().fields().count(), 1);
    }
}
