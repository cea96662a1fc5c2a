//! Kinds of values that several objects have.

use tutti_options::table::{CASELESS, PLAIN, Text, ValueKind};

/// An address pattern, or an array of them.
pub(super) const ADDRESSES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Address),
    ValueKind::Array(&ValueKind::String(Text::Address)),
]);

/// A pattern without case, or an array of them.
pub(super) const CASELESS_PATTERNS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(CASELESS)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(CASELESS))),
]);

/// A pattern, or an array of them.
pub(super) const PLAIN_PATTERNS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Pattern(PLAIN)),
    ValueKind::Array(&ValueKind::String(Text::Pattern(PLAIN))),
]);
