//! The part of a stored response that answers a request with conditions or a range (RFC 9111 §4.3.2, RFC 9110 §13, §14).

use tutti_files::conditional::{PreconditionResult, Preconditions};
use tutti_files::range::{self, ByteRange, Requested};
use tutti_http::FieldLines;

use crate::validators::{of_caches, validators};

/// The part of a stored response that a request gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestedPart {
    /// All of it.
    Whole,
    /// No body: the client's copy is valid (304).
    Nothing,
    /// These bytes (206).
    Part(ByteRange),
    /// The range is not satisfiable (416).
    Unsatisfiable,
}

/// Evaluates conditions and range for a response with this status, these fields and a body of this length; ranges apply to GET only.
pub fn wanted(
    (status, fields, length): (u16, &FieldLines, u64),
    conditions: &Preconditions<'_>,
    is_get: bool,
) -> RequestedPart {
    let conditions = of_caches(conditions);
    if status != 200 || conditions.is_empty() {
        return RequestedPart::Whole;
    }
    let known = validators(fields);
    if let Some(validators) = known
        && conditions.evaluate(validators) == PreconditionResult::NotModified
    {
        return RequestedPart::Nothing;
    }
    if !is_get {
        return RequestedPart::Whole;
    }
    let range = match known {
        Some(validators) => conditions.effective_range(validators),
        None if conditions.if_range.is_some() => None,
        None => conditions.range,
    };
    match range.map(|range| range::parse(range, length)) {
        Some(Requested::Unsatisfiable) => RequestedPart::Unsatisfiable,
        Some(Requested::Parts(parts)) => match parts.as_slice() {
            [part] => RequestedPart::Part(*part),
            // Several ranges are answered with the whole (RFC 9110 §14.2 lets a server ignore them).
            _ => RequestedPart::Whole,
        },
        Some(Requested::Whole) | None => RequestedPart::Whole,
    }
}
