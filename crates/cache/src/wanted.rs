//! The part of a stored response that a request wants: its conditions and its range (RFC 9111 §4.3.2, RFC 9110 §13, §14).

use tutti_files::conditional::{Conditions, Verdict};
use tutti_files::range::{self, ByteRange, Requested};

use crate::stored::Stored;
use crate::validators::{of_caches, validators};

/// The part of a stored response that a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// All of it.
    Whole,
    /// None: the client has it.
    Nothing,
    /// These bytes.
    Part(ByteRange),
    /// Bytes that it does not have.
    Unsatisfiable,
}

/// Finds the part; ranges are for GET alone.
pub fn wanted(stored: &Stored, conditions: &Conditions<'_>, is_get: bool) -> Wanted {
    let conditions = of_caches(conditions);
    if stored.status != 200 || conditions.is_empty() {
        return Wanted::Whole;
    }
    let known = validators(&stored.fields);
    if let Some(validators) = known
        && conditions.evaluate(validators) == Verdict::NotModified
    {
        return Wanted::Nothing;
    }
    if !is_get {
        return Wanted::Whole;
    }
    let range = match known {
        Some(validators) => conditions.effective_range(validators),
        None if conditions.if_range.is_some() => None,
        None => conditions.range,
    };
    match range.map(|range| range::parse(range, stored.body.len() as u64)) {
        Some(Requested::Unsatisfiable) => Wanted::Unsatisfiable,
        Some(Requested::Parts(parts)) => match parts.as_slice() {
            [part] => Wanted::Part(*part),
            // Several parts are the whole of it in another order (RFC 9110 §14.2 lets a server ignore them).
            _ => Wanted::Whole,
        },
        Some(Requested::Whole) | None => Wanted::Whole,
    }
}
