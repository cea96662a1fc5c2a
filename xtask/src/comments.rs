//! Comments are sentences: a number for each folder, which may only shrink, of those that begin with a bare "What",
//! "Whether", "Of the" or "Of a".

use std::path::Path;

use anyhow::{Context, Result};

use crate::breach::Breach;
use crate::tolerated::COMMENTS;
use crate::workspace::relative;

/// Folders whose subfolders are counted one by one.
const GROUPS: &[&str] = &["crates", "sdk"];

/// Folders that are counted as one.
const FOLDERS: &[&str] = &["bench", "fuzz", "packaging", "tests", "xtask"];

const ENDINGS: &[&str] = &["rs", "c", "h", "go", "py", "java", "js", "php", "rb", "pl"];

const BEGINNINGS: &[&str] = &["What", "Whether", "Of the", "Of a"];

/// How far a number may fall before its row must follow: two people who work on one folder do not have to meet there.
const SLACK: usize = 10;

pub(crate) fn check(root: &Path) -> Result<Vec<Breach>> {
    let mut folders: Vec<_> = FOLDERS.iter().map(|folder| root.join(folder)).collect();
    for group in GROUPS {
        let group = root.join(group);
        for entry in std::fs::read_dir(&group)
            .with_context(|| format!("{} cannot be listed", group.display()))?
        {
            folders.push(entry?.path());
        }
    }
    folders.sort();
    let mut counts = Vec::new();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        counts.push((relative(root, folder), count(folder)?));
    }
    Ok(compare(&counts, COMMENTS))
}

fn compare(counts: &[(String, usize)], tolerated: &[(&str, usize)]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (folder, count) in counts {
        let row = tolerated.iter().find(|(listed, _)| listed == folder);
        let bound = row.map_or(0, |(_, bound)| *bound);
        if *count > bound {
            breaches.push(Breach::new(
                folder,
                format!(
                    "{count} comments begin with one of {BEGINNINGS:?}, and there may be {bound}: write sentences, such as \"True if …\" or \"Holds …\""
                ),
            ));
        } else if *count + SLACK < bound {
            breaches.push(Breach::new(
                folder,
                format!("only {count} comments begin with one of {BEGINNINGS:?}: write {count} instead of {bound} into xtask/src/tolerated.rs"),
            ));
        }
    }
    for (listed, _) in tolerated {
        if !counts.iter().any(|(folder, _)| folder == listed) {
            breaches.push(Breach::new(
                *listed,
                "does not exist: take it off `COMMENTS` in xtask/src/tolerated.rs",
            ));
        }
    }
    breaches
}

/// Comments of a folder's sources that begin so.
fn count(folder: &Path) -> Result<usize> {
    let mut found = 0;
    let mut folders = vec![folder.to_path_buf()];
    while let Some(current) = folders.pop() {
        for entry in std::fs::read_dir(&current)
            .with_context(|| format!("{} cannot be listed", current.display()))?
        {
            let path = entry?.path();
            let extension = path.extension().and_then(|extension| extension.to_str());
            if path.is_dir() {
                if !path.ends_with("target") {
                    folders.push(path);
                }
            } else if extension.is_some_and(|extension| ENDINGS.contains(&extension)) {
                let text = std::fs::read(&path)
                    .with_context(|| format!("{} cannot be read", path.display()))?;
                found += String::from_utf8_lossy(&text)
                    .lines()
                    .filter(|line| is_bare(line))
                    .count();
            }
        }
    }
    Ok(found)
}

/// True if the line is a comment, or goes on with one, and begins with one of the words.
fn is_bare(line: &str) -> bool {
    let line = line.trim_start();
    let mark = ["///", "//!", "//", "/**", "/*", "*", "#", "\"\"\""]
        .iter()
        .find_map(|mark| line.strip_prefix(mark));
    let is_text = |rest: &&str| line.starts_with('"') || rest.starts_with(' ');
    let Some(comment) = mark.filter(is_text) else {
        return false;
    };
    let comment = comment.trim_start();
    BEGINNINGS.iter().any(|beginning| {
        comment
            .strip_prefix(beginning)
            .is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_told_by_their_first_word() {
        for bare in [
            "/// What it is.",
            "    // Whether it is.",
            "//! Of the crate",
            " * Of a thing.",
            "# What it is.",
            "    \"\"\"What it is.\"\"\"",
        ] {
            assert!(is_bare(bare), "{bare}");
        }
        for sound in [
            "/// Whatever it is.",
            "let x = 1; // What it is.",
            "/// Returns what it is.",
            "/// Of all.",
            "\"What\"",
        ] {
            assert!(!is_bare(sound), "{sound}");
        }
    }

    #[test]
    fn a_number_may_only_shrink_and_its_row_follows() {
        let counted = |count| [("crates/x".to_owned(), count)];
        assert!(compare(&counted(0), &[]).is_empty());
        assert_eq!(compare(&counted(1), &[]).len(), 1);
        assert!(compare(&counted(20), &[("crates/x", 20)]).is_empty());
        assert!(compare(&counted(10), &[("crates/x", 20)]).is_empty());
        assert_eq!(compare(&counted(9), &[("crates/x", 20)]).len(), 1);
        assert_eq!(compare(&counted(21), &[("crates/x", 20)]).len(), 1);
        assert_eq!(compare(&[], &[("crates/x", 20)]).len(), 1);
    }
}
