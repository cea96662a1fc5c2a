//! The look at the files of `--config`, where `--watch` asks for it: they are read again when they have changed.
//!
//! Asked by the supervisor's loop. It looks and does not have itself told (inotify): a folder that the kubelet writes changes by a link in it,
//! files may be links out of it, and network file systems tell nothing. A change counts once it has stood still from one look to the next, so
//! that files which are being written are not read.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::config_files::{self, Look};

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);

/// The files as they were seen; an error is a state as any other.
type Seen = Result<Look, String>;

/// The files of `--config` over time.
pub(super) struct ConfigWatch {
    path: PathBuf,
    /// As they were when they were read last.
    read: Seen,
    /// As they were at the last look, where that is something else.
    fresh: Option<Seen>,
    due: Instant,
}

impl ConfigWatch {
    /// Begins to look, before the files are read for the first time.
    pub(super) fn new(path: &Path, now: Instant) -> ConfigWatch {
        ConfigWatch {
            read: look(path),
            path: path.to_owned(),
            fresh: None,
            due: now + PAUSE,
        }
    }

    /// When the next look is due.
    pub(super) fn deadline(&self) -> Instant {
        self.due
    }

    /// They could not be read now: the look that is due comes later.
    pub(super) fn wait(&mut self, now: Instant) {
        if self.due <= now {
            self.due = now + PAUSE;
        }
    }

    /// True if the files are to be read again.
    pub(super) fn is_changed(&mut self, now: Instant) -> bool {
        if self.due > now {
            return false;
        }
        self.due = now + PAUSE;
        let seen = look(&self.path);
        if seen == self.read {
            self.fresh = None;
            return false;
        }
        if self.fresh.as_ref() != Some(&seen) {
            self.fresh = Some(seen);
            return false;
        }
        self.fresh = None;
        self.read = seen;
        true
    }
}

fn look(path: &Path) -> Seen {
    config_files::look(path).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_counts_once_it_stands_still() {
        let folder = tempfile::tempdir().unwrap();
        let write = |text: &str| std::fs::write(folder.path().join("a.json"), text).unwrap();
        write("{}");
        let mut now = Instant::now();
        let mut watch = ConfigWatch::new(folder.path(), now);
        assert!(!watch.is_changed(now), "it is not due yet");
        let mut next = |watch: &mut ConfigWatch| {
            now += PAUSE;
            watch.is_changed(now)
        };
        assert!(!next(&mut watch));
        write("{\"routes\": []}");
        assert!(!next(&mut watch));
        write("{\"routes\": [{}]}");
        assert!(!next(&mut watch), "it is being written");
        assert!(next(&mut watch));
        assert!(!next(&mut watch) && !next(&mut watch));
        // No file at all is a change, too.
        std::fs::remove_file(folder.path().join("a.json")).unwrap();
        assert!(!next(&mut watch) && next(&mut watch) && !next(&mut watch));
        write("{\"routes\": [{}]}");
        assert!(!next(&mut watch) && next(&mut watch));
    }
}
