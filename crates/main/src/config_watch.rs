//! Watches the files of `--config`, if `--watch` is given: they are reloaded when they have changed.
//!
//! Called by the supervisor's loop. It polls instead of using inotify: a folder written by the kubelet changes by a
//! link in it, files may be links out of it, and network file systems send no notifications. A change counts only if
//! two consecutive checks agree, so that files are not read while they are being written.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::config_files::{self, Look};

/// Time between two checks.
const PAUSE: Duration = Duration::from_secs(1);

/// The state of the files; an error is a state like any other.
type Seen = Result<Look, String>;

/// The files of `--config` over time.
pub(super) struct ConfigWatch {
    path: PathBuf,
    /// The state when they were last read.
    read: Seen,
    /// The state at the last check, if it differs.
    fresh: Option<Seen>,
    due: Instant,
}

impl ConfigWatch {
    /// Starts watching, before the files are read for the first time.
    pub(super) fn new(path: &Path, now: Instant) -> ConfigWatch {
        ConfigWatch {
            read: look(path),
            path: path.to_owned(),
            fresh: None,
            due: now + PAUSE,
        }
    }

    /// Returns when the next check is due.
    pub(super) fn deadline(&self) -> Instant {
        self.due
    }

    /// They could not be read now: the next check is postponed.
    pub(super) fn wait(&mut self, now: Instant) {
        if self.due <= now {
            self.due = now + PAUSE;
        }
    }

    /// True if the files have changed since they were last read, even if they are still being written.
    pub(super) fn is_unread(&self) -> bool {
        look(&self.path) != self.read
    }

    /// True if the files must be reloaded.
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
        assert!(watch.is_unread());
        assert!(next(&mut watch));
        assert!(!next(&mut watch) && !next(&mut watch));
        assert!(!watch.is_unread());
        // The absence of all files is a change, too.
        std::fs::remove_file(folder.path().join("a.json")).unwrap();
        assert!(!next(&mut watch) && next(&mut watch) && !next(&mut watch));
        write("{\"routes\": [{}]}");
        assert!(!next(&mut watch) && next(&mut watch));
    }
}
