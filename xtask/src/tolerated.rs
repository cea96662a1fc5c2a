//! The exceptions from the rules, for now. Every table here only becomes shorter, and its numbers only smaller.

/// Circles of files: the crate, and the files in its `src`, sorted.
pub(crate) const CIRCLES: &[(&str, &[&str])] = &[
    (
        "daemon",
        &[
            "cli/check.rs",
            "cli/client.rs",
            "cli/config.rs",
            "cli/history.rs",
            "cli/mod.rs",
            "cli/run.rs",
            "cli/status.rs",
        ],
    ),
    ("daemon", &["cli/program.rs", "cli/site.rs"]),
    (
        "daemon",
        &[
            "roles/controller/control.rs",
            "roles/controller/files.rs",
            "roles/controller/mod.rs",
            "roles/controller/service.rs",
        ],
    ),
    (
        "daemon",
        &[
            "roles/main/changes.rs",
            "roles/main/mod.rs",
            "roles/main/own_process.rs",
            "roles/main/requests.rs",
            "roles/main/supervisor.rs",
            "roles/main/takeover.rs",
            "roles/main/watchdog.rs",
        ],
    ),
    (
        "daemon",
        &[
            "roles/router/changes.rs",
            "roles/router/launcher.rs",
            "roles/router/mod.rs",
            "roles/router/opening.rs",
            "roles/router/restore.rs",
            "roles/router/service.rs",
            "roles/router/stored.rs",
        ],
    ),
    ("http", &["field.rs", "head/raw.rs"]),
    ("wire", &["router.rs", "router/slot.rs"]),
];

/// Crates past the bound on lines: the crate, and how many it may have.
pub(crate) const LARGE_CRATES: &[(&str, usize)] = &[("daemon", 13600), ("server", 16500)];

/// Comments that begin with a bare "What", "Whether", "Of the" or "Of a": the folder, and how many there may be.
pub(crate) const COMMENTS: &[(&str, usize)] = &[
    ("crates/control", 20),
    ("crates/daemon", 182),
    ("crates/server", 180),
    ("crates/testkit", 3),
    ("sdk/perl", 1),
    ("sdk/python", 1),
    ("tests", 49),
];
