//! Crates of others have the same features in programs as in tests: cargo builds those that have not twice, with all that uses them.
//!
//! A feature that only the tests' dependencies ask for is made the programs' too, in the manifest of `tutti-testkit`, which both are built
//! with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;

use crate::breach::Breach;
use crate::tolerated;
use crate::workspace::cargo;

/// The sets of features that each crate is built with, by name and version.
type Features = BTreeMap<String, BTreeSet<String>>;

/// The crates that tests need with other features.
pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let programs = features(root, "normal,build")?;
    let tests = features(root, "normal,build,dev")?;
    let breaches = programs.iter().filter_map(|(name, sets)| {
        let in_tests = tests.get(name).filter(|in_tests| *in_tests != sets)?;
        let is_tolerated = tolerated::BUILT_TWICE
            .iter()
            .any(|tolerated| name.split(' ').next() == Some(tolerated));
        let message = format!(
            "`{name}` is built twice, since programs ask for its features {sets:?} and tests for {in_tests:?}; hint: let `tutti-testkit` ask for the same"
        );
        (!is_tolerated).then(|| Breach::new("crates/testkit/Cargo.toml", message))
    });
    Ok(breaches.collect())
}

/// As `cargo tree` tells them, which downloads crates that are not here yet.
fn features(root: &Path, edges: &str) -> Result<Features> {
    let told = cargo(
        root,
        &[
            "tree",
            "--workspace",
            "--locked",
            "--prefix",
            "none",
            "--format",
            "{p}|{f}",
            "--edges",
            edges,
        ],
    )?;
    let mut found = Features::new();
    for line in String::from_utf8_lossy(&told).lines() {
        // A line that repeats another ends in ` (*)`; our own crates have a path behind their version.
        let line = line.trim_end_matches(" (*)");
        if let Some((name, features)) = line.split_once('|')
            && !name.contains('/')
        {
            found
                .entry(name.into())
                .or_default()
                .insert(features.into());
        }
    }
    Ok(found)
}
