//! Options that all types have, or several.

use super::super::{Kind, Names, Opt, Text, opt};
use super::isolation::ISOLATION;
use super::processes::{LIMITS, PROCESSES_KIND};

/// Options of every application.
pub(crate) const COMMON: &[Opt] = &[
    opt(
        "type",
        Kind::String(Text::Module),
        "Language, and the version if it matters: `php`, `php 8`, `php 8.2`",
    )
    .required(),
    opt(
        "processes",
        PROCESSES_KIND,
        "Number of processes: fixed, or as many as are needed within limits",
    )
    .default("1")
    .unit("processes"),
    opt(
        "limits",
        Kind::Object(&LIMITS),
        "When a process or a request is ended",
    ),
    opt(
        "request_buffering",
        Kind::Boolean,
        "Read a request's body whole before the application gets the request; `false`: it gets the body as the client sends it (`docs/streaming.md`)",
    )
    .default("true"),
    opt(
        "preload",
        Kind::Boolean,
        "Load the application once, before its processes are forked (`docs/processes.md`)",
    )
    .beyond()
    .default("false"),
    opt(
        "watch",
        Kind::Boolean,
        "Restart when a file of the application changes: for development",
    )
    .beyond()
    .default("false"),
    opt(
        "environment",
        Kind::Map(Names::Environment, &Kind::String(Text::Argument)),
        "Environment variables, added to the server's own",
    ),
    opt(
        "user",
        Kind::String(Text::NotEmpty),
        "User the processes run as; the server's default one unless given. `auto`: one that exists for this application alone",
    ),
    opt(
        "group",
        Kind::String(Text::NotEmpty),
        "Group they run as; the user's own unless given",
    ),
    opt(
        "working_directory",
        Kind::String(Text::Path),
        "Their working directory; the server's unless given",
    ),
    opt(
        "stdout",
        Kind::String(Text::Path),
        "File for their standard output",
    ),
    opt(
        "stderr",
        Kind::String(Text::Path),
        "File for their standard error; the log unless given",
    ),
    opt(
        "isolation",
        Kind::Object(&ISOLATION),
        "Namespaces, file system root, cgroup",
    ),
];

/// `PTHREAD_STACK_MIN` of Linux on most machines (pthread_attr_setstacksize(3)).
const MIN_STACK: i64 = 16_384;

/// Options of languages that handle requests in threads.
pub(super) const THREADS: &[Opt] = &[
    opt(
        "threads",
        Kind::Integer(1, 0x7fff_ffff),
        "Threads of a process that handle requests",
    )
    .default("1")
    .unit("threads"),
    opt(
        "thread_stack_size",
        Kind::Integer(MIN_STACK, 0x7fff_ffff),
        "Stack of such a thread: a multiple of the page size, 4096",
    )
    .unit("bytes"),
];
