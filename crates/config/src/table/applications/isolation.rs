//! What separates an application from others.

use super::super::{Kind, Object, Text, opt};

/// `isolation`.
pub static ISOLATION: Object = Object {
    name: "isolation",
    summary: "Namespaces, file system root and cgroup of the processes",
    options: &[&[
        opt("namespaces", Kind::Object(&NAMESPACES), "New namespaces"),
        opt(
            "rootfs",
            Kind::String(Text::Path),
            "New root of the file system; paths in the other options are inside of it",
        ),
        opt(
            "automount",
            Kind::Object(&AUTOMOUNT),
            "What is mounted in the new root",
        ),
        opt("cgroup", Kind::Object(&CGROUP), "Control group"),
        opt(
            "uidmap",
            Kind::Array(&Kind::Object(&ID_MAP)),
            "User ids inside and outside; with a new `credential` namespace",
        ),
        opt(
            "gidmap",
            Kind::Array(&Kind::Object(&ID_MAP)),
            "Group ids inside and outside; with a new `credential` namespace",
        ),
        opt(
            "new_privs",
            Kind::Boolean,
            "Whether programs they run may gain privileges, by set-uid bits for example",
        )
        .default("true"),
    ]],
    exactly_one: &[],
};

/// `isolation.namespaces`.
pub static NAMESPACES: Object = Object {
    name: "namespaces",
    summary: "New namespaces for the processes",
    options: &[&[
        opt("cgroup", Kind::Boolean, "cgroup namespace").default("false"),
        opt("credential", Kind::Boolean, "User namespace").default("false"),
        opt(
            "ipc",
            Kind::Boolean,
            "System V IPC and POSIX message queues",
        )
        .beyond()
        .default("false"),
        opt("mount", Kind::Boolean, "Mount namespace").default("false"),
        opt("network", Kind::Boolean, "Network namespace").default("false"),
        opt("pid", Kind::Boolean, "Process namespace").default("false"),
        opt("time", Kind::Boolean, "Clock offsets")
            .beyond()
            .default("false"),
        opt("uname", Kind::Boolean, "UTS namespace").default("false"),
    ]],
    exactly_one: &[],
};

/// `isolation.automount`.
pub static AUTOMOUNT: Object = Object {
    name: "automount",
    summary: "What is mounted in the new root",
    options: &[&[
        opt("language_deps", Kind::Boolean, "What the language needs").default("true"),
        opt("procfs", Kind::Boolean, "`/proc`").default("true"),
        opt("tmpfs", Kind::Boolean, "`/tmp`").default("true"),
    ]],
    exactly_one: &[],
};

/// `isolation.cgroup`.
pub static CGROUP: Object = Object {
    name: "cgroup",
    summary: "Control group",
    options: &[&[opt(
        "path",
        Kind::String(Text::Path),
        "In the version 2 hierarchy: absolute, or relative to the server's own",
    )
    .required()]],
    exactly_one: &[],
};

/// One of `isolation.uidmap` and `isolation.gidmap`.
pub static ID_MAP: Object = Object {
    name: "id map",
    summary: "A range of ids",
    options: &[&[
        opt(
            "container",
            Kind::Integer(0, u32::MAX as i64),
            "First id inside",
        )
        .required(),
        opt(
            "host",
            Kind::Integer(0, u32::MAX as i64),
            "First id outside",
        )
        .required(),
        opt("size", Kind::Integer(1, u32::MAX as i64), "Number of ids").required(),
    ]],
    exactly_one: &[],
};
