//! PHP.

use super::super::{Kind, Names, Object, Opt, Text, opt};
use super::common::COMMON;

/// `php`.
pub static PHP: Object = Object {
    name: "php",
    summary: "A PHP application",
    options: &[
        COMMON,
        ENTRY,
        &[
            opt(
                "targets",
                Kind::Map(Names::NotEmpty, &Kind::Object(&PHP_TARGET)),
                "Several entry points, instead of `root`, `script` and `index`",
            ),
            opt(
                "mode",
                Kind::String(Text::Word(&["classic", "resident"])),
                "`classic`: the script runs anew for every request; `resident`: `script` boots once in each process and loops on `tutti_handle_request()`",
            ).beyond()
            .default("\"classic\""),
            opt(
                "options",
                Kind::Object(&PHP_OPTIONS),
                "php.ini and directives",
            ),
        ],
    ],
    exactly_one: &["root", "targets"],
};

const ENTRY: &[Opt] = &[
    opt(
        "root",
        Kind::String(Text::Path),
        "Base directory of the scripts",
    ),
    opt(
        "script",
        Kind::String(Text::NotEmpty),
        "Script below `root` that serves every request",
    )
    .needs(&["root"]),
    opt(
        "index",
        Kind::String(Text::NotEmpty),
        "Script of a directory, where there is no `script`",
    )
    .default("\"index.php\"")
    .needs(&["root"]),
];

/// One of `targets`.
pub static PHP_TARGET: Object = Object {
    name: "php target",
    summary: "An entry point of a PHP application",
    options: &[ENTRY],
    exactly_one: &["root"],
};

/// `options` of a PHP application.
pub static PHP_OPTIONS: Object = Object {
    name: "php options",
    summary: "php.ini and directives. Values are strings; flags are `\"0\"` and `\"1\"`",
    options: &[&[
        opt("file", Kind::String(Text::Path), "php.ini"),
        opt(
            "admin",
            Kind::Map(Names::NotEmpty, &Kind::String(Text::Argument)),
            "Directives that scripts cannot change",
        ),
        opt(
            "user",
            Kind::Map(Names::NotEmpty, &Kind::String(Text::Argument)),
            "Directives that scripts can change",
        ),
    ]],
    exactly_one: &[],
};
