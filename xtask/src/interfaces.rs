//! Crates by public interface: each has one row of one sentence in the layout of `ARCHITECTURE.md`, and a library more than one user, or a
//! reason to be a crate nevertheless (docs/project/decisions/0761).

use std::path::Path;

use anyhow::{Context, Result};

use crate::breach::Breach;
use crate::workspace::Member;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// Libraries with fewer than two users among what is shipped, and the boundary that each is. It only becomes shorter.
const BOUNDARIES: &[(&str, &str)] = &[
    ("acme", "a process of its own"),
    ("controller", "a process of its own"),
    ("fleet", "a process of its own"),
    ("router", "a process of its own"),
    ("server", "serves requests and sees main only as a trait"),
    (
        "dashboard",
        "reads a browser's bytes and uses the control API only through its trait",
    ),
    ("document", "reads a stranger's bytes: fuzzed by itself"),
    (
        "http2",
        "reads a client's bytes and sees the server as a trait",
    ),
    (
        "cache",
        "keeps a file on disk whose format outlives the process: fuzzed by itself",
    ),
    (
        "guard",
        "decides who is admitted, from a client's bytes: fuzzed by itself",
    ),
    (
        "quic",
        "reads a client's bytes and sees the server as a trait",
    ),
    (
        "request-log",
        "writes lines that other programs read, without a request",
    ),
    (
        "proxy",
        "reads a server's bytes and sees its client as a trait",
    ),
    ("kubernetes", "reads an API server's bytes"),
    (
        "jobs",
        "keeps a file on disk whose format outlives the process",
    ),
    ("sdk/rust", "for programs of users"),
];

pub(crate) fn check(root: &Path, crates: &[Member]) -> Result<Vec<Breach>> {
    let text = std::fs::read_to_string(root.join(DOCUMENT))
        .with_context(|| format!("{DOCUMENT} cannot be read"))?;
    let mut breaches = rows(&text, crates);
    breaches.extend(users(crates, BOUNDARIES));
    Ok(breaches)
}

/// Holds the rows of the layout to the crates.
fn rows(text: &str, crates: &[Member]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for member in crates.iter().filter(|member| member.is_shipped()) {
        let path = member.path();
        let start = format!("| [{path}](");
        let mut rows = text.lines().filter(|line| line.starts_with(&start));
        let (row, others) = (rows.next(), rows.count());
        let fault = match row.and_then(|row| row.split(" | ").nth(1)) {
            None => Some("has no row in the layout"),
            Some(_) if others > 0 => Some("has more than one row in the layout"),
            Some(purpose) if !is_one_sentence(purpose) => {
                Some("has no row of one sentence in the layout: name its one purpose, or divide it")
            }
            Some(_) => None,
        };
        breaches.extend(fault.map(|fault| Breach::new(format!("{DOCUMENT}: {path}"), fault)));
    }
    breaches
}

fn is_one_sentence(purpose: &str) -> bool {
    !purpose.trim().is_empty() && !purpose.contains(". ") && !purpose.ends_with('.')
}

/// Holds libraries to more than one user each, but for those with a reason.
fn users(crates: &[Member], boundaries: &[(&str, &str)]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let libraries = crates
        .iter()
        .filter(|member| member.is_shipped() && member.is_library);
    for member in libraries {
        let users = crates
            .iter()
            .filter(|user| user.is_shipped() && user.uses.contains(&member.name))
            .count();
        let is_listed = boundaries.iter().any(|(name, _)| *name == member.name);
        let fault = match (users < 2, is_listed) {
            (true, false) => {
                "has fewer than two users: make it a module of the one that it has, or give the boundary that it is in `BOUNDARIES`"
            }
            (false, true) => "has several users: take it off `BOUNDARIES`",
            _ => continue,
        };
        breaches.push(Breach::new(format!("crate {}", member.name), fault));
    }
    for (name, _) in boundaries {
        if !crates.iter().any(|member| member.name == *name) {
            let fault = "is there no more: take it off `BOUNDARIES` in xtask/src/interfaces.rs";
            breaches.push(Breach::new(format!("crate {name}"), fault));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(name: &str, is_library: bool, uses: &[&str]) -> Member {
        Member {
            name: name.to_owned(),
            folder: std::path::PathBuf::new(),
            roots: Vec::new(),
            is_library,
            uses: uses.iter().map(|used| (*used).to_owned()).collect(),
        }
    }

    #[test]
    fn a_library_has_two_users_or_a_reason() {
        let crates = [
            member("program", false, &["both", "one"]),
            member("both", true, &[]),
            member("one", true, &["both"]),
            member("tests/e2e", true, &["one"]),
        ];
        let places = |boundaries: &[(&str, &str)]| -> Vec<String> {
            let breaches = users(&crates, boundaries);
            breaches.into_iter().map(|breach| breach.place).collect()
        };
        assert_eq!(places(&[]), ["crate one"]);
        assert_eq!(places(&[("one", "a reason")]), [""; 0]);
        let stale = [("one", "a"), ("both", "b"), ("gone", "c")];
        assert_eq!(places(&stale), ["crate both", "crate gone"]);
    }

    #[test]
    fn a_crate_has_one_row_of_one_sentence() {
        let crates = [
            member("a", true, &[]),
            member("sdk/b", true, &[]),
            member("c", true, &[]),
            member("d", true, &[]),
            member("bench/e", true, &[]),
        ];
        let text = "| [crates/a](x) | one: a, b; c | – |\n| [sdk/b](x) | one. Two | a |\n| [crates/c](x) | one | a |\n| [crates/c](y) | two | a |\n";
        let breaches = rows(text, &crates);
        let places: Vec<&str> = breaches
            .iter()
            .map(|breach| breach.place.as_str())
            .collect();
        let expected = ["sdk/b", "crates/c", "crates/d"];
        assert_eq!(places, expected.map(|path| format!("{DOCUMENT}: {path}")));
    }
}
