//! Python.

use super::super::{Kind, Names, Object, Opt, Text, opt};
use super::common::{COMMON, THREADS};

pub(super) static PYTHON: Object = Object {
    name: "python",
    summary: "A Python application (WSGI or ASGI)",
    options: &[
        COMMON,
        THREADS,
        PYTHON_ENTRY,
        &[
            opt(
                "targets",
                Kind::Map(Names::NotEmpty, &Kind::Object(&PYTHON_TARGET)),
                "Several entry points",
            ),
            opt("home", Kind::String(Text::Path), "Virtual environment"),
            opt(
                "path",
                Kind::OneOf(&[
                    Kind::String(Text::Path),
                    Kind::Array(&Kind::String(Text::Path)),
                ]),
                "Folders put before `sys.path`",
            ),
            opt(
                "protocol",
                Kind::String(Text::Word(&["wsgi", "asgi"])),
                "Interface; found out unless given",
            ),
        ],
    ],
    exactly_one: &["module", "targets"],
};

const PYTHON_ENTRY: &[Opt] = &[
    opt("module", Kind::String(Text::NotEmpty), "Module to import"),
    opt("callable", Kind::String(Text::NotEmpty), "Its callable")
        .default("\"application\"")
        .needs(&["module"]),
    opt(
        "factory",
        Kind::Boolean,
        "The callable makes the application",
    )
    .default("false")
    .needs(&["module"]),
    opt(
        "prefix",
        Kind::String(Text::NotEmpty),
        "`SCRIPT_NAME` or `root_path`; begins with a slash",
    )
    .needs(&["module"]),
];

/// One of `targets`.
pub static PYTHON_TARGET: Object = Object {
    name: "python target",
    summary: "An entry point of a Python application",
    options: &[PYTHON_ENTRY],
    exactly_one: &["module"],
};
