//! `response_headers`: changes to a rendered head before it is sent.
//!
//! Works on the head's bytes, so it is the same for files, pages and applications. `Date`, `Server` and `Content-Length` are refused
//! when the configuration is checked.

use tutti_routing::{RequestInfo, ResponseHeader};

use crate::respond;

/// Appends `head`, which ends with its empty line, with the changes. `described` is the exchange for their variables. A value that could
/// not be a field's is left out, and `refused` is told the name.
pub(crate) fn apply<R: RequestInfo>(
    changes: &[ResponseHeader],
    described: &R,
    head: &[u8],
    out: &mut Vec<u8>,
    mut refused: impl FnMut(&str),
) {
    let set: Vec<(&str, Option<Vec<u8>>)> = changes
        .iter()
        .map(|header| {
            // Of a script that failed there is no value, and so no field.
            let value = header.value.as_ref().and_then(|template| {
                let mut value = Vec::new();
                tutti_routing::render(template, described, &mut value).ok()?;
                Some(value)
            });
            let name = header.name.as_str();
            // What a variable brings in cannot end the line.
            let valid = value.filter(|value| {
                let is_valid = tutti_http::is_field_value(value);
                if !is_valid {
                    refused(name);
                }
                is_valid
            });
            (name, valid)
        })
        .collect();
    let mut lines = head.split_inclusive(|byte| *byte == b'\n');
    out.extend_from_slice(lines.next().unwrap_or_default());
    for line in lines {
        if line == b"\r\n" {
            break;
        }
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if !set
            .iter()
            .any(|(changed, _)| name.eq_ignore_ascii_case(changed.as_bytes()))
        {
            out.extend_from_slice(line);
        }
    }
    for (name, value) in &set {
        if let Some(value) = value {
            respond::field(out, name, value);
        }
    }
    out.extend_from_slice(b"\r\n");
}
