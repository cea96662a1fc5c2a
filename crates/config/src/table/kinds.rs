//! Kinds of values that several objects have.

use tutti_options::table::{Text, ValueKind};

/// An address pattern, or an array of them.
pub(super) const ADDRESSES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Address),
    ValueKind::Array(&ValueKind::String(Text::Address)),
]);
