//! Bounds on size. A file has at most 800 lines without tests: past 600, ask whether it has two subjects. A crate has no bound: it is justified by
//! its purpose and its one public interface. The control API's description, which is generated, has at most 9,000 lines, of which each path takes one.

use crate::breach::Breach;
use crate::source::SourceFile;

const MOST_LINES_OF_A_FILE: usize = 800;

const MOST_LINES_OF_THE_DESCRIPTION: usize = 9_000;

/// Folders of declarative tables, which may be long: they are read like a list, not like a program.
const TABLES: &[&str] = &["crates/config/src/table/", "crates/import/src/reference/"];

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
            format!("{lines} lines; at most {MOST_LINES_OF_THE_DESCRIPTION}: places that are alike share a path item or a schema (docs/project/decisions/0550)"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::{MOST_LINES_OF_THE_DESCRIPTION, check_description};

    #[test]
    fn the_description_has_a_bound() {
        assert!(check_description("x", &"{\n".repeat(MOST_LINES_OF_THE_DESCRIPTION)).is_none());
        assert!(check_description("x", &"{\n".repeat(MOST_LINES_OF_THE_DESCRIPTION + 1)).is_some());
    }
}
