//! Workflows and documents name targets of the Makefile and scripts of the repository that exist.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result};

use crate::breach::Breach;
use crate::documents;

const WORKFLOWS: &str = ".github/workflows";

/// Folders whose programs a workflow may run.
const PROGRAMS: &[&str] = &["packaging/", "tests/", "bench/"];

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let makefile = std::fs::read_to_string(root.join("Makefile")).context("no Makefile")?;
    let targets = targets(&makefile);
    let mut breaches = Vec::new();
    let workflows = std::fs::read_dir(root.join(WORKFLOWS)).context("no workflows")?;
    for entry in workflows {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let place = format!("{WORKFLOWS}/{name}");
        let text = read(root, &place)?;
        let is_missing = |word: &&str| {
            PROGRAMS.iter().any(|folder| word.starts_with(folder)) && !root.join(word).exists()
        };
        for (number, line) in text.lines().enumerate() {
            let place = format!("{place}:{}", number + 1);
            if line.trim_start().starts_with('#') {
                continue;
            }
            breaches.extend(unknown(line, &targets, &place));
            let words = line.split_whitespace();
            breaches.extend(
                words
                    .filter(is_missing)
                    .map(|word| Breach::new(&place, format!("there is no `{word}`"))),
            );
        }
    }
    for document in documents::all(root)? {
        let text = read(root, &document)?;
        for (number, line) in text.lines().enumerate() {
            let place = format!("{document}:{}", number + 1);
            // Between backticks, or a line of its own.
            let commands = line.split('`').skip(1).step_by(2);
            let own = line.strip_prefix("    ").unwrap_or_default();
            for command in commands.chain([own]) {
                if command.starts_with("make ") {
                    breaches.extend(unknown(command, &targets, &place));
                }
            }
        }
    }
    Ok(breaches)
}

fn read(root: &Path, file: &str) -> Result<String> {
    std::fs::read_to_string(root.join(file)).with_context(|| format!("`{file}` cannot be read"))
}

/// The targets that a Makefile has.
fn targets(makefile: &str) -> BTreeSet<&str> {
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    makefile
        .lines()
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, rest)| !rest.starts_with('=') && !name.is_empty())
        .map(|(name, _)| name)
        .filter(|name| name.chars().all(is_name))
        .collect()
}

/// A breach for each target that a command of make names and that is not there.
fn unknown(line: &str, targets: &BTreeSet<&str>, place: &str) -> Vec<Breach> {
    named(line)
        .into_iter()
        .filter(|target| !targets.contains(target))
        .map(|target| Breach::new(place, format!("the Makefile has no target `{target}`")))
        .collect()
}

/// The targets that a line of shell has made, or of a workflow's step.
fn named(line: &str) -> Vec<&str> {
    let line = line.trim_start().trim_start_matches("- ");
    let line = line.strip_prefix("run:").unwrap_or(line);
    let mut named = Vec::new();
    for command in line.split(['&', '|', ';', '(', ')']) {
        let words = command.split_whitespace();
        // Variables of its own stand before a command.
        let mut words = words.skip_while(|word| word.contains('='));
        if words.next() != Some("make") {
            continue;
        }
        let targets = words
            .take_while(|word| !word.starts_with('#'))
            .filter(|word| !word.starts_with('-') && !word.contains(['=', '$', '"']));
        named.extend(targets);
    }
    named
}

#[cfg(test)]
mod tests {
    use super::{named, targets};

    #[test]
    fn targets_are_names_before_colons() {
        let makefile =
            "X := 1\n.PHONY: a\nall: deps ## it\n\techo a: b\ntest-long: build\nA = b:c\n";
        let found: Vec<&str> = targets(makefile).into_iter().collect();
        assert_eq!(found, ["all", "test-long"]);
    }

    #[test]
    fn commands_of_make_name_targets() {
        for (line, expected) in [
            ("- run: make dist image", &["dist", "image"][..]),
            ("run: apt-get install make libc6-dev", &[]),
            ("- run: make -j2 test QUICK=1 && ls dist", &["test"]),
            ("(make a; X=1 make b)", &["a", "b"]),
            ("make test            # everything", &["test"]),
            ("nothing of it", &[]),
        ] {
            assert_eq!(named(line), expected, "{line}");
        }
    }
}
