//! The stored configuration: `conf.json` in the state folder.

use std::io;
use std::path::{Path, PathBuf};

use tutti_sys::error::context;
use tutti_sys::file;

const FILE: &str = "conf.json";

/// Returns the file with the stored configuration.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(FILE)
}

/// Returns the stored configuration, unchanged; `None` if there is none.
pub(super) fn load(folder: &Path) -> io::Result<Option<String>> {
    let path = path(folder);
    match std::fs::read(&path) {
        // The parser reports bytes that are not text, with their position.
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(context(format!("reading `{}`", path.display()), e)),
    }
}

/// Stores it so that a crash leaves either the old or the new one, complete. Returns what
/// [`file::replace_durably`] returns.
pub(super) fn store(folder: &Path, configuration: &str) -> io::Result<Option<io::Error>> {
    file::replace_durably(&path(folder), configuration.as_bytes(), 0o600)
}

/// Renames an unreadable configuration; returns the new name.
pub(super) fn set_aside(folder: &Path) -> io::Result<PathBuf> {
    let from = path(folder);
    let to = folder.join("conf.json.broken");
    std::fs::rename(&from, &to).map_err(|e| {
        context(
            format!("keeping `{}` as `{}`", from.display(), to.display()),
            e,
        )
    })?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(load(folder.path()).unwrap(), None);
        store(folder.path(), "{}").unwrap();
        assert_eq!(load(folder.path()).unwrap().as_deref(), Some("{}"));
        let moved = set_aside(folder.path()).unwrap();
        assert!(moved.exists() && !path(folder.path()).exists());
    }
}
