//! Which crate may depend on which: `ARCHITECTURE.md`, "Layout". Arrows point one way.

use crate::breach::Breach;
use crate::workspace::Member;

/// The crates that each crate may use. `control` and `server` meet only through a trait, and main, which has privileges, sees nothing
/// that parses what a client sends.
/// A crate that is not listed may use nothing of the house, which makes adding one a decision.
const ALLOWED: &[(&str, &[&str])] = &[
    ("script", &[]),
    ("options", &[]),
    ("document", &["options"]),
    ("config", &["document", "options", "script"]),
    ("http", &[]),
    ("gateway", &[]),
    ("wire", &["options", "simulated", "sys"]),
    ("sys", &[]),
    ("metrics", &[]),
    ("routing", &["config", "http", "script"]),
    ("tls", &["config", "dialer", "options"]),
    ("log", &["options", "sys"]),
    ("protocol", &["options", "sys"]),
    ("spool", &["sys"]),
    (
        "conn",
        &["gateway", "http", "metrics", "spool", "sys", "tls", "wire"],
    ),
    (
        "pool",
        &[
            "config",
            "options",
            "http",
            "log",
            "metrics",
            "simulated",
            "spool",
            "wire",
            "sys",
        ],
    ),
    ("upstream", &["config", "dialer", "sys", "tls"]),
    ("telemetry", &["config", "dialer"]),
    ("jobs", &["config", "log", "sys"]),
    (
        "commands",
        &["config", "log", "options", "pool", "sys", "wire"],
    ),
    (
        "acme",
        &[
            "dialer",
            "log",
            "options",
            "protocol",
            "unprivileged",
            "sys",
            "tls",
        ],
    ),
    ("dialer", &["sys"]),
    ("kubernetes", &["dialer"]),
    ("fleet-store", &["dialer", "options", "protocol"]),
    (
        "fleet",
        &[
            "dialer",
            "fleet-store",
            "log",
            "options",
            "protocol",
            "unprivileged",
            "sys",
        ],
    ),
    ("guard", &["config", "dialer", "http"]),
    ("files", &["config", "http"]),
    ("cache", &["config", "files", "http", "sys"]),
    (
        "proxy",
        &[
            "config",
            "conn",
            "dialer",
            "gateway",
            "http",
            "kubernetes",
            "log",
            "spool",
            "upstream",
        ],
    ),
    ("http2", &["config", "conn", "http", "tls"]),
    ("quic", &["config", "conn", "http", "sys", "tls"]),
    (
        "request-log",
        &["config", "conn", "http", "log", "metrics", "routing", "sys"],
    ),
    (
        "server",
        &[
            "cache",
            "config",
            "http",
            "http2",
            "files",
            "gateway",
            "guard",
            "request-log",
            "routing",
            "conn",
            "log",
            "metrics",
            "pool",
            "proxy",
            "quic",
            "spool",
            "upstream",
            "tls",
            "telemetry",
        ],
    ),
    ("control", &["config", "http", "metrics", "protocol", "sys"]),
    (
        "dashboard",
        &["config", "control", "http", "log", "metrics", "protocol"],
    ),
    ("main", &["log", "options", "protocol", "sys", "wire"]),
    (
        "unprivileged",
        &[
            "commands", "config", "log", "options", "pool", "protocol", "script", "sys", "tls",
        ],
    ),
    (
        "controller",
        &[
            "config",
            "control",
            "dashboard",
            "log",
            "metrics",
            "options",
            "protocol",
            "unprivileged",
            "script",
            "sys",
            "tls",
        ],
    ),
    (
        "router",
        &[
            "commands",
            "config",
            "jobs",
            "log",
            "metrics",
            "pool",
            "protocol",
            "unprivileged",
            "script",
            "server",
            "spool",
            "sys",
            "telemetry",
            "tls",
        ],
    ),
    ("import", &["config", "ctl", "http", "sys", "tls"]),
    (
        "ctl",
        &[
            "config",
            "dialer",
            "fleet-store",
            "http",
            "main",
            "metrics",
            "options",
            "protocol",
            "unprivileged",
            "sys",
            "tls",
        ],
    ),
    ("worker", &["options", "wire", "sys"]),
    (
        "daemon",
        &[
            "acme",
            "controller",
            "ctl",
            "fleet",
            "main",
            "protocol",
            "router",
        ],
    ),
    ("testkit", &["sys", "wire", "pool", "worker"]),
    ("simulated", &[]),
    (
        "simulator",
        &["options", "pool", "simulated", "spool", "sys", "wire"],
    ),
    ("sdk/c", &["worker", "wire", "sys", "testkit"]),
    (
        "sdk/cgi",
        &[
            "options",
            "sdk/event-loop",
            "worker",
            "gateway",
            "http",
            "sys",
        ],
    ),
    ("sdk/event-loop", &["worker", "sys"]),
    (
        "sdk/external",
        &["options", "worker", "sdk/relay", "sdk/node"],
    ),
    ("sdk/java", &["options", "worker", "http", "sys"]),
    (
        "sdk/node",
        &["options", "worker", "sdk/relay", "sdk/node/addon"],
    ),
    ("sdk/node/addon", &["worker", "http", "sys", "sdk/relay"]),
    (
        "sdk/perl",
        &["options", "sdk/seam", "worker", "wire", "sys"],
    ),
    ("sdk/php", &["options", "worker", "wire", "sys", "gateway"]),
    ("sdk/python", &["options", "worker", "wire", "sys"]),
    (
        "sdk/relay",
        &["options", "sdk/event-loop", "worker", "http", "sys"],
    ),
    ("sdk/ruby", &["options", "sdk/seam", "worker", "sys"]),
    ("sdk/seam", &["worker", "http"]),
    (
        "sdk/rust",
        &["sdk/event-loop", "worker", "wire", "sys", "testkit"],
    ),
    (
        "sdk/wasm",
        &["dialer", "options", "sdk/event-loop", "worker", "sys"],
    ),
];

pub(crate) fn check(crates: &[Member]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for member in crates.iter().filter(|member| member.is_shipped()) {
        let allowed = ALLOWED
            .iter()
            .find(|(listed, _)| *listed == member.name)
            .map_or(&[][..], |(_, uses)| uses);
        for used in &member.uses {
            if !allowed.contains(&used.as_str()) {
                breaches.push(Breach::new(
                    format!("crate {}", member.name),
                    format!(
                        "must not depend on `{used}`; it may use: {}",
                        allowed.join(", ")
                    ),
                ));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, uses: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            folder: std::path::PathBuf::new(),
            roots: Vec::new(),
            is_library: true,
            uses: uses.iter().map(|used| (*used).to_owned()).collect(),
        }
    }

    #[test]
    fn a_crate_uses_only_those_that_are_listed() {
        let breaches = check(&[
            member("pool", &["wire", "server"]),
            member("unheard-of", &["wire"]),
            member("tests/e2e", &["server"]),
        ]);
        let places: Vec<&str> = breaches
            .iter()
            .map(|breach| breach.place.as_str())
            .collect();
        assert_eq!(places, ["crate pool", "crate unheard-of"]);
    }
}
