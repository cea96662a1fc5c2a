//! `response_headers` and `response_headers_always`: changes to a response's fields before its head is sent.
//!
//! Works on the fields as data, so it is the same for files, pages and applications, and for every protocol. `Date`, `Server` and
//! `Content-Length` are refused when the configuration is checked.
//!
//! Must never: change a field that determines the end of the response or the persistence of the connection. The client would take framing
//! for content, or send a request on a connection that ends.

use tutti_http::{FieldLines, Known};
use tutti_routing::{RequestInfo, ResponseHeader};

/// Why a change is not made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The value has a control character.
    Value,
    /// The field determines the framing or the persistence of the connection, which only the server decides.
    Framing,
}

/// A change with its value; `None` removes the field.
pub(crate) type Change<'a> = (&'a str, Option<Vec<u8>>);

/// The changes with their values. `described` is the exchange for their variables. `refused` gets the name of each field whose change is
/// not made; one whose value is invalid is removed.
pub(crate) fn values<'a, R: RequestInfo>(
    changes: impl Iterator<Item = &'a ResponseHeader>,
    described: &R,
    mut refused: impl FnMut(&str, Refused),
) -> Vec<Change<'a>> {
    let mut values = Vec::new();
    for header in changes {
        let name = header.name.as_str();
        let known = Known::from_name(name.as_bytes());
        if matches!(known, Known::TransferEncoding | Known::Connection) {
            refused(name, Refused::Framing);
            continue;
        }
        // A script that failed gives no value, and so no field.
        let value = header.value.as_ref().and_then(|template| {
            let mut value = Vec::new();
            tutti_routing::render(template, described, &mut value).ok()?;
            Some(value)
        });
        // Variables without a value change nothing.
        let is_absent = value.as_ref().is_some_and(Vec::is_empty);
        if is_absent
            && header
                .value
                .as_ref()
                .is_some_and(|value| value.as_literal().is_none())
        {
            continue;
        }
        // The value of a variable must not contain a line break.
        let valid = value.filter(|value| {
            let is_valid = tutti_http::is_field_value(value);
            if !is_valid {
                refused(name, Refused::Value);
            }
            is_valid
        });
        values.push((name, valid));
    }
    values
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
