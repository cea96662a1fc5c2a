//! The validators of a response, for comparison with conditions (RFC 9110 §8.8).

use tutti_files::conditional::{Preconditions, Validators};
use tutti_http::{FieldLines, parse_date};

/// The validators of a response; `None`: it has none.
pub(crate) fn validators(fields: &FieldLines) -> Option<Validators<'_>> {
    let etag = fields.get_all(b"ETag").next();
    let modified = fields.get_all(b"Last-Modified").next().and_then(parse_date);
    if etag.is_none() && modified.is_none() {
        return None;
    }
    Some(Validators {
        etag: etag.unwrap_or_default(),
        // An unknown date counts as later than any.
        modified: modified.unwrap_or(u64::MAX),
    })
}

/// The conditions that a cache evaluates (RFC 9111 §4.3.2).
pub(crate) fn of_caches<'a>(conditions: &Preconditions<'a>) -> Preconditions<'a> {
    Preconditions {
        if_match: None,
        if_unmodified_since: None,
        ..conditions.clone()
    }
}
