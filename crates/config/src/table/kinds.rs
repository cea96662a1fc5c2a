//! Kinds of values that several objects have.

use tutti_options::table::{Kind, Text};

/// An address pattern, or an array of them.
pub(super) const ADDRESSES: Kind = Kind::OneOf(&[
    Kind::String(Text::Address),
    Kind::Array(&Kind::String(Text::Address)),
]);
