//! `settings.http.request_id`: the request id from a trusted client, and where the id is sent.
//!
//! Ids are made on demand: an id that is not used costs nothing. Must never: trust a client that is not named, or let an id break the line
//! or the field that it is in.

use std::net::SocketAddr;

use tutti_config::model::RequestId;
use tutti_http::edits::{Edit, has_edit_of};
use tutti_http::{FieldLines, RequestView};

/// Longest accepted id: room for any in use, UUIDs and ids of load balancers (AWS: 40, Envoy: 36, Heroku: 20 to 200).
const LONGEST: usize = 200;

/// The id that came with a request of `client`, if that is trusted.
pub(crate) fn given<'a>(
    wanted: Option<&RequestId>,
    view: &RequestView<'a>,
    client: Option<SocketAddr>,
) -> Option<&'a [u8]> {
    let wanted = wanted?;
    if !wanted.source.as_ref()?.matches(client) {
        return None;
    }
    let mut values = view.get_all(wanted.options.header.as_bytes());
    let value = values.next()?;
    // With several, it is unknown which one is in the other logs.
    (values.next().is_none() && is_sound(value)).then_some(value)
}

/// Ids must be words, because logs do not quote them.
fn is_sound(value: &[u8]) -> bool {
    let is_of_word = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:=+/@~,;|".contains(byte);
    (1..=LONGEST).contains(&value.len()) && value.iter().all(is_of_word)
}

/// Converts an id to the number of the trace that begins with the request: 32 hexadecimal digits, with hyphens (UUIDs) or without.
pub(crate) fn number(given: &[u8]) -> Option<u128> {
    let digits: String = given
        .iter()
        .filter(|byte| **byte != b'-')
        .map(|byte| char::from(*byte))
        .collect();
    let number = u128::from_str_radix(&digits, 16).ok()?;
    (digits.len() == 32 && number != 0 && !digits.starts_with('+')).then_some(number)
}

/// Adds the change that sends the id to the application or upstream, unless that field is configured.
pub(crate) fn add_edit(
    wanted: Option<&RequestId>,
    edits: &mut Vec<Edit>,
    id: impl FnOnce() -> String,
) {
    if let Some(wanted) = wanted
        && !has_edit_of(edits, &wanted.options.header)
    {
        edits.push(Edit::set(wanted.options.header.clone(), id().into_bytes()));
    }
}

/// Sets the id in the fields of the response, replacing any other.
pub(crate) fn set_field(
    wanted: Option<&RequestId>,
    fields: &mut FieldLines,
    id: impl FnOnce() -> String,
) {
    if let Some(wanted) = wanted
        && wanted.options.response
    {
        let name = wanted.options.header.as_bytes();
        fields.retain(|other, _| !other.eq_ignore_ascii_case(name));
        fields.push(name, id().as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_word_of_bounded_length() {
        let long = vec![b'a'; LONGEST + 1];
        assert!(is_sound(b"Root=1-67891233-abcdef012345678912345678"));
        assert!(is_sound(long.get(1..).unwrap()));
        for bad in [&b""[..], b"a b", b"a\"b", b"a\tb", "ä".as_bytes(), &long] {
            assert!(!is_sound(bad), "{bad:?}");
        }
    }

    #[test]
    fn a_uuid_is_the_id_of_the_trace_and_other_text_is_not() {
        let wanted = Some(0x123e_4567_e89b_12d3_a456_4266_1417_4000);
        assert_eq!(number(b"123e4567-e89b-12d3-a456-426614174000"), wanted);
        assert_eq!(number(b"123E4567e89b12d3a456426614174000"), wanted);
        for other in [
            &b"123"[..],
            b"00000000000000000000000000000000",
            b"+23e4567e89b12d3a456426614174000",
            b"x",
        ] {
            assert_eq!(number(other), None);
        }
    }
}
