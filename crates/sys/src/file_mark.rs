//! Marks of files: they show that a file has changed, without reading it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;

/// The state of a file that changes with its content, or when another takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileMark {
    file: (u64, u64),
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileMark {
    /// The mark of the file that this is of.
    pub fn of(metadata: &Metadata) -> FileMark {
        FileMark {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_file_in_the_same_place_has_another_mark() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let mark = || FileMark::of(&path.metadata().unwrap());
        std::fs::write(&path, "one").unwrap();
        let first = mark();
        assert_eq!(first, mark());
        let other = folder.path().join("b");
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert_ne!(first, mark());
    }
}
