//! The exceptions from the rules, for now. Every table here only becomes shorter, and its numbers only smaller.

/// Circles of files: the crate, and the files in its `src`, sorted.
pub(crate) const CIRCLES: &[(&str, &[&str])] = &[];

/// Uses of words that `packaging/vale` lists: the folder, and how many there may be.
pub(crate) const WORDS: &[(&str, usize)] = &[
    ("crates/acme", 35),
    ("crates/cache", 46),
    ("crates/commands", 25),
    ("crates/config", 107),
    ("crates/conn", 23),
    ("crates/control", 26),
    ("crates/controller", 18),
    ("crates/ctl", 46),
    ("crates/daemon", 33),
    ("crates/dashboard", 28),
    ("crates/dialer", 4),
    ("crates/document", 11),
    ("crates/files", 6),
    ("crates/fleet", 39),
    ("crates/fleet-store", 40),
    ("crates/gateway", 2),
    ("crates/guard", 24),
    ("crates/http", 30),
    ("crates/http2", 9),
    ("crates/import", 105),
    ("crates/jobs", 27),
    ("crates/kubernetes", 5),
    ("crates/log", 10),
    ("crates/main", 102),
    ("crates/metrics", 6),
    ("crates/options", 27),
    ("crates/pool", 116),
    ("crates/protocol", 38),
    ("crates/proxy", 57),
    ("crates/quic", 24),
    ("crates/request-log", 11),
    ("crates/router", 31),
    ("crates/routing", 14),
    ("crates/script", 2),
    ("crates/server", 149),
    ("crates/sys", 55),
    ("crates/telemetry", 5),
    ("crates/testkit", 19),
    ("crates/tls", 23),
    ("crates/unprivileged", 15),
    ("crates/upstream", 33),
    ("crates/wire", 67),
    ("crates/worker", 39),
    ("tests", 3),
];

/// Crates that tests need with other features than programs: small ones, with few users.
pub(crate) const BUILT_TWICE: &[&str] = &["tokio-tungstenite"];

/// Names of public types that more than one crate defines, each with the reason.
pub(crate) const TYPE_NAMES: &[(&str, &str)] = &[(
    "Millis",
    "an alias of `u64`, by which each crate says what its clock counts in",
)];
