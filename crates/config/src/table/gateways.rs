//! Options of FastCGI, uwsgi and SCGI.

use tutti_options::table::{Kind, Names, Object, Opt, Text, opt};

/// `fastcgi` of an action or an upstream.
pub static FASTCGI: Object = Object {
    name: "fastcgi",
    summary: "How to talk to a FastCGI server: PHP-FPM and others",
    options: &[&[
        opt(
            "root",
            Kind::String(Text::Path),
            "Folder of the scripts, as the server sees it. Without it the application is no collection of scripts, and gets the \
             whole path as `PATH_INFO`",
        ).beyond(),
        opt(
            "index",
            Kind::String(Text::NotEmpty),
            "Script for a path that ends with a slash",
        ).beyond()
        .default("\"index.php\"")
        .needs(ROOT),
        opt(
            "script",
            Kind::String(Text::NotEmpty),
            "Script below `root` that gets every request",
        ).beyond()
        .needs(ROOT),
        opt(
            "split_path",
            Kind::OneOf(&[
                Kind::String(Text::NotEmpty),
                Kind::Array(&Kind::String(Text::NotEmpty)),
            ]),
            "What the name of a script ends with. What follows it in the path is `PATH_INFO`; a path without such a name is \
             answered 403",
        ).beyond()
        .default("\".php\"")
        .needs(ROOT),
        opt(
            "check_files",
            Kind::Boolean,
            "Look whether the script is there, where `root` can be seen from here; else 404. PHP, told a name that is no file, \
             would run the nearest file above it",
        ).beyond()
        .default("true")
        .needs(ROOT),
        PARAMS,
    ]],
    exactly_one: &[],
};

/// `uwsgi` of an action or an upstream.
pub static UWSGI: Object = Object {
    name: "uwsgi",
    summary: "How to talk to uWSGI in its own protocol",
    options: &[&[PARAMS]],
    exactly_one: &[],
};

/// `scgi` of an action or an upstream.
pub static SCGI: Object = Object {
    name: "scgi",
    summary: "How to talk to an SCGI server",
    options: &[&[PARAMS]],
    exactly_one: &[],
};

const ROOT: &[&str] = &["root"];

const PARAMS: Opt = opt(
    "params",
    Kind::Map(
        Names::Environment,
        &Kind::OneOf(&[Kind::String(Text::TemplateOrEmpty), Kind::Null]),
    ),
    "Variables to set beside or in place of the usual ones; `null` leaves one out",
)
.beyond();

/// The objects above as options of an upstream.
pub(super) const OF_UPSTREAM: &[Opt] = &[
    opt(
        "fastcgi",
        Kind::Object(&FASTCGI),
        "Its servers speak FastCGI, not HTTP",
    )
    .beyond(),
    opt(
        "uwsgi",
        Kind::Object(&UWSGI),
        "Its servers speak uwsgi, not HTTP",
    )
    .beyond(),
    opt(
        "scgi",
        Kind::Object(&SCGI),
        "Its servers speak SCGI, not HTTP",
    )
    .beyond(),
];

/// The same, of an action with `proxy`.
pub(super) const OF_ACTION: &[Opt] = &[
    opt(
        "fastcgi",
        Kind::Object(&FASTCGI),
        "How to talk to a `fastcgi://` server",
    )
    .beyond()
    .needs(PROXY),
    opt(
        "uwsgi",
        Kind::Object(&UWSGI),
        "How to talk to a `uwsgi://` server",
    )
    .beyond()
    .needs(PROXY),
    opt(
        "scgi",
        Kind::Object(&SCGI),
        "How to talk to an `scgi://` server",
    )
    .beyond()
    .needs(PROXY),
];

const PROXY: &[&str] = &["proxy"];
