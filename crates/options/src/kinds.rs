//! Kinds of values that several objects have.

use crate::table::{Kind, Text};

/// A string, or an array of them.
pub const STRINGS: Kind = Kind::OneOf(&[
    Kind::String(Text::Reference),
    Kind::Array(&Kind::String(Text::Reference)),
]);
