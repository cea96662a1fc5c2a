//! The end of a log, which grows and may be replaced.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

use tutti_options::visible;

/// More than any screen shows.
const MOST_BYTES: u64 = 64 * 1024;

/// The end of a file.
pub(super) struct LogTail {
    path: PathBuf,
}

impl LogTail {
    pub(super) fn new(path: PathBuf) -> LogTail {
        LogTail { path }
    }

    /// Returns its last lines, at most this many, or why they cannot be read.
    pub(super) fn lines(&self, count: usize) -> Vec<String> {
        let text = match self.read() {
            Ok(text) => text,
            Err(error) => return vec![format!("{}: {error}", self.path.display())],
        };
        let lines: Vec<&str> = text.lines().collect();
        let first = lines.len().saturating_sub(count);
        lines.iter().skip(first).copied().map(visible).collect()
    }

    /// The file is opened each time, because it may have been replaced.
    fn read(&self) -> std::io::Result<String> {
        let mut file = File::open(&self.path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(MOST_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_come_without_controls() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        std::fs::write(&path, "one\ntwo\x1b[2J\nthree\n").unwrap();
        let tail = LogTail::new(path.clone());
        assert_eq!(tail.lines(2), ["two·[2J", "three"]);
        std::fs::remove_file(&path).unwrap();
        assert!(tail.lines(2)[0].contains("log: No such file"));
    }
}
