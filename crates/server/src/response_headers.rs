//! `response_headers`: changes to a response's fields before its head is sent.
//!
//! Works on the fields as data, so it is the same for files, pages and applications, and for every protocol. `Date`, `Server` and
//! `Content-Length` are refused when the configuration is checked.

use tutti_http::FieldLines;
use tutti_routing::{RequestInfo, ResponseHeader};

/// A change with its value; `None` removes the field.
pub(crate) type Change<'a> = (&'a str, Option<Vec<u8>>);

/// The changes with their values. `described` is the exchange for their variables. A value that could not be a field's is left out, and
/// `refused` is told the name.
pub(crate) fn values<'a, R: RequestInfo>(
    changes: &'a [ResponseHeader],
    described: &R,
    mut refused: impl FnMut(&str),
) -> Vec<Change<'a>> {
    changes
        .iter()
        .map(|header| {
            // A script that failed gives no value, and so no field.
            let value = header.value.as_ref().and_then(|template| {
                let mut value = Vec::new();
                tutti_routing::render(template, described, &mut value).ok()?;
                Some(value)
            });
            let name = header.name.as_str();
            // A variable cannot bring in the end of the line.
            let valid = value.filter(|value| {
                let is_valid = tutti_http::is_field_value(value);
                if !is_valid {
                    refused(name);
                }
                is_valid
            });
            (name, valid)
        })
        .collect()
}

/// Replaces the fields that are changed.
pub(crate) fn apply(changes: &[Change<'_>], fields: &mut FieldLines) {
    fields.retain(|name, _| {
        !changes
            .iter()
            .any(|(changed, _)| name.eq_ignore_ascii_case(changed.as_bytes()))
    });
    for (name, value) in changes {
        if let Some(value) = value {
            fields.push(name.as_bytes(), value);
        }
    }
}
