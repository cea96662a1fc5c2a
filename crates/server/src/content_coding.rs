//! The choice of a response's content coding, and the fields that say so.

use tutti_files::compression::{self, Choice, Described};
use tutti_http::FieldLines;

use crate::exchange::request::Request;
use crate::gunzip;

/// Returns the fields of a 206 or 304 in place of a response of this status and length: `Vary` is that of the whole response, and so is the
/// `ETag` of a 304 (RFC 9110 §15.3.7 and §15.4.5). A cache would otherwise take them for those of another response. A 304 does not repeat the
/// fields that describe the content.
pub(crate) fn fields_of_part<'f>(
    request: &Request<'_>,
    (whole_status, length): (u16, Option<u64>),
    status: u16,
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> FieldLines {
    let is_gunzipped = gunzip::applies_to(request, whole_status, fields.clone());
    let is_gzip = gunzip::is_gzip(request, whole_status, fields.clone());
    let without = fields.clone();
    let without = without.filter(|(name, _)| !(is_gunzipped && gunzip::is_encoding(name)));
    let length = length.filter(|_| !is_gunzipped);
    let (choice, varies_by_encoding) = choose(request, (whole_status, length), without);
    let is_changed = is_gunzipped || matches!(choice, Choice::Compress(_));
    let is_not_modified = status == 304;
    let fields = fields.filter(|(name, _)| !(is_not_modified && describes_content(name)));
    let mut sent = FieldLines::new();
    match is_changed && is_not_modified {
        true => push_changed(fields, false, &mut sent),
        false => fields.for_each(|(name, value)| sent.push(name, value)),
    }
    if (choice.varies() || is_gzip) && !varies_by_encoding {
        compression::push_vary(&mut sent);
    }
    sent
}

pub(crate) fn described<'f>(
    (status, length): (u16, Option<u64>),
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
) -> Described<'f> {
    let mut described = Described {
        status,
        length,
        ..Described::default()
    };
    for (name, value) in fields {
        described.note(name, value);
    }
    described
}

/// Chooses how a response is compressed; true if its `Vary` contains `Accept-Encoding` already.
pub(crate) fn choose<'f>(
    request: &Request<'_>,
    facts: (u16, Option<u64>),
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])> + Clone,
) -> (Choice, bool) {
    if request.settings().compression.is_none() {
        return (Choice::Never, false);
    }
    let mut varies = fields.clone();
    let varies = varies.any(|(name, value)| compression::varies_by_encoding(name, value));
    (request.compression(&described(facts, fields)), varies)
}

fn describes_content(name: &[u8]) -> bool {
    let start = name.get(..8).unwrap_or_default();
    start.eq_ignore_ascii_case(b"content-") && !name.eq_ignore_ascii_case(b"content-location")
}

/// Appends the fields of a response whose body is changed. The time of the last change is that of the original, so it is left out if texts
/// are replaced.
pub(crate) fn push_changed<'f>(
    fields: impl Iterator<Item = (&'f [u8], &'f [u8])>,
    is_replaced: bool,
    sent: &mut FieldLines,
) {
    for (name, value) in fields {
        if !is_replaced || !name.eq_ignore_ascii_case(b"Last-Modified") {
            compression::push_field(sent, name, value);
        }
    }
}
