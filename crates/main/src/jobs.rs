//! The file of jobs in the state folder, opened for routers, which cannot write there.

use std::fs::OpenOptions;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tutti_sys::error::context;

const FILE: &str = "jobs.redb";

/// Opens or creates the file, which no other user may read. Each descriptor has its own lock: of two routers only one
/// has the file.
pub(super) fn open(folder: &Path) -> io::Result<OwnedFd> {
    let path = folder.join(FILE);
    let opened = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(libc::O_NOFOLLOW)
        .open(&path);
    let file = opened.map_err(|e| context(format!("opening `{}`", path.display()), e))?;
    if !file.metadata()?.is_file() {
        let text = format!("`{}` is not a file", path.display());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    Ok(file.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_its_owner_reads_the_file_and_links_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join(FILE);
        drop(open(folder.path()).unwrap());
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        std::fs::rename(&file, folder.path().join("other")).unwrap();
        std::os::unix::fs::symlink("other", &file).unwrap();
        assert!(open(folder.path()).is_err());
    }
}
