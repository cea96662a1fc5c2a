//! Bounds on size, without tests: a file has at most 600 lines, a crate at most 13,000. One on a generated file: the control API's
//! description has at most 6,000.

use crate::breach::Breach;
use crate::source::SourceFile;

const MOST_LINES_OF_A_FILE: usize = 600;

const MOST_LINES_OF_A_CRATE: usize = 13_000;

const MOST_LINES_OF_THE_DESCRIPTION: usize = 6_000;

/// Folders of declarative tables, which may be long: they are read like a list, not like a program.
const TABLES: &[&str] = &["crates/config/src/table/"];

pub(crate) fn check_file(file: &SourceFile) -> Option<Breach> {
    if TABLES.iter().any(|folder| file.path.starts_with(folder)) {
        return None;
    }
    let lines = file.production_lines();
    (lines > MOST_LINES_OF_A_FILE).then(|| {
        Breach::new(
            &file.path,
            format!("{lines} lines without tests; at most {MOST_LINES_OF_A_FILE}: split it"),
        )
    })
}

/// Holds the description of the control API to its bound: it is for people to read, too.
pub(crate) fn check_description(path: &str, content: &str) -> Option<Breach> {
    let lines = content.lines().count();
    (lines > MOST_LINES_OF_THE_DESCRIPTION).then(|| {
        Breach::new(
            path,
            format!("{lines} lines; at most {MOST_LINES_OF_THE_DESCRIPTION}: places that are alike share a path item or a schema (docs/decisions/0550)"),
        )
    })
}

/// The lines of a crate without its tests.
pub(crate) fn of_crate(files: &[SourceFile]) -> usize {
    files.iter().map(SourceFile::production_lines).sum()
}

/// Compares crates (name, lines) with the bound, and with those that may be larger for now.
pub(crate) fn check_crates(crates: &[(String, usize)], tolerated: &[(&str, usize)]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (name, lines) in crates {
        let bound = tolerated
            .iter()
            .find(|(listed, _)| listed == name)
            .map_or(MOST_LINES_OF_A_CRATE, |(_, bound)| *bound);
        if *lines > bound {
            breaches.push(Breach::new(
                format!("crate {name}"),
                format!("{lines} lines without tests; at most {bound}: move a part into a crate of its own"),
            ));
        }
    }
    for (listed, _) in tolerated {
        let is_larger = crates
            .iter()
            .any(|(name, lines)| name == listed && *lines > MOST_LINES_OF_A_CRATE);
        if !is_larger {
            breaches.push(Breach::new(
                format!("crate {listed}"),
                "is not past the bound any more: take it off `LARGE_CRATES` in xtask/src/tolerated.rs",
            ));
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::{check_crates, check_description};

    #[test]
    fn the_description_has_a_bound() {
        assert!(check_description("x", &"{\n".repeat(6_000)).is_none());
        assert!(check_description("x", &"{\n".repeat(6_001)).is_some());
    }

    #[test]
    fn a_large_crate_may_not_grow_and_leaves_the_list_when_it_is_small() {
        let sized = |lines| [("x".to_owned(), lines)];
        assert!(check_crates(&sized(13_000), &[]).is_empty());
        assert_eq!(check_crates(&sized(13_001), &[]).len(), 1);
        assert!(check_crates(&sized(13_001), &[("x", 13_500)]).is_empty());
        assert_eq!(check_crates(&sized(13_501), &[("x", 13_500)]).len(), 1);
        assert_eq!(check_crates(&sized(13_000), &[("x", 13_500)]).len(), 1);
    }
}
