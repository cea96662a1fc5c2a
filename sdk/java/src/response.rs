//! A response's head as Java writes it (`Stream.java`): status, and fields with their lengths before them.

use tutti_worker::log::unless_too_large;
use tutti_worker::{Exchange, ResponseHeadError, is_valid_field};

/// Sends status and fields: of an interim answer at once; those behind the body, which have no status, with its end.
pub(crate) fn start(exchange: &Exchange, head: &[u8]) -> Result<(), String> {
    let (status, fields) = parse(head).ok_or("the Java part has sent a head that is not whole")?;
    let pairs = fields.iter().copied();
    let sent = match status {
        TRAILERS => unless_too_large(exchange, exchange.trailers(pairs)),
        102..200 => unless_too_large(exchange, exchange.interim(status, pairs)),
        _ => exchange.start(status, pairs),
    };
    sent.map_err(|error| match error {
        ResponseHeadError::Field(_) => match fields
            .iter()
            .find(|(name, value)| !is_valid_field(name, value))
        {
            Some((name, value)) => format!(
                "field `{}: {}`: a name is a token, a value has no line break and no NUL",
                String::from_utf8_lossy(name).escape_debug(),
                String::from_utf8_lossy(value).escape_debug()
            ),
            None => error.to_string(),
        },
        _ => error.to_string(),
    })
}

/// In place of a status: the fields are those behind the body (`Stream.java`).
const TRAILERS: u16 = 0;

/// A name and a value.
type Field<'a> = (&'a [u8], &'a [u8]);

fn parse(head: &[u8]) -> Option<(u16, Vec<Field<'_>>)> {
    let (status, mut rest) = head.split_first_chunk()?;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (name, after) = take(rest)?;
        let (value, after) = take(after)?;
        fields.push((name, value));
        rest = after;
    }
    Some((u16::from_be_bytes(*status), fields))
}

fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk()?;
    rest.split_at_checked(u32::from_be_bytes(*length) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_status_and_fields() {
        let head = b"\x00\xc8\0\0\0\x01a\0\0\0\x02bc\0\0\0\x01d\0\0\0\0";
        let fields: Vec<Field<'_>> = vec![(b"a", b"bc"), (b"d", b"")];
        assert_eq!(parse(head), Some((200, fields)));
        assert_eq!(parse(&head[..9]), None);
        assert_eq!(parse(b"\x01"), None);
    }
}
