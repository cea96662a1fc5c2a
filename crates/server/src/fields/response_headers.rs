//! `response_headers` and `response_headers_always`: changes to a response's fields before its head is sent.
//!
//! Works on the fields as data, so it is the same for files, pages and applications, and for every protocol. `Date`, `Content-Length` and
//! values of `Server` are refused when the configuration is checked.
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

/// A change with its value; `None` removes the field, and adds none.
pub(crate) struct Change<'a> {
    name: &'a str,
    value: Option<Vec<u8>>,
    is_added: bool,
}

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
            // A value of variables that is empty omits the field.
            (!value.is_empty() || template.as_literal().is_some()).then_some(value)
        });
        // The value of a variable must not contain a line break.
        let valid = value.filter(|value| {
            let is_valid = tutti_http::is_field_value(value);
            if !is_valid {
                refused(name, Refused::Value);
            }
            is_valid
        });
        values.push(Change {
            name,
            value: valid,
            is_added: header.is_added,
        });
    }
    values
}

/// True if these changes replace the field of an earlier one.
pub(crate) fn replace(changes: &[ResponseHeader], earlier: &ResponseHeader) -> bool {
    let mut replacing = changes.iter().filter(|change| !change.is_added);
    replacing.any(|change| change.name.eq_ignore_ascii_case(&earlier.name))
}

/// Replaces the fields that are changed, and adds those that are added.
pub(crate) fn apply(changes: &[Change<'_>], fields: &mut FieldLines) {
    fields.retain(|name, _| {
        let mut replacing = changes.iter().filter(|change| !change.is_added);
        !replacing.any(|change| name.eq_ignore_ascii_case(change.name.as_bytes()))
    });
    for change in changes {
        if let Some(value) = &change.value {
            fields.push(change.name.as_bytes(), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_replaced_or_added() {
        let change = |name, value: &str, is_added| Change {
            name,
            value: Some(value.as_bytes().to_vec()),
            is_added,
        };
        let mut fields = FieldLines::new();
        fields.push(b"Set-Cookie", b"of=the-application");
        fields.push(b"X-A", b"old");
        let changes = [
            change("set-cookie", "a=1", true),
            change("Set-Cookie", "b=2", true),
            change("x-a", "new", false),
        ];
        apply(&changes, &mut fields);
        assert_eq!(
            fields.lines(),
            b"Set-Cookie: of=the-application\r\nset-cookie: a=1\r\nSet-Cookie: b=2\r\nx-a: new\r\n"
        );
    }
}
