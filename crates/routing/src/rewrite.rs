//! `rewrite`: a new path for the rest of the request's way.

use tutti_config::model::{Part, Template};

use crate::info::RequestInfo;
use crate::path::{is_path_byte, normalise, percent_decode};
use crate::script::{self, ScriptFailed};
use crate::variables;

/// A path that replaced the one that came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Decoded and normalised.
    pub path: Vec<u8>,
    /// The same as a request target: encoded, with the query string that came.
    pub target: Vec<u8>,
}

/// Applies a `rewrite`. What is written literally may be percent-encoded; values are not decoded again.
pub(crate) fn rewrite<R: RequestInfo + ?Sized>(
    template: &Template,
    request: &R,
) -> Result<Rewritten, ScriptFailed> {
    let mut raw = Vec::new();
    for part in template.parts() {
        match part {
            Part::Literal(text) => raw.extend_from_slice(&percent_decode(text)),
            Part::Variable(variable) => variables::value(variable, request, &mut raw),
            Part::Script(source) => script::value(source, request, &mut raw)?,
        }
    }
    let path = normalise(&raw);
    let mut target = Vec::with_capacity(path.len() + 16);
    for byte in &path {
        if is_path_byte(*byte) {
            target.push(*byte);
        } else {
            const DIGITS: [u8; 16] = *b"0123456789ABCDEF";
            let digit = |nibble: u8| {
                DIGITS
                    .get(usize::from(nibble & 15))
                    .copied()
                    .unwrap_or_default()
            };
            target.extend_from_slice(&[b'%', digit(byte >> 4), digit(*byte)]);
        }
    }
    if let Some(query) = request.query() {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    Ok(Rewritten { path, target })
}
