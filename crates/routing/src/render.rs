//! Templates with the values of a request.

use tutti_config::model::{ContentPart, Template, TemplatePart};

use crate::info::RequestInfo;
use crate::json;
use crate::script::{self, ScriptFailed};
use crate::variables;

/// Renders the template for this request.
///
/// # Errors
/// It is a script that failed; the request has been notified.
pub fn render<R: RequestInfo + ?Sized>(
    template: &Template,
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    for part in template.parts() {
        match part {
            TemplatePart::Literal(text) => out.extend_from_slice(text.as_bytes()),
            TemplatePart::Variable(variable) => variables::value(variable, request, out),
            TemplatePart::Script(source) => script::value(source, request, out)?,
        }
    }
    Ok(())
}

/// Renders the body of a `return` for this request.
///
/// # Errors
/// It contains a script that failed; the request has been notified.
pub(crate) fn render_content<R: RequestInfo + ?Sized>(
    parts: &[ContentPart],
    request: &R,
    out: &mut Vec<u8>,
) -> Result<(), ScriptFailed> {
    let mut value = Vec::new();
    for part in parts {
        match part {
            ContentPart::Literal(text) => out.extend_from_slice(text),
            ContentPart::Text(template) => render(template, request, out)?,
            ContentPart::JsonText(template) => {
                value.clear();
                render(template, request, &mut value)?;
                json::escape(&value, out);
            }
        }
    }
    Ok(())
}

/// True if a rendered `if` holds: it is not empty, `0`, `false`, `null` or `undefined`.
pub fn is_true(text: &[u8]) -> bool {
    !matches!(text, b"" | b"0" | b"false" | b"null" | b"undefined")
}
