//! Kinds of values that several objects have.

use crate::table::{Kind, Referent, Text};

/// A string, or an array of them.
pub const STRINGS: Kind = Kind::OneOf(&[
    Kind::String(Text::NotEmpty),
    Kind::Array(&Kind::String(Text::NotEmpty)),
]);

/// The name of a certificate bundle or the path of a PEM file, or an array of them.
pub const AUTHORITIES: Kind = Kind::OneOf(&[
    Kind::String(Text::Name(Referent::Certificate)),
    Kind::Array(&Kind::String(Text::Name(Referent::Certificate))),
]);
