//! Ruby.

use super::super::{Kind, Object, Text, opt};
use super::common::{COMMON, THREADS};

pub(super) static RUBY: Object = Object {
    name: "ruby",
    summary: "A Ruby application (Rack)",
    options: &[
        COMMON,
        THREADS,
        &[
            opt("script", Kind::String(Text::Path), "Rack script").required(),
            opt(
                "hooks",
                Kind::String(Text::Path),
                "Script with the hooks of a worker's life",
            ),
        ],
    ],
    exactly_one: &[],
};
