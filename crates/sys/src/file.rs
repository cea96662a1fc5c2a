//! File calls the standard library lacks: folders' names, durable replacement. For files without a name see [`crate::anonymous_file`].

use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::context;

/// The names in a folder, sorted, those of folders with a slash at the end: as many as can be looked at in a moment. None if it
/// cannot be read.
pub fn names_in(folder: &Path) -> Vec<String> {
    const MOST_NAMES: usize = 10_000;
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    let mut names: Vec<String> = entries
        .take(MOST_NAMES)
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            Some(if is_folder { name + "/" } else { name })
        })
        .collect();
    names.sort_unstable();
    names
}

/// Opens an ordinary file for reading. Anything else is refused as invalid: a FIFO without a writer would block the
/// caller.
pub fn open_ordinary(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    let metadata = file.metadata()?;
    match metadata.is_file() {
        true => Ok((file, metadata)),
        false => {
            let why = "it is not a regular file";
            Err(io::Error::new(io::ErrorKind::InvalidData, why))
        }
    }
}

/// Replaces `path` by `bytes` so that after a crash at any moment either the old or the new content is there,
/// whole: temporary file, fsync, rename, fsync of the folder. The old file is untouched when this fails.
///
/// Returns the error of the last step, the fsync of the folder: the file is replaced, but a crash of the machine may bring
/// the old content back. Some file systems cannot do it.
pub fn replace_durably(path: &Path, bytes: &[u8], mode: u32) -> io::Result<Option<io::Error>> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // After the rename nothing may fail that the caller takes for a failed replacement.
    let folder_handle =
        File::open(folder).map_err(|e| context(format!("opening `{}`", folder.display()), e))?;
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".tmp");
    let temporary = folder.join(name);
    let written = write_durably(&temporary, bytes, mode).and_then(|()| {
        std::fs::rename(&temporary, path)
            .map_err(|e| context(format!("renaming to `{}`", path.display()), e))
    });
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written?;
    let synced = folder_handle.sync_all();
    Ok(synced
        .err()
        .map(|e| context(format!("syncing `{}`", folder.display()), e)))
}

fn write_durably(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let named = |e| context(format!("writing `{}`", path.display()), e);
    // A left-over of a crash may have another mode or owner; make the file anew.
    let _ = std::fs::remove_file(path);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(named)?;
    file.write_all(bytes).map_err(named)?;
    file.sync_all().map_err(named)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn replacement_is_whole_and_private() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conf.json");
        replace_durably(&path, b"one", 0o600).unwrap();
        replace_durably(&path, b"two", 0o600).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_full_disk_leaves_the_old_file() {
        // /dev/full has no room for anything; a folder that cannot take files is the portable stand-in.
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conf.json");
        replace_durably(&path, b"old", 0o600).unwrap();
        std::fs::create_dir(folder.path().join("conf.json.tmp")).unwrap();
        assert!(replace_durably(&path, b"new", 0o600).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }

    #[test]
    fn a_replacement_that_is_reported_as_failed_has_not_been_made() {
        if crate::credentials::is_root() {
            // Root may read the folder whatever its mode is.
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("conf.json");
        replace_durably(&path, b"old", 0o600).unwrap();
        let set_mode = |mode| {
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(mode)).unwrap();
        };
        set_mode(0o300);
        let replaced = replace_durably(&path, b"new", 0o600);
        set_mode(0o700);
        assert!(replaced.is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
    }
}
