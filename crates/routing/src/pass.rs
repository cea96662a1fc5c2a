//! A `pass` with variables: the destination is resolved for each request.

use smallvec::SmallVec;
use tutti_config::model::{Template, TemplatePart};

use crate::info::RequestInfo;
use crate::path::percent_decode;
use crate::render::{Groups, render_part};
use crate::script::ScriptFailed;

/// The segments of a destination; more than three are never valid.
pub(crate) type Segments = SmallVec<[Vec<u8>; 3]>;

/// Renders a destination. A slash in a literal or a value separates segments; `%2F` in a literal does not. The result of a script is a
/// value.
pub(crate) fn segments<R: RequestInfo + ?Sized>(
    template: &Template,
    groups: Groups<'_>,
    request: &R,
) -> Result<Segments, ScriptFailed> {
    let mut segments = Segments::new();
    let mut current = Vec::new();
    let mut value = Vec::new();
    for part in template.parts() {
        match part {
            TemplatePart::Literal(text) => {
                for (number, piece) in text.split('/').enumerate() {
                    if number > 0 {
                        segments.push(std::mem::take(&mut current));
                    }
                    current.extend_from_slice(&percent_decode(piece));
                }
            }
            part => {
                value.clear();
                render_part(part, groups, request, &mut value)?;
                for (number, piece) in value.split(|byte| *byte == b'/').enumerate() {
                    if number > 0 {
                        segments.push(std::mem::take(&mut current));
                    }
                    current.extend_from_slice(piece);
                }
            }
        }
    }
    segments.push(current);
    Ok(segments)
}
