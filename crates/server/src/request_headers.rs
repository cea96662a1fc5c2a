//! `request_headers`: changes to a request before whoever it is for gets it, an application or a server of an upstream.

use tutti_config::model::{RequestHeader, RequestHeaderChange};
use tutti_http::is_field_value;
use tutti_routing::{Decision, RequestInfo, ScriptFailed};

/// A field of a request to be changed; without a value it is removed.
pub(crate) struct Edit {
    pub(crate) name: Box<str>,
    value: Option<Vec<u8>>,
    /// Beside what the client sent.
    is_added: bool,
}

impl Edit {
    /// The field to be sent, if there is one; what a variable brings in cannot end the line.
    pub(crate) fn field(&self) -> Option<(&[u8], &[u8])> {
        let value = self.value.as_deref().filter(|value| is_field_value(value));
        Some((self.name.as_bytes(), value?))
    }
}

/// The changes of the action, with the values that they have for this request.
///
/// # Errors
/// One of them comes from a script that failed, as the request has been told.
pub(crate) fn edits<R: RequestInfo>(
    decision: &Decision<'_>,
    request: &R,
) -> Result<Vec<Edit>, ScriptFailed> {
    let render = |header: &RequestHeader| {
        let (template, is_added) = match &header.change {
            RequestHeaderChange::Set(template) => (Some(template), false),
            RequestHeaderChange::Add(template) => (Some(template), true),
            RequestHeaderChange::Remove => (None, false),
        };
        let value = template.map(|template| {
            let mut value = Vec::new();
            decision.render(template, request, &mut value)?;
            Ok(value)
        });
        Ok(Edit {
            name: header.name.as_str().into(),
            value: value.transpose()?,
            is_added,
        })
    };
    decision.request_headers.iter().map(render).collect()
}

/// Whether the configuration says what this field of the client is.
pub(crate) fn replaces(edits: &[Edit], name: &[u8]) -> bool {
    edits
        .iter()
        .any(|edit| !edit.is_added && edit.name.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether the configuration says anything about fields of this name.
pub(crate) fn mentions(edits: &[Edit], name: &str) -> bool {
    edits
        .iter()
        .any(|edit| edit.name.eq_ignore_ascii_case(name))
}

/// Whether a client that says this speaks for the server (RFC 9440 §4); interfaces that make variables of fields do not tell `-` from
/// `_`.
pub(crate) fn is_ours_to_say(name: &[u8]) -> bool {
    let is = |known: &[u8]| {
        name.len() == known.len()
            && name.iter().zip(known).all(|(byte, known)| {
                byte.eq_ignore_ascii_case(known) || (*byte == b'_' && *known == b'-')
            })
    };
    is(b"client-cert") || is(b"client-cert-chain")
}
