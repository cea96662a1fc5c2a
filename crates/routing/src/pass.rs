//! A `pass` with variables: the destination is looked up for each request.

use smallvec::SmallVec;
use tutti_config::model::{Part, Template};

use crate::info::RequestInfo;
use crate::path::percent_decode;
use crate::render;

/// The segments of a destination; more than three name nothing.
pub(crate) type Segments = SmallVec<[Vec<u8>; 3]>;

/// Renders a destination. A slash in a literal or a value separates; `%2F` in a literal does not.
pub(crate) fn segments<R: RequestInfo + ?Sized>(template: &Template, request: &R) -> Segments {
    let mut segments = Segments::new();
    let mut current = Vec::new();
    let mut value = Vec::new();
    for part in template.parts() {
        match part {
            Part::Literal(text) => {
                for (number, piece) in text.split('/').enumerate() {
                    if number > 0 {
                        segments.push(std::mem::take(&mut current));
                    }
                    current.extend_from_slice(&percent_decode(piece));
                }
            }
            Part::Variable(variable) => {
                value.clear();
                render::value(variable, request, &mut value);
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
    segments
}
