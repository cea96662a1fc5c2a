//! The exceptions from the rules, for now. Every table here only becomes shorter, and its numbers only smaller.

/// Circles of files: the crate, and the files in its `src`, sorted.
pub(crate) const CIRCLES: &[(&str, &[&str])] = &[
    ("http", &["field.rs", "head/raw.rs"]),
    ("wire", &["router.rs", "router/slot.rs"]),
];

/// Crates past the bound on lines: the crate, and how many it may have.
pub(crate) const LARGE_CRATES: &[(&str, usize)] = &[];

/// Comments that begin with a bare "What", "Whether", "Of the" or "Of a": the folder, and how many there may be.
pub(crate) const COMMENTS: &[(&str, usize)] = &[
    ("crates/control", 1),
    ("crates/controller", 1),
    ("crates/ctl", 4),
    ("crates/main", 1),
    ("crates/server", 139),
    ("sdk/perl", 1),
    ("sdk/python", 1),
];
