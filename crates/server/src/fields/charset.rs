//! `charset`: the character encoding in `Content-Type` of text.

use tutti_http::{FieldLines, media_type};

use crate::snapshot::Charset;

/// Adds the encoding to the only `Content-Type`, if that is of one of the types and names none.
pub(crate) fn add(charset: &Charset, fields: &mut FieldLines) {
    if let Some(named) = named(charset, fields) {
        fields.remove("Content-Type");
        fields.push(b"Content-Type", &named);
    }
}

/// The type with the encoding; `None`: it stays as it is.
fn named(charset: &Charset, fields: &FieldLines) -> Option<Vec<u8>> {
    let mut types = fields.get_all(b"Content-Type");
    let value = types.next()?;
    let mut parameters = value.split(|byte| *byte == b';').skip(1);
    let names_one = |part: &[u8]| {
        let name = part.trim_ascii_start().get(..8);
        name.is_some_and(|name| name.eq_ignore_ascii_case(b"charset="))
    };
    // A pattern that cannot be evaluated changes nothing.
    let is_text = charset.types.matches(media_type(value)).unwrap_or(false);
    let applies = is_text && types.next().is_none() && !parameters.any(names_one);
    applies.then(|| [value, b"; charset=", charset.name.as_bytes()].concat())
}
