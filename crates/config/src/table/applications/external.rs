//! Programs of the user's own.

use super::super::{Kind, Object, Text, opt};
use super::common::COMMON;

/// `external`.
pub static EXTERNAL: Object = Object {
    name: "external",
    summary: "A program that speaks the worker protocol (Go, Node.js)",
    options: &[
        COMMON,
        &[
            opt(
                "executable",
                Kind::String(Text::Path),
                "The program, absolute or relative to `working_directory`",
            )
            .required(),
            opt(
                "arguments",
                Kind::Array(&Kind::String(Text::Argument)),
                "Its arguments",
            ),
            opt(
                "protocol",
                Kind::String(Text::Word(&["http"])),
                "`http`: the program is an HTTP server that knows nothing of this one; without it, it speaks the worker protocol",
            ).beyond(),
            opt(
                "listen",
                Kind::String(Text::Word(&["port", "unix", "inherit"])),
                "With `protocol`: what the program is given to listen on: a port of 127.0.0.1 (in `PORT`), the path of a UNIX socket (in `SOCKET`), or descriptor 3 as by systemd",
            ).beyond()
            .default("\"port\""),
            opt(
                "probe",
                Kind::String(Text::Path),
                "With `protocol`: a path that is asked for until it is answered with less than 500, before requests are sent to a new process",
            ).beyond(),
        ],
    ],
    exactly_one: &[],
};
