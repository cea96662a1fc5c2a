//! Perl.

use super::super::{Kind, Object, Text, opt};
use super::common::{COMMON, THREADS};

pub(super) static PERL: Object = Object {
    name: "perl",
    summary: "A Perl application (PSGI)",
    options: &[
        COMMON,
        THREADS,
        &[opt("script", Kind::String(Text::Path), "PSGI script").required()],
    ],
    exactly_one: &[],
};
