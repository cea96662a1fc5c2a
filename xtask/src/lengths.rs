//! A file is at most 600 lines long without its tests.

use crate::Breach;
use crate::line_of;
use crate::source::SourceFile;

const MOST_LINES: usize = 600;

/// Files that may be longer, each with its reason.
const EXCEPTIONS: &[(&str, &str)] = &[];

pub(crate) fn check(file: &SourceFile) -> Option<Breach> {
    // Declarative tables may be long: they are read like a list, not like a program.
    if file.is_test()
        || file.inside.starts_with("table/")
        || EXCEPTIONS.iter().any(|(path, _)| *path == file.path)
    {
        return None;
    }
    let lines = line_of(&file.code, file.end_of_production()) - 1;
    (lines > MOST_LINES).then(|| {
        Breach::new(
            &file.path,
            format!("{lines} lines without tests; at most {MOST_LINES}: split it"),
        )
    })
}
