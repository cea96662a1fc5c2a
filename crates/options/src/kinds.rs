//! Kinds of values that several objects have.

use crate::table::{Referent, Text, ValueKind};

/// A string, or an array of them.
pub const STRINGS: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::NotEmpty),
    ValueKind::Array(&ValueKind::String(Text::NotEmpty)),
]);

/// The name of a certificate bundle or the path of a PEM file, or an array of them.
pub const AUTHORITIES: ValueKind = ValueKind::OneOf(&[
    ValueKind::String(Text::Name(Referent::Certificate)),
    ValueKind::Array(&ValueKind::String(Text::Name(Referent::Certificate))),
]);
